//! Lines about the events of a session.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_apiserver_embedded::{ApiServer, Commit};
use tokio::{
    sync::mpsc::{self, Receiver, error::TrySendError},
    time::{Instant, sleep_until},
};

use super::change_lines::{ChangeLines, FailedReconcile};

/// Maximum number of changes that wait while the session carries out a request. Further changes are dropped, and their number is reported.
const WAITING_CHANGES: usize = 16_384;

/// Reports changes of the operator's objects and their children, a line for each burst.
#[derive(Debug)]
pub struct Progress {
    changes: ChangeLines,
    started: Instant,
    commits: Receiver<(Duration, Commit)>,
    /// Number of changes that did not fit into `commits` since the last report.
    left_out: Arc<AtomicU64>,
    /// Lines that are complete and were not returned yet.
    lines: VecDeque<String>,
}

impl Progress {
    pub(super) fn new(server: &ApiServer) -> Self {
        Self::with_room_for(server, WAITING_CHANGES)
    }

    fn with_room_for(server: &ApiServer, changes: usize) -> Self {
        let (sender, commits) = mpsc::channel(changes);
        let left_out = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&left_out);
        let started = Instant::now();
        // The observer must not block, because the server calls it for each write.
        let is_first = server.observe_commits(move |commit| {
            if let Err(TrySendError::Full(_)) = sender.try_send((started.elapsed(), commit.clone())) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        debug_assert!(is_first, "a server has one session");
        Self { changes: ChangeLines::default(), started, commits, left_out, lines: VecDeque::new() }
    }

    /// Reports changes of a kind whose definition was stored before the session, so that no commit announces it.
    pub(super) fn know(&mut self, definition: &CustomResourceDefinition) {
        let (spec, names) = (&definition.spec, &definition.spec.names);
        self.changes.define(&spec.group, &names.plural, &names.kind, &spec.scope);
    }

    /// Reports a failed reconcile of the operator.
    pub(super) fn failed(&mut self, failed: &FailedReconcile) {
        // Handle pending changes first: those that led to the reconcile belong in the same line.
        while let Ok((at, commit)) = self.commits.try_recv() {
            self.lines.extend(self.changes.commit(&commit, at));
        }
        self.lines.extend(self.changes.failed(failed, self.started.elapsed()));
    }

    /// Forgets failures, because another program of the operator starts.
    pub(super) fn forget_failures(&mut self) {
        self.changes.forget_failures();
    }

    /// Waits for the next line. The kind of its object is right-aligned like the verbs of status lines. Never completes once the server is gone.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses no line.
    pub async fn next_line(&mut self) -> String {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return aligned(&line);
            }
            let left_out = self.left_out.swap(0, Ordering::Relaxed);
            if left_out > 0 {
                return format!("    ({left_out} changes were left out)");
            }
            let (started, next) = (self.started, self.changes.next());
            let quiet = async {
                match next {
                    Some(time) => sleep_until(started + time).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // Changes come before the end of a silence, which they may have ended.
                commit = self.commits.recv() => match commit {
                    Some((at, commit)) => self.lines.extend(self.changes.commit(&commit, at)),
                    None => std::future::pending().await,
                },
                () = quiet => self.lines.extend(self.changes.quiet(self.started.elapsed())),
            }
        }
    }
}

/// Right-aligns the first word of a line in a column of 12 characters, like the verbs of cargo's status lines.
fn aligned(line: &str) -> String {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    format!("{word:>12} {rest}")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, api::PostParams};
    use kube_apiserver_embedded::Options;

    use super::*;

    /// An operator that writes without a pause while the session is busy must not fill its memory.
    #[tokio::test(start_paused = true)]
    async fn changes_beyond_the_queue_are_counted() {
        let server = ApiServer::start(Options::default());
        let mut progress = Progress::with_room_for(&server, 2);
        let maps: Api<ConfigMap> = Api::default_namespaced(kube::Client::new(server.service(), "default"));
        for number in 0..5 {
            let mut map = ConfigMap::default();
            map.metadata.name = Some(format!("map-{number}"));
            maps.create(&PostParams::default(), &map).await.expect("a ConfigMap");
        }
        let line = progress.next_line().await;
        let count =
            line.trim_start().strip_prefix('(').and_then(|rest| rest.strip_suffix(" changes were left out)"));
        let count: u64 = count.expect("a line with a number").parse().expect("a number");
        // The server itself may write as well.
        assert!(count >= 3, "{line}");
        assert_eq!(progress.commits.len(), 2);
    }
}
