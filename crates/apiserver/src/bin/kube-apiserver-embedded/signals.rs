//! Signals that stop the program.

/// Completes at SIGTERM or SIGINT. Signals are received from the call on, not only from the first poll on.
///
/// # Errors
/// The operating system refuses to report signals.
#[cfg(unix)]
pub(crate) fn terminated() -> Result<impl Future<Output = ()>, String> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate =
        signal(SignalKind::terminate()).map_err(|error| format!("cannot wait for SIGTERM: {error}"))?;
    let mut interrupt =
        signal(SignalKind::interrupt()).map_err(|error| format!("cannot wait for SIGINT: {error}"))?;
    Ok(async move {
        tokio::select! {
            // Either signal ends the wait.
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Completes at Ctrl-C or Ctrl-Break. Signals are received from the call on, not only from the first poll on.
///
/// # Errors
/// The operating system refuses to report signals.
#[cfg(windows)]
pub(crate) fn terminated() -> Result<impl Future<Output = ()>, String> {
    use tokio::signal::windows;
    let mut ctrl_c = windows::ctrl_c().map_err(|error| format!("cannot wait for Ctrl-C: {error}"))?;
    let mut ctrl_break =
        windows::ctrl_break().map_err(|error| format!("cannot wait for Ctrl-Break: {error}"))?;
    Ok(async move {
        tokio::select! {
            // Either signal ends the wait.
            biased;
            _ = ctrl_c.recv() => {}
            _ = ctrl_break.recv() => {}
        }
    })
}
