use std::{error::Error, ffi::OsStr, path::Path};

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

/// Which cluster to reach, and as whom: what the file `kubeconfig` says, otherwise `$KUBECONFIG`, otherwise the service account
/// of the pod, otherwise `~/.kube/config`, as in controller-runtime. ([`kube::Config::infer`] takes `~/.kube/config` before the
/// service account.) `context` is one of the kubeconfig, instead of its current one; a service account has none.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use controller_runtime::{Manager, client::get_config, manager::Options};
///
/// let config = get_config(None, Some("staging")).await?;
/// let manager = Manager::from_config(config, Options::new("guestbook-operator"))?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The kubeconfig cannot be read or used, or lacks the context. Where nothing names one and this is no pod, it is
/// `~/.kube/config`.
#[doc(alias = "GetConfig")]
#[doc(alias = "GetConfigWithContext")]
pub async fn get_config(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<kube::Config, KubeconfigError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    if let Some(file) = kubeconfig {
        return kube::Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await;
    }
    let named = std::env::var_os("KUBECONFIG");
    if let Some(config) = of_pod(named.as_deref(), kube::Config::incluster) {
        return Ok(config);
    }
    kube::Config::from_kubeconfig(&options).await
}

/// What the pod's service account says, if there is one and `$KUBECONFIG` is not `named`.
fn of_pod<E: Error>(
    named: Option<&OsStr>,
    in_cluster: impl FnOnce() -> Result<kube::Config, E>,
) -> Option<kube::Config> {
    if named.is_some_and(|named| !named.is_empty()) {
        return None;
    }
    let config = in_cluster();
    config.inspect_err(|error| tracing::debug!("there is no service account of a pod: {error}")).ok()
}

#[cfg(test)]
mod tests {
    use std::{fs, io};

    use super::*;

    #[test]
    fn a_service_account_is_taken_unless_the_environment_names_a_kubeconfig() {
        let account = || Ok::<_, io::Error>(kube::Config::new(http::Uri::from_static("https://10.96.0.1")));
        assert!(of_pod(None, account).is_some());
        assert!(of_pod(Some(OsStr::new("")), account).is_some());
        assert!(of_pod(Some(OsStr::new("/some/file")), account).is_none());
        assert!(of_pod(None, || Err(io::Error::other("no"))).is_none());
    }

    #[tokio::test]
    async fn the_given_file_goes_before_all_and_has_contexts() {
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
        fs::write(&file, text).expect("a file");
        for (context, expected) in [(None, "one"), (Some("two"), "two")] {
            let config = get_config(Some(&file), context).await.expect("it can be used");
            assert_eq!(config.cluster_url.host(), Some(expected));
        }
        let error = get_config(Some(&file), Some("three")).await.expect_err("there are two");
        assert!(error.to_string().contains("three"), "{error}");
    }
}
