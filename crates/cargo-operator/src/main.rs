//! `cargo operator`: see README.md.

use std::process::ExitCode;

fn main() -> ExitCode {
    cargo_operator::cli::main()
}
