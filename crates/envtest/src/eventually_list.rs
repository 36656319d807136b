//! Assertion that waits for a condition on a list of objects.

use std::fmt;

use kube::{Api, api::ListParams};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Duration;

use crate::{
    Unmet,
    eventually::{as_yaml, eventually},
};

/// Number of objects that a failure prints.
const PRINTED: usize = 10;

/// Waits until `check` returns a value for the listed objects, which are sorted by namespace and name. An error of `check`
/// describes what is missing. A failure prints the first ten objects.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::Namespace;
/// use kube::{Api, api::ListParams};
/// use kube_envtest::{Environment, eventually_list};
///
/// let env = Environment::builder().start().await?;
/// let namespaces: Api<Namespace> = Api::all(env.client());
/// let ours = ListParams::default().labels("team=red");
/// eventually_list(&namespaces, &ours, Duration::from_secs(5), |found| match found {
///     [] => Ok(()),
///     found => Err(format!("there are {}", found.len())),
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The last error of `check` and the objects, once `within` has passed.
#[doc(alias = "komega.ObjectList")]
#[doc(alias = "komega.List")]
pub async fn eventually_list<K, T>(
    api: &Api<K>,
    params: &ListParams,
    within: Duration,
    mut check: impl FnMut(&[K]) -> Result<T, String>,
) -> Result<T, Unmet>
where
    K: kube::Resource + Clone + fmt::Debug + Serialize + DeserializeOwned,
{
    let mut seen = None;
    let outcome = eventually(within, async || {
        let listed = api.list(params).await;
        let list = listed.map_err(|error| format!("{} cannot be listed: {error}", api.resource_url()))?;
        check(seen.insert(list.items))
    });
    outcome.await.map_err(|unmet| Unmet { object: seen.as_deref().and_then(all_as_yaml), ..unmet })
}

/// Formats the first objects as YAML documents; `None` if there are none.
fn all_as_yaml<K: Serialize + fmt::Debug>(objects: &[K]) -> Option<String> {
    let mut documents: Vec<_> = objects.iter().take(PRINTED).map(as_yaml).collect();
    if let Some(more) = objects.len().checked_sub(PRINTED).filter(|more| *more > 0) {
        documents.push(format!("# and {more} more\n"));
    }
    (!documents.is_empty()).then(|| documents.join("---\n"))
}
