//! Options of the commands that the operator's program carries out, so that they are checked before it is built.

use std::ffi::OsString;

use clap::{
    Arg, ArgAction, Command,
    builder::{PossibleValuesParser, ValueParser},
    value_parser,
};

use crate::failure::Failure;

const FORMATS: [&str; 2] = ["text", "json"];

const LAYOUTS: [&str; 3] = ["yaml", "kustomize", "helm"];

const PARTS: [&str; 8] =
    ["namespace", "crds", "rbac", "services", "deployment", "webhooks", "network", "monitoring"];

/// Checks options of a command: their names, and values of those with few values.
///
/// # Errors
///
/// The program would refuse an option.
pub(crate) fn check(command: &str, options: &[OsString]) -> Result<(), Failure> {
    let words = std::iter::once(OsString::from(command)).chain(options.iter().cloned());
    let known = options_of(command);
    let shown = known.get_arguments().filter(|option| option.get_id() != "help");
    let names: Vec<_> = shown.map(|option| format!("--{}", option.get_id())).collect();
    match known.try_get_matches_from(words) {
        Ok(_) => Ok(()),
        Err(error) => {
            let text = error.to_string();
            // The text after it is the usage of this command alone, without the options of cargo.
            let text = text.split("\nUsage:").next().unwrap_or_default().trim_start_matches("error: ");
            let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            Err(Failure::usage(lines.join(" "))
                .hint(format!("the command has the options {}", names.join(", "))))
        }
    }
}

fn options_of(command: &str) -> Command {
    let value = |name: &'static str, parser: ValueParser| Arg::new(name).long(name).value_parser(parser);
    let text = |name| value(name, value_parser!(OsString));
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let one_of =
        |name, values: &[&'static str]| value(name, PossibleValuesParser::new(values.to_vec()).into());
    let known = Command::new("operator")
        .disable_help_flag(true)
        .arg(flag("help").short('h'))
        .arg(one_of("format", &FORMATS));
    match command {
        "manifests" => known.args([
            one_of("layout", &LAYOUTS),
            text("out"),
            flag("check"),
            text("baseline"),
            text("allow"),
            flag("lint"),
            one_of("only", &PARTS).value_delimiter(',').action(ArgAction::Append),
            text("namespace"),
            text("image"),
            value("replicas", value_parser!(u32).into()),
            text("resources"),
            flag("service-monitor"),
        ]),
        _ => known,
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;

    /// The message for options, or nothing.
    fn refused(command: &str, options: &str) -> String {
        let options: Vec<_> = options.split_whitespace().map(OsString::from).collect();
        check(command, &options).err().map_or_else(String::new, |failure| failure.message)
    }

    #[test]
    fn wrong_options_are_named_with_what_is_possible() {
        for (options, message) in [
            ("", ""),
            ("--layout=helm --out deploy --only crds,rbac --check", ""),
            ("--image - --replicas 2 --help", ""),
            (
                "--layout foo",
                "invalid value 'foo' for '--layout <layout>' [possible values: yaml, kustomize, helm]",
            ),
            (
                "--laoyut helm",
                "unexpected argument '--laoyut' found tip: a similar argument exists: '--layout'",
            ),
            (
                "--replicas many",
                "invalid value 'many' for '--replicas <replicas>': invalid digit found in string",
            ),
        ] {
            assert_eq!(refused("manifests", options), message, "{options}");
        }
        assert!(
            refused("manifests", "--only crds,role").starts_with("invalid value 'role' for '--only <only>'")
        );
        assert!(refused("manifests", "--out").starts_with("a value is required for '--out <out>'"));
        assert_eq!(refused("rbac", "--format json"), "");
        assert!(refused("crds", "--layout helm").starts_with("unexpected argument '--layout' found"));
    }

    /// The page of the book about the program is written from its help texts.
    #[test]
    fn the_options_are_those_of_the_program() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/reference/program.md");
        let page = fs::read_to_string(path).expect("the page of the program");
        for command in ["manifests", "rbac", "crds"] {
            let (_, section) = page.split_once(&format!("\n## guestbook {command}\n")).expect("a section");
            let section = section.split("\n## ").next().expect("text");
            // `      --layout <LAYOUT>        Form …`, and `  -h, --help …`.
            let documented = section.lines().filter_map(|line| {
                let option = line.trim_start().trim_start_matches("-h, ").strip_prefix("--")?;
                let (name, rest) = option.split_once(' ')?;
                Some((name.to_owned(), rest.starts_with('<')))
            });
            let known = options_of(command);
            let known = known
                .get_arguments()
                .map(|option| (option.get_id().to_string(), option.get_action().takes_values()));
            assert_eq!(known.collect::<BTreeSet<_>>(), documented.collect(), "{command}");
            if command == "manifests" {
                let words = section.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(words.contains(&PARTS.join(", ")), "{words}");
                assert!(words.contains(&LAYOUTS.join(", ").replace(", helm", " or helm")), "{words}");
                assert!(words.contains(&format!("[possible values: {}]", FORMATS.join(", "))), "{words}");
            }
        }
    }
}
