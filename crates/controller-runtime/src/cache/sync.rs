//! Whether the caches of a manager know the present, and what to tell if they do not.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use tokio::time::{sleep, timeout};

use super::{MissingRight, informer::AnyInformer, registry::Cache, status::Status};

/// How long the first refusal is kept back, because others come at the same time.
const TOGETHER: Duration = Duration::from_millis(500);

/// Why the informers do not know the present.
#[derive(Debug)]
pub(crate) enum NotSynced {
    /// The operator lacks rights, and waiting will not help.
    Forbidden(Vec<MissingRight>),
    /// It takes too long.
    Late { resource: String, reason: String },
}

impl Cache {
    /// Waits until every informer knows the present.
    ///
    /// # Errors
    ///
    /// Some of them may not, whatever the others do; or one does not, within `limit`.
    pub(crate) async fn synced(&self, limit: Duration) -> Result<(), NotSynced> {
        let informers = self.informers();
        let decided = informers.iter().enumerate().map(|(place, informer)| {
            let mut status = informer.status();
            // The status that ends the wait is the one that counts: it may have changed since.
            async move { (place, status.wait_for(Status::is_decided).await.map(|status| status.clone())) }
        });
        let mut decided: FuturesUnordered<_> = decided.collect();
        let refused = async {
            while let Some((place, status)) = decided.next().await {
                // The sender lives in the informer. Who may list and not watch knows the present, and no more than that.
                if let Ok(status) = status
                    && status.forbidden().next().is_some()
                {
                    return Some((place, status));
                }
            }
            None
        };
        match timeout(limit, refused).await {
            Ok(None) => Ok(()),
            Ok(Some((place, refused))) => {
                sleep(TOGETHER).await;
                // Several Rust types of one kind lack the same.
                let missing: BTreeSet<_> = informers
                    .iter()
                    .enumerate()
                    .flat_map(|(other, informer)| {
                        let now = missing_rights(&**informer, &informer.status().borrow());
                        match other == place && now.is_empty() {
                            true => missing_rights(&**informer, &refused),
                            false => now,
                        }
                    })
                    .collect();
                Err(NotSynced::Forbidden(missing.into_iter().collect()))
            }
            Err(_) => late(&informers).map_or(Ok(()), Err),
        }
    }

    /// What is wrong with the first cache that does not know the present, or has not been kept up to date for longer than
    /// `limit`.
    pub(crate) fn problem(&self, limit: Option<Duration>) -> Option<String> {
        self.informers().iter().find_map(|informer| {
            let status = informer.status().borrow().clone();
            let resource = informer.resource();
            let trouble = status.trouble().map_or_else(String::new, |trouble| format!(": {trouble}"));
            if !status.synced {
                return Some(format!("the cache of {resource} is not complete{trouble}"));
            }
            let age = status.in_trouble_since()?.elapsed();
            let stale = || format!("the cache of {resource} was up to date {} s ago{trouble}", age.as_secs());
            limit.is_some_and(|limit| age > limit).then(stale)
        })
    }
}

/// The rights that an informer lacks.
pub(super) fn missing_rights(informer: &dyn AnyInformer, status: &Status) -> Vec<MissingRight> {
    let of = |rule: &str| MissingRight { resource: informer.resource(), rule: rule.to_owned() };
    status.forbidden().map(of).collect()
}

/// The first informer that is late, before all others one of which it is known why.
fn late(informers: &[Arc<dyn AnyInformer>]) -> Option<NotSynced> {
    let late = informers.iter().filter_map(|informer| {
        let status = informer.status().borrow().clone();
        (!status.synced).then(|| (informer.resource(), status.trouble()))
    });
    let (resource, reason) = late.min_by_key(|(_, trouble)| trouble.is_none())?;
    let reason = reason.unwrap_or_else(|| "the API server has not answered yet".to_owned());
    Some(NotSynced::Late { resource, reason })
}
