//! `cargo operator dev`: an API server that outlives the operator, which is built and started again after each change.
//!
//! This program contains no API server. The API server is a separate process: a copy of the project's program `dev`.

mod begin;
mod cluster;
mod keys;
mod operator_log;
mod process;
mod rendered;
mod samples;
mod session;
mod session_folder;
mod session_messages;
mod sources;
mod target;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use self::{
    keys::{Key, Keys},
    operator_log::LogLine,
    process::{OperatorEvent, Running},
    rendered::Rendered,
    samples::{Choice, Samples},
    sources::{Changed, Sources},
    target::Target,
};
use crate::{
    browser,
    explain::{self, FirstRuns, Place},
    failure::Failure,
    project::{Project, Selection},
    shell::Shell,
};

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
/// The operator does not compile at first, its manifests are refused, or the server does not listen.
pub fn run(arguments: &Dev, more: &[String], here: &Path, shell: &Shell) -> Result<(), Failure> {
    let project = Arc::new(arguments.selection.project(here)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    let result = runtime.block_on(async {
        let mut dev = Development::begin(arguments, project, more, *shell).await?;
        let result = tokio::select! {
            biased;
            // First, so that a session that prints without a pause can still be ended.
            stopped = tokio::signal::ctrl_c() => {
                stopped.map_err(|error| Failure::new(format!("cannot wait for Ctrl-C: {error}")))
            }
            served = dev.serve() => served,
        };
        dev.end().await;
        result
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
    sample_state: Samples,
    /// Flags with which the operator runs.
    flags: Vec<String>,
    shell: Shell,
    target: Target,
    sources: Sources,
    /// `None` without a terminal.
    keys: Option<Keys>,
    /// `None` after the operator has ended on its own.
    operator: Option<Running>,
    /// At most one build.
    builds: JoinSet<Result<PathBuf, Failure>>,
    /// Time at which the build began.
    build_began: Instant,
    /// Asks the operator about its first reconciles after a restart.
    first_runs: JoinSet<Option<FirstRuns>>,
    /// Whether sources have changed since the build began, so that another build must follow.
    is_stale: bool,
}

/// An event of a session.
enum Event {
    Line(Result<String, Failure>),
    Changed(Changed),
    Built(Result<PathBuf, Failure>),
    Operator(OperatorEvent),
    /// The operator has reconciled its objects after a restart. `None` if that is not known.
    Reconciled(Option<FirstRuns>),
    /// Samples that were refused because of a webhook can be applied again.
    Samples,
    Key(Key),
}

impl Development {
    /// Handles events, until the user quits.
    async fn serve(&mut self) -> Result<(), Failure> {
        loop {
            match self.next().await {
                Event::Line(line) => self.shell.text(line?),
                Event::Changed(changed) => {
                    self.shell.status("Changed", &changed.files);
                    self.sample_state.saved(&changed.samples);
                    if changed.code {
                        self.build();
                    }
                    match changed.samples[..] {
                        [] => {}
                        [..] if self.builds.is_empty() => self.apply_samples(Choice::Due).await,
                        [..] => self.sample_state.wait_for_build(),
                    }
                }
                Event::Built(built) => self.built(built).await,
                Event::Operator(OperatorEvent::Log(line)) => self.log(line).await?,
                Event::Operator(OperatorEvent::Ended(status)) => {
                    self.operator = None;
                    self.sample_state.operator_ended();
                    self.shell.warn(format_args!(
                        "the operator ended ({status}); it is started again after the next change"
                    ));
                }
                Event::Reconciled(Some(runs)) => self.shell.status("Reconciled", runs),
                Event::Reconciled(None) => {}
                Event::Samples => {
                    self.sample_state.attempt();
                    self.apply_samples(Choice::Waiting).await;
                }
                Event::Key(Key::Quit) => return Ok(()),
                Event::Key(key) => self.press(key).await,
            }
        }
    }

    async fn next(&mut self) -> Event {
        let again = self.sample_state.next_attempt();
        let samples = async {
            match again {
                Some(time) => sleep_until(time).await,
                None => std::future::pending().await,
            }
        };
        let operator = async {
            match &mut self.operator {
                Some(operator) => operator.next().await,
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
            // Log lines come last: an operator that writes them without a pause must not delay other events.
            key = pressed => Event::Key(key),
            changed = self.sources.changed() => Event::Changed(changed),
            Some(built) = self.builds.join_next() => Event::Built(match built {
                Ok(built) => built,
                Err(error) => Err(Failure::new(format!("the build panicked: {error}"))),
            }),
            () = samples => Event::Samples,
            Some(runs) = self.first_runs.join_next() => Event::Reconciled(runs.unwrap_or_default()),
            line = self.target.next_line() => Event::Line(line),
            event = operator => Event::Operator(event),
        }
    }

    /// Replaces the operator after a build, unless another build follows.
    async fn built(&mut self, built: Result<PathBuf, Failure>) {
        // A file was saved during the build, so its result is that of old code.
        if std::mem::take(&mut self.is_stale) {
            self.build();
            return;
        }
        // `replace` also fails for other reasons, after which the list of files is up to date.
        let compiles = built.is_ok();
        let Err(failure) = self.replace(built).await else {
            self.apply_samples(Choice::Due).await;
            return;
        };
        self.shell.fail(&failure);
        if self.operator.is_some() {
            self.shell.note("Note", "the operator of the previous build keeps running");
        }
        if !compiles && let Err(failure) = self.sources.follow_failed_build() {
            self.shell.fail(&failure);
        }
        if self.sample_state.build_failed() {
            self.apply_samples(Choice::Due).await;
        }
    }

    /// Prints a line of the operator's log, or adds a failure to the line of its object.
    async fn log(&mut self, line: LogLine) -> Result<(), Failure> {
        match line {
            LogLine::Failed(failed) => {
                if let Some(line) = self.target.failed(&failed).await? {
                    self.shell.text(line);
                }
            }
            LogLine::Event(event) => self.shell.log(event.level, event.text),
            LogLine::Text(text) => self.shell.pass_on(text),
        }
        Ok(())
    }

    async fn press(&mut self, key: Key) {
        match key {
            Key::Restart => self.build(),
            Key::Explain | Key::Open if !self.target.has_explanations() => {
                self.shell.note(
                    "Explain",
                    "not available with --on: deploy the operator, then run cargo operator explain --context",
                );
            }
            Key::Explain => self.report(Self::explain).await,
            Key::Open => self.report(Self::open).await,
            Key::Samples if self.samples.is_none() => {
                self.shell.note("Samples", "with --on, samples are applied only if --samples names them");
            }
            Key::Samples => self.apply_samples(Choice::All).await,
            Key::Help | Key::Quit => self.shell.note("Keys", self.keys_help()),
        }
    }

    fn keys_help(&self) -> String {
        Key::help(self.samples.is_some(), self.target.has_explanations())
    }

    /// Prints the latest failure of the operator.
    async fn explain(&mut self) -> Result<(), Failure> {
        let place = Place::of_session(&self.project.folder.join("target/operator"))?;
        match explain::last_failure(&place).await? {
            Some(text) => self.shell.text(text.trim_end()),
            None => self.shell.note("Explain", "no request is failing"),
        }
        Ok(())
    }

    async fn open(&mut self) -> Result<(), Failure> {
        let place = Place::of_session(&self.project.folder.join("target/operator"))?;
        browser::open(&place.page(), &self.shell).await;
        Ok(())
    }

    /// Starts a build. If one is running, another one starts when it ends.
    fn build(&mut self) {
        if !self.builds.is_empty() {
            // Cargo would block the second build until the first has ended.
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
        let rendered = Rendered::by(&program, &self.flags).await?;
        // Even if a later step fails: the new build may have other files.
        self.sources.follow(&self.project.folder, &program, self.samples.as_deref())?;
        // Before the old operator stops, so that it continues if the server refuses the new definitions or rights.
        self.target.install(&rendered).await?;
        let stopping = Instant::now();
        self.stop().await?;
        // After the old operator has stopped, which needs its webhooks until then.
        self.target.starting(&rendered).await?;
        let (build, stopped) = (build.as_secs_f64(), stopping.elapsed().as_millis());
        self.start(&program)?;
        let bin = &self.project.bin;
        self.shell.status(
            "Restarted",
            format_args!("{bin} (built in {build:.1} s, the old one stopped in {stopped} ms)"),
        );
        self.watch_first_runs();
        Ok(())
    }

    /// Reports the first reconciles of an operator that has started, as soon as they have ended.
    fn watch_first_runs(&mut self) {
        // Dropping the old set ends the question about the previous operator.
        self.first_runs = JoinSet::new();
        // If the user has chosen the address of the metrics server, it is unknown, and no question is sent.
        let place = Place::of_session(&self.project.folder.join("target/operator"));
        if let (Target::Own(_), Ok(first)) = (&self.target, place.and_then(|place| FirstRuns::at(&place))) {
            self.first_runs.spawn(first);
        }
    }

    fn start(&mut self, program: &Path) -> Result<(), Failure> {
        let kubeconfig = self.target.operator_kubeconfig();
        self.operator = Some(Running::start(program, &self.project.folder, &kubeconfig, &self.flags)?);
        self.sample_state.operator_started();
        Ok(())
    }

    /// Stops the operator, if it runs, and prints the rest of its log.
    async fn stop(&mut self) -> Result<(), Failure> {
        let Some(operator) = self.operator.take() else { return Ok(()) };
        for line in operator.stop().await {
            self.log(line).await?;
        }
        Ok(())
    }

    /// Applies samples, and reports those that are refused.
    async fn apply_samples(&mut self, choice: Choice) {
        let Some(path) = &self.samples else { return };
        let texts = match samples::read(path) {
            Ok(texts) => texts,
            Err(failure) => return self.shell.fail(&failure),
        };
        // Errors then name files as the user knows them.
        let below = format!("{}/", self.project.folder.display());
        let mut objects = 0;
        let mut applied = Vec::new();
        let files = self.sample_state.choose(choice, &texts);
        for file in &files {
            match self.target.apply_samples(file).await {
                Ok(count) => {
                    objects += count;
                    applied.push(file.clone());
                    self.sample_state.was_applied(file.clone(), texts.get(file).cloned().unwrap_or_default());
                }
                Err(failure) => {
                    let failure = Failure { message: failure.message.replace(&below, ""), ..failure };
                    if self.sample_state.was_refused(file, &failure, Instant::now()) {
                        self.shell.fail(&failure);
                    }
                }
            }
        }
        // If only some samples were applied, the report names their files.
        let choice = if applied.len() == files.len() { choice } else { Choice::Due };
        if choice == Choice::All || !applied.is_empty() {
            let summary = samples::summary(objects, &applied, choice, path, &self.project.folder);
            self.shell.status("Applied", summary);
        }
    }

    /// Reports a failure that does not end the session.
    async fn report(&mut self, action: impl AsyncFnOnce(&mut Self) -> Result<(), Failure>) {
        if let Err(failure) = action(self).await {
            self.shell.fail(&failure);
        }
    }

    /// Stops the operator, then the API server.
    async fn end(mut self) {
        // An error means that the API server has ended already.
        let _ = self.stop().await;
        self.target.end().await;
    }
}
