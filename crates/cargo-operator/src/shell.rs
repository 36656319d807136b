//! Output of commands, in cargo's form: `     Created guestbook: 11 files, 300 lines`.

use std::{fmt::Display, io::Write};

use anstream::eprintln;
use anstyle::{AnsiColor, Style};

use crate::failure::Failure;

const VERB: Style = AnsiColor::Green.on_default().bold();
const NEXT: Style = AnsiColor::Cyan.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const ERROR: Style = AnsiColor::Red.on_default().bold();

/// Amount of output on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// Errors and warnings.
    Quiet,
    /// Also status lines.
    Normal,
    /// Also the commands that run.
    Verbose,
}

/// Writes status lines to standard error. Results of commands go to standard output.
#[derive(Debug, Clone, Copy)]
pub struct Shell {
    verbosity: Verbosity,
}

impl Shell {
    /// Creates a shell that writes this much.
    #[must_use]
    pub fn new(verbosity: Verbosity) -> Self {
        Self { verbosity }
    }

    /// Whether only errors and results are wanted.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.verbosity == Verbosity::Quiet
    }

    /// Reports an action: its verb, in the past or progressive form, and its object.
    pub fn status(&self, verb: &str, text: impl Display) {
        self.line(VERB, verb, text);
    }

    /// Reports a next step, or a note.
    pub fn note(&self, word: &str, text: impl Display) {
        self.line(NEXT, word, text);
    }

    /// Prints a line of a result to standard output.
    pub fn result(&self, text: impl Display) {
        // A closed pipe, as behind `| head`, is no failure.
        let _ = writeln!(std::io::stdout(), "{text}");
    }

    /// Reports the command that runs, if wanted.
    pub fn running(&self, command: impl Display) {
        if self.verbosity == Verbosity::Verbose {
            self.status("Running", command);
        }
    }

    /// Reports a problem that does not end the command.
    pub fn warn(&self, text: impl Display) {
        eprintln!("{WARNING}warning{WARNING:#}: {text}");
    }

    /// Reports the problem that ends the command.
    pub fn fail(&self, failure: &Failure) {
        eprintln!("{ERROR}error{ERROR:#}: {failure}");
        if let Some(hint) = &failure.hint {
            eprintln!("{NEXT}{:>12}{NEXT:#} {hint}", "Hint");
        }
    }

    fn line(&self, style: Style, word: &str, text: impl Display) {
        if self.verbosity != Verbosity::Quiet {
            eprintln!("{style}{word:>12}{style:#} {text}");
        }
    }
}
