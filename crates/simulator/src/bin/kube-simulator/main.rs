//! `cargo run -p kube-simulator -- report`: measures the simulator against its goals, and prints a table in Markdown.
//!
//! Without the feature `report`, the program is compiled again with the feature and optimised, and run with the same arguments. With it, `cargo run
//! --profile bench -p kube-simulator --features report -- report` does the same and compiles once. The profile `bench` optimises across crates.

mod cargo;
#[cfg(feature = "report")]
mod report;
#[cfg(not(feature = "report"))]
mod with_feature;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1);
    #[cfg(feature = "report")]
    return report::run(arguments);
    #[cfg(not(feature = "report"))]
    return with_feature::run(arguments);
}
