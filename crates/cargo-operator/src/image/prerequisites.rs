//! Prerequisites of a build for another target: its standard library, and a C compiler, because ring and zstd contain C code.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::failure::Failure;

/// Checks that the standard library of a target is installed. Without this check, each crate would fail to compile with an error
/// that does not name the cause.
///
/// # Errors
///
/// The standard library is not installed. If rustc does not know the target, or does not run, the result is `Ok`, because cargo names the
/// problem.
pub(super) fn check_target(target: &str, folder: &Path) -> Result<(), Failure> {
    let Some(libraries) = folder_of_libraries(target, folder) else { return Ok(()) };
    if fs::read_dir(libraries).is_ok_and(|mut files| files.next().is_some()) {
        return Ok(());
    }
    let add = format!("rustup target add {target}");
    let hint = if lacks_musl_gcc(target) { format!("{add}; then {}", install_musl_gcc(target)) } else { add };
    Err(Failure::new(format!("target {target} is not installed")).hint(hint))
}

/// Adds a hint to the failure of a build for a target, if the C compiler is missing.
pub(super) fn explain(failure: Failure, target: &str) -> Failure {
    if lacks_musl_gcc(target) {
        let install = install_musl_gcc(target);
        failure.hint(format!("{install}, or name another compiler for it in CC_{}", underscored(target)))
    } else {
        failure
    }
}

/// Asks rustc for the folder, as cargo would in the folder of the project, where a file may select another toolchain.
fn folder_of_libraries(target: &str, folder: &Path) -> Option<PathBuf> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let asked = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", target])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let answer = String::from_utf8(asked.stdout).ok()?;
    asked.status.success().then(|| PathBuf::from(answer.trim()))
}

fn install_musl_gcc(target: &str) -> String {
    format!("install musl-gcc, which compiles C code for {target} (Debian: apt-get install musl-tools)")
}

/// Whether C code for the target needs a compiler that is not installed. A system with musl uses its own compiler.
fn lacks_musl_gcc(target: &str) -> bool {
    let Some((processor, "linux-musl")) = target.split_once("-unknown-") else { return false };
    if cfg!(target_env = "musl") || env::var_os(format!("CC_{}", underscored(target))).is_some() {
        return false;
    }
    let names = ["musl-gcc".to_owned(), format!("{processor}-linux-musl-gcc")];
    let path = env::var_os("PATH").unwrap_or_default();
    !env::split_paths(&path).any(|folder| names.iter().any(|name| folder.join(name).is_file()))
}

fn underscored(target: &str) -> String {
    target.replace('-', "_")
}
