//! An operator as a program: a command line goes in, and its output comes out.

use std::{
    fmt::Display,
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::ExitCode,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Deserialize;
use serde_json::Value;

use super::{DevError, Narrator, Session, SessionOptions};

/// Schema of the program's answers in JSON.
pub(super) const SCHEMA: &str = "operator/v1";

/// Runs an operator in this process on an API server of its own, until Ctrl-C. Applies the objects in `samples`, a YAML or JSON file or a
/// folder of them, relative to the package that cargo runs, and prints a line for each burst of changes to the operator's objects.
///
/// `program` carries out a command line of the operator, without the name of the program, and returns its output. Arguments of this
/// process are passed on when the operator runs.
///
/// ```no_run
/// # async fn command(arguments: Vec<String>) -> Result<String, std::io::Error> { Ok(String::new()) }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::process::ExitCode {
/// // With controller-runtime: async |arguments| guestbook::operator().answer(arguments).await
/// kube_envtest::dev::run("samples", async |arguments| command(arguments).await).await
/// # }
/// ```
///
/// The server knows the operator's kinds and calls its webhooks, at port 9443 of loopback. The operator has the rights that its manifests
/// grant it, and no others. The kubeconfig for kubectl is `target/operator/kubeconfig`. The printed address of the page of explanations
/// contains a token for it.
///
/// The exit code is 1 if a file cannot be read or written, the server rejects a definition or sample, or the operator fails.
pub async fn run<T: Display, E: Display>(
    samples: impl AsRef<Path>,
    program: impl AsyncFn(Vec<String>) -> Result<T, E>,
) -> ExitCode {
    let arguments = std::env::args().skip(1).collect();
    match run_with(samples.as_ref(), program, arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run_with<T: Display, E: Display>(
    samples: &Path,
    program: impl AsyncFn(Vec<String>) -> Result<T, E>,
    arguments: Vec<String>,
) -> Result<(), String> {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let flags = SessionFlags::new(&arguments).map_err(text)?;
    let answer = async |arguments| match program(arguments).await {
        Ok(answer) => Ok(answer.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let rendered = Rendered::by(answer, flags.words()).await?;
    let folder = package.join("target/operator");
    let options = SessionOptions::new(folder).services(rendered.services.iter().cloned());
    let (mut session, narrator) = Session::start(options).await.map_err(text)?;
    let kubeconfig = session.kubeconfig();
    let shown = kubeconfig.strip_prefix(&package).unwrap_or(&kubeconfig).display();
    let kind = rendered.definitions.first().map_or("all", |crd| &crd.spec.names.plural);
    say(&format!("  API server {}   try: kubectl --kubeconfig {shown} get {kind}", session.url()));
    session.define(&rendered.definitions).await.map_err(text)?;
    session.grant(&rendered).await.map_err(text)?;
    if let Some(page) = session.publish(&flags).map_err(text)? {
        say(&format!("     explain {page}"));
    }
    let mut arguments = flags.words().to_vec();
    arguments.splice(
        0..0,
        ["run".to_owned(), format!("--kubeconfig={}", session.operator_kubeconfig().display())],
    );
    let samples = package.join(samples);
    let applied = async {
        session.apply_samples(&samples).await?;
        std::future::pending::<Result<(), DevError>>().await
    };
    tokio::select! {
        biased;
        // Ctrl-C ends the operator, which listens for it.
        ended = program(arguments) => ended.map(drop).map_err(text),
        failed = applied => failed.map_err(text),
        () = narrate(narrator) => Ok(()),
    }
}

/// Flags with which an operator runs in a session.
///
/// Metrics, and the page that explains its reconciles, are on a free port of loopback, without TLS and for authorized clients. There are no
/// probes. Flags of the user replace these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFlags {
    words: Vec<String>,
    /// `None` if the user has chosen another address.
    metrics: Option<SocketAddr>,
}

impl SessionFlags {
    /// The flags, followed by `more`, which are the user's.
    ///
    /// # Errors
    ///
    /// No port is free.
    pub fn new(more: &[String]) -> Result<Self, DevError> {
        let is_given = |name: &str| {
            more.iter().any(|word| {
                word.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
            })
        };
        let (mut words, mut metrics) = (Vec::new(), None);
        if !["--metrics-bind-address", "--metrics-secure", "--metrics-authorization"]
            .into_iter()
            .any(is_given)
        {
            // Another process may take the port before the operator does. Then the operator says so.
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
            let address = free.map_err(DevError::Port)?;
            words.push(format!("--metrics-bind-address={address}"));
            words.push("--metrics-secure=false".to_owned());
            words.push("--metrics-authorization=true".to_owned());
            metrics = Some(address);
        }
        if !is_given("--health-probe-bind-address") {
            words.push("--health-probe-bind-address=0".to_owned());
        }
        words.extend(more.iter().cloned());
        Ok(Self { words, metrics })
    }

    /// The command line.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Address of the server of metrics and explanations; `None` if the user has chosen another one.
    #[must_use]
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }
}

/// Objects that an operator's program renders for a session.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Rendered {
    /// Its CustomResourceDefinitions.
    pub definitions: Vec<CustomResourceDefinition>,
    /// Its namespace, service account, roles and bindings.
    pub rights: Vec<Value>,
    /// Namespaces and names of its Services.
    pub services: Vec<(String, String)>,
}

impl Rendered {
    /// Asks the program, which runs with `flags` later.
    ///
    /// # Errors
    ///
    /// The program fails, or its answer has another schema than this version of kube-envtest knows.
    pub async fn by(
        program: impl AsyncFn(Vec<String>) -> Result<String, String>,
        flags: &[String],
    ) -> Result<Self, String> {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let definitions = program(words("crds --format json")).await?;
        let mut manifests = words("manifests --format json --only namespace,rbac,services --");
        manifests.extend(flags.iter().cloned());
        let manifests = program(manifests).await?;
        let (services, rights): (Vec<Value>, Vec<Value>) =
            objects(&manifests)?.into_iter().partition(|object| object["kind"] == "Service");
        let place = |service: &Value| {
            let text = |field: &str| service["metadata"][field].as_str().unwrap_or_default().to_owned();
            (text("namespace"), text("name"))
        };
        let parse = |object: Value| {
            CustomResourceDefinition::deserialize(object)
                .map_err(|error| DevError::Answer(error.to_string()).to_string())
        };
        Ok(Self {
            definitions: objects(&definitions)?.into_iter().map(parse).collect::<Result<_, _>>()?,
            rights,
            services: services.iter().map(place).collect(),
        })
    }
}

impl Rendered {
    /// Namespace and name of the operator's service account, if there is exactly one. Its Deployment has the same.
    #[must_use]
    pub fn account(&self) -> Option<(String, String)> {
        let text =
            |account: &Value, field: &str| account["metadata"][field].as_str().unwrap_or_default().to_owned();
        let mut accounts = self.rights.iter().filter(|object| object["kind"] == "ServiceAccount");
        match (accounts.next(), accounts.next()) {
            (Some(account), None) => Some((text(account, "namespace"), text(account, "name"))),
            _ => None,
        }
    }
}

/// Objects of an answer in JSON.
fn objects(answer: &str) -> Result<Vec<Value>, String> {
    let invalid = |reason: String| DevError::Answer(reason).to_string();
    let other = |error| invalid(format!("{error}; its main has to return operator().main().await"));
    let mut answer: Value = serde_json::from_str(answer).map_err(other)?;
    if answer["schema"] != SCHEMA {
        let (schema, library) = (&answer["schema"], &answer["library"]);
        return Err(invalid(format!(
            "schema {schema} of controller-runtime {library}, and this is kube-envtest {}, which reads {SCHEMA}",
            env!("CARGO_PKG_VERSION")
        )));
    }
    match answer["objects"].take() {
        Value::Array(objects) => Ok(objects),
        _ => Err(invalid("it has no objects".to_owned())),
    }
}

async fn narrate(mut narrator: Narrator) {
    loop {
        let line = narrator.next_line().await;
        say(&format!("    {line}"));
    }
}

/// Prints a line. A closed standard output (a broken pipe) does not stop the operator.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn text(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_user_replace_those_of_the_session() {
        let words = |more: &[&str]| {
            let more: Vec<String> = more.iter().map(|word| (*word).to_owned()).collect();
            let flags = SessionFlags::new(&more).expect("a port is free");
            let port = flags.metrics().map(|address| address.to_string()).unwrap_or_default();
            assert_eq!(flags.metrics().is_none(), port.is_empty());
            flags.words().join(" ").replace(&port, if port.is_empty() { "" } else { "FREE" })
        };
        assert_eq!(
            words(&["--leader-elect"]),
            "--metrics-bind-address=FREE --metrics-secure=false --metrics-authorization=true \
             --health-probe-bind-address=0 --leader-elect"
        );
        assert_eq!(
            words(&["--metrics-bind-address=:8443", "--health-probe-bind-address", ":8081"]),
            "--metrics-bind-address=:8443 --health-probe-bind-address :8081"
        );
        assert!(words(&["--metrics-bind-addresses=x"]).contains("FREE"));
    }
}
