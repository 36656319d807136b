//! The embedded API server as a program.
//!
//! The program behaves according to the name under which it is called. As `kube-apiserver` and `etcd` it accepts the flags of those programs,
//! so that test environments which start them, such as controller-runtime's envtest, start this program instead. Under any other name it
//! has flags of its own:
//!
//! `kube-apiserver-embedded --listen 127.0.0.1:0 --kubeconfig-out dev.kubeconfig --profile dev`
//!
//! Logs go to standard error. SIGTERM or Ctrl-C stops the program.

mod assets;
mod embedded;
mod etcd;
mod flags;
mod kube_apiserver;
mod signals;

use std::error::Error;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use mimalloc::MiMalloc;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Allocator of the program. With 100,000 long-lived objects in memory, glibc's allocator spends a third of the time of a create on its
/// free lists.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let arguments: Vec<OsString> = arguments.collect();
    let result = match Path::new(&program).file_stem().and_then(|name| name.to_str()) {
        Some("kube-apiserver") => kube_apiserver::run(arguments).await,
        Some("etcd") => etcd::run(arguments).await,
        _ => embedded::run(program, arguments).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Starts logging to standard error. `RUST_LOG` filters the lines; without it, lines of `level` and above are logged.
fn log_from(level: LevelFilter) {
    let filter = EnvFilter::builder().with_default_directive(level.into()).from_env_lossy();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

/// Prints to standard output. Errors are ignored: if standard output is closed, the program continues.
fn print(text: &str) {
    let mut output = std::io::stdout();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}

/// Writes a file. A new file can be read only by its owner; on Windows it inherits the permissions of its folder.
fn write_secret(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())
}

/// Formats an error and its causes as one line.
fn in_full(error: impl Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}
