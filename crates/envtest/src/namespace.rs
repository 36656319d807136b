//! Namespaces for single tests on a shared cluster.

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use tokio::time::Duration;

use crate::{Environment, Unmet, eventually_gone};

/// Time limit for emptying a namespace.
const EMPTY_WITHIN: Duration = Duration::from_secs(60);

/// A namespace for one test, so that tests on a shared cluster do not interfere.
///
/// Dropping it leaves the namespace in the cluster. On a cluster that outlives the test, call [`TestNamespace::delete`].
pub struct TestNamespace {
    name: String,
    client: kube::Client,
}

impl Environment {
    /// Creates a namespace with a unique name that begins with `prefix`. On an existing cluster, webhooks that the environment
    /// installs are called for such namespaces only.
    ///
    /// # Errors
    ///
    /// The API server rejects the namespace.
    pub async fn namespace(&self, prefix: &str) -> Result<TestNamespace, kube::Error> {
        let mut namespace = Namespace::default();
        namespace.metadata.generate_name = Some(format!("{prefix}-"));
        // In a shared cluster the webhooks of this environment are called only for namespaces with its label.
        if let Some((label, id)) = self.webhooks().namespace_label() {
            namespace.metadata.labels = Some([(label.to_owned(), id.to_owned())].into());
        }
        let created = Api::all(self.client()).create(&PostParams::default(), &namespace).await?;
        Ok(TestNamespace { name: created.metadata.name.unwrap_or_default(), client: self.client() })
    }
}

impl TestNamespace {
    /// Name of the namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Deletes the namespace with its contents, and waits up to a minute until it is gone.
    ///
    /// This requires a controller that empties namespaces. Every real cluster has one, and so has the embedded server with
    /// [`Profile::Dev`](kube_apiserver_embedded::Profile::Dev), the default here.
    ///
    /// # Errors
    ///
    /// The API server rejects the deletion, or the namespace remains. The error prints its status, which names the reason.
    pub async fn delete(self) -> Result<(), DeleteError> {
        let namespaces: Api<Namespace> = Api::all(self.client);
        namespaces.delete(&self.name, &DeleteParams::default()).await?;
        Ok(eventually_gone(&namespaces, &self.name, EMPTY_WITHIN).await?)
    }
}

impl std::fmt::Debug for TestNamespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TestNamespace").field(&self.name).finish()
    }
}

/// Failure to delete a namespace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeleteError {
    /// The API server rejected the deletion.
    #[error("the API server refused to delete the namespace of the test")]
    Refused(#[from] kube::Error),
    /// The namespace still exists after a minute.
    #[error(transparent)]
    Stays(#[from] Unmet),
}
