//! Persistence: commits are written to a file before any client observes them.
//!
//! The store stays in memory and does not know about persistence. Each commit is passed to a [`CommitJournal`] under the store's lock, and
//! therefore in order. The journal's thread writes all commits since its last transaction in the next one, so that many writers share a
//! transaction. Responses and events wait until their revision is in the file. Therefore no client observes a change that a killed process
//! would lose, and a restarted server continues at a revision that is at least the last one that a client has observed.
//!
//! The file holds the current objects, not their history: after a restart, watches and lists of older revisions are
//! answered with 410.
//!
//! If the file cannot be written, requests are answered with 500 and the reason. The next request retries with everything
//! that is not written yet.
//!
//! Bounds: the queue holds at most the changes of the requests in progress, each object once.

mod backend;
mod database;
mod record;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use kube_apimachinery::status::ApiError;
use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

pub use database::DataFileError;
use database::Database;

use self::backend::Fsync;

use crate::kind::resource::StorageKey;
use crate::store::{Key, Stored};

/// Data file of a server.
#[derive(Debug, Clone)]
pub struct DataFile {
    path: PathBuf,
    fsync: Fsync,
}

impl DataFile {
    /// Names a file, which is created if it does not exist. Writes survive a killed process, but not a power failure.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), fsync: Fsync::Never }
    }

    /// With `true`, writes are on the disk before they are answered, and survive a power failure. The default is `false`.
    #[must_use]
    pub fn fsync(mut self, fsync: bool) -> Self {
        self.fsync = if fsync { Fsync::EachCommit } else { Fsync::Never };
        self
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Contents of a file when it was opened.
#[derive(Debug, Default)]
pub(crate) struct FileContents {
    /// Revision of the last commit; `None` if the file is new.
    pub(crate) revision: Option<u64>,
    pub(crate) objects: Vec<(StorageKey, Key, Stored)>,
}

/// Changed objects; `None` for a deleted one.
type ChangedObjects = BTreeMap<(StorageKey, Key), Option<Arc<Stored>>>;

/// Queues commits for the file and reports when they are written. Dropping it writes the rest and closes the file.
pub(crate) struct CommitJournal {
    shared: Arc<JournalQueue>,
    thread: Option<JoinHandle<()>>,
}

struct JournalQueue {
    queue: Mutex<Queue>,
    /// Notified when the queue has work.
    work: Condvar,
    progress: watch::Sender<WriterProgress>,
}

#[derive(Default)]
struct Queue {
    changes: ChangedObjects,
    /// Revision of the last change that was ever queued.
    revision: u64,
    /// Whether a request wants another attempt after a failure.
    again: bool,
    closing: bool,
}

/// Progress of the writing thread.
#[derive(Debug, Clone, Default)]
struct WriterProgress {
    /// All commits up to this revision are in the file.
    kept: u64,
    attempts: u64,
    /// Error of the last attempt, if it failed.
    failure: Option<Arc<str>>,
}

impl CommitJournal {
    /// Opens or creates the file and starts the writing thread.
    ///
    /// # Errors
    /// [`DataFileError`] names the file and a remedy; the file is unchanged.
    pub(crate) fn open(file: &DataFile) -> Result<(Self, FileContents), DataFileError> {
        let (database, contents) = Database::open(&file.path, file.fsync)?;
        let revision = contents.revision.unwrap_or_default();
        let shared = Arc::new(JournalQueue {
            queue: Mutex::new(Queue { revision, ..Queue::default() }),
            work: Condvar::new(),
            progress: watch::Sender::new(WriterProgress { kept: revision, ..WriterProgress::default() }),
        });
        let thread = std::thread::Builder::new().name("data-file".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.write(database)
        });
        let thread = thread.map_err(|source| DataFileError::Open { path: file.path.clone(), source })?;
        Ok((Self { shared, thread: Some(thread) }, contents))
    }

    /// Queues a commit; `stored` is `None` if it deleted the object. Commits must come in the order of their revisions.
    pub(crate) fn record(&self, storage: &StorageKey, key: &Key, revision: u64, stored: Option<Arc<Stored>>) {
        let mut queue = self.shared.queue.lock();
        queue.changes.insert((storage.clone(), key.clone()), stored);
        queue.revision = revision;
        // Unlocked first, so that the woken thread need not wait for the lock.
        drop(queue);
        self.shared.work.notify_one();
    }

    /// Waits until all commits up to `revision` are in the file.
    ///
    /// # Errors
    /// 500 with the name of the file, if it cannot be written.
    pub(crate) async fn kept(&self, revision: u64) -> Result<(), ApiError> {
        // The journal does not wait for revisions that are not committed yet.
        let wanted = revision.min(self.shared.queue.lock().revision);
        self.wait(|progress| progress.kept >= wanted).await
    }

    /// Makes another attempt if the last one failed, so that a write that could not be persisted is refused early.
    ///
    /// # Errors
    /// 500 with the name of the file, if the attempt fails too.
    pub(crate) async fn writable(&self) -> Result<(), ApiError> {
        self.wait(|progress| progress.failure.is_none()).await
    }

    /// Whether the last attempt to write succeeded.
    pub(crate) fn is_writable(&self) -> bool {
        self.shared.progress.borrow().failure.is_none()
    }

    async fn wait(&self, is_done: impl Fn(&WriterProgress) -> bool) -> Result<(), ApiError> {
        let mut progress = self.shared.progress.subscribe();
        // Read before another attempt is requested, so that its result is noticed.
        let before = progress.borrow_and_update().clone();
        if is_done(&before) {
            return Ok(());
        }
        // After a failure the thread sleeps until a request wants another attempt.
        if before.failure.is_some() {
            self.shared.queue.lock().again = true;
            self.shared.work.notify_one();
        }
        loop {
            if progress.changed().await.is_err() {
                return Err(ApiError::internal("the data file is closed"));
            }
            let now = progress.borrow_and_update();
            if is_done(&now) {
                return Ok(());
            }
            if let Some(failure) = &now.failure
                // An earlier failure may still be visible, so only later attempts count.
                && now.attempts > before.attempts
            {
                return Err(ApiError::internal(failure.as_ref()));
            }
        }
    }
}

impl Drop for CommitJournal {
    fn drop(&mut self) {
        self.shared.queue.lock().closing = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(
                "the thread that writes the data file panicked: the last commits may be missing from the file"
            );
        }
    }
}

impl JournalQueue {
    /// Writes the queue, one transaction after the other, until the journal closes.
    fn write(&self, mut database: Database) {
        let mut changes = ChangedObjects::new();
        loop {
            let (revision, closing) = self.take(&mut changes);
            if !changes.is_empty() {
                let outcome = database.save(&changes, revision);
                self.progress.send_modify(|progress| {
                    progress.attempts += 1;
                    match &outcome {
                        Ok(()) => {
                            progress.kept = revision;
                            progress.failure = None;
                        }
                        Err(failure) => progress.failure = Some(Arc::from(failure.to_string())),
                    }
                });
                match outcome {
                    // After a failure the changes are kept, and the next round adds newer ones.
                    Ok(()) => changes.clear(),
                    Err(failure) => {
                        tracing::error!(%failure, "cannot write the data file; requests fail until a write succeeds, and the next request retries it");
                    }
                }
            }
            if closing {
                return;
            }
        }
    }

    /// Waits for work. Adds the queued changes to `changes`, where later changes of an object replace earlier ones.
    fn take(&self, changes: &mut ChangedObjects) -> (u64, bool) {
        let mut queue = self.queue.lock();
        while queue.changes.is_empty() && !queue.closing && !std::mem::take(&mut queue.again) {
            self.work.wait(&mut queue);
        }
        // Under the lock of the revision, so that the file never claims a revision without its changes.
        changes.append(&mut queue.changes);
        (queue.revision, queue.closing)
    }
}

#[cfg(test)]
mod tests;
