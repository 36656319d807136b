//! Keys that a user presses during a session, if standard input is a terminal.

#[cfg(unix)]
use std::io::{self, IsTerminal, Read};

use tokio::sync::mpsc::{self, Receiver};

/// Most keys that wait while the session is busy. Further ones are dropped.
#[cfg(unix)]
const WAITING_KEYS: usize = 16;

/// A key with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// Build and start the operator again.
    Restart,
    /// Apply the samples again.
    Samples,
    /// Explain the latest failure.
    Explain,
    /// Open the page of explanations.
    Open,
    /// End the session.
    Quit,
    /// Any other key: list the keys.
    Help,
}

impl Key {
    /// The keys of a session, for users. The text fits a terminal with 80 columns, and has no room for another key.
    pub(super) fn help(has_samples: bool, has_explanations: bool) -> String {
        let keys = [
            ("r restart", true),
            ("s samples", has_samples),
            ("e explain failure", has_explanations),
            ("o open page", has_explanations),
            ("q quit", true),
        ];
        let keys: Vec<_> = keys.into_iter().filter(|(_, is_there)| *is_there).map(|(key, _)| key).collect();
        keys.join("   ")
    }

    fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            b'r' => Self::Restart,
            b's' => Self::Samples,
            b'e' => Self::Explain,
            b'o' => Self::Open,
            b'q' => Self::Quit,
            // Many people press Enter to separate parts of the output.
            b'\r' | b'\n' | b' ' => return None,
            _ => Self::Help,
        })
    }
}

/// Reads keys. The terminal delivers each at once, without showing it, until this is dropped.
pub(super) struct Keys {
    pressed: Receiver<u8>,
    #[cfg(unix)]
    _mode: mode::KeyMode,
}

impl Keys {
    /// Reads keys from standard input; `None` if that is not a terminal.
    #[cfg(unix)]
    pub(super) fn listen() -> Option<Self> {
        if !io::stdin().is_terminal() {
            return None;
        }
        let mode = mode::KeyMode::begin()?;
        let (sender, pressed) = mpsc::channel(WAITING_KEYS);
        // A read of a terminal cannot be cancelled. The thread ends with the process, or at the first key after the
        // session.
        std::thread::spawn(move || {
            let mut bytes = [0; 64];
            while let Ok(read @ 1..) = io::stdin().read(&mut bytes) {
                // Keys such as arrows are sequences that begin with an escape.
                let is_letter = bytes[0] != 0x1b;
                if is_letter
                    && let Err(mpsc::error::TrySendError::Closed(_)) = sender.try_send(bytes[read - 1])
                {
                    return;
                }
            }
        });
        Some(Self { pressed, _mode: mode })
    }

    /// Returns `None`, because consoles of Windows lack the calls of the other implementation.
    #[cfg(not(unix))]
    pub(super) fn listen() -> Option<Self> {
        None
    }

    /// Waits for the next key with a meaning. Never completes once the terminal is closed.
    ///
    /// # Cancellation
    ///
    /// Dropping the future loses no key.
    pub(super) async fn next(&mut self) -> Key {
        loop {
            match self.pressed.recv().await {
                Some(byte) => {
                    if let Some(key) = Key::of(byte) {
                        return key;
                    }
                }
                // The terminal is gone, and the session goes on without keys.
                None => std::future::pending().await,
            }
        }
    }
}

#[cfg(unix)]
mod mode {
    use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

    /// A terminal that delivers keys at once and does not show them. Ctrl-C stays a signal.
    pub(super) struct KeyMode {
        before: Termios,
    }

    impl KeyMode {
        pub(super) fn begin() -> Option<Self> {
            let before = tcgetattr(std::io::stdin()).ok()?;
            let mut keys = before.clone();
            // Signals stay on, so that Ctrl-C still ends the session.
            keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            tcsetattr(std::io::stdin(), OptionalActions::Now, &keys).ok()?;
            Some(Self { before })
        }
    }

    impl Drop for KeyMode {
        fn drop(&mut self) {
            // Fails only if the terminal is gone.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_of_the_help_has_a_meaning() {
        let keys = |has_samples: bool, has_explanations: bool| {
            let help = Key::help(has_samples, has_explanations);
            // 13 characters before the text hold the word `Keys`.
            assert!(help.len() + 13 < 80, "{help}");
            help.split("   ").filter_map(|part| Key::of(part.bytes().next()?)).collect::<Vec<_>>()
        };
        assert_eq!(keys(true, true), [Key::Restart, Key::Samples, Key::Explain, Key::Open, Key::Quit]);
        assert_eq!(keys(true, false), [Key::Restart, Key::Samples, Key::Quit]);
        assert_eq!(keys(false, false), [Key::Restart, Key::Quit]);
        assert_eq!((Key::of(b'x'), Key::of(b'\n')), (Some(Key::Help), None));
    }
}
