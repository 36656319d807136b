//! Development tasks: `cargo xtask <task>`.

mod book;
mod columns;
mod data;
mod go;
mod go_types;
mod internal_structs;
mod links;
mod roles;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask data --from DIR --go MODULES
       cargo xtask roles --from DIR
       cargo xtask structs --go MODULES
       cargo xtask book
       cargo xtask links DIR
  data   write crates/{apimachinery,apiserver}/data/ from the recordings in DIR, which are data/ (OpenAPI, discovery and protobuf documents)
         and transcripts/, and from the folders of the Go modules
         k8s.io/{api,apimachinery,apiextensions-apiserver,kube-aggregator} of the same version in MODULES
  roles  write crates/apiserver/data/roles.txt from DIR, the folder plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata of the
         Go module k8s.io/kubernetes
  structs  write crates/apimachinery/data/{internal-structs,go-types}.txt from the folders of the Go modules
         k8s.io/{kubernetes,api,apimachinery,apiextensions-apiserver,kube-aggregator} of the same version in MODULES
  book   change links of the book, which mdBook passes on standard input
  links  check the links of the built book in DIR";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["data", "--from", from, "--go", modules] => {
            data::write(from.as_ref(), modules.as_ref(), &data::target())
        }
        // mdBook asks which output formats are supported: all.
        ["book", "supports", _] => return ExitCode::SUCCESS,
        ["book"] => book::preprocess(),
        ["links", folder] => links::check(folder.as_ref()),
        ["structs", "--go", modules] => {
            internal_structs::write(modules.as_ref(), &data::target()).and_then(|first| {
                let second = go_types::write(modules.as_ref(), &data::target())?;
                Ok(format!("{first}\n{second}"))
            })
        }
        ["roles", "--from", from] => roles::write(from.as_ref(), &data::target()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
