//! `cargo operator dev`: an API server that outlives the operator, which is built and started again after each change.

mod process;
mod sources;

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use kube_envtest::dev::{Narrator, Rendered, Session, flags};
use tokio::task::JoinSet;

use self::{
    process::Running,
    sources::{Changed, Sources},
};
use crate::{
    failure::Failure,
    project::{Project, Selection},
    shell::Shell,
    write,
};

/// Arguments of `cargo operator dev`.
#[derive(Debug, Clone, Args)]
pub struct Dev {
    #[command(flatten)]
    selection: Selection,
    /// Port of the API server on loopback; by default a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// File or folder with sample objects, in the folder of the package
    #[arg(long, value_name = "PATH", default_value = "samples")]
    samples: PathBuf,
}

/// Serves the operator until Ctrl-C. `more` are further flags of the operator.
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
            failed = dev.serve() => failed,
        }
    });
    // A build that runs may go on for long. It belongs to this process and ends with it.
    runtime.shutdown_background();
    result
}

/// A session and the operator in it.
struct Development {
    project: Arc<Project>,
    selection: Selection,
    samples: PathBuf,
    flags: Vec<String>,
    shell: Shell,
    session: Session,
    narrator: Narrator,
    sources: Sources,
    /// `None` after it has ended by itself.
    operator: Option<Running>,
    /// At most one build.
    builds: JoinSet<Result<PathBuf, Failure>>,
    /// Sources have changed since the build began.
    is_stale: bool,
}

/// An event of a session.
enum Event {
    Line(String),
    Changed(Changed),
    Built(Result<PathBuf, Failure>),
    Ended(String),
}

impl Development {
    /// Builds the operator, starts a server that knows its kinds, and starts it there.
    async fn begin(
        arguments: &Dev,
        project: Arc<Project>,
        more: &[String],
        shell: Shell,
    ) -> Result<Self, Failure> {
        let program = arguments.selection.build(&project, &shell)?;
        let flags = flags(more).map_err(|error| Failure::new(error.to_string()))?;
        let rendered = rendered_by(&program, &flags).await?;
        let folder = project.folder.join("target/operator");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
        let started = Session::start(&rendered.services, address, &folder).await;
        let (session, narrator) = started.map_err(|error| Failure::new(error.to_string()))?;
        let samples = project.folder.join(&arguments.samples);
        let mut sources = Sources::new()?;
        sources.follow(&project.folder, &program, &samples)?;
        let kubeconfig = write::relative(&session.kubeconfig(), here().as_deref().unwrap_or(&folder));
        shell.status("API server", format_args!("{}   export KUBECONFIG={kubeconfig}", session.url()));
        let mut dev = Self {
            project,
            selection: arguments.selection.clone(),
            samples,
            flags,
            shell,
            session,
            narrator,
            sources,
            operator: None,
            builds: JoinSet::new(),
            is_stale: false,
        };
        dev.install(rendered).await?;
        dev.start(&program)?;
        dev.apply_samples().await?;
        Ok(dev)
    }

    /// Handles events, until one cannot be handled.
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
        tokio::select! {
            biased;
            line = self.narrator.next_line() => Event::Line(line),
            changed = self.sources.changed() => Event::Changed(changed),
            Some(built) = self.builds.join_next() => Event::Built(match built {
                Ok(built) => built,
                Err(error) => Err(Failure::new(format!("the build panicked: {error}"))),
            }),
            status = ended => Event::Ended(status),
        }
    }

    /// Starts a build, unless one runs: then another one follows it.
    fn build(&mut self) {
        if !self.builds.is_empty() {
            self.is_stale = true;
            return;
        }
        let (selection, project, shell) = (self.selection.clone(), Arc::clone(&self.project), self.shell);
        self.builds.spawn_blocking(move || selection.build(&project, &shell));
    }

    /// Installs the definitions and rights of a new program, and lets it take the operator's place.
    async fn replace(&mut self, built: Result<PathBuf, Failure>) -> Result<(), Failure> {
        let program = built?;
        let rendered = rendered_by(&program, &self.flags).await?;
        self.sources.follow(&self.project.folder, &program, &self.samples)?;
        self.install(rendered).await?;
        if let Some(operator) = self.operator.take() {
            operator.stop().await;
        }
        self.start(&program)?;
        self.shell.status("Restarted", &self.project.bin);
        Ok(())
    }

    async fn install(&mut self, rendered: Rendered) -> Result<(), Failure> {
        let failed = |error: kube_envtest::dev::DevError| Failure::new(error.to_string());
        self.session.define(&rendered.definitions).await.map_err(failed)?;
        self.session.grant(rendered.rights).await.map_err(failed)
    }

    fn start(&mut self, program: &Path) -> Result<(), Failure> {
        let kubeconfig = self.session.operator_kubeconfig();
        self.operator = Some(Running::start(program, &self.project.folder, &kubeconfig, &self.flags)?);
        Ok(())
    }

    async fn apply_samples(&mut self) -> Result<(), Failure> {
        if !self.samples.exists() {
            return Ok(());
        }
        let applied = self.session.apply_samples(&self.samples).await;
        let below = format!("{}/", self.project.folder.display());
        let applied = applied.map_err(|error| Failure::new(error.to_string().replace(&below, "")))?;
        let objects = if applied == 1 { "object" } else { "objects" };
        let from = write::relative(&self.samples, &self.project.folder);
        self.shell.status("Applied", format_args!("{applied} {objects} from {from}"));
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
async fn rendered_by(program: &Path, flags: &[String]) -> Result<Rendered, Failure> {
    let ask = async |arguments: Vec<String>| process::answer(program, &arguments).await;
    Rendered::by(ask, flags).await.map_err(Failure::new)
}

fn here() -> Option<PathBuf> {
    std::env::current_dir().ok()
}
