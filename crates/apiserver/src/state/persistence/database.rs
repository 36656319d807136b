//! The data file: a redb database with a table of objects and a table of numbers about the file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition, TableHandle};
use thiserror::Error;

use super::backend::{Backend, Fsync};
use super::{ChangedObjects, FileContents, record};
use crate::kind::resource::StorageKey;
use crate::store::{Key, Stored};

/// Records by group, plural and key of the object.
const OBJECTS: TableDefinition<'_, (&str, &str, &str), &[u8]> = TableDefinition::new("objects");
/// [`FORMAT`] and [`REVISION`]. The table's name identifies files of this program.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("kube-apiserver-embedded");
/// Format of the file: this program reads and writes [`CURRENT_FORMAT`].
const FORMAT: &str = "format";
const CURRENT_FORMAT: u64 = 1;
/// Revision of the last commit in the file.
const REVISION: &str = "revision";
/// First bytes of every redb file.
const MAGIC: &[u8] = b"redb";
/// Size of the page cache, in bytes. It is small because it only serves writes: reads use the store.
const CACHE: usize = 8 << 20;

/// Reason why a data file cannot be used. The file is unchanged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataFileError {
    /// The file cannot be opened or created.
    #[error(
        "data file {} cannot be opened for reading and writing: choose a path in a folder that exists and is writable",
        path.display()
    )]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Another process has the file open.
    #[error("data file {} is in use: stop the server that uses it, or choose another file", .0.display())]
    InUse(PathBuf),
    /// The file is not a data file.
    #[error("data file {} was not written by this program: choose another path", .0.display())]
    Foreign(PathBuf),
    /// Another version of this program wrote the file.
    #[error("data file {} has format {found}, not {CURRENT_FORMAT}: use the version that wrote it, or another file", path.display())]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        found: u64,
    },
    /// The file is damaged.
    #[error("data file {} is damaged ({problem}): restore it from a copy, or move it away to start without objects", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// The damage and its place.
        problem: String,
    },
    /// A transaction failed, for example because the disk is full.
    #[error("data file {} cannot be written: {source}; writes fail until it can be written", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Error of the database.
        source: Box<redb::Error>,
    },
}

/// An open data file.
pub(super) struct Database {
    path: PathBuf,
    fsync: Fsync,
    /// The open database; `None` after a failure, after which it must be reopened.
    open: Option<redb::Database>,
}

impl Database {
    /// Opens or creates the file, and reads it.
    pub(super) fn open(path: &Path, fsync: Fsync) -> Result<(Self, FileContents), DataFileError> {
        let database = open(path, fsync)?;
        let contents = read(path, &database)?;
        Ok((Self { path: path.to_owned(), fsync, open: Some(database) }, contents))
    }

    /// Writes changes, and the revision of the last of them, in one transaction.
    ///
    /// # Errors
    /// After an error the file contains all of the changes or none. The next call reopens the file.
    pub(super) fn save(&mut self, changes: &ChangedObjects, revision: u64) -> Result<(), DataFileError> {
        // Taken out, so that each return with an error leaves `None`.
        let database = match self.open.take() {
            Some(database) => database,
            None => open(&self.path, self.fsync)?,
        };
        match save(&database, changes, revision) {
            Ok(()) => {
                self.open = Some(database);
                Ok(())
            }
            Err(source) => Err(DataFileError::Write { path: self.path.clone(), source: Box::new(source) }),
        }
    }
}

fn save(database: &redb::Database, changes: &ChangedObjects, revision: u64) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        for ((storage, key), stored) in changes {
            let name = (storage.group.as_str(), storage.plural.as_str(), key.as_str());
            match stored {
                Some(stored) => objects.insert(name, record::encode(stored).as_slice())?,
                None => objects.remove(name)?,
            };
        }
        // Written in the same transaction, so that the revision always matches the objects.
        let mut numbers = transaction.open_table(NUMBERS)?;
        numbers.insert(FORMAT, CURRENT_FORMAT)?;
        numbers.insert(REVISION, revision)?;
    }
    transaction.commit()?;
    Ok(())
}

fn open(path: &Path, fsync: Fsync) -> Result<redb::Database, DataFileError> {
    let failed = |source| DataFileError::Open { path: path.to_owned(), source };
    let is_new = !path.exists();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    // The file contains Secrets. Windows has no mode: a file inherits the permissions of its folder.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(failed)?;
    if !is_empty_or_ours(&mut file).map_err(failed)? {
        return Err(DataFileError::Foreign(path.to_owned()));
    }
    if is_new && fsync == Fsync::EachCommit {
        // The name of a new file is stored in its folder, so the folder must be synced too.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all()).map_err(failed)?;
    }
    let opened = FileBackend::new(file).and_then(|file| {
        redb::Builder::new().set_cache_size(CACHE).create_with_backend(Backend { file, fsync })
    });
    opened.map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => DataFileError::InUse(path.to_owned()),
        DatabaseError::Storage(StorageError::Io(source)) => failed(source),
        error => damaged(path, error),
    })
}

/// Whether a file may be opened as a database. Opening writes to a file, so foreign files must be recognized before.
fn is_empty_or_ours(file: &mut File) -> io::Result<bool> {
    let mut start = Vec::new();
    file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut start)?;
    Ok(start.is_empty() || start == MAGIC)
}

fn read(path: &Path, database: &redb::Database) -> Result<FileContents, DataFileError> {
    let damaged = |problem: redb::Error| damaged(path, problem);
    let transaction = database.begin_read().map_err(|error| damaged(error.into()))?;
    let mut tables = transaction.list_tables().map_err(|error| damaged(error.into()))?.peekable();
    // The file is new, or a server was killed before its first commit.
    if tables.peek().is_none() {
        return Ok(FileContents::default());
    }
    // This is a database of another program.
    if !tables.any(|table| table.name() == NUMBERS.name()) {
        return Err(DataFileError::Foreign(path.to_owned()));
    }
    let found = number(&transaction, FORMAT).map_err(damaged)?;
    if found != CURRENT_FORMAT {
        return Err(DataFileError::Format { path: path.to_owned(), found });
    }
    let revision = Some(number(&transaction, REVISION).map_err(damaged)?);
    let mut objects = Vec::new();
    for (storage, key, stored) in records(&transaction).map_err(damaged)? {
        let Some(stored) = stored else {
            let StorageKey { group, plural } = storage;
            let problem = format!("{plural}.{group} {} cannot be read", key.as_str());
            return Err(DataFileError::Damaged { path: path.to_owned(), problem });
        };
        objects.push((storage, key, stored));
    }
    Ok(FileContents { revision, objects })
}

/// Returns a number about the file; 0 if it is absent.
fn number(transaction: &redb::ReadTransaction, name: &str) -> Result<u64, redb::Error> {
    let numbers = transaction.open_table(NUMBERS)?;
    let number = numbers.get(name)?.map_or(0, |number| number.value());
    Ok(number)
}

/// Returns all objects; `None` for a record that cannot be decoded.
fn records(
    transaction: &redb::ReadTransaction,
) -> Result<Vec<(StorageKey, Key, Option<Stored>)>, redb::Error> {
    let mut records = Vec::new();
    for entry in transaction.open_table(OBJECTS)?.iter()? {
        let (name, bytes) = entry?;
        let (group, plural, key) = name.value();
        let storage = StorageKey { group: group.to_owned(), plural: plural.to_owned() };
        records.push((storage, Key::from_text(key), record::decode(bytes.value())));
    }
    Ok(records)
}

fn damaged(path: &Path, problem: impl std::fmt::Display) -> DataFileError {
    DataFileError::Damaged { path: path.to_owned(), problem: problem.to_string() }
}
