//! Updates that are retried until the API server accepts them.

use std::fmt;

use kube::{Api, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::Duration;

use crate::{
    Unmet,
    eventually::{as_yaml, eventually, read_existing},
};

/// Reads an object, changes it and writes it, and starts over on a conflict, or if the object does not exist yet. Returns the
/// stored object. A failure prints the object that was to be written.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::Namespace;
/// use kube::Api;
/// use kube_envtest::{Environment, eventually_update};
///
/// let env = Environment::builder().start().await?;
/// let namespaces: Api<Namespace> = Api::all(env.client());
/// let stored = eventually_update(&namespaces, "default", Duration::from_secs(5), |namespace| {
///     namespace.metadata.labels.get_or_insert_default().insert("team".to_owned(), "red".to_owned());
/// })
/// .await?;
/// assert_eq!(stored.metadata.labels.unwrap()["team"], "red");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The last error, once `within` has passed.
#[doc(alias = "komega.Update")]
pub async fn eventually_update<K>(
    api: &Api<K>,
    name: &str,
    within: Duration,
    change: impl FnMut(&mut K),
) -> Result<K, Unmet>
where
    K: kube::Resource + Clone + fmt::Debug + Serialize + DeserializeOwned,
{
    update_with(api, name, within, change, async |object| {
        api.replace(name, &PostParams::default(), object).await
    })
    .await
}

/// Like [`eventually_update`], but writes only the status.
///
/// # Errors
///
/// The last error, once `within` has passed.
#[doc(alias = "komega.UpdateStatus")]
pub async fn eventually_update_status<K>(
    api: &Api<K>,
    name: &str,
    within: Duration,
    change: impl FnMut(&mut K),
) -> Result<K, Unmet>
where
    K: kube::Resource + Clone + fmt::Debug + Serialize + DeserializeOwned,
{
    let write =
        async |object: &K| api.replace_subresource("status", name, &PostParams::default(), object).await;
    update_with(api, name, within, change, write).await
}

/// Reads an object, changes it and writes it with `write`, until that succeeds.
async fn update_with<K>(
    api: &Api<K>,
    name: &str,
    within: Duration,
    mut change: impl FnMut(&mut K),
    mut write: impl AsyncFnMut(&K) -> Result<K, kube::Error>,
) -> Result<K, Unmet>
where
    K: kube::Resource + Clone + fmt::Debug + Serialize + DeserializeOwned,
{
    let mut changed = None;
    let outcome = eventually(within, async || {
        // Read again in each attempt, so that a conflict is resolved with the newest version.
        let mut object = read_existing(api, name).await?;
        change(&mut object);
        let object = changed.insert(object);
        write(object).await.map_err(|error| format!("{name} cannot be written: {error}"))
    });
    outcome.await.map_err(|unmet| Unmet { object: changed.as_ref().map(as_yaml), ..unmet })
}
