//! Retries after conflicts.

use std::{future::Future, time::Duration};

use tokio::time::sleep;

use crate::client::transport::{client::Client, error::ClientError};

/// Number of attempts when there are conflicts: client-go's `DefaultRetry`.
pub(in crate::client) const ATTEMPTS: u32 = 5;

/// Wait between two attempts. Up to a tenth is added at random, so that two clients do not conflict again.
const WAIT: Duration = Duration::from_millis(10);

impl Client {
    /// Calls `attempt` until it succeeds or fails with an error other than a conflict: at most five times, with 10 to 11 ms
    /// between attempts, as client-go's `DefaultRetry`.
    ///
    /// Use it for changes that depend on the current state, and read the object in each attempt. Changes that do not depend on
    /// it need no retry: use an apply, or a patch without a version.
    ///
    /// ```no_run
    /// # use controller_runtime::{Client, ClientError, ObjectKey};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn example(client: Client, key: ObjectKey<ConfigMap>) -> Result<(), ClientError> {
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
    /// The error of the last attempt.
    #[doc(alias = "RetryOnConflict")]
    pub async fn retry_on_conflict<T, Fut>(&self, mut attempt: impl FnMut() -> Fut) -> Result<T, ClientError>
    where
        Fut: Future<Output = Result<T, ClientError>>,
    {
        for _ in 1..ATTEMPTS {
            match attempt().await {
                Err(error) if error.is_conflict() => self.pause().await,
                outcome => return outcome,
            }
        }
        attempt().await
    }

    /// Waits between two attempts.
    pub(in crate::client) async fn pause(&self) {
        let more = self.settings().rng.lock().f64() / 10.0;
        sleep(WAIT.mul_f64(1.0 + more)).await;
    }
}
