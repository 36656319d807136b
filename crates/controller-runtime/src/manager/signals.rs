//! SIGINT and SIGTERM, or on Windows Ctrl-C and Ctrl-Break: the first shuts down gracefully, the second ends the process.

use std::{convert::Infallible, io, thread};

use tokio::{
    runtime::{self, Runtime},
    sync::oneshot,
};

use super::{Manager, ManagerError};

/// The signals that ask a process to end: SIGINT and SIGTERM, or on Windows Ctrl-C and Ctrl-Break.
///
/// Listening replaces the default action of these signals for the whole process, permanently. Otherwise instances are
/// independent: any number of them may listen.
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
pub struct Signals(system::OsSignals);

impl Signals {
    /// Starts listening. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// The system refuses to deliver the signals.
    pub fn listen() -> io::Result<Self> {
        system::OsSignals::listen().map(Self)
    }

    /// Waits for the next signal, of either kind.
    pub async fn next(&mut self) {
        self.0.next().await;
    }
}

#[cfg(unix)]
mod system {
    use std::io;

    use tokio::signal::unix::{Signal, SignalKind, signal};

    #[derive(Debug)]
    pub(super) struct OsSignals {
        interrupt: Signal,
        terminate: Signal,
    }

    impl OsSignals {
        pub(super) fn listen() -> io::Result<Self> {
            let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
            Ok(Self { interrupt: signal(interrupt)?, terminate: signal(terminate)? })
        }

        pub(super) async fn next(&mut self) {
            tokio::select! {
                // Either signal ends the wait.
                biased;
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
            }
        }
    }
}

#[cfg(windows)]
mod system {
    use std::io;

    use tokio::signal::windows::{CtrlBreak, CtrlC, ctrl_break, ctrl_c};

    #[derive(Debug)]
    pub(super) struct OsSignals {
        ctrl_c: CtrlC,
        ctrl_break: CtrlBreak,
    }

    impl OsSignals {
        pub(super) fn listen() -> io::Result<Self> {
            Ok(Self { ctrl_c: ctrl_c()?, ctrl_break: ctrl_break()? })
        }

        pub(super) async fn next(&mut self) {
            tokio::select! {
                // Either signal ends the wait.
                biased;
                _ = self.ctrl_c.recv() => {}
                _ = self.ctrl_break.recv() => {}
            }
        }
    }
}

impl Manager {
    /// Runs until SIGINT or SIGTERM, or on Windows Ctrl-C or Ctrl-Break, then stops gracefully. A second signal ends the
    /// process at once, with exit code 1; a separate thread waits for it, so that nothing can delay it.
    ///
    /// # Errors
    ///
    /// As [`Manager::run`]; and [`ManagerError::Runnable`] if the system refuses to deliver signals.
    pub async fn run_until_signal(self) -> Result<(), ManagerError> {
        self.run_until_signal_or(std::future::pending()).await
    }

    /// Like [`run_until_signal`](Self::run_until_signal), but also stops when `stop` completes.
    pub(crate) async fn run_until_signal_or(
        self,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), ManagerError> {
        let refused = |source: io::Error| ManagerError::Runnable {
            name: "the wait for signals".to_owned(),
            source: source.into(),
        };
        let mut first = Signals::listen().map_err(refused)?;
        let _second = SecondSignal::watch().await.map_err(refused)?;
        let stop = async move {
            tokio::select! {
                // Either ends the wait.
                biased;
                () = first.next() => {}
                () = stop => {}
            }
        };
        self.run(stop).await
    }
}

/// Ends the process at the second signal, until dropped.
///
/// It has a thread with a runtime of its own, because the manager's runtime may have no free thread when a reconcile does not
/// reach an `.await`.
struct SecondSignal {
    /// Dropping it ends the thread.
    _ends: oneshot::Sender<Infallible>,
}

impl SecondSignal {
    async fn watch() -> io::Result<Self> {
        let (listens, listening) = oneshot::channel();
        let (ends, ended) = oneshot::channel();
        let thread = thread::Builder::new().name("second-signal".to_owned());
        thread.spawn(move || match listen_in_this_thread() {
            Ok((runtime, signals)) => {
                let _ = listens.send(Ok(())); // a receiver that is gone has dropped `ends` as well
                runtime.block_on(exit_at_the_second(signals, ended));
            }
            Err(error) => {
                let _ = listens.send(Err(error));
            }
        })?;
        // Returns only once the thread listens, so that a second signal right after the first is not missed.
        listening.await.map_err(io::Error::other)??;
        Ok(Self { _ends: ends })
    }
}

fn listen_in_this_thread() -> io::Result<(Runtime, Signals)> {
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    let signals = Signals::listen()?;
    drop(entered);
    Ok((runtime, signals))
}

async fn exit_at_the_second(mut signals: Signals, ended: oneshot::Receiver<Infallible>) {
    let twice = async {
        signals.next().await;
        signals.next().await;
    };
    tokio::select! {
        // Once the manager has stopped, a second signal must not turn its result into exit code 1.
        biased;
        _ = ended => {}
        () = twice => {
            tracing::warn!("received a second signal: the process exits without waiting for running reconciles");
            std::process::exit(1)
        }
    }
}
