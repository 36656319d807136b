//! The program of an operator, with the feature `clap`: it runs, and prints the manifests that deploy it.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use controller_runtime::{Manager, manager::AddError, operator::Operator};
//! # use kube::CustomResource;
//! # use schemars::JsonSchema;
//! # use serde::{Deserialize, Serialize};
//! # #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
//! # #[kube(group = "example.com", version = "v1", kind = "Guestbook", namespaced)]
//! # struct GuestbookSpec {}
//!
//! fn add_to(manager: &Manager) -> Result<(), AddError> {
//!     // Builder::managed_by(manager)…
//!     Ok(())
//! }
//!
//! fn operator() -> Operator {
//!     Operator::new("guestbook", "guestbook.example.com").crd::<Guestbook>().setup(add_to)
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> ExitCode {
//!     operator().main().await
//! }
//! ```
//!
//! # Commands
//!
//! | command | |
//! |---|---|
//! | `guestbook`, `guestbook run` | runs the operator until SIGTERM, with the [`Flags`] of a manager |
//! | `guestbook manifests` | prints all objects that deploy it; with `--out` writes them as YAML, kustomize or Helm [files](crate::manifests::Layout) |
//! | `guestbook manifests --check` | compares the files with the program, and its definitions with those of the last release |
//! | `guestbook rbac` | prints the [rights](crate::rights) that it needs, each with the line that needs it |
//! | `guestbook crds` | prints its CustomResourceDefinitions |
//!
//! Flags of `run` change what is registered and which ports are open. `manifests` takes the same flags after `--`: it sets up the
//! program with them, and they become the arguments of its container.
//!
//! ```text
//! guestbook manifests --image registry.example.com/guestbook:1.2.0 -- --leader-elect --metrics-bind-address=:8443
//! ```
//!
//! # Exit codes
//!
//! 0 is success, 1 a failure, 2 wrong usage, 3 a difference that `--check` found.
//!
//! # Parent processes
//!
//! Programs that start an operator, such as `cargo operator dev`, can set variables of its environment:
//!
//! - With `OPERATOR_STOP_AT_END_OF_INPUT=1`, `run` also stops when its standard input ends. A program that keeps the other end of that pipe
//!   leaves no operator behind, however it ends.
//! - With `OPERATOR_LOG_FORMAT=json`, the log consists of JSON objects unless `--log-format` selects another format (feature `logging`).
//!
//! # JSON
//!
//! `--format json` prints one object, which begins with the schema of the answer and the version of this library:
//! `{"schema":"operator/v1","library":"0.1.0","objects":[…]}`.

mod arguments;
mod commands;
mod error;
mod offline;
mod parent;

use std::{ffi::OsString, fmt, io::Write, panic::Location, process::ExitCode, sync::Arc};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::CustomResourceExt;

use self::{arguments::Arguments, offline::Offline};
pub use self::{
    commands::CommandOutput,
    error::{CommandError, SetupError},
};
use crate::{
    error::BoxError,
    manager::{Flags, Manager, ManagerOptions, UndeclaredRequests},
    webhook::{SelfManagedCertificates, WebhookService},
};

/// Exit code of a check that found a difference.
const DIFFERS: u8 = 3;

/// An operator: its name, its kinds, and the functions that register its controllers and webhooks.
///
/// See the [module](self) for an example and the commands of the program.
#[derive(Clone)]
#[must_use]
pub struct Operator {
    name: &'static str,
    election_id: &'static str,
    version: &'static str,
    definitions: Vec<CustomResourceDefinition>,
    /// Line that added each definition.
    definition_places: Vec<&'static Location<'static>>,
    adapt: Vec<Adapt>,
    setups: Vec<Setup>,
}

/// A function that registers, and the line that added it.
#[derive(Clone)]
struct Setup {
    add_to: Arc<AddTo>,
    place: &'static Location<'static>,
}

type AddTo = dyn Fn(&Manager) -> Result<(), BoxError> + Send + Sync;

/// Changes the options of the manager.
type Adapt = Arc<dyn Fn(ManagerOptions) -> ManagerOptions + Send + Sync>;

impl Operator {
    /// Makes an operator named `name`, which is the field manager of its writes and the name of its objects in a cluster: a DNS label
    /// of up to 54 characters. `election_id` is the name of its lease, by convention `<name>.<group>`.
    pub fn new(name: &'static str, election_id: &'static str) -> Self {
        Self {
            name,
            election_id,
            version: "",
            definitions: Vec::new(),
            definition_places: Vec::new(),
            adapt: Vec::new(),
            setups: Vec::new(),
        }
    }

    /// Sets the version that `--version` prints: `env!("CARGO_PKG_VERSION")`. Default: no such flag.
    pub fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    /// Adds the CustomResourceDefinition of a kind.
    #[track_caller]
    pub fn crd<K: CustomResourceExt>(self) -> Self {
        self.definition(K::crd())
    }

    /// Adds a CustomResourceDefinition, such as one of several versions
    /// ([`merge_crds`](kube::core::crd::merge_crds)).
    #[track_caller]
    pub fn definition(mut self, definition: CustomResourceDefinition) -> Self {
        self.definitions.push(definition);
        self.definition_places.push(Location::caller());
        self
    }

    /// Changes the options of the manager, after the flags have set them. Several functions run in the order in which they were added.
    pub fn options(
        mut self,
        adapt: impl Fn(ManagerOptions) -> ManagerOptions + Send + Sync + 'static,
    ) -> Self {
        self.adapt.push(Arc::new(adapt));
        self
    }

    /// Adds a function that registers controllers, webhooks and other runnables. Several run in the order in which they were added.
    ///
    /// It must not send requests to the API server, because it also runs without one, to print manifests. Use kinds
    /// known at compile time or a [`DynamicKind`](crate::DynamicKind), and send requests in reconciles.
    #[track_caller]
    pub fn setup<E: Into<BoxError>>(
        mut self,
        add_to: impl Fn(&Manager) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        let add_to = Arc::new(move |manager: &Manager| add_to(manager).map_err(Into::into));
        self.setups.push(Setup { add_to, place: Location::caller() });
        self
    }

    /// Name of the operator.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The CustomResourceDefinitions, in the order in which they were added.
    #[must_use]
    pub fn definitions(&self) -> &[CustomResourceDefinition] {
        &self.definitions
    }

    /// Options of its manager with these flags, for an operator that runs in `namespace`. Webhooks have self-managed certificates unless
    /// `--webhook-cert-path` names a folder. Their configurations are applied when the operator starts; the Service in front of them is
    /// `<name>-webhooks` in the namespace. The program itself turns webhooks off if it does not run in a pod, unless the flag
    /// `--enable-webhooks` is set, because the Service does not lead to it.
    ///
    /// In programs with debug assertions, undeclared requests [fail before they are sent](ManagerOptions::undeclared_requests), unless a
    /// function of [`options`](Self::options) allows them. Other programs send, log and count them.
    pub fn manager_options(&self, flags: &Flags, namespace: &str) -> ManagerOptions {
        let service = WebhookService::new(namespace, format!("{}-webhooks", self.name));
        let options = flags.options(self.name, self.election_id);
        let options = match cfg!(debug_assertions) {
            true => options.undeclared_requests(UndeclaredRequests::Refuse),
            false => options.undeclared_requests(UndeclaredRequests::Report),
        };
        let webhooks = options.webhooks.clone().apply_configurations(&service);
        let options = options.webhooks(match flags.webhook_cert_path {
            Some(_) => webhooks,
            None => webhooks.certificates(SelfManagedCertificates::new(&service)),
        });
        self.adapt.iter().fold(options, |options, adapt| adapt(options))
    }

    /// Registers everything on a manager of your own, such as one in a test.
    ///
    /// # Errors
    ///
    /// A function of [`Operator::setup`] fails.
    pub fn add_to(&self, manager: &Manager) -> Result<(), SetupError> {
        self.setups.iter().try_for_each(|setup| {
            (setup.add_to)(manager).map_err(|source| SetupError::Failed { place: setup.place, source })
        })
    }

    /// Makes a manager that reaches the cluster through `client`, and registers everything on it: for tests and tools. The program
    /// itself connects with the connection of [`Manager::from_config`].
    ///
    /// # Errors
    ///
    /// A function of [`Operator::setup`] fails.
    pub fn manager(&self, client: kube::Client, flags: &Flags) -> Result<Manager, SetupError> {
        let options = self.manager_options(flags, client.default_namespace());
        self.manager_with(client, options)
    }

    fn manager_with(&self, client: kube::Client, options: ManagerOptions) -> Result<Manager, SetupError> {
        let manager = Manager::new(client, options);
        self.add_to(&manager)?;
        Ok(manager)
    }

    /// Makes a manager without a cluster on which everything is registered, to look at the registrations. Must be called within a
    /// tokio runtime. Requests through its clients fail. `namespace` is the one in which the operator would run.
    ///
    /// # Errors
    ///
    /// A function of [`Operator::setup`] fails, or sends a request to the API server.
    pub fn manager_offline(&self, flags: &Flags, namespace: &str) -> Result<Manager, SetupError> {
        let offline = Offline::default();
        // Undeclared requests are sent as well, so that the connection records every request of a setup function.
        let options = self.manager_options(flags, namespace).undeclared_requests(UndeclaredRequests::Send);
        let added = self.manager_with(offline.client(namespace), options);
        match offline.first_request() {
            Some(request) => Err(SetupError::Asked { request }),
            None => added,
        }
    }

    /// Carries out the command line of the process.
    ///
    /// Completes when the operator has stopped after SIGTERM or Ctrl-C, or when the output is printed. Dropping the future stops the
    /// operator as [dropping its manager](crate#cancellation) does.
    pub async fn main(self) -> ExitCode {
        let output = match Arguments::parse(&self, std::env::args_os().skip(1)) {
            Ok(Arguments { command, flags }) => commands::carry_out(&self, command, &flags).await,
            Err(error) => Err(error),
        };
        let written = match &output {
            Ok(output) => std::io::stdout().lock().write_all(output.text.as_bytes()),
            Err(error) => error.print(),
        };
        match (output, written) {
            (Err(error), _) => ExitCode::from(error.exit_code()),
            (Ok(output), _) if output.differs => ExitCode::from(DIFFERS),
            // A broken pipe is no failure: its reader, such as `head`, may have closed it early.
            (Ok(_), Err(error)) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
            (Ok(_), _) => ExitCode::SUCCESS,
        }
    }

    /// Carries out a command line, given without the name of the program, and returns the output: for tests and tools.
    ///
    /// The command `run` has no output. Unless a flag or `RUST_LOG` selects levels, its log leaves out the `INFO` lines of this library,
    /// and has those of other crates.
    ///
    /// # Errors
    ///
    /// The command line is wrong or asks for help, or the command fails.
    pub async fn answer<A: Into<OsString>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<CommandOutput, CommandError> {
        let arguments = arguments.into_iter().map(Into::into);
        let mut parsed = Arguments::parse(self, arguments)?;
        parsed.flags_of_run().hide_info_of_library();
        commands::carry_out(self, parsed.command, &parsed.flags).await
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.definitions.iter().filter_map(|crd| crd.metadata.name.as_deref()).collect();
        let setups: Vec<_> = self.setups.iter().map(|setup| setup.place.to_string()).collect();
        f.debug_struct("Operator")
            .field("name", &self.name)
            .field("election_id", &self.election_id)
            .field("definitions", &names)
            .field("setups", &setups)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
