//! Configuration of the connection to a cluster: from a kubeconfig, or from the service account of the pod.

use std::{
    error::Error,
    ffi::{OsStr, OsString},
    fmt,
    path::{Path, PathBuf},
};

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::error::innermost;

/// Loads the address and credentials of a cluster: from the file `kubeconfig` if given, otherwise from `$KUBECONFIG`, otherwise
/// from the service account of the pod, otherwise from `~/.kube/config`, as in controller-runtime. ([`kube::Config::infer`]
/// takes `~/.kube/config` before the service account.) `context` selects a context of the kubeconfig instead of its current
/// one; it does not apply to a service account.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use controller_runtime::{Manager, ManagerOptions, client::get_config};
///
/// let config = get_config(None, Some("staging")).await?;
/// let manager = Manager::from_config(config, ManagerOptions::new("guestbook-operator"))?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The kubeconfig cannot be read or used, or lacks the context. If no file is named and the process does not run in a pod, the
/// kubeconfig is `~/.kube/config`. The error names the file and the contexts in it.
#[doc(alias = "GetConfig")]
#[doc(alias = "GetConfigWithContext")]
pub async fn get_config(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<kube::Config, ConfigError> {
    let named = named_by_environment();
    if kubeconfig.is_none()
        && let Some(config) = of_pod(named.as_deref(), kube::Config::incluster)
    {
        return Ok(config);
    }
    let (origin, read) = match (kubeconfig, named) {
        (Some(file), _) => (ConfigSource::File(file.to_owned()), Kubeconfig::read_from(file)),
        (None, Some(files)) => (ConfigSource::Environment(files), Kubeconfig::read()),
        (None, None) => (ConfigSource::Home, Kubeconfig::read()),
    };
    let kubeconfig = match read {
        Ok(kubeconfig) => kubeconfig,
        Err(source) => {
            return Err(ConfigError { origin, problem: ConfigProblem::Unreadable(Box::new(source)) });
        }
    };
    let mut contexts: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    contexts.sort_unstable();
    // Checked here, so that the error can name the contexts of the file.
    let chosen = context.map(str::to_owned).or_else(|| kubeconfig.current_context.clone());
    let missing = |wanted| ConfigError {
        origin: origin.clone(),
        problem: ConfigProblem::NoContext { wanted, contexts: contexts.clone() },
    };
    match &chosen {
        None => return Err(missing(None)),
        Some(name) if name.is_empty() => return Err(missing(None)),
        Some(name) if !contexts.contains(name) => return Err(missing(Some(name.clone()))),
        Some(_) => {}
    }
    let options = KubeConfigOptions { context: chosen, ..KubeConfigOptions::default() };
    kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|source| ConfigError { origin, problem: ConfigProblem::Unreadable(Box::new(source)) })
}

/// Returns whether [`get_config`] would load the service account of the pod. Then the process runs in the cluster that it connects to.
#[cfg(feature = "clap")]
pub(crate) fn runs_in_pod(kubeconfig: Option<&Path>) -> bool {
    kubeconfig.is_none() && of_pod(named_by_environment().as_deref(), kube::Config::incluster).is_some()
}

/// Kubeconfig files that `$KUBECONFIG` names.
fn named_by_environment() -> Option<OsString> {
    std::env::var_os("KUBECONFIG").filter(|named| !named.is_empty())
}

/// Error of [`get_config`]: there is no configuration of a cluster, or none that can be used.
///
/// The message names the kubeconfig, the problem and the remedy, in one line.
pub struct ConfigError {
    origin: ConfigSource,
    problem: ConfigProblem,
}

/// Source of a configuration.
#[derive(Clone)]
enum ConfigSource {
    File(PathBuf),
    /// One or several files named by `$KUBECONFIG`.
    Environment(OsString),
    /// `~/.kube/config`
    Home,
    /// A configuration that was loaded before.
    #[cfg(feature = "clap")]
    Loaded,
}

enum ConfigProblem {
    Unreadable(Box<KubeconfigError>),
    NoContext {
        /// `None` if the caller named no context and the file has no current one.
        wanted: Option<String>,
        /// Names of the contexts in the file.
        contexts: Vec<String>,
    },
    #[cfg(feature = "clap")]
    Unusable(Box<kube::Error>),
}

impl ConfigError {
    /// A configuration that cannot be used to connect.
    #[cfg(feature = "clap")]
    pub(crate) fn unusable(source: kube::Error) -> Self {
        Self { origin: ConfigSource::Loaded, problem: ConfigProblem::Unusable(Box::new(source)) }
    }
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "the kubeconfig {}", file.display()),
            Self::Environment(files) => write!(f, "the kubeconfig {} ($KUBECONFIG)", files.display()),
            Self::Home => f.write_str("the kubeconfig ~/.kube/config"),
            #[cfg(feature = "clap")]
            Self::Loaded => f.write_str("the configuration of the cluster"),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, problem } = self;
        match problem {
            ConfigProblem::Unreadable(source) => {
                // Further lines would quote the file, with tokens and keys.
                let reason = innermost(&**source).to_string();
                write!(f, "{origin} cannot be used: {}", reason.lines().next().unwrap_or_default())?;
                match &**source {
                    KubeconfigError::ReadConfig(..) | KubeconfigError::FindPath => {
                        f.write_str("; name another file with --kubeconfig or $KUBECONFIG")
                    }
                    _ => Ok(()),
                }
            }
            ConfigProblem::NoContext { wanted, contexts } => {
                match wanted {
                    Some(wanted) => write!(f, "{origin} has no context {wanted:?}")?,
                    None => write!(f, "{origin} has no current context")?,
                }
                if contexts.is_empty() {
                    return f.write_str(
                        ", nor any other context: name another file with --kubeconfig or $KUBECONFIG",
                    );
                }
                let contexts = contexts.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
                write!(
                    f,
                    "; it has {contexts}: choose one of them (`kubectl config use-context`), or name another file with --kubeconfig or $KUBECONFIG"
                )
            }
            #[cfg(feature = "clap")]
            ConfigProblem::Unusable(source) => {
                write!(f, "{origin} cannot be used: {}", innermost(&**source))
            }
        }
    }
}

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Has no `source()`: the message ends with the innermost cause.
impl Error for ConfigError {}

/// Returns the configuration of the pod's service account, if there is one and `$KUBECONFIG` (`named`) is not set.
fn of_pod<E: Error>(
    named: Option<&OsStr>,
    in_cluster: impl FnOnce() -> Result<kube::Config, E>,
) -> Option<kube::Config> {
    if named.is_some_and(|named| !named.is_empty()) {
        return None;
    }
    let config = in_cluster();
    config.inspect_err(|error| tracing::debug!("not running with the service account of a pod: {error}")).ok()
}

#[cfg(test)]
mod tests {
    use std::{fs, io};

    use super::*;

    #[test]
    fn the_service_account_is_used_unless_the_environment_names_a_kubeconfig() {
        let account = || Ok::<_, io::Error>(kube::Config::new(http::Uri::from_static("https://10.96.0.1")));
        assert!(of_pod(None, account).is_some());
        assert!(of_pod(Some(OsStr::new("")), account).is_some());
        assert!(of_pod(Some(OsStr::new("/some/file")), account).is_none());
        assert!(of_pod(None, || Err(io::Error::other("no"))).is_none());
    }

    #[tokio::test]
    async fn a_given_kubeconfig_takes_precedence_and_its_contexts_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config");
        let cluster = |name: &str| format!("{{ name: {name}, cluster: {{ server: 'https://{name}' }} }}");
        let context = |name: &str| format!("{{ name: {name}, context: {{ cluster: {name}, user: me }} }}");
        let text = format!(
            "{{ apiVersion: v1, kind: Config, current-context: one, users: [{{ name: me, user: {{}} }}],
                clusters: [{}, {}], contexts: [{}, {}] }}",
            cluster("one"),
            cluster("two"),
            context("one"),
            context("two"),
        );
        fs::write(&file, &text).expect("a file");
        for (context, expected) in [(None, "one"), (Some("two"), "two")] {
            let config = get_config(Some(&file), context).await.expect("it can be used");
            assert_eq!(config.cluster_url.host(), Some(expected));
        }
        let named = format!("the kubeconfig {}", file.display());
        let error = get_config(Some(&file), Some("three")).await.expect_err("there are two");
        let cure = "choose one of them (`kubectl config use-context`), or name another file with --kubeconfig or $KUBECONFIG";
        assert_eq!(
            error.to_string(),
            format!("{named} has no context \"three\"; it has \"one\", \"two\": {cure}")
        );

        fs::write(&file, text.replace("current-context: one,", "")).expect("a file");
        let error = get_config(Some(&file), None).await.expect_err("none is the current one");
        assert_eq!(
            error.to_string(),
            format!("{named} has no current context; it has \"one\", \"two\": {cure}")
        );

        fs::remove_file(&file).expect("it is there");
        let error = get_config(Some(&file), None).await.expect_err("there is no file");
        let reason = io::Error::from_raw_os_error(2); // ENOENT
        let cure = "name another file with --kubeconfig or $KUBECONFIG";
        assert_eq!(error.to_string(), format!("{named} cannot be used: {reason}; {cure}"));
        assert!(error.source().is_none(), "each cause is printed once");
    }
}
