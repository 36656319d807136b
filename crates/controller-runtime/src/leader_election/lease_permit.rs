//! Permit to write, which ends before another process can get it.

use tokio::time::Instant;

use crate::ordered_watch;

/// Permit to write while the process leads.
///
/// It ends at the time set by the last renewal, even if no task runs then.
#[derive(Debug, Clone)]
pub(crate) struct LeasePermit {
    until: ordered_watch::Receiver<Option<Instant>>,
}

/// Grants and revokes a [`LeasePermit`].
#[derive(Debug)]
pub(crate) struct LeasePermitIssuer {
    until: ordered_watch::Sender<Option<Instant>>,
}

impl LeasePermitIssuer {
    pub(crate) fn new() -> Self {
        Self { until: ordered_watch::Sender::new(None) }
    }

    pub(crate) fn permit(&self) -> LeasePermit {
        LeasePermit { until: self.until.subscribe() }
    }

    pub(super) fn grant(&self, until: Instant) {
        self.until.send_replace(Some(until));
    }

    pub(super) fn revoke(&self) {
        self.until.send_replace(None);
    }
}

impl LeasePermit {
    /// Returns whether it is valid now.
    pub(crate) fn is_valid(&self) -> bool {
        self.until.borrow().is_some_and(|until| Instant::now() < until)
    }

    /// Waits until it is no longer valid.
    pub(crate) async fn ended(mut self) {
        loop {
            let until = *self.until.borrow_and_update();
            let Some(until) = until.filter(|until| Instant::now() < *until) else { return };
            tokio::select! {
                // A renewal at the last moment counts.
                biased;
                changed = self.until.changed() => {
                    if changed.is_err() {
                        // The issuer was dropped, so the permit is not renewed: it lasts until its granted end.
                        tokio::time::sleep_until(until).await;
                        return;
                    }
                }
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }
}
