//! Command-line flags of an operator, with the feature `clap`.

use std::path::{Path, PathBuf};

use clap::Args;
use tracing::level_filters::LevelFilter;
#[cfg(feature = "logging")]
use tracing_subscriber::filter::Targets;

use super::{Manager, ManagerOptions};
#[cfg(feature = "logging")]
use crate::logging;
use crate::{
    client::{self, ConfigError, get_config},
    leader_election,
    serving::{AllowedTo, CertFiles, Endpoint, MetricsServerOptions, Serving},
    webhook::WebhookOptions,
};

/// The flags of an operator, with the names and defaults of kubebuilder's scaffold. Flatten them into your own flags.
///
/// Of zap's flags only `--zap-log-level` exists and, with the feature `logging`, `--zap-encoder`. The scaffold does not have
/// `--enable-webhooks`, `--webhook-bind-address` and `--metrics-authorization`.
///
/// ```
/// use clap::Parser;
/// use controller_runtime::manager::Flags;
///
/// #[derive(Parser)]
/// struct Args {
///     #[command(flatten)]
///     manager: Flags,
///     /// How many
///     #[arg(long, default_value_t = 3)]
///     replicas: u32,
/// }
///
/// let args = Args::parse_from(["operator", "--leader-elect", "--metrics-bind-address=:8443"]);
/// let options = args.manager.options("guestbook-operator", "guestbook.example.com");
/// # let _ = (options, args.replicas);
/// ```
#[derive(Debug, Clone, Args)]
pub struct Flags {
    /// Address of the metrics server: `:8443` for HTTPS, `:8080` for HTTP, `0` to disable it
    #[arg(long, value_name = "ADDRESS", default_value = "0")]
    pub metrics_bind_address: Endpoint,
    /// Serve metrics over HTTPS to clients that the API server authorizes
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true,
          default_missing_value = "true", action = clap::ArgAction::Set)]
    pub metrics_secure: bool,
    /// Admit only clients that the API server authorizes, also without HTTPS: behind a proxy, or on loopback
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          action = clap::ArgAction::Set)]
    pub metrics_authorization: Option<bool>,
    /// Folder with the certificate of the metrics server; by default a self-signed certificate is generated
    #[arg(long, value_name = "FOLDER")]
    pub metrics_cert_path: Option<PathBuf>,
    /// File name of the certificate in that folder
    #[arg(long, value_name = "FILE", default_value = "tls.crt")]
    pub metrics_cert_name: PathBuf,
    /// File name of the private key in that folder
    #[arg(long, value_name = "FILE", default_value = "tls.key")]
    pub metrics_cert_key: PathBuf,
    /// Serve metrics over HTTP/2 as well, to clients that request it over HTTPS
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
          default_missing_value = "true", action = clap::ArgAction::Set, value_parser = http2(cfg!(feature = "http2")))]
    pub enable_http2: bool,
    /// Serve webhooks; by default only in a pod, if the program's options name the Service through which they are called
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          action = clap::ArgAction::Set)]
    pub enable_webhooks: Option<bool>,
    /// Address of the webhook server, which runs if there are webhooks
    #[arg(long, value_name = "ADDRESS", default_value = ":9443")]
    pub webhook_bind_address: Endpoint,
    /// Folder with the certificate of the webhook server; by default that of the program's options
    #[arg(long, value_name = "FOLDER")]
    pub webhook_cert_path: Option<PathBuf>,
    /// File name of the certificate in that folder
    #[arg(long, value_name = "FILE", default_value = "tls.crt")]
    pub webhook_cert_name: PathBuf,
    /// File name of the private key in that folder
    #[arg(long, value_name = "FILE", default_value = "tls.key")]
    pub webhook_cert_key: PathBuf,
    /// Address of the liveness and readiness probes; `0` to disable them
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    pub health_probe_bind_address: Endpoint,
    /// Enable leader election, so that one process at a time is active
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false,
          default_missing_value = "true", action = clap::ArgAction::Set)]
    pub leader_elect: bool,
    /// Name of the leader election lease
    #[arg(long, value_name = "NAME")]
    pub leader_election_id: Option<String>,
    /// Namespace of the lease; by default that of the pod, or of the kubeconfig
    #[arg(long, value_name = "NAMESPACE")]
    pub leader_election_namespace: Option<String>,
    /// Kubeconfig file; by default $KUBECONFIG, the pod's service account or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Log level: `error`, `info`, `debug`, or a number: 1 is `debug`, higher is `trace`
    #[arg(long, visible_alias = "log-level", value_name = "LEVEL", default_value = "info", value_parser = level)]
    pub zap_log_level: LevelFilter,
    /// Log levels of single targets: `my_operator=debug,kube_client=warn`; by default $RUST_LOG
    #[cfg(feature = "logging")]
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    pub log: Option<Targets>,
    /// Format of log lines: `text` or `json`
    #[cfg(feature = "logging")]
    #[arg(long, visible_alias = "zap-encoder", value_name = "FORMAT", default_value_t = default_format())]
    pub log_format: logging::Format,
}

impl Flags {
    /// Options of an operator named `name`, set from the flags. `election_id` is the default name of the lease.
    #[track_caller]
    pub fn options(&self, name: &str, election_id: &str) -> ManagerOptions {
        let metrics = MetricsServerOptions::default().bind_address(self.metrics_bind_address);
        #[cfg(feature = "http2")]
        let metrics = metrics.enable_http2(self.enable_http2);
        let mut metrics = metrics;
        if self.metrics_secure {
            let folder = self.metrics_cert_path.as_deref();
            let files = files(folder, &self.metrics_cert_name, &self.metrics_cert_key);
            let serving = files.map_or(Serving::SelfSigned, Serving::Files);
            metrics = metrics.serving(serving);
        }
        if self.metrics_authorization.unwrap_or(self.metrics_secure) {
            metrics = metrics.allowed_to(AllowedTo::Authorized);
        }
        let options = ManagerOptions::new(name)
            .metrics(metrics)
            .webhooks(self.webhook_options())
            .health_probe_bind_address(self.health_probe_bind_address);
        if !self.leader_elect {
            return options;
        }
        let id = self.leader_election_id.as_deref().unwrap_or(election_id);
        let election = leader_election::LeaderElectionOptions::new(id);
        options.leader_election(match &self.leader_election_namespace {
            Some(namespace) => election.namespace(namespace),
            None => election,
        })
    }

    /// Options of the webhook server, set from the flags.
    fn webhook_options(&self) -> WebhookOptions {
        let address =
            if self.enable_webhooks == Some(false) { Endpoint::Disabled } else { self.webhook_bind_address };
        let options = WebhookOptions::default().bind_address(address);
        let folder = self.webhook_cert_path.as_deref();
        match files(folder, &self.webhook_cert_name, &self.webhook_cert_key) {
            Some(files) => options.serving(Serving::Files(files)),
            None => options,
        }
    }

    /// Sets up the log of the process from the flags; see [`logging::init`].
    ///
    /// # Errors
    ///
    /// `RUST_LOG` is set and is not a valid filter, or the process has a subscriber already.
    #[cfg(feature = "logging")]
    pub fn init_logging(&self) -> Result<(), logging::InitError> {
        logging::init(&self.log_options())
    }

    /// Hides log lines of this library below `WARN`, unless a flag or `RUST_LOG` selects levels. Does nothing without the feature `logging`.
    pub(crate) fn hide_info_of_library(&mut self) {
        #[cfg(feature = "logging")]
        self.default_log(std::env::var_os("RUST_LOG").is_some_and(|filter| !filter.is_empty()));
    }

    #[cfg(feature = "logging")]
    fn default_log(&mut self, is_set_by_environment: bool) {
        let is_selected = self.log.is_some() || self.zap_log_level != LevelFilter::INFO;
        if !is_selected && !is_set_by_environment {
            let others = Targets::new().with_default(LevelFilter::INFO);
            self.log = Some(others.with_target("controller_runtime", LevelFilter::WARN));
        }
    }

    #[cfg(feature = "logging")]
    fn log_options(&self) -> logging::LogOptions {
        let options = logging::LogOptions::default().level(self.zap_log_level).format(self.log_format);
        match &self.log {
            Some(filter) => options.filter(filter.clone()),
            None => options,
        }
    }

    /// Makes a manager with [`Flags::options`] on the cluster that the flags select. Its leader election has a connection of
    /// its own.
    ///
    /// # Errors
    ///
    /// There is no such cluster, or its configuration cannot be used.
    #[track_caller]
    pub fn manager(
        &self,
        name: &str,
        election_id: &str,
    ) -> impl Future<Output = Result<Manager, ConfigError>> + Send + use<'_> {
        // Here, and not in the future, so that declarations of rights name the line of the call.
        let options = self.options(name, election_id);
        async {
            let config = self.config(None).await?;
            Manager::from_config(config, options).map_err(ConfigError::unusable)
        }
    }

    /// Connects to the cluster that the flags select, as [`client::connect`] does.
    ///
    /// # Errors
    ///
    /// There is no such cluster, or its configuration cannot be used.
    pub async fn client(&self) -> Result<kube::Client, ConfigError> {
        client::connect(self.config(None).await?).map_err(ConfigError::unusable)
    }

    /// The configuration of the cluster that the flags select, as [`get_config`] finds it; `context` selects a context of the
    /// kubeconfig instead of its current one.
    ///
    /// # Errors
    ///
    /// There is no configuration, or the kubeconfig cannot be read or lacks the context.
    #[doc(alias = "GetConfigWithContext")]
    pub async fn config(&self, context: Option<&str>) -> Result<kube::Config, ConfigError> {
        get_config(self.kubeconfig.as_deref(), context).await
    }
}

/// Certificate and key in a folder, if there is one.
fn files(folder: Option<&Path>, certificate: &Path, key: &Path) -> Option<CertFiles> {
    folder.map(|folder| CertFiles::new(folder.join(certificate), folder.join(key)))
}

/// Parses the level of Go's flag.
fn level(given: &str) -> Result<LevelFilter, String> {
    match (given, given.parse::<u32>()) {
        ("panic" | "error", _) => Ok(LevelFilter::ERROR),
        ("info", _) | (_, Ok(0)) => Ok(LevelFilter::INFO),
        ("debug", _) | (_, Ok(1)) => Ok(LevelFilter::DEBUG),
        (_, Ok(_)) => Ok(LevelFilter::TRACE),
        _ => Err("give error, info, debug or a number".to_owned()),
    }
}

/// Parses the levels of targets.
#[cfg(feature = "logging")]
fn filter(given: &str) -> Result<Targets, String> {
    given.parse().map_err(|error| format!("{error}; give levels of targets, such as my_operator=debug"))
}

/// Variable of the environment with the format of the log, for a program that starts an operator and reads its log.
#[cfg(feature = "logging")]
const LOG_FORMAT: &str = "OPERATOR_LOG_FORMAT";

/// Format of the log without a flag.
#[cfg(feature = "logging")]
fn default_format() -> logging::Format {
    format_of(std::env::var(LOG_FORMAT).ok().as_deref())
}

/// Format that a value of the variable selects. An unknown one comes from a newer program, which then receives text.
#[cfg(feature = "logging")]
fn format_of(variable: Option<&str>) -> logging::Format {
    variable.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Parses the choice of HTTP/2, which needs the feature `http2` at build time.
fn http2(built_in: bool) -> impl Fn(&str) -> Result<bool, &'static str> + Clone {
    move |text| match text {
        "true" if !built_in => Err("this program was built without feature `http2` of controller-runtime"),
        _ => text.parse().map_err(|_| "give true or false"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        flags: Flags,
    }

    fn flags(text: &str) -> Flags {
        let words = std::iter::once("program").chain(text.split_whitespace());
        Program::try_parse_from(words).expect("the flags are good").flags
    }

    #[test]
    fn defaults_are_those_of_the_scaffold() {
        let flags = flags("");
        assert_eq!(flags.metrics_bind_address, Endpoint::Disabled);
        assert_eq!(flags.health_probe_bind_address.to_string(), ":8081");
        assert_eq!((flags.leader_elect, flags.metrics_secure, flags.enable_http2), (false, true, false));
        assert_eq!(flags.zap_log_level, LevelFilter::INFO);
    }

    #[test]
    fn booleans_are_written_as_in_go() {
        assert!(flags("--leader-elect").leader_elect);
        assert!(flags("--leader-elect=true").leader_elect);
        assert!(!flags("--leader-elect=false").leader_elect);
        assert!(!flags("--metrics-secure=false").metrics_secure);
    }

    #[test]
    fn clients_of_metrics_are_authorized_with_https_or_on_request() {
        for (text, expected) in [
            ("", true),
            ("--metrics-secure=false", false),
            ("--metrics-secure=false --metrics-authorization", true),
            ("--metrics-authorization=false", false),
        ] {
            let options = format!("{:?}", flags(text).options("test", "id"));
            assert_eq!(options.contains("Authorized"), expected, "{text}: {options}");
        }
    }

    #[test]
    fn the_flags_become_options() {
        let flags = flags("--leader-elect --leader-election-id=mine --metrics-bind-address=127.0.0.1:8443");
        let text = format!("{:?}", flags.options("test", "default-id"));
        for part in [
            "id: \"mine\"",
            "At(127.0.0.1:8443)",
            "SelfSigned",
            "Authorized",
            "Port(8081)",
            "enable_http2: false",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn http2_is_a_choice() {
        let text = format!("{:?}", flags("--enable-http2").options("test", "id"));
        assert!(text.contains("enable_http2: true"), "{text}");
    }

    #[test]
    fn a_program_that_cannot_speak_http2_says_so() {
        let without = http2(false);
        assert_eq!(without("false"), Ok(false));
        assert_eq!(
            without("true"),
            Err("this program was built without feature `http2` of controller-runtime")
        );
        assert_eq!(http2(true)("maybe"), Err("give true or false"));
    }

    #[test]
    fn the_certificate_of_metrics_has_the_names_of_a_secret_or_others() {
        let certificate = |text: &str| format!("{:?}", flags(text).options("test", "id"));
        let text = certificate("--metrics-cert-path=/certs --enable-http2=false");
        assert!(text.contains("\"/certs/tls.crt\"") && text.contains("\"/certs/tls.key\""), "{text}");
        let text =
            certificate("--metrics-cert-path=/certs --metrics-cert-name=a.crt --metrics-cert-key=a.key");
        assert!(text.contains("\"/certs/a.crt\"") && text.contains("\"/certs/a.key\""), "{text}");
    }

    #[test]
    fn webhooks_have_a_port_and_files() {
        let options = |text: &str| format!("{:?}", flags(text).options("test", "id").webhooks);
        assert!(options("").contains("Port(9443)"), "{}", options(""));
        assert!(options("--enable-webhooks").contains("Port(9443)"));
        assert!(options("--enable-webhooks=false --webhook-bind-address=:9555").contains("At(Disabled)"));
        let text =
            options("--webhook-bind-address=127.0.0.1:1 --webhook-cert-path=/certs --webhook-cert-key=a.key");
        for part in ["At(127.0.0.1:1)", "\"/certs/tls.crt\"", "\"/certs/a.key\""] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[cfg(feature = "logging")]
    #[test]
    fn the_flags_set_levels_and_format_of_the_log() {
        let options = |text: &str| format!("{:?}", flags(text).log_options());
        let default = options("");
        assert!(default.contains("INFO") && default.contains("filter: None, format: Text"), "{default}");
        let text = options("--log-level=debug --log=my_operator=trace --log-format=json");
        for part in ["DEBUG", "my_operator", "TRACE", "format: Json"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(options("--zap-encoder=console").contains("format: Text"));
        for wrong in ["--log=my_operator=loud", "--log-format=xml"] {
            assert!(Program::try_parse_from(["program", wrong]).is_err(), "{wrong}");
        }
    }

    #[cfg(feature = "logging")]
    #[test]
    fn lines_of_the_library_are_hidden_unless_levels_are_selected() {
        let options = |text: &str, is_set_by_environment: bool| {
            let mut flags = flags(text);
            flags.default_log(is_set_by_environment);
            format!("{:?}", flags.log_options())
        };
        let hidden = options("", false);
        assert!(hidden.contains("controller_runtime") && hidden.contains("WARN"), "{hidden}");
        for (selected, is_set_by_environment) in
            [("", true), ("--log-level=debug", false), ("--log=info", false)]
        {
            let text = options(selected, is_set_by_environment);
            assert!(!text.contains("controller_runtime"), "{selected}: {text}");
        }
    }

    #[cfg(feature = "logging")]
    #[test]
    fn the_environment_selects_the_format_of_the_log() {
        use crate::logging::Format;

        for (variable, format) in [
            (None, Format::Text),
            (Some(""), Format::Text),
            (Some("text"), Format::Text),
            (Some("json"), Format::Json),
            (Some("binary"), Format::Text),
        ] {
            assert_eq!(format_of(variable), format, "{variable:?}");
        }
        assert_eq!(flags("--log-format=text").log_format, Format::Text);
        assert_eq!(flags("--zap-encoder=json").log_format, Format::Json);
    }

    #[test]
    fn levels_are_words_or_numbers() {
        for (given, expected) in [("debug", "debug"), ("1", "debug"), ("5", "trace"), ("error", "error")] {
            assert_eq!(flags(&format!("--zap-log-level={given}")).zap_log_level.to_string(), expected);
        }
        assert!(Program::try_parse_from(["program", "--zap-log-level=loud"]).is_err());
    }
}
