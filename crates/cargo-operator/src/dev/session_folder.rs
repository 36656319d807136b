//! The folder of a session: its lock, and the copy of the program `dev` that runs.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use crate::failure::Failure;

/// File in the folder of a session that the program `dev` locks as long as it holds the session.
const LOCK: &str = "session.lock";

/// Checks that no session uses the folder, before anything is built. The program `dev` checks it again when it takes the lock.
pub(super) fn check_folder(folder: &Path) -> Result<(), Failure> {
    // The file does not exist before the first session. The session itself reports any other error.
    let Ok(file) = File::open(folder.join(LOCK)) else { return Ok(()) };
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Err(in_use()),
        // Some file systems have no locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// The failure if another session of the project runs: that of `cargo operator dev`, or of the program `dev` alone.
pub(super) fn in_use() -> Failure {
    Failure::new(
        "another session of this project is running: it was started with cargo operator dev or cargo run",
    )
    .hint("end it first, with Ctrl-C in its terminal")
}

/// Copies a program, and returns the path of the copy. A process that runs an earlier copy keeps its own.
pub(super) fn copy_into(folder: &Path, program: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let copy = folder.join(format!("dev{}", std::env::consts::EXE_SUFFIX));
    let new = folder.join(format!("dev-{}.new", std::process::id()));
    // Renamed into place, because a program that runs cannot be written to.
    let copied = fs::copy(program, &new).and_then(|_| fs::rename(&new, &copy));
    if copied.is_err() {
        // There may be no such file.
        let _ = fs::remove_file(&new);
    }
    copied.map(|()| copy)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_use_is_recognized_by_its_lock() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(check_folder(&folder.path().join("missing")), Ok(()));
        let lock = File::create(folder.path().join(LOCK)).expect("a file");
        assert_eq!(check_folder(folder.path()), Ok(()), "an earlier session has left the file");
        lock.lock().expect("a lock");
        assert_eq!(check_folder(folder.path()), Err(in_use()));
        // Closing the file is not enough: a process that another test is starting has it too for a moment.
        lock.unlock().expect("the lock is held");
        assert_eq!(check_folder(folder.path()), Ok(()));
    }

    #[test]
    fn a_copy_replaces_the_earlier_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let (program, operator) = (folder.path().join("dev-program"), folder.path().join("a/operator"));
        for text in ["one", "two"] {
            fs::write(&program, text).expect("a file");
            let copy = copy_into(&operator, &program).expect("a copy");
            assert_eq!(fs::read_to_string(&copy).expect("text"), text);
        }
        assert_eq!(fs::read_dir(&operator).expect("a folder").count(), 1);
        assert!(copy_into(&operator, &folder.path().join("missing")).is_err());
        assert_eq!(fs::read_dir(&operator).expect("a folder").count(), 1);
    }
}
