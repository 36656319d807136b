//! Development of an operator: an API server on loopback, sample objects, and a line about each of the operator's writes.
//!
//! The program `dev` of a project that `cargo operator new` made is a call of [`Dev::run`].

mod apply;
mod story;

use std::{
    fs,
    future::Future,
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    time::{Instant, sleep_until},
};

pub use self::apply::ApplyError;
use self::{apply::apply_files, story::Story};
use crate::{Environment, Instance, OperatorError, StartError, Transport};

/// Runs an operator on an API server of its own, until Ctrl-C, and prints a line for each write to the sample objects and their children.
///
/// ```no_run
/// # use kube_envtest::{Instance, dev::Dev};
/// # async fn manage(instance: Instance) -> Result<(), std::io::Error> { Ok(()) }
/// # async fn example() -> Result<(), kube_envtest::dev::DevError> {
/// Dev::new()
///     .samples("samples")
///     .run(|instance: Instance| async move {
///         // With controller-runtime:
///         //     let manager = Manager::new(instance.client(), ManagerOptions::new("guestbook"));
///         //     guestbook::add_to(&manager)?;
///         //     Ok(instance.run(manager.ready(), manager.run(instance.stopped())).await?)
/// #       Ok(manage(instance).await?)
///     })
///     .await
/// # }
/// ```
///
/// The server has nothing but the kinds of the operator. Its kubeconfig, for kubectl, is `target/operator/kubeconfig`. No other
/// cluster is reached: neither `$KUBECONFIG` nor `~/.kube/config` is read.
#[derive(Debug)]
#[must_use]
pub struct Dev {
    crds: Vec<CustomResourceDefinition>,
    samples: Option<PathBuf>,
    folder: PathBuf,
}

impl Default for Dev {
    fn default() -> Self {
        Self::new()
    }
}

impl Dev {
    /// Creates a development run without kinds. Paths are relative to the package that cargo runs, or else to the
    /// current folder.
    pub fn new() -> Self {
        let folder = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
        Self { crds: Vec::new(), samples: None, folder }
    }

    /// Installs the definition of a kind that derives `kube::CustomResource`.
    pub fn crd<K: kube::CustomResourceExt>(mut self) -> Self {
        self.crds.push(K::crd());
        self
    }

    /// Applies the objects in a YAML or JSON file, or in all such files of a folder, before the operator starts.
    pub fn samples(mut self, path: impl AsRef<Path>) -> Self {
        self.samples = Some(self.folder.join(path));
        self
    }

    /// Starts the server, applies the samples, and runs the operator until Ctrl-C. `main` is called as by
    /// [`Operator::new`](crate::Operator::new).
    ///
    /// # Errors
    ///
    /// A file cannot be read or written, the server rejects a definition or sample, or the operator fails.
    pub async fn run<F, Fut>(self, main: F) -> Result<(), DevError>
    where
        F: Fn(Instance) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let story = Story::new(&self.crds);
        let first_kind = self.crds.first().map_or("all", |crd| &crd.spec.names.plural).to_owned();
        let env = Environment::builder().transport(Transport::Tcp(address)).crds(self.crds).start().await?;
        let kubeconfig = self.folder.join("target/operator/kubeconfig");
        write(&kubeconfig, env.kubeconfig().unwrap_or_default())?;
        let url = env.listener().map(kube_apiserver_embedded::Listener::url).unwrap_or_default();
        let shown = kubeconfig.strip_prefix(&self.folder).unwrap_or(&kubeconfig).display();
        say(&format!("  API server {url}   try: kubectl --kubeconfig {shown} get {first_kind}"));

        let (commits, received) = mpsc::unbounded_channel();
        let started = Instant::now();
        let _ = env.server().observe_commits(move |commit| {
            let _ = commits.send((started.elapsed(), commit.clone()));
        });
        let mut operator = env.operator(main);
        operator.start().await?;
        if let Some(samples) = &self.samples {
            apply_files(&env.client(), samples, "samples").await?;
        }
        tokio::select! {
            biased;
            () = tell(story, started, received) => Ok(()),
            ended = operator.ended() => Ok(ended?),
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.map_err(DevError::Signal)?;
                say("  stopping");
                Ok(operator.stop().await?)
            }
        }
    }
}

/// Prints a line for each event, for as long as the server lives.
async fn tell(
    mut story: Story,
    started: Instant,
    mut commits: UnboundedReceiver<(Duration, kube_apiserver_embedded::Commit)>,
) {
    let print = |lines: Vec<String>| lines.iter().for_each(|line| say(&format!("    {line}")));
    loop {
        let next = story.next();
        let quiet = async {
            match next {
                Some(time) => sleep_until(started + time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            commit = commits.recv() => match commit {
                Some((at, commit)) => print(story.commit(&commit, at)),
                None => return,
            },
            () = quiet => print(story.quiet(started.elapsed())),
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), DevError> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|source| DevError::Write { path: path.to_owned(), source })
}

/// Failure of a development run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevError {
    /// The API server did not start, or rejected a definition.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A sample was not applied.
    #[error(transparent)]
    Sample(#[from] ApplyError),
    /// The kubeconfig could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The operator failed, or returned before it was ready.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// The operating system does not deliver Ctrl-C.
    #[error("cannot wait for Ctrl-C: {0}")]
    Signal(io::Error),
}

/// Prints a line. A closed standard output (a broken pipe) does not stop the operator.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
