//! Pages of the book that are written from the program. `UPDATE_EXPECT=1 cargo test -p cargo-operator reference` writes them.

use cargo_operator::cli::Cargo;
use clap::CommandFactory;
use expect_test::expect_file;

const INTRODUCTION: &str = "# `cargo operator`

<!-- Written from the program by crates/cargo-operator/tests/it/reference.rs: change the program, then update this page. -->

Help texts of the commands. Exit codes are 0, 1 for a failure, 2 for wrong usage, and 3 for a difference that a check found.
";

#[test]
fn the_page_of_cargo_operator_has_its_help_texts() {
    let mut root = Cargo::command().term_width(100);
    root.build();
    let operator = root.find_subcommand_mut("operator").expect("the command of cargo");
    let mut page = INTRODUCTION.to_owned();
    let mut section = |name: &str, command: &mut clap::Command| {
        let help = command.render_help().to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        page.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
    };
    section("cargo operator", &mut operator.clone());
    for command in operator.get_subcommands_mut() {
        let name = command.get_name().to_owned();
        if name != "help" && !command.is_hide_set() {
            section(&name, command);
        }
    }
    expect_file!["../../../../docs/book/src/reference/cargo-operator.md"].assert_eq(&page);
}
