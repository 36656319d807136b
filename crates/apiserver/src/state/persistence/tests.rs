use std::io::{Seek, SeekFrom, Write};

use serde_json::json;

use super::*;
use crate::store::Document;

fn maps() -> StorageKey {
    StorageKey::core("configmaps")
}

fn stored(revision: u64) -> Arc<Stored> {
    let object = json!({"metadata": {"name": "a"}, "data": {"revision": revision.to_string()}});
    Arc::new(Stored::new(revision, Document::new(&object, 0, 0)))
}

/// Returns the revision of the file, and its objects with their revisions.
fn contents(file: &DataFile) -> (Option<u64>, Vec<String>) {
    let (_journal, contents) = CommitJournal::open(file).unwrap();
    let shown = contents
        .objects
        .iter()
        .map(|(storage, key, stored)| format!("{} {}@{}", storage.plural, key.as_str(), stored.revision));
    (contents.revision, shown.collect())
}

#[tokio::test]
async fn commits_that_were_kept_are_in_the_reopened_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = DataFile::new(folder.path().join("data")).fsync(true);
    assert_eq!(contents(&file), (None, vec![]));
    let (journal, _) = CommitJournal::open(&file).unwrap();
    for (revision, name) in [(2, "n/a"), (3, "n/b"), (4, "n/a")] {
        journal.record(&maps(), &Key::from_text(name), revision, Some(stored(revision)));
    }
    journal.record(&maps(), &Key::from_text("n/b"), 5, None);
    journal.kept(5).await.unwrap();
    // Revisions that are not committed yet are not waited for.
    journal.kept(99).await.unwrap();
    drop(journal);
    assert_eq!(contents(&file), (Some(5), vec!["configmaps n/a@4".to_owned()]));
}

#[test]
fn closing_writes_all_recorded_commits() {
    let folder = tempfile::tempdir().unwrap();
    let file = DataFile::new(folder.path().join("data"));
    let (journal, _) = CommitJournal::open(&file).unwrap();
    for revision in 2..1000 {
        journal.record(
            &maps(),
            &Key::from_text(&format!("n/{}", revision % 10)),
            revision,
            Some(stored(revision)),
        );
    }
    drop(journal);
    let (revision, objects) = contents(&file);
    assert_eq!((revision, objects.len()), (Some(999), 10));
    assert!(objects.contains(&"configmaps n/9@999".to_owned()), "{objects:?}");
}

#[test]
fn a_file_in_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = DataFile::new(folder.path().join("data"));
    let (_journal, _) = CommitJournal::open(&file).unwrap();
    let error = CommitJournal::open(&file).map(|_| ()).unwrap_err();
    assert!(matches!(error, DataFileError::InUse(_)), "{error}");
    let path = file.path().display();
    assert_eq!(
        error.to_string(),
        format!("data file {path} is in use: stop the server that uses it, or choose another file")
    );
}

#[test]
fn a_foreign_file_is_refused_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "re").unwrap();
    for text in ["re", "red", "my notes, which are longer than any header"] {
        std::fs::write(&path, text).unwrap();
        let error = CommitJournal::open(&DataFile::new(&path)).map(|_| ()).unwrap_err();
        assert!(matches!(error, DataFileError::Foreign(_)), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    // The file is a database, but with foreign tables.
    std::fs::remove_file(&path).unwrap();
    let other = redb::Database::create(&path).unwrap();
    let transaction = other.begin_write().unwrap();
    transaction.open_table(redb::TableDefinition::<'_, u64, u64>::new("theirs")).unwrap();
    transaction.commit().unwrap();
    drop(other);
    let error = CommitJournal::open(&DataFile::new(&path)).map(|_| ()).unwrap_err();
    assert!(matches!(error, DataFileError::Foreign(_)), "{error}");
}

#[test]
fn a_damaged_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = DataFile::new(folder.path().join("data"));
    let (journal, _) = CommitJournal::open(&file).unwrap();
    for revision in 2..100 {
        journal.record(&maps(), &Key::from_text(&format!("n/{revision}")), revision, Some(stored(revision)));
    }
    drop(journal);
    let mut damaged = std::fs::OpenOptions::new().write(true).open(file.path()).unwrap();
    damaged.seek(SeekFrom::Start(16)).unwrap();
    damaged.write_all(&[0xff; 300]).unwrap();
    let error = CommitJournal::open(&file).map(|_| ()).unwrap_err();
    assert!(matches!(error, DataFileError::Damaged { .. }), "{error}");
    // The file is truncated, as on a damaged disk.
    let whole = std::fs::read(file.path()).unwrap();
    std::fs::write(file.path(), &whole[..100]).unwrap();
    assert!(CommitJournal::open(&file).is_err());
}

#[test]
fn a_path_that_cannot_be_opened_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("absent/data")] {
        let error = CommitJournal::open(&DataFile::new(&path)).map(|_| ()).unwrap_err();
        assert!(matches!(error, DataFileError::Open { .. }), "{error}");
        assert!(
            error.to_string().starts_with(&format!("data file {} cannot be opened", path.display())),
            "{error}"
        );
    }
}
