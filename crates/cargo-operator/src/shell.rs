//! Output of commands, in cargo's form: `     Created guestbook: 11 files, 300 lines`.

use std::{
    fmt::{self, Display},
    io::{IsTerminal, Write},
};

use anstream::{eprint, eprintln};
use anstyle::{AnsiColor, Style};
use serde::Deserialize;
use terminal_size::terminal_size_of;

use crate::{failure::Failure, wrap};

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

/// Severity of an event in the log of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum LogLevel {
    /// A failure.
    Error,
    /// A problem.
    Warn,
    /// Events that matter to operators.
    Info,
    /// Details for developers.
    Debug,
    /// All details.
    Trace,
}

impl Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "ERROR",
            Self::Warn => "WARN",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
            Self::Trace => "TRACE",
        })
    }
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
        end_progress();
        // A closed pipe, as with `| head`, is not a failure.
        let _ = writeln!(std::io::stdout(), "{text}");
    }

    /// Prints text for users to standard output, in lines that fit the terminal.
    pub fn text(&self, text: impl Display) {
        let width = terminal_size_of(std::io::stdout()).map(|(width, _)| width);
        self.result(wrap::fit(&text.to_string(), width));
    }

    /// Prints a log event of a child process.
    pub fn log(&self, level: LogLevel, text: impl Display) {
        let style = match level {
            LogLevel::Error => ERROR,
            LogLevel::Warn => WARNING,
            LogLevel::Info => VERB,
            LogLevel::Debug | LogLevel::Trace => NEXT,
        };
        print_line(style, &format!("    {level:<5}"), format_args!(" {text}"));
    }

    /// Passes on a line that a program has written to standard error.
    pub fn pass_on(&self, text: impl Display) {
        end_progress();
        eprintln!("{text}");
    }

    /// Reports the command that runs, if wanted.
    pub fn running(&self, command: impl Display) {
        if self.verbosity == Verbosity::Verbose {
            self.status("Running", command);
        }
    }

    /// Reports a problem that does not end the command.
    pub fn warn(&self, text: impl Display) {
        print_line(WARNING, "warning", format_args!(": {text}"));
    }

    /// Reports the problem that ends the command.
    pub fn fail(&self, failure: &Failure) {
        print_line(ERROR, "error", format_args!(": {failure}"));
        if let Some(hint) = &failure.hint {
            print_line(NEXT, &format!("{:>12}", "Hint"), format_args!(" {hint}"));
        }
    }

    fn line(&self, style: Style, word: &str, text: impl Display) {
        if self.verbosity != Verbosity::Quiet {
            print_line(style, &format!("{word:>12}"), format_args!(" {text}"));
        }
    }
}

/// Prints a styled beginning and a text to standard error, in lines that fit the terminal.
fn print_line(style: Style, start: &str, text: impl Display) {
    end_progress();
    let width = terminal_size_of(std::io::stderr()).map(|(width, _)| width);
    let line = wrap::fit(&format!("{start}{text}"), width);
    let text = line.strip_prefix(start).unwrap_or(&line);
    eprintln!("{style}{start}{style:#}{text}");
}

/// Erases the current line of the terminal, in which cargo's progress bar may be.
fn end_progress() {
    if std::io::stderr().is_terminal() {
        eprint!("\x1b[2K\r");
    }
}
