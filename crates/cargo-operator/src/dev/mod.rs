//! `cargo operator dev`: an API server that outlives the operator, which is built and started again after each change.

mod cluster;
mod keys;
mod process;
mod sources;
mod target;

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use kube_envtest::dev::{DevError, PreviousObjects, Rendered, Session, SessionFlags, SessionOptions};
use tokio::{task::JoinSet, time::Instant};

use self::{
    cluster::ChosenCluster,
    keys::{Key, Keys},
    process::Running,
    sources::{Changed, Sources},
    target::{Target, failed},
};
use crate::{
    browser,
    explain::{self, Place},
    failure::Failure,
    project::{Project, Selection},
    shell::Shell,
    write,
};

/// Hint for a port that is in use.
const PORT_IN_USE: &str = "another program uses the port: choose one with --port, or leave that out";

/// Arguments of `cargo operator dev`.
#[derive(Debug, Clone, Args)]
pub struct Dev {
    #[command(flatten)]
    selection: Selection,
    /// Port of the API server on loopback; by default a free one
    #[arg(long, value_name = "PORT", default_value_t = 0, conflicts_with = "on")]
    port: u16,
    /// File or folder with sample objects, in the folder of the package; by default `samples`, and none with --on
    #[arg(long, value_name = "PATH")]
    samples: Option<PathBuf>,
    /// Run the operator on the cluster of this context of the kubeconfig, with your own rights. The command asks for a confirmation unless
    /// the context begins with `kind-` or is listed in Cargo.toml
    #[arg(long, value_name = "CONTEXT")]
    on: Option<String>,
    /// Open the page of explanations in the browser
    #[arg(long, conflicts_with = "on")]
    open: bool,
    /// Start with an empty API server; by default it has the objects of the previous session
    #[arg(long, conflicts_with = "on")]
    reset: bool,
}

/// Runs the operator until Ctrl-C. `more` are additional flags of the operator.
///
/// # Errors
///
/// The operator does not compile at first, its manifests or samples are refused, or the server does not listen.
pub fn run(arguments: &Dev, more: &[String], here: &Path, shell: &Shell) -> Result<(), Failure> {
    let project = Arc::new(arguments.selection.project(here)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    let result = runtime.block_on(async {
        let mut dev = Development::begin(arguments, project, more, *shell).await?;
        tokio::select! {
            biased;
            stopped = tokio::signal::ctrl_c() => {
                let stopped = stopped.map_err(|error| Failure::new(format!("cannot wait for Ctrl-C: {error}")));
                dev.end().await;
                stopped
            }
            served = dev.serve() => {
                dev.end().await;
                served
            }
        }
    });
    // Do not wait for a running build: cargo ends with this process.
    runtime.shutdown_background();
    result
}

/// A session and the operator in it.
struct Development {
    project: Arc<Project>,
    selection: Selection,
    /// File or folder of samples; `None` if none are applied.
    samples: Option<PathBuf>,
    flags: SessionFlags,
    shell: Shell,
    target: Target,
    sources: Sources,
    /// `None` without a terminal.
    keys: Option<Keys>,
    /// `None` after the operator has ended by itself.
    operator: Option<Running>,
    /// At most one build.
    builds: JoinSet<Result<PathBuf, Failure>>,
    /// Time at which the build began.
    build_began: Instant,
    /// Whether sources have changed since the build began, so that another build must follow.
    is_stale: bool,
}

/// An event of a session.
enum Event {
    Line(String),
    Changed(Changed),
    Built(Result<PathBuf, Failure>),
    Ended(String),
    Key(Key),
}

impl Development {
    /// Checks the arguments, builds the operator, starts a server that knows its kinds, and starts it there.
    async fn begin(
        arguments: &Dev,
        project: Arc<Project>,
        more: &[String],
        shell: Shell,
    ) -> Result<Self, Failure> {
        if let Some(samples) = arguments.samples.as_ref().filter(|path| !project.folder.join(path).exists()) {
            return Err(Failure::usage(format!(
                "--samples {}: there is no such file or folder",
                samples.display()
            ))
            .hint(format!("name one below {}", project.folder.display())));
        }
        let cluster = match &arguments.on {
            Some(context) => Some(ChosenCluster::choose(context, &project, shell).await?),
            None => {
                check_port(arguments.port)?;
                None
            }
        };
        let began = Instant::now();
        let program = arguments.selection.build(&project, &shell)?;
        let build = began.elapsed();
        let mut more = more.to_vec();
        if arguments.on.is_some() {
            // Explanations need a token of the session's own server.
            more.push("--metrics-bind-address=0".to_owned());
        }
        let flags = SessionFlags::new(&more).map_err(failed)?;
        let rendered = rendered_by(&program, &flags).await?;
        let folder = project.folder.join("target/operator");
        let target = match cluster {
            Some(cluster) => Target::Cluster(cluster.connect(&project, &rendered, &folder).await?),
            None => own_server(arguments, &rendered, &flags, &folder, &shell).await?,
        };
        let samples = match (&arguments.samples, &arguments.on) {
            (Some(samples), _) => Some(project.folder.join(samples)),
            (None, None) => Some(project.folder.join("samples")),
            (None, Some(_)) => None,
        };
        let mut sources = Sources::new()?;
        sources.follow(&project.folder, &program, samples.as_deref())?;
        let mut dev = Self {
            project,
            selection: arguments.selection.clone(),
            samples,
            flags,
            shell,
            target,
            sources,
            keys: Keys::listen(),
            operator: None,
            builds: JoinSet::new(),
            build_began: began,
            is_stale: false,
        };
        dev.target.install(&rendered).await?;
        let definitions = match rendered.definitions.len() {
            1 => "1 definition".to_owned(),
            count => format!("{count} definitions"),
        };
        let user = dev.target.user();
        let rights = if user.is_empty() { String::new() } else { format!(" and the rights of {user}") };
        shell.status(
            "Installed",
            format_args!("{definitions}{rights} (built in {:.1} s)", build.as_secs_f64()),
        );
        dev.start(&program)?;
        if let Some(page) = dev.target.publish(&dev.flags)? {
            shell.status("Explain", &page);
            if arguments.open {
                browser::open(&page, &shell);
            }
        }
        dev.apply_samples().await?;
        if dev.keys.is_some() {
            shell.note("Keys", Key::HELP);
        }
        Ok(dev)
    }

    /// Handles events, until the user quits.
    async fn serve(&mut self) -> Result<(), Failure> {
        loop {
            match self.next().await {
                Event::Line(line) => self.shell.result(format_args!("    {line}")),
                Event::Changed(changed) => {
                    if changed.samples {
                        self.report(Self::apply_samples).await;
                    }
                    if changed.code {
                        self.shell.status("Changed", changed.first);
                        self.build();
                    }
                }
                Event::Built(built) => {
                    if std::mem::take(&mut self.is_stale) {
                        self.build();
                    } else if let Err(failure) = self.replace(built).await {
                        self.shell.fail(&failure);
                        if self.operator.is_some() {
                            self.shell.note("Note", "the operator goes on as it was built before");
                        }
                    }
                }
                Event::Key(Key::Quit) => return Ok(()),
                Event::Key(key) => self.press(key).await,
                Event::Ended(status) => {
                    self.operator = None;
                    self.shell
                        .warn(format_args!("the operator ended ({status}); it starts after the next change"));
                }
            }
        }
    }

    async fn next(&mut self) -> Event {
        let ended = async {
            match &mut self.operator {
                Some(operator) => operator.ended().await,
                None => std::future::pending().await,
            }
        };
        let pressed = async {
            match &mut self.keys {
                Some(keys) => keys.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            key = pressed => Event::Key(key),
            line = self.target.next_line() => Event::Line(line),
            changed = self.sources.changed() => Event::Changed(changed),
            Some(built) = self.builds.join_next() => Event::Built(match built {
                Ok(built) => built,
                Err(error) => Err(Failure::new(format!("the build panicked: {error}"))),
            }),
            status = ended => Event::Ended(status),
        }
    }

    async fn press(&mut self, key: Key) {
        match key {
            Key::Restart => self.build(),
            Key::Samples => self.report(Self::apply_samples).await,
            Key::Explain => self.report(Self::explain).await,
            Key::Open => self.report(Self::open).await,
            Key::Help | Key::Quit => self.shell.note("Keys", Key::HELP),
        }
    }

    /// Prints the latest failure of the operator.
    async fn explain(&mut self) -> Result<(), Failure> {
        let place = Place::of_session(&self.project.folder.join("target/operator"))?;
        match explain::last_failure(&place).await? {
            Some(text) => self.shell.result(text.trim_end()),
            None => self.shell.note("Explain", "no request fails"),
        }
        Ok(())
    }

    async fn open(&mut self) -> Result<(), Failure> {
        let place = Place::of_session(&self.project.folder.join("target/operator"))?;
        browser::open(&place.page(), &self.shell);
        Ok(())
    }

    /// Starts a build. If one is running, another one starts when it ends.
    fn build(&mut self) {
        if !self.builds.is_empty() {
            self.is_stale = true;
            return;
        }
        self.build_began = Instant::now();
        let (selection, project, shell) = (self.selection.clone(), Arc::clone(&self.project), self.shell);
        self.builds.spawn_blocking(move || selection.build(&project, &shell));
    }

    /// Installs the definitions and rights of a new program, and restarts the operator with it.
    async fn replace(&mut self, built: Result<PathBuf, Failure>) -> Result<(), Failure> {
        let program = built?;
        let build = self.build_began.elapsed();
        let rendered = rendered_by(&program, &self.flags).await?;
        self.sources.follow(&self.project.folder, &program, self.samples.as_deref())?;
        // Before the old operator stops: it goes on if the new definitions or rights are refused.
        self.target.install(&rendered).await?;
        let stopping = Instant::now();
        if let Some(operator) = self.operator.take() {
            operator.stop().await;
        }
        let (build, stopped) = (build.as_secs_f64(), stopping.elapsed().as_millis());
        self.start(&program)?;
        let bin = &self.project.bin;
        self.shell.status(
            "Restarted",
            format_args!("{bin} (built in {build:.1} s, the old one stopped in {stopped} ms)"),
        );
        Ok(())
    }

    fn start(&mut self, program: &Path) -> Result<(), Failure> {
        let kubeconfig = self.target.operator_kubeconfig();
        self.operator = Some(Running::start(program, &self.project.folder, &kubeconfig, self.flags.words())?);
        Ok(())
    }

    async fn apply_samples(&mut self) -> Result<(), Failure> {
        let Some(samples) = self.samples.as_ref().filter(|samples| samples.exists()) else { return Ok(()) };
        let below = format!("{}/", self.project.folder.display());
        let applied = self.target.apply_samples(samples).await;
        let applied =
            applied.map_err(|failure| Failure { message: failure.message.replace(&below, ""), ..failure })?;
        let from = write::relative(samples, &self.project.folder);
        self.shell.status("Applied", format_args!("{} from {from}", objects(applied)));
        Ok(())
    }

    /// Reports a failure that does not end the session.
    async fn report(&mut self, action: impl AsyncFnOnce(&mut Self) -> Result<(), Failure>) {
        if let Err(failure) = action(self).await {
            self.shell.fail(&failure);
        }
    }

    /// Stops the operator.
    async fn end(&mut self) {
        if let Some(operator) = self.operator.take() {
            operator.stop().await;
        }
    }
}

/// Asks a program for its definitions and rights.
async fn rendered_by(program: &Path, flags: &SessionFlags) -> Result<Rendered, Failure> {
    let ask = async |arguments: Vec<String>| process::answer(program, &arguments).await;
    Rendered::by(ask, flags.words()).await.map_err(Failure::new)
}

fn objects(count: usize) -> String {
    if count == 1 { "1 object".to_owned() } else { format!("{count} objects") }
}

/// Starts an API server on loopback, with the objects of the previous session unless `--reset` deletes them.
async fn own_server(
    arguments: &Dev,
    rendered: &Rendered,
    flags: &SessionFlags,
    folder: &Path,
    shell: &Shell,
) -> Result<Target, Failure> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let options = SessionOptions::new(folder)
        .services(rendered.services.iter().cloned())
        .webhook_address(flags.webhooks())
        .address(address);
    let previous = if arguments.reset { PreviousObjects::Delete } else { PreviousObjects::Restore };
    let options = options.keep_objects(previous);
    let (session, progress) = Session::start(options).await.map_err(|error| not_started(&error))?;
    let before = session.count(&rendered.definitions).await.map_err(failed)?;
    let kubeconfig = write::relative(&session.kubeconfig(), here().as_deref().unwrap_or(folder));
    let kept = if before > 0 { format!(", {} from before", objects(before)) } else { String::new() };
    shell.status("API server", format_args!("{}{kept}   export KUBECONFIG={kubeconfig}", session.url()));
    Ok(Target::Own(Box::new((session, progress))))
}

/// Checks that no other program uses the port, before the operator is built. 0 is any free port.
fn check_port(port: u16) -> Result<(), Failure> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::new(format!("cannot listen on {address}: {error}")).hint(PORT_IN_USE)),
    }
}

/// The failure for a server that does not start, with the cure.
fn not_started(error: &DevError) -> Failure {
    let failure = Failure::new(error.to_string());
    match error {
        DevError::Listen(_) => failure.hint(PORT_IN_USE),
        DevError::DataFile(_) => {
            failure.hint("end the other session of this project, or begin with an empty server: --reset")
        }
        _ => failure,
    }
}

fn here() -> Option<PathBuf> {
    std::env::current_dir().ok()
}
