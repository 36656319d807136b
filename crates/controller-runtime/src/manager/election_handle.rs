//! The part of a manager in its leader election.

use std::{future::pending, sync::Arc};

use kube_clock::Clock;
use tokio::{sync::watch, task::JoinSet};
use tracing::Instrument;

use super::Manager;
use crate::{
    leader_election::{Candidate, CandidateContext, Leadership, Wish},
    recorder::Recorder,
};

/// This manager's part in a leader election, if there is one.
pub(super) struct ElectionHandle {
    pub(super) candidate: JoinSet<()>,
    pub(super) leadership: Option<watch::Receiver<Leadership>>,
    wishes: watch::Sender<Wish>,
    /// Number of candidacies, which distinguishes each from the one before.
    stood: u64,
}

impl ElectionHandle {
    pub(super) fn new(manager: &Manager, recorder: &Recorder, rng: fastrand::Rng, clock: Clock) -> Self {
        let (wishes, wished) = watch::channel(Wish::Wait);
        let mut candidate = JoinSet::new();
        let leadership = manager.shared.election.as_ref().map(|election| {
            let it = Candidate::new(
                election.options.clone(),
                CandidateContext {
                    client: election.client.clone(),
                    rng,
                    clock,
                    metrics: election.metrics.clone(),
                    recorder: recorder.named("leader-election"),
                    permit: Arc::clone(&election.issuer),
                    wishes: wished,
                },
            );
            let leadership = it.leadership();
            candidate.spawn(it.run().in_current_span());
            leadership
        });
        Self { candidate, leadership, wishes, stood: 0 }
    }

    pub(super) fn stand(&mut self) {
        self.stood += 1;
        self.wishes.send_replace(Wish::Stand(self.stood));
    }

    pub(super) fn step_down(&self, release: bool) {
        self.wishes.send_replace(Wish::StepDown { release });
    }

    pub(super) fn transitions(&self) -> Option<i32> {
        match *self.leadership.as_ref()?.borrow() {
            Leadership::Leads { transitions } => Some(transitions),
            _ => None,
        }
    }
}

/// Waits for the next change. Pending without an election, and when the election has ended.
pub(super) async fn changed(leadership: &mut Option<watch::Receiver<Leadership>>) -> Leadership {
    if let Some(leadership) = leadership
        && leadership.changed().await.is_ok()
    {
        return leadership.borrow_and_update().clone();
    }
    pending().await
}
