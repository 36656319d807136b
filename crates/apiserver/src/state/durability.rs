//! Waits for the data file, if the server has one.

use kube_apimachinery::status::ApiError;

use super::ClusterState;
use super::persistence::CommitJournal;
use crate::store::Store;

impl ClusterState {
    /// Whether the server has a data file.
    pub(crate) fn is_kept(&self) -> bool {
        self.journal.is_some()
    }

    /// Waits until all commits up to `revision` are persisted, if the server has a data file. Clients may observe a revision only
    /// afterwards.
    ///
    /// # Errors
    /// 500 with the name of the file, if it cannot be written.
    pub(crate) async fn kept(&self, revision: u64) -> Result<(), ApiError> {
        match &self.journal {
            Some(journal) => journal.kept(revision).await,
            None => Ok(()),
        }
    }

    /// Like [`kept`](Self::kept), for all commits so far.
    ///
    /// # Errors
    /// Like [`kept`](Self::kept).
    pub(crate) async fn all_kept(&self) -> Result<(), ApiError> {
        match &self.journal {
            Some(journal) => journal.kept(self.read(Store::revision)).await,
            None => Ok(()),
        }
    }

    /// Refuses writes while the data file cannot be written, after one more attempt.
    ///
    /// # Errors
    /// 500 with the name of the file.
    pub(crate) async fn writable(&self) -> Result<(), ApiError> {
        match &self.journal {
            Some(journal) => journal.writable().await,
            None => Ok(()),
        }
    }

    /// Whether the last write to the data file succeeded, or there is no data file.
    pub(crate) fn is_writable(&self) -> bool {
        self.journal.as_ref().is_none_or(CommitJournal::is_writable)
    }
}
