//! The command `assets`: a folder of programs for test environments that start `kube-apiserver` and `etcd`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Names under which the program takes the place of another one.
const PROGRAMS: [&str; 2] = ["kube-apiserver", "etcd"];
/// Name of this program, by which its links are recognised.
const OWN_NAME: &str = "kube-apiserver-embedded";

/// Links `kube-apiserver` and `etcd` to this program, and `kubectl` to the one on the `PATH` if there is one. Returns the folder.
///
/// # Errors
/// One line that names the folder or file, and says how to correct the problem.
pub(crate) fn fill(folder: Option<&Path>) -> Result<PathBuf, String> {
    // Resolved, so that the links point to the file itself, even if this program was started by a link.
    let program = std::env::current_exe()
        .and_then(fs::canonicalize)
        .map_err(|error| format!("cannot find the file of this program: {error}"))?;
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => default_folder(&program)?,
    };
    let cannot = |error: io::Error| format!("cannot create the folder {}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(cannot)?;
    let folder = fs::canonicalize(&folder).map_err(cannot)?;
    if search_path().iter().any(|on_path| fs::canonicalize(on_path).is_ok_and(|on_path| on_path == folder)) {
        return Err(format!(
            "the folder {} is on the PATH, where these programs would be taken for the real ones: choose another folder",
            folder.display()
        ));
    }
    for name in PROGRAMS {
        let link = folder.join(executable(name));
        if !may_replace(&link) {
            return Err(format!(
                "{} exists and is not a link to {OWN_NAME}: remove it, or choose another folder",
                link.display()
            ));
        }
        replace(&program, &link)
            .map_err(|error| format!("cannot create the link {}: {error}", link.display()))?;
    }
    let kubectl = folder.join(executable("kubectl"));
    let installed = search_path().into_iter().map(|on_path| on_path.join(executable("kubectl")));
    if let Some(installed) = installed.into_iter().find(|path| path.is_file())
        // Also if there is a link to a kubectl that was removed since.
        && fs::metadata(&kubectl).is_err()
    {
        // A missing kubectl is not an error here: tests that call it report it.
        let _ = replace(&installed, &kubectl);
    }
    Ok(folder)
}

/// Returns a folder in the user's cache. Each file of this program has a folder of its own.
fn default_folder(program: &Path) -> Result<PathBuf, String> {
    let set = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME")
        .or_else(|| set("LOCALAPPDATA"))
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .ok_or("neither XDG_CACHE_HOME nor HOME is set, so there is no cache folder: name a folder")?;
    let digest = Sha256::digest(program.as_os_str().as_encoded_bytes());
    let digits: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    Ok(cache.join(OWN_NAME).join(format!("assets-{digits}")))
}

fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty()).collect()
}

fn executable(name: &str) -> String {
    format!("{name}{}", std::env::consts::EXE_SUFFIX)
}

/// Whether `path` is free, or holds a link to this program, in any place and version, which an earlier call created.
#[cfg(unix)]
fn may_replace(path: &Path) -> bool {
    if fs::symlink_metadata(path).is_err() {
        return true;
    }
    let target = fs::read_link(path).unwrap_or_default();
    target.file_name().is_some_and(|name| name == OWN_NAME)
}

/// Whether `path` is free, or holds a program that calls itself embedded, which an earlier call created.
#[cfg(windows)]
fn may_replace(path: &Path) -> bool {
    if fs::symlink_metadata(path).is_err() {
        return true;
    }
    let version = std::process::Command::new(path).arg("--version").output();
    version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("embedded"))
}

/// Creates a link under a temporary name and moves it to its place, so that a test that starts meanwhile finds a program.
fn replace(program: &Path, path: &Path) -> io::Result<()> {
    let temporary = path.with_extension(std::process::id().to_string());
    let _ = fs::remove_file(&temporary);
    link(program, &temporary)?;
    fs::rename(&temporary, path).inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

#[cfg(unix)]
fn link(program: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(program, path)
}

/// Creates a hard link, or else a copy: symbolic links need a privilege on Windows.
#[cfg(windows)]
fn link(program: &Path, path: &Path) -> io::Result<()> {
    fs::hard_link(program, path).or_else(|_| fs::copy(program, path).map(drop))
}
