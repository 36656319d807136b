//! Start of `cargo operator dev`: checks, the first build, an API server that knows the operator's kinds, and the operator.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::{
    task::JoinSet,
    time::{Duration, Instant},
};

use super::{
    Dev, Development,
    cluster::{ChosenCluster, Cluster},
    keys::Keys,
    rendered::Rendered,
    samples::{Choice, Samples},
    session::{PORT_IN_USE, Session},
    session_folder::check_folder,
    session_messages::counted,
    sources::{Sources, file_time},
    target::Target,
};
use crate::{browser, failure::Failure, project::Project, shell::Shell, write};

/// The first program of the operator, and the API server for it.
struct FirstBuild {
    program: PathBuf,
    rendered: Rendered,
    /// Flags with which the operator runs.
    flags: Vec<String>,
    target: Target,
    /// Time at which the build began.
    began: Instant,
    /// Duration of the build.
    duration: Duration,
}

impl Development {
    /// Checks the arguments, builds the operator and the program of the server, starts a server that knows the operator's kinds, and
    /// starts the operator on it.
    pub(super) async fn begin(
        arguments: &Dev,
        project: Arc<Project>,
        more: &[String],
        shell: Shell,
    ) -> Result<Self, Failure> {
        check_samples(arguments, &project)?;
        let folder = project.folder.join("target/operator");
        // The first build may miss files that are saved after this time.
        let (first, began_at) = match &arguments.on {
            Some(context) => {
                let cluster = ChosenCluster::choose(context, &project, shell).await?;
                let began_at = file_time();
                (on_cluster(arguments, cluster, &project, &folder, more, shell).await?, began_at)
            }
            None => {
                check_folder(&folder)?;
                // All of these fail at once, while the build that follows may take minutes.
                check_port(arguments.port)?;
                project.check_session()?;
                let began_at = file_time();
                (on_own_server(arguments, &project, &folder, more, shell).await?, began_at)
            }
        };
        let samples = match (&arguments.samples, &arguments.on) {
            (Some(samples), _) => Some(project.folder.join(samples)),
            (None, None) => Some(project.folder.join("samples")),
            (None, Some(_)) => None,
        };
        let FirstBuild { program, rendered, flags, target, began, duration } = first;
        let mut dev = Self {
            project,
            selection: arguments.selection.clone(),
            samples,
            sample_state: Samples::default(),
            flags,
            shell,
            target,
            sources: Sources::new()?,
            keys: Keys::listen(),
            operator: None,
            builds: JoinSet::new(),
            build_began: began,
            first_runs: JoinSet::new(),
            is_stale: false,
        };
        match dev.first_start(arguments, &program, &rendered, duration).await {
            Ok(()) => {
                // The watcher did not exist during the first build, so a file that was saved then is found by
                // its time.
                if let Some(file) = dev.sources.saved_since(began_at) {
                    dev.shell.status("Changed", file);
                    dev.build();
                }
                Ok(dev)
            }
            Err(failure) => {
                // The target is connected already: the session must end, and the copy of the kubeconfig must
                // be removed.
                dev.end().await;
                Err(failure)
            }
        }
    }

    /// Installs the definitions and rights of a program that was built within `build`, and starts it.
    async fn first_start(
        &mut self,
        arguments: &Dev,
        program: &Path,
        rendered: &Rendered,
        build: Duration,
    ) -> Result<(), Failure> {
        self.sources.follow(&self.project.folder, program, self.samples.as_deref())?;
        self.target.install(rendered).await?;
        let definitions = match rendered.definitions.len() {
            1 => "1 definition".to_owned(),
            count => format!("{count} definitions"),
        };
        // On a cluster the operator has the rights of the user.
        let rights = if matches!(self.target, Target::Own(_)) { " and the operator's rights" } else { "" };
        self.shell.status(
            "Installed",
            format_args!("{definitions}{rights} (built in {:.1} s)", build.as_secs_f64()),
        );
        self.start(program)?;
        if matches!(self.target, Target::Cluster(_)) {
            let started = format_args!("{}; with --on, changes of objects are not printed", self.project.bin);
            self.shell.status("Started", started);
        }
        if let Some(page) = self.target.publish().await? {
            self.shell.status("Explain", &page);
            if arguments.open {
                browser::open(&page, &self.shell).await;
            }
        }
        // Only after the operator has started, which may serve the webhooks for these objects.
        if self.samples.as_ref().is_some_and(|samples| samples.exists()) {
            self.apply_samples(Choice::All).await;
        }
        if self.keys.is_some() {
            self.shell.note("Keys", self.keys_help());
        }
        if self.target.has_earlier_objects() {
            self.watch_first_runs();
        }
        Ok(())
    }
}

/// Checks that the samples that the user has named exist.
fn check_samples(arguments: &Dev, project: &Project) -> Result<(), Failure> {
    match &arguments.samples {
        Some(path) if !project.folder.join(path).exists() => {
            Err(Failure::usage(format!("--samples {}: there is no such file or folder", path.display()))
                .hint(format!("name one below {}", project.folder.display())))
        }
        _ => Ok(()),
    }
}

/// Builds the operator, and connects to a cluster.
async fn on_cluster(
    arguments: &Dev,
    cluster: ChosenCluster,
    project: &Project,
    folder: &Path,
    more: &[String],
    shell: Shell,
) -> Result<FirstBuild, Failure> {
    let began = Instant::now();
    let program = arguments.selection.build(project, &shell)?;
    let duration = began.elapsed();
    let flags = Cluster::flags(more);
    let rendered = Rendered::by(&program, &flags).await?;
    let target = Target::Cluster(cluster.connect(&rendered, folder).await?);
    Ok(FirstBuild { program, rendered, flags, target, began, duration })
}

/// Builds the operator and the program `dev`, and starts the API server of a session.
async fn on_own_server(
    arguments: &Dev,
    project: &Project,
    folder: &Path,
    more: &[String],
    shell: Shell,
) -> Result<FirstBuild, Failure> {
    let began = Instant::now();
    // One build makes both programs where their features allow it.
    let (program, server) = arguments.selection.build_with_session(project, &shell)?;
    let duration = began.elapsed();
    let mut session = Session::begin(&server, folder, more).await?;
    match start_server(arguments, &mut session, &program, folder, &shell).await {
        Ok(rendered) => {
            let flags = session.flags().to_vec();
            let target = Target::Own(Box::new(session));
            Ok(FirstBuild { program, rendered, flags, target, began, duration })
        }
        Err(failure) => {
            session.end().await;
            Err(failure)
        }
    }
}

/// Asks the operator for its definitions and rights, and starts the API server, with the objects of the previous session unless `--reset`
/// deletes them.
async fn start_server(
    arguments: &Dev,
    session: &mut Session,
    program: &Path,
    folder: &Path,
    shell: &Shell,
) -> Result<Rendered, Failure> {
    let rendered = Rendered::by(program, session.flags()).await?;
    let previous = if arguments.reset { "delete" } else { "restore" };
    let started = session.start(folder, arguments.port, previous, &rendered).await?;
    let here = std::env::current_dir();
    let kubeconfig = write::relative(&started.kubeconfig, here.as_deref().unwrap_or(folder));
    let before = counted(&started.objects);
    let kept = if before.is_empty() { String::new() } else { format!(", {before} of the previous session") };
    shell.status("API server", format_args!("{}{kept}", started.url));
    shell.note("Kubeconfig", format_args!("export KUBECONFIG={kubeconfig}"));
    Ok(rendered)
}

/// Checks that no other program uses the port, before the operator is built. 0 is any free port.
fn check_port(port: u16) -> Result<(), Failure> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::new(format!("cannot listen on {address}: {error}")).hint(PORT_IN_USE)),
    }
}
