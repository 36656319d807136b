//! Locations of the etcd and kube-apiserver binaries, and options for running them.

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

/// Default folder of Go's envtest.
const DEFAULT_FOLDER: &str = "/usr/local/kubebuilder/bin";

/// Default start and stop timeout of Go's envtest.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Binaries of a control plane, and options for running them.
///
/// The environment variables are those of Go's envtest:
///
/// | variable | meaning |
/// |---|---|
/// | `KUBEBUILDER_ASSETS` | folder with `etcd` and `kube-apiserver`; default `/usr/local/kubebuilder/bin` |
/// | `TEST_ASSET_ETCD`, `TEST_ASSET_KUBE_APISERVER` | path of one binary, instead of that in the folder |
/// | `KUBEBUILDER_CONTROLPLANE_START_TIMEOUT`, `…_STOP_TIMEOUT` | durations such as `20s`, the default |
/// | `KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT` | `true` forwards the output of the processes to that of the test |
/// | `TEST_ASSET_KUBECTL` | path returned by [`Assets::kubectl`]; not used by this crate |
///
/// `setup-envtest use -p path` prints a suitable folder. An empty variable counts as unset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assets {
    pub(super) etcd: PathBuf,
    pub(super) api_server: PathBuf,
    kubectl: Option<PathBuf>,
    pub(super) api_server_flags: Vec<String>,
    pub(super) start_timeout: Duration,
    pub(super) stop_timeout: Duration,
    pub(super) attach_output: bool,
}

/// Reason why the binaries of a control plane cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AssetsError {
    /// A binary does not exist.
    #[error("{} does not exist: set KUBEBUILDER_ASSETS to the folder with etcd and kube-apiserver, or {variable} to the path of this binary", path.display())]
    Missing {
        /// Path that was searched.
        path: PathBuf,
        /// Variable that can name another path.
        variable: &'static str,
    },
    /// An environment variable has an invalid value.
    #[error("invalid {variable}={value}: expected {expected}")]
    Value {
        /// Name of the variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// Description of valid values.
        expected: &'static str,
    },
}

impl Assets {
    /// Uses the binaries in a folder.
    ///
    /// # Errors
    ///
    /// A binary does not exist.
    pub fn in_folder(folder: impl AsRef<Path>) -> Result<Self, AssetsError> {
        let folder = folder.as_ref().to_str().map(ToOwned::to_owned);
        Self::find(&|variable| folder.clone().filter(|_| variable == "KUBEBUILDER_ASSETS"))
    }

    /// Uses the binaries that the environment variables name.
    ///
    /// # Errors
    ///
    /// A binary does not exist, or a variable has an invalid value.
    pub fn from_env() -> Result<Self, AssetsError> {
        Self::find(&|variable| env::var(variable).ok())
    }

    /// Returns whether the environment variables name binaries, so that a test can be skipped otherwise.
    #[must_use]
    pub fn are_configured() -> bool {
        Self::are_configured_by(&|variable| env::var(variable).ok())
    }

    pub(crate) fn are_configured_by(variable: &dyn Fn(&str) -> Option<String>) -> bool {
        let variables = ["KUBEBUILDER_ASSETS", "TEST_ASSET_ETCD", "TEST_ASSET_KUBE_APISERVER"];
        variables.iter().any(|name| variable(name).is_some_and(|path| !path.is_empty()))
    }

    fn find(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, AssetsError> {
        // CI systems often set a variable to an empty text where they mean to leave it unset.
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let path = |name: &str| variable(name).map(PathBuf::from);
        let folder = path("KUBEBUILDER_ASSETS").unwrap_or_else(|| PathBuf::from(DEFAULT_FOLDER));
        let binary = |name: &str, own: &'static str| {
            let path = path(own).unwrap_or_else(|| folder.join(name));
            if path.is_file() { Ok(path) } else { Err(AssetsError::Missing { path, variable: own }) }
        };
        let kubectl = "TEST_ASSET_KUBECTL";
        let kubectl = match binary("kubectl", kubectl) {
            // No test needs kubectl, so it may be missing, but not if a variable names its path.
            Err(missing) if path(kubectl).is_some() => return Err(missing),
            kubectl => kubectl.ok(),
        };
        let timeout = |name: &'static str| match variable(name) {
            None => Ok(TIMEOUT),
            Some(value) => value.parse::<kube::core::Duration>().map(Duration::from).map_err(|_| {
                AssetsError::Value { variable: name, value, expected: "a duration such as 20s or 1m30s" }
            }),
        };
        let attach = "KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT";
        let attach_output = match variable(attach).as_deref() {
            None | Some("false" | "0") => false,
            Some("true" | "1") => true,
            Some(value) => {
                let (value, expected) = (value.to_owned(), "true or false");
                return Err(AssetsError::Value { variable: attach, value, expected });
            }
        };
        Ok(Self {
            etcd: binary("etcd", "TEST_ASSET_ETCD")?,
            api_server: binary("kube-apiserver", "TEST_ASSET_KUBE_APISERVER")?,
            kubectl,
            api_server_flags: Vec::new(),
            start_timeout: timeout("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT")?,
            stop_timeout: timeout("KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT")?,
            attach_output,
        })
    }

    /// Time for both processes together to become ready. Default: 20 s.
    #[must_use]
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// Time for both processes together to exit after SIGTERM, before they are killed. Default: 20 s.
    #[must_use]
    pub fn stop_timeout(mut self, timeout: Duration) -> Self {
        self.stop_timeout = timeout;
        self
    }

    /// Forwards the output of both processes to that of the test. Errors then do not quote it. Default: off.
    #[must_use]
    #[doc(alias = "AttachControlPlaneOutput")]
    pub fn attach_output(mut self) -> Self {
        self.attach_output = true;
        self
    }

    /// Adds an argument for kube-apiserver, such as `--feature-gates=WatchList=true`. It follows the built-in arguments; of a
    /// repeated flag kube-apiserver uses the last value.
    #[must_use]
    #[doc(alias = "APIServer.Configure")]
    pub fn api_server_flag(mut self, flag: impl Into<String>) -> Self {
        self.api_server_flags.push(flag.into());
        self
    }

    /// Path of `kubectl`, if it exists. Use it with [`Environment::kubeconfig`](crate::Environment::kubeconfig).
    #[must_use]
    #[doc(alias = "KubectlPath")]
    pub fn kubectl(&self) -> Option<&Path> {
        self.kubectl.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn find(folder: &Path, more: &[(&str, &str)]) -> Result<Assets, AssetsError> {
        let folder = folder.display().to_string();
        let more: Vec<(String, String)> =
            more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Assets::find(&|variable| match variable {
            "KUBEBUILDER_ASSETS" => Some(folder.clone()),
            _ => more.iter().find(|(name, _)| name == variable).map(|(_, value)| value.clone()),
        })
    }

    #[test]
    fn binaries_are_in_the_folder_or_at_the_path_of_their_variable() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("etcd"), "").unwrap();
        fs::write(folder.path().join("mine"), "").unwrap();
        let missing = find(folder.path(), &[]).unwrap_err();
        let text = missing.to_string();
        assert!(
            text.contains("kube-apiserver does not exist") && text.contains("TEST_ASSET_KUBE_APISERVER"),
            "{text}"
        );

        let mine = folder.path().join("mine").display().to_string();
        let found = find(folder.path(), &[("TEST_ASSET_KUBE_APISERVER", &mine)]).unwrap();
        assert_eq!(found.api_server, folder.path().join("mine"));
        assert_eq!(found.etcd, folder.path().join("etcd"));
        assert_eq!((found.start_timeout, found.stop_timeout), (TIMEOUT, TIMEOUT));
        assert!(!found.attach_output);
    }

    #[test]
    fn kubectl_is_optional_unless_a_variable_names_it() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["etcd", "kube-apiserver", "mine"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let own = "TEST_ASSET_KUBECTL";
        assert_eq!(find(folder.path(), &[]).unwrap().kubectl(), None);
        assert_eq!(find(folder.path(), &[(own, "")]).unwrap().kubectl(), None);
        let mine = folder.path().join("mine");
        let found = find(folder.path(), &[(own, &mine.display().to_string())]).unwrap();
        assert_eq!(found.kubectl(), Some(&*mine));
        let missing = find(folder.path(), &[(own, "/nowhere/kubectl")]).unwrap_err().to_string();
        assert!(missing.starts_with("/nowhere/kubectl does not exist") && missing.contains(own), "{missing}");
        fs::write(folder.path().join("kubectl"), "").unwrap();
        assert_eq!(find(folder.path(), &[]).unwrap().kubectl(), Some(&*folder.path().join("kubectl")));
    }

    #[test]
    fn timeouts_are_written_as_in_go() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("etcd"), "").unwrap();
        fs::write(folder.path().join("kube-apiserver"), "").unwrap();
        let start = "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT";
        let found =
            find(folder.path(), &[(start, "1m30s"), ("KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT", "true")]);
        let found = found.unwrap();
        assert_eq!(found.start_timeout, Duration::from_secs(90));
        assert!(found.attach_output);
        // As in Go, an empty variable is an unset one.
        let attach = "KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT";
        let empty = [(start, ""), ("KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT", ""), (attach, "")];
        assert_eq!(find(folder.path(), &empty), find(folder.path(), &[]));
        let wrong = find(folder.path(), &[(start, "soon")]).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            format!("invalid {start}=soon: expected a duration such as 20s or 1m30s")
        );
    }
}
