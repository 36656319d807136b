//! SIGINT and SIGTERM: the first one drains, the second one ends the process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Error, Manager};

/// The signals that ask a process to end.
///
/// Listening replaces what these signals do by themselves, for the whole process and for good. Nothing else about it is
/// global: any number of these may listen.
///
/// ```no_run
/// # async fn example(manager: controller_runtime::Manager) -> Result<(), Box<dyn std::error::Error>> {
/// use controller_runtime::manager::Signals;
///
/// let mut signals = Signals::listen()?;
/// manager.run(async { signals.next().await }).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[doc(alias = "SetupSignalHandler")]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Begins to listen. To be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// The system refuses to deliver the signals.
    pub fn listen() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next SIGINT or SIGTERM.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

impl Manager {
    /// Runs until SIGINT or SIGTERM, then drains. A second signal ends the process at once, with exit code 1.
    ///
    /// # Errors
    ///
    /// As [`Manager::run`]; and [`Error::Runnable`] if the system refuses to deliver signals.
    pub async fn run_until_signal(self) -> Result<(), Error> {
        let refused = |source: io::Error| Error::Runnable {
            name: "the wait for signals".to_owned(),
            source: source.into(),
        };
        let (mut first, mut second) =
            (Signals::listen().map_err(refused)?, Signals::listen().map_err(refused)?);
        let twice = async {
            second.next().await;
            second.next().await;
        };
        tokio::select! {
            biased;
            result = self.run(async move { first.next().await }) => result,
            () = twice => {
                tracing::warn!("a second signal: the process ends without waiting for what still runs");
                std::process::exit(1)
            }
        }
    }
}
