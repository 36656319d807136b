//! An operator as a program: a function from a command line to its output.

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

use super::{DevError, Progress, Session, SessionOptions, driven_session, session::DEFAULT_WEBHOOKS};

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
/// The server knows the operator's kinds and calls its webhooks, at a free port. The operator has the rights that its manifests
/// grant it, and no others. The kubeconfig for kubectl is `target/operator/kubeconfig`. The printed address of the page of explanations
/// contains a token for it.
///
/// If `cargo operator dev` starts this process, the server is that of its session: `program` is not called, because the operator runs in
/// a process of its own, and standard input and output carry requests and answers.
///
/// The exit code is 1 if a file cannot be read or written, the server rejects a definition or sample, or the operator fails.
pub async fn run<T: Display, E: Display>(
    samples: impl AsRef<Path>,
    program: impl AsyncFn(Vec<String>) -> Result<T, E>,
) -> ExitCode {
    // `cargo operator dev` starts the same program as a developer does, and drives it through its input.
    if let Some(schema) = std::env::var_os(driven_session::VARIABLE) {
        return driven_session::run(&schema.to_string_lossy()).await;
    }
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
    let options = SessionOptions::new(folder)
        .services(rendered.services.iter().cloned())
        .webhook_address(flags.webhooks());
    let (mut session, progress) = Session::start(options).await.map_err(text)?;
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
    // The samples are applied while the operator runs, so that the developer sees it react to them.
    let applied = async {
        session.apply_samples(&samples).await?;
        std::future::pending::<Result<(), DevError>>().await
    };
    tokio::select! {
        biased;
        // Ctrl-C ends the operator, which listens for it.
        ended = program(arguments) => ended.map(drop).map_err(text),
        failed = applied => failed.map_err(text),
        () = print_lines(progress) => Ok(()),
    }
}

/// Flags with which an operator runs in a session.
///
/// Metrics, and the page that explains its reconciles, are on a free port of loopback, without TLS and for authorized clients. Webhooks are
/// on another free port, so that sessions of several operators can run at a time. There are no probes. Flags of the user override these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFlags {
    words: Vec<String>,
    /// `None` if a flag of the user sets the address, TLS or authorization of the metrics server.
    metrics: Option<SocketAddr>,
    webhooks: SocketAddr,
}

impl SessionFlags {
    /// The flags, followed by `more`, which are the user's.
    ///
    /// # Errors
    ///
    /// No port is free.
    pub fn new(more: &[String]) -> Result<Self, DevError> {
        let is_given = |name: &str| value_of(more, name).is_some();
        let (mut words, mut metrics) = (Vec::new(), None);
        // Both sockets stay open until both ports are chosen, so that the ports differ. If another process takes a port before the operator
        // does, the operator fails with an error that names the address.
        let ports = [free_port(Ipv4Addr::LOCALHOST)?, free_port(Ipv4Addr::UNSPECIFIED)?];
        let [metrics_port, webhook_port] = &ports;
        if !["--metrics-bind-address", "--metrics-secure", "--metrics-authorization"]
            .into_iter()
            .any(is_given)
        {
            let address = metrics_port.local_addr().map_err(DevError::Port)?;
            // The explain page is on the metrics server. Without TLS the browser shows no warning, and the
            // token still protects the page.
            words.push(format!("--metrics-bind-address={address}"));
            words.push("--metrics-secure=false".to_owned());
            words.push("--metrics-authorization=true".to_owned());
            metrics = Some(address);
        }
        let webhooks = if let Some(given) = value_of(more, WEBHOOK_FLAG) {
            reachable_at(given).unwrap_or(DEFAULT_WEBHOOKS)
        } else {
            let port = webhook_port.local_addr().map_err(DevError::Port)?.port();
            // Not a loopback address: no cluster could reach it, so the manifests would have no Service for it.
            words.push(format!("{WEBHOOK_FLAG}=:{port}"));
            SocketAddr::from((Ipv4Addr::LOCALHOST, port))
        };
        if !is_given("--enable-webhooks") {
            // Outside a pod, an operator serves webhooks only with this flag.
            words.push("--enable-webhooks".to_owned());
        }
        if !is_given("--health-probe-bind-address") {
            // No kubelet asks for the health of this process, and a fixed port could be in use.
            words.push("--health-probe-bind-address=0".to_owned());
        }
        // The developer's flags come last and therefore apply.
        words.extend(more.iter().cloned());
        Ok(Self { words, metrics, webhooks })
    }

    /// The command line.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Address of the server of metrics and explanations; `None` if a flag of the user sets its address, TLS or authorization.
    #[must_use]
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Address at which the API server reaches the operator's webhooks.
    #[must_use]
    pub fn webhooks(&self) -> SocketAddr {
        self.webhooks
    }
}

/// The flag for the address of the operator's webhook server.
const WEBHOOK_FLAG: &str = "--webhook-bind-address";

fn free_port(address: Ipv4Addr) -> Result<TcpListener, DevError> {
    TcpListener::bind((address, 0)).map_err(DevError::Port)
}

/// Value of the last occurrence of a flag: `--flag=value` or `--flag value`. Empty for a flag without one; `None` if the flag is not there.
fn value_of<'w>(words: &'w [String], flag: &str) -> Option<&'w str> {
    words.iter().enumerate().rev().find_map(|(place, word)| match word.strip_prefix(flag)? {
        "" => Some(words.get(place + 1).map_or("", String::as_str)),
        rest => rest.strip_prefix('='),
    })
}

/// Address at which this host reaches a server that listens at `:9443` or `10.0.0.1:9443`. `None` for a disabled server, and for invalid
/// text, which the operator refuses.
fn reachable_at(listens: &str) -> Option<SocketAddr> {
    let address = match listens.strip_prefix(':') {
        Some(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?)),
        None => listens.parse::<SocketAddr>().ok()?,
    };
    Some(if address.ip().is_unspecified() {
        SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()))
    } else {
        address
    })
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
        // With the flags of the run, because they decide which rights and Services the operator needs.
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
    // Checked first: objects of another schema would lead to errors about their content.
    if answer["schema"] != SCHEMA {
        let (schema, library) = (&answer["schema"], &answer["library"]);
        return Err(invalid(format!(
            "schema {schema} of controller-runtime {library}, but kube-envtest {} reads schema {SCHEMA}",
            env!("CARGO_PKG_VERSION")
        )));
    }
    match answer["objects"].take() {
        Value::Array(objects) => Ok(objects),
        _ => Err(invalid("it has no objects".to_owned())),
    }
}

async fn print_lines(mut progress: Progress) {
    loop {
        let line = progress.next_line().await;
        say(&line);
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
            let port = format!(":{} ", flags.webhooks().port());
            let mut text = flags.words().join(" ").replace(&port, ":WEBHOOKS ");
            if let Some(metrics) = flags.metrics() {
                text = text.replace(&metrics.to_string(), "FREE");
            }
            text
        };
        assert_eq!(
            words(&["--leader-elect"]),
            "--metrics-bind-address=FREE --metrics-secure=false --metrics-authorization=true \
             --webhook-bind-address=:WEBHOOKS --enable-webhooks --health-probe-bind-address=0 --leader-elect"
        );
        assert_eq!(
            words(&[
                "--metrics-bind-address=:8443",
                "--health-probe-bind-address",
                ":8081",
                "--webhook-bind-address=:1",
                "--enable-webhooks=false"
            ]),
            "--metrics-bind-address=:8443 --health-probe-bind-address :8081 --webhook-bind-address=:WEBHOOKS \
             --enable-webhooks=false"
        );
        assert!(words(&["--metrics-bind-addresses=x"]).contains("FREE"));
    }
    #[test]
    fn webhooks_are_called_where_the_operator_serves_them() {
        for (given, expected) in [
            (":9555", "127.0.0.1:9555"),
            ("0.0.0.0:9555", "127.0.0.1:9555"),
            ("[::]:9555", "127.0.0.1:9555"),
            ("127.0.0.2:9555", "127.0.0.2:9555"),
            ("0", "127.0.0.1:9443"),
        ] {
            for more in
                [vec![format!("--webhook-bind-address={given}")], vec![WEBHOOK_FLAG.into(), given.into()]]
            {
                let flags = SessionFlags::new(&more).expect("a port is free");
                assert_eq!(flags.webhooks().to_string(), expected, "{more:?}");
            }
        }
        let flags = SessionFlags::new(&[]).expect("ports are free");
        assert_ne!(Some(flags.webhooks()), flags.metrics());
    }
}
