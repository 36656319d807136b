use std::{future::Future, time::Duration};

use tokio::time::sleep;

use super::{Client, Error};

/// How often something that meets conflicts is tried: client-go's `DefaultRetry`.
pub(super) const ATTEMPTS: u32 = 5;

/// The wait between two attempts; up to a tenth more at random, so that two that met do not meet again.
const WAIT: Duration = Duration::from_millis(10);

impl Client {
    /// Calls `attempt` until it succeeds or fails with something other than a conflict: five times at most, with 10 ms
    /// and up to a tenth more in between. These are the figures of client-go's `DefaultRetry`.
    ///
    /// For changes that depend on what the object is now, so each attempt must read it. Where they do not, apply or a patch
    /// without a version needs no retry.
    ///
    /// ```no_run
    /// # use controller_runtime::{Client, ObjectKey, client::Error};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn example(client: Client, key: ObjectKey<ConfigMap>) -> Result<(), Error> {
    /// let counted = client.retry_on_conflict(|| async {
    ///     let Some(mut map) = client.get(&key).await? else { return Ok(None) };
    ///     let data = map.data.get_or_insert_default();
    ///     let visits: u32 = data.get("visits").and_then(|text| text.parse().ok()).unwrap_or(0);
    ///     data.insert("visits".to_owned(), (visits + 1).to_string());
    ///     client.update(&map).await.map(Some)
    /// });
    /// let _: Option<ConfigMap> = counted.await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the last attempt failed with.
    #[doc(alias = "RetryOnConflict")]
    pub async fn retry_on_conflict<T, Fut>(&self, mut attempt: impl FnMut() -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, Error>>,
    {
        for _ in 1..ATTEMPTS {
            match attempt().await {
                Err(error) if error.is_conflict() => self.pause().await,
                outcome => return outcome,
            }
        }
        attempt().await
    }

    /// The wait between two attempts.
    pub(super) async fn pause(&self) {
        let more = self.settings().rng.lock().f64() / 10.0;
        sleep(WAIT.mul_f64(1.0 + more)).await;
    }
}
