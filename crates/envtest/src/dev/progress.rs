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
    commits: Receiver<QueuedChange>,
    /// Number of changes that did not fit into `commits` after the last one in it.
    left_out: Arc<AtomicU64>,
    /// Lines that are complete and were not returned yet.
    lines: VecDeque<String>,
}

/// A change that waits while the session carries out a request.
struct QueuedChange {
    at: Duration,
    commit: Commit,
    /// Number of changes that did not fit into the queue before this one.
    left_out: u64,
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
            match sender.try_reserve() {
                Ok(place) => {
                    // The count goes with the next change, so that its line stands where changes are missing.
                    let left_out = counter.swap(0, Ordering::Relaxed);
                    place.send(QueuedChange { at: started.elapsed(), commit: commit.clone(), left_out });
                }
                Err(TrySendError::Full(())) => {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
                // The session has ended.
                Err(TrySendError::Closed(())) => {}
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
        while let Ok(change) = self.commits.try_recv() {
            self.changed(&change);
        }
        self.report_left_out();
        let line = self.changes.failed(failed, self.started.elapsed());
        self.lines.extend(line.as_deref().map(aligned));
    }

    /// Adds the lines that a change completes.
    fn changed(&mut self, change: &QueuedChange) {
        let QueuedChange { at, commit, left_out } = change;
        if *left_out > 0 {
            self.lines.push_back(left_out_line(*left_out));
        }
        let line = self.changes.commit(commit, *at);
        self.lines.extend(line.as_deref().map(aligned));
    }

    /// Adds a line about the changes that were left out, if the queue is empty: changes in it came before them.
    fn report_left_out(&mut self) {
        if !self.commits.is_empty() {
            return;
        }
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            self.lines.push_back(left_out_line(left_out));
        }
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
            if self.lines.is_empty() {
                self.report_left_out();
            }
            if let Some(line) = self.lines.pop_front() {
                return line;
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
                    Some(change) => self.changed(&change),
                    None => std::future::pending().await,
                },
                () = quiet => {
                    let lines = self.changes.quiet(self.started.elapsed());
                    self.lines.extend(lines.iter().map(|line| aligned(line)));
                }
            }
        }
    }
}

/// Line about changes that were left out.
fn left_out_line(count: u64) -> String {
    format!("    ({count} changes were left out)")
}

/// Right-aligns the first word of a line in a column of 12 characters, like the verbs of cargo's status lines.
fn aligned(line: &str) -> String {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    format!("{word:>12} {rest}")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{
        Api,
        api::{DeleteParams, PostParams},
    };
    use kube_apiserver_embedded::Options;

    use super::*;

    fn map(number: usize) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(format!("map-{number}"));
        map
    }

    /// Number in a line about changes that were left out.
    fn left_out(line: &str) -> u64 {
        let count =
            line.trim_start().strip_prefix('(').and_then(|rest| rest.strip_suffix(" changes were left out)"));
        count.expect("a line with a number").parse().expect("a number")
    }

    /// An operator that writes without a pause while the session is busy must not fill its memory.
    #[tokio::test(start_paused = true)]
    async fn changes_beyond_the_queue_are_counted() {
        let server = ApiServer::start(Options::default());
        let mut progress = Progress::with_room_for(&server, 2);
        let maps: Api<ConfigMap> = Api::default_namespaced(kube::Client::new(server.service(), "default"));
        for number in 0..5 {
            maps.create(&PostParams::default(), &map(number)).await.expect("a ConfigMap");
        }
        assert_eq!(progress.commits.len(), 2);
        let line = progress.next_line().await;
        // The server itself may write as well.
        assert!(left_out(&line) >= 3, "{line}");
    }

    #[tokio::test(start_paused = true)]
    async fn changes_that_are_left_out_are_reported_after_those_before_them() {
        let server = ApiServer::start(Options::default());
        // The server itself writes as well, less than fits.
        let mut progress = Progress::with_room_for(&server, 100);
        progress.changes.define("", "configmaps", "Map", "Namespaced");
        let maps: Api<ConfigMap> = Api::default_namespaced(kube::Client::new(server.service(), "default"));
        maps.create(&PostParams::default(), &map(0)).await.expect("a ConfigMap");
        maps.delete("map-0", &DeleteParams::default()).await.expect("a deletion");
        for number in 1..200 {
            maps.create(&PostParams::default(), &map(number)).await.expect("a ConfigMap");
        }
        let line = progress.next_line().await;
        assert!(line.contains("default/map-0  created → deleted"), "{line}");
        assert!(left_out(&progress.next_line().await) >= 100);
        // The queue has room for later changes again.
        maps.delete("map-1", &DeleteParams::default()).await.expect("a deletion");
        let line = progress.next_line().await;
        assert!(line.contains("default/map-1  created → deleted"), "{line}");
    }
}
