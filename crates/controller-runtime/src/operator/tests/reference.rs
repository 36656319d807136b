//! The page of the book about the program. `UPDATE_EXPECT=1 cargo test -p controller-runtime --lib reference` writes it.

use std::fmt::Write as _;

use expect_test::expect_file;

use super::super::{Operator, arguments::Arguments};

const INTRODUCTION: &str = "# The program of an operator

<!-- Written by crates/controller-runtime/src/operator/tests/reference.rs: change the program, then update this page. -->

Help texts of an operator's program whose `main` calls `Operator::main`. This one is named `guestbook`. Without a command it runs, with
the same flags as `run`. [Manifests](../guides/manifests.md) explains the other commands. Exit codes are 0, 1 for a failure, 2 for wrong
usage, and 3 for a difference that `--check` found.
";

#[test]
fn the_page_of_the_program_has_its_help_texts() {
    let mut program = Arguments::command_of(&Operator::new("guestbook", "guestbook.example.com"));
    program = program.term_width(100);
    program.build();
    let mut page = INTRODUCTION.to_owned();
    let mut section = |title: &str, help: String| {
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        write!(page, "\n## {title}\n\n```text\n{}\n```\n", lines.join("\n").trim_end())
            .expect("a string grows");
    };
    section("guestbook", program.render_help().to_string());
    for command in program.get_subcommands_mut() {
        let name = command.get_name().to_owned();
        if !["help", "run"].contains(&&*name) {
            section(&format!("guestbook {name}"), command.render_help().to_string());
        }
    }
    expect_file!["../../../../../docs/book/src/reference/program.md"].assert_eq(&page);
}
