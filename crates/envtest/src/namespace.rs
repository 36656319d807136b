use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use tokio::time::Duration;

use crate::{Environment, Unmet, eventually_gone};

/// How long a namespace may take to be emptied.
const EMPTY_WITHIN: Duration = Duration::from_secs(60);

/// A namespace for one test, so that tests that share a cluster do not meet.
///
/// Dropping it leaves it in the cluster, which matters only for a cluster that outlives the test: see
/// [`TestNamespace::delete`].
pub struct TestNamespace {
    name: String,
    client: kube::Client,
}

impl Environment {
    /// Creates a namespace whose name begins with `prefix` and is nobody else's.
    ///
    /// # Errors
    ///
    /// The API server refuses it.
    pub async fn namespace(&self, prefix: &str) -> Result<TestNamespace, kube::Error> {
        let mut namespace = Namespace::default();
        namespace.metadata.generate_name = Some(format!("{prefix}-"));
        let created = Api::all(self.client()).create(&PostParams::default(), &namespace).await?;
        Ok(TestNamespace { name: created.metadata.name.unwrap_or_default(), client: self.client() })
    }
}

impl TestNamespace {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Deletes the namespace with all that is in it, and waits until it is gone: a minute at most.
    ///
    /// Something must empty namespaces for that, as every cluster does and the embedded server with
    /// [`Profile::Dev`](kube_apiserver_embedded::Profile::Dev), the default here.
    ///
    /// # Errors
    ///
    /// The API server refuses, or the namespace stays: what keeps it is in its status, which is printed.
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

/// Why a namespace is still there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeleteError {
    /// The API server refused to delete it.
    #[error("the namespace cannot be deleted")]
    Refused(#[from] kube::Error),
    /// Something keeps it.
    #[error(transparent)]
    Stays(#[from] Unmet),
}
