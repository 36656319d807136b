//! Command lines of the replaced programs, in the syntax of their flag library.
//!
//! All flags of those programs are known. The caller lists the flags that have a meaning here. The others are accepted, and
//! [`Flags::without_effect`] returns those that were given.

use std::ffi::OsString;

use clap::builder::{Arg, ArgAction, Command};
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A flag that has a meaning here, and its description.
pub(crate) type Meaning = (&'static str, &'static str);

/// Flags of a program. The table has a line for each flag: its name, and the kind of its value unless it is a switch. Lines that begin with
/// `#` are comments.
pub(crate) struct Program {
    /// Name of the program.
    pub(crate) name: &'static str,
    /// All flags that the program knows.
    pub(crate) table: &'static str,
    /// Flags that have a meaning here.
    pub(crate) meanings: &'static [Meaning],
    /// First sentence of the help.
    pub(crate) about: &'static str,
}

/// A parsed command line.
#[derive(Debug)]
pub(crate) struct Flags {
    /// The given flags with their values, in the order of the table.
    given: Vec<(&'static str, Vec<String>)>,
    meanings: &'static [Meaning],
}

impl Program {
    fn flags(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        let lines = self.table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| line.split_once(' ').unwrap_or((line, "")))
    }

    /// Parses a command line.
    ///
    /// # Errors
    /// The message of the program for a flag that it does not know, or that lacks its value.
    pub(crate) fn read(&self, arguments: Vec<OsString>) -> Result<Flags, String> {
        // `--help` is one of the flags in the table.
        let mut command = Command::new(self.name).no_binary_name(true).disable_help_flag(true);
        for (name, kind) in self.flags() {
            let flag = Arg::new(name).long(name).action(ArgAction::Append);
            let flag = match name {
                "help" => flag.short('h'),
                "v" => flag.short('v'),
                _ => flag,
            };
            // The value of a switch must follow an equals sign.
            command = command.arg(if kind.is_empty() {
                flag.num_args(0..=1).require_equals(true).default_missing_value("true")
            } else {
                flag.num_args(1).allow_hyphen_values(true)
            });
        }
        let matches = command.try_get_matches_from(arguments).map_err(|error| self.refusal(&error))?;
        let given = self.flags().filter_map(|(name, kind)| {
            let values: Vec<String> = matches.get_many(name)?.cloned().collect();
            Some((name, kind, values))
        });
        let given: Vec<_> = given.collect();
        for (name, _, values) in given.iter().filter(|(_, kind, _)| kind.is_empty()) {
            if let Some(value) = values.iter().find(|value| boolean(value).is_none()) {
                return Err(format!("invalid argument {value:?} for \"--{name}\" flag: use true or false"));
            }
        }
        let given = given.into_iter().map(|(name, _, values)| (name, values)).collect();
        Ok(Flags { given, meanings: self.meanings })
    }

    fn refusal(&self, error: &clap::Error) -> String {
        let named = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(text)) => text.split([' ', '=']).next().unwrap_or_default(),
            _ => "",
        };
        match error.kind() {
            ErrorKind::UnknownArgument if named.starts_with("--") => format!("unknown flag: {named}"),
            ErrorKind::UnknownArgument if named.starts_with('-') => {
                format!("unknown shorthand flag: {named}: flags begin with two dashes")
            }
            ErrorKind::UnknownArgument => {
                format!("{:?} does not take any arguments, got [{named:?}]", self.name)
            }
            ErrorKind::InvalidValue => format!("flag needs an argument: {named}"),
            _ => {
                error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
            }
        }
    }

    /// Returns the help. Each flag begins a line, from which test environments read the flags that a version knows.
    pub(crate) fn help(&self) -> String {
        let mut text = format!("{}\n\nUsage:\n  {} [flags]\n\nFlags:\n", self.about, self.name);
        for (name, meaning) in self.meanings {
            text += &format!("      --{name:<34}{meaning}\n");
        }
        text += "\nFlags that are accepted and have no effect here:\n";
        for (name, _) in self.flags().filter(|(name, _)| !has_meaning(self.meanings, name)) {
            text += &format!("      --{name}\n");
        }
        text
    }
}

fn has_meaning(meanings: &[Meaning], name: &str) -> bool {
    meanings.iter().any(|(known, _)| *known == name)
}

/// Reads a switch: the texts that Go accepts.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

impl Flags {
    /// Returns all values of a flag, in order.
    pub(crate) fn values(&self, name: &str) -> &[String] {
        debug_assert!(has_meaning(self.meanings, name), "--{name} has a meaning and is not listed");
        let given = self.given.iter().find(|(known, _)| *known == name);
        given.map(|(_, values)| values.as_slice()).unwrap_or_default()
    }

    /// Returns the value of a flag, or its last value if it was given several times.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values(name).last().map(String::as_str)
    }

    /// Returns the elements of a flag that takes lists, separated by commas.
    pub(crate) fn list(&self, name: &str) -> impl Iterator<Item = &str> {
        self.values(name).iter().flat_map(|value| value.split(',')).filter(|element| !element.is_empty())
    }

    /// Whether a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.value(name).and_then(boolean).unwrap_or(false)
    }

    /// Returns the given flags that have no effect here, in one text; `None` if there are none.
    pub(crate) fn without_effect(&self) -> Option<String> {
        let ignored = self.given.iter().filter(|(name, _)| !has_meaning(self.meanings, name));
        let ignored: Vec<String> = ignored.map(|(name, _)| format!("--{name}")).collect();
        (!ignored.is_empty()).then(|| ignored.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: Program = Program {
        name: "sample",
        table: "# a comment\nallow\nhelp\nname string\nnames strings\nv Level\n",
        meanings: &[("help", "print this help"), ("name", "name of the sample"), ("names", "names")],
        about: "A sample.",
    };

    fn read(arguments: &[&str]) -> Result<Flags, String> {
        PROGRAM.read(arguments.iter().map(OsString::from).collect())
    }

    #[test]
    fn values_follow_an_equals_sign_or_a_space() {
        let flags =
            read(&["--name=a", "--names", "x,y", "--name", "--b", "--names=z", "--allow", "-v=2"]).unwrap();
        assert_eq!(flags.value("name"), Some("--b"), "the last one counts");
        assert_eq!(flags.list("names").collect::<Vec<_>>(), ["x", "y", "z"]);
        assert_eq!(flags.without_effect().unwrap(), "--allow, --v");
        assert!(!flags.is_on("help"));
        assert!(read(&["-h"]).unwrap().is_on("help"));
        assert!(!read(&["--help=false"]).unwrap().is_on("help"));
        assert_eq!(read(&[]).unwrap().without_effect(), None);
    }

    #[test]
    fn a_wrong_command_line_is_refused_with_the_flag() {
        assert_eq!(read(&["--nmae=a"]).unwrap_err(), "unknown flag: --nmae");
        assert_eq!(read(&["--name"]).unwrap_err(), "flag needs an argument: --name");
        assert_eq!(
            read(&["--allow", "true"]).unwrap_err(),
            r#""sample" does not take any arguments, got ["true"]"#,
            "a switch takes no value after a space"
        );
        assert_eq!(
            read(&["--allow=2"]).unwrap_err(),
            r#"invalid argument "2" for "--allow" flag: use true or false"#
        );
        assert!(read(&["-name=a"]).unwrap_err().starts_with("unknown shorthand flag"));
    }

    #[test]
    fn each_flag_begins_a_line_of_the_help() {
        let help = PROGRAM.help();
        for name in ["allow", "help", "name", "names", "v"] {
            let begins = |line: &str| line.split_whitespace().next() == Some(&format!("--{name}"));
            assert!(help.lines().any(begins), "--{name}: {help}");
        }
    }
}
