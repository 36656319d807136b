//! Lines about the events of a session.

use std::{collections::VecDeque, time::Duration};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_apiserver_embedded::{ApiServer, Commit};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    time::{Instant, sleep_until},
};

use super::change_lines::{ChangeLines, FailedReconcile};

/// Reports changes of the operator's objects and their children, a line for each burst.
#[derive(Debug)]
pub struct Progress {
    changes: ChangeLines,
    started: Instant,
    commits: UnboundedReceiver<(Duration, Commit)>,
    /// Lines that are complete and were not returned yet.
    lines: VecDeque<String>,
}

impl Progress {
    pub(super) fn new(server: &ApiServer) -> Self {
        let (sender, commits) = mpsc::unbounded_channel();
        let started = Instant::now();
        let is_first = server.observe_commits(move |commit| {
            // The send fails if the receiver is dropped before the server.
            let _ = sender.send((started.elapsed(), commit.clone()));
        });
        debug_assert!(is_first, "a server has one session");
        Self { changes: ChangeLines::default(), started, commits, lines: VecDeque::new() }
    }

    /// Reports changes of the kind of a definition that the server has already: no commit announces it.
    pub(super) fn know(&mut self, definition: &CustomResourceDefinition) {
        let (spec, names) = (&definition.spec, &definition.spec.names);
        self.changes.define(&spec.group, &names.plural, &names.kind, &spec.scope);
    }

    /// Reports a failed reconcile of the operator.
    pub(super) fn failed(&mut self, failed: &FailedReconcile) {
        // The changes that led to the reconcile are in the same line.
        while let Ok((at, commit)) = self.commits.try_recv() {
            self.lines.extend(self.changes.commit(&commit, at));
        }
        self.lines.extend(self.changes.failed(failed, self.started.elapsed()));
    }

    /// Forgets failures, because another program of the operator starts.
    pub(super) fn forget_failures(&mut self) {
        self.changes.forget_failures();
    }

    /// Waits for the next line. Never completes once the server is gone.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses no line.
    pub async fn next_line(&mut self) -> String {
        loop {
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
                commit = self.commits.recv() => match commit {
                    Some((at, commit)) => self.lines.extend(self.changes.commit(&commit, at)),
                    None => std::future::pending().await,
                },
                () = quiet => self.lines.extend(self.changes.quiet(self.started.elapsed())),
            }
        }
    }
}
