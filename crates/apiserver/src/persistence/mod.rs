//! A server whose objects outlive its process: what is committed goes to a file before anybody is told of it.
//!
//! The store stays in memory and knows nothing of this. Each commit is handed, under the store's lock and so in order, to a
//! [`Journal`], whose thread writes everything that came since its last transaction in one more: many writers share one.
//! Answers and events wait until their revision is kept. So nobody ever sees what a killed process would forget, and a
//! restarted one goes on at the last revision that anybody can have seen.
//!
//! The file holds the objects as they are, not their history: after a restart, watches and lists of older revisions are
//! told 410.
//!
//! If the file cannot be written, requests are answered 500 with the reason, and the next one tries again with all that is
//! not kept yet.
//!
//! Bounds: what waits to be written is at most the changes of the requests under way, each object once.

mod backend;
mod file;
mod record;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

pub use file::DataFileError;
use file::Database;

use crate::resource::StorageKey;
use crate::status::ApiError;
use crate::store::{Key, Stored};

/// Where a server keeps its objects.
#[derive(Debug, Clone)]
pub struct DataFile {
    path: PathBuf,
    fsync: bool,
}

impl DataFile {
    /// A file that is made if it does not exist. Its writes survive a killed process, but not a machine that loses power.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), fsync: false }
    }

    /// The same file, with its writes on the disk before they are answered if `fsync`.
    #[must_use]
    pub fn fsync(mut self, fsync: bool) -> Self {
        self.fsync = fsync;
        self
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// What a file held when it was opened.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// The revision of the last commit; `None` if the file is new.
    pub(crate) revision: Option<u64>,
    pub(crate) objects: Vec<(StorageKey, Key, Stored)>,
}

/// Changes by object; `None` for one that is gone.
type Changes = BTreeMap<(StorageKey, Key), Option<Arc<Stored>>>;

/// Takes commits and says when they are kept. Dropping it writes what is left and closes the file.
pub(crate) struct Journal {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// There is something in the queue.
    work: Condvar,
    progress: watch::Sender<Progress>,
}

#[derive(Default)]
struct Queue {
    changes: Changes,
    /// Of the last change that was ever queued.
    revision: u64,
    /// Somebody wants another attempt after a failure.
    again: bool,
    closing: bool,
}

/// What the thread has done.
#[derive(Debug, Clone, Default)]
struct Progress {
    /// Everything up to this revision is in the file.
    kept: u64,
    attempts: u64,
    /// Why the last attempt failed.
    failure: Option<Arc<str>>,
}

impl Journal {
    /// Opens or makes the file.
    ///
    /// # Errors
    /// [`DataFileError`] names the file and what to do; the file is as it was.
    pub(crate) fn open(file: &DataFile) -> Result<(Self, Contents), DataFileError> {
        let (database, contents) = Database::open(&file.path, file.fsync)?;
        let revision = contents.revision.unwrap_or_default();
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue { revision, ..Queue::default() }),
            work: Condvar::new(),
            progress: watch::Sender::new(Progress { kept: revision, ..Progress::default() }),
        });
        let thread = std::thread::Builder::new().name("data-file".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.write(database)
        });
        let thread = thread.map_err(|source| DataFileError::Open { path: file.path.clone(), source })?;
        Ok((Self { shared, thread: Some(thread) }, contents))
    }

    /// Takes a commit; `stored` is `None` if it deleted the object. Commits must come in the order of their revisions.
    pub(crate) fn record(&self, storage: &StorageKey, key: &Key, revision: u64, stored: Option<Arc<Stored>>) {
        let mut queue = self.shared.queue.lock();
        queue.changes.insert((storage.clone(), key.clone()), stored);
        queue.revision = revision;
        drop(queue);
        self.shared.work.notify_one();
    }

    /// Waits until all commits up to `revision` are in the file.
    ///
    /// # Errors
    /// 500 that names the file, if it cannot be written.
    pub(crate) async fn kept(&self, revision: u64) -> Result<(), ApiError> {
        // A revision that is still to come is nobody's yet.
        let wanted = revision.min(self.shared.queue.lock().revision);
        self.wait(|progress| progress.kept >= wanted).await
    }

    /// Refuses if the last attempt to write failed and another one does too: what cannot be kept is better not begun.
    ///
    /// # Errors
    /// 500 that names the file.
    pub(crate) async fn writable(&self) -> Result<(), ApiError> {
        self.wait(|progress| progress.failure.is_none()).await
    }

    /// Whether the last attempt to write worked.
    pub(crate) fn is_writable(&self) -> bool {
        self.shared.progress.borrow().failure.is_none()
    }

    async fn wait(&self, is_done: impl Fn(&Progress) -> bool) -> Result<(), ApiError> {
        let mut progress = self.shared.progress.subscribe();
        let before = progress.borrow_and_update().clone();
        if is_done(&before) {
            return Ok(());
        }
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
                && now.attempts > before.attempts
            {
                return Err(ApiError::internal(failure.as_ref()));
            }
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.queue.lock().closing = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the data file panicked");
        }
    }
}

impl Shared {
    /// Writes what is queued, one transaction after the other, until the journal closes.
    fn write(&self, mut database: Database) {
        let mut changes = Changes::new();
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
                    Ok(()) => changes.clear(),
                    Err(failure) => tracing::error!(%failure, "writes are not kept"),
                }
            }
            if closing {
                return;
            }
        }
    }

    /// Waits for something to do. Adds what is queued to `changes`, of which the later ones replace the earlier.
    fn take(&self, changes: &mut Changes) -> (u64, bool) {
        let mut queue = self.queue.lock();
        while queue.changes.is_empty() && !queue.closing && !std::mem::take(&mut queue.again) {
            self.work.wait(&mut queue);
        }
        changes.append(&mut queue.changes);
        (queue.revision, queue.closing)
    }
}

#[cfg(test)]
mod tests;
