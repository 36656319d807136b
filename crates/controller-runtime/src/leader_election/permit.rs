//! Leave to write, which ends before anybody else can get it.

use tokio::{sync::watch, time::Instant};

/// Leave to write while the process leads.
///
/// It ends at the moment that a renewal has set, whether or not anybody takes notice: no task has to run for that.
#[derive(Debug, Clone)]
pub(crate) struct Permit {
    until: watch::Receiver<Option<Instant>>,
}

/// What grants a [`Permit`] and takes it back.
#[derive(Debug)]
pub(crate) struct Issuer {
    until: watch::Sender<Option<Instant>>,
}

impl Issuer {
    pub(crate) fn new() -> Self {
        Self { until: watch::Sender::new(None) }
    }

    pub(crate) fn permit(&self) -> Permit {
        Permit { until: self.until.subscribe() }
    }

    pub(super) fn grant(&self, until: Instant) {
        self.until.send_replace(Some(until));
    }

    pub(super) fn revoke(&self) {
        self.until.send_replace(None);
    }
}

impl Permit {
    /// Whether it is valid now.
    pub(crate) fn is_valid(&self) -> bool {
        self.until.borrow().is_some_and(|until| Instant::now() < until)
    }

    /// Waits until it is no longer valid.
    pub(crate) async fn ended(mut self) {
        loop {
            let until = *self.until.borrow_and_update();
            let Some(until) = until.filter(|until| Instant::now() < *until) else { return };
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                changed = self.until.changed() => {
                    if changed.is_err() {
                        // Nobody renews it any more: it lasts as long as was granted.
                        tokio::time::sleep_until(until).await;
                        return;
                    }
                }
            }
        }
    }
}
