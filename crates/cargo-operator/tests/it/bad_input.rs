//! Bad input: one clear line, the next step, a non-zero exit code, and files and stored objects as they were.
//!
//! | input | test |
//! |---|---|
//! | names that are not DNS labels or identifiers | `new::bad_names_are_refused_with_one_line_and_nothing_is_written` |
//! | a folder that is not empty | `new::a_folder_that_is_not_empty_stays_as_it_is` |
//! | a project without `add_to`, or without an `Operator` | `api::problems_are_named_and_change_nothing`, `api::a_library_without_an_operator_gets_the_kind_and_its_user_the_lines_to_add`, `a_program_that_is_no_operator_is_named_and_finds_no_cluster` |
//! | a broken Cargo.toml | `ask::a_broken_manifest_is_quoted` |
//! | a setup that asks the server | `setup_that_asks_the_server_is_named` in controller-runtime's `operator::tests` |
//! | a kubeconfig of production | `dev::a_taken_port_and_an_unknown_cluster_are_refused`, `dev::cluster::tests` |
//! | a port in use | `dev::a_taken_port_and_an_unknown_cluster_are_refused` |
//! | unknown options and values, samples that do not exist | `wrong_arguments_are_named_before_anything_is_built` |
//! | a project without a session for `dev`, or with one of another version | `a_program_that_is_no_operator_is_named_and_finds_no_cluster` |
//! | a second session of a project, also with `--reset` | `dev::the_operator_follows_its_sources`; `a_folder_has_one_session_at_a_time` in kube-envtest's `dev::session` |
//! | a target for images that is not installed | `an_image_for_a_target_that_is_not_installed_is_refused_before_anything_is_built` |
//! | a compile error during `dev` | `dev::the_operator_follows_its_sources` |
//! | a cluster that goes away | `explain::problems_are_named_with_the_next_step`, `explain::a_watched_answer_is_printed_when_it_changes_and_when_the_operator_answers_again` |
//! | definitions that cannot be imported | `import::definitions_that_cannot_be_read_are_named_in_one_line_and_nothing_is_written` |
//! | tokens that the page refuses | `the_page_asks_for_a_token_and_then_follows_the_operator` in controller-runtime's `tests/browser`, `explain::an_operator_is_asked_by_its_address_and_token` |

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
};

use crate::support::{answer, cargo_operator, errors, script};

/// Arguments are checked first: this project does not compile.
#[test]
fn wrong_arguments_are_named_before_anything_is_built() {
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = "[package]\nname = \"plain\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n";
    fs::write(folder.path().join("Cargo.toml"), manifest).expect("a file");
    fs::create_dir(folder.path().join("src")).expect("a folder");
    fs::write(folder.path().join("src/main.rs"), "fn main() {").expect("a file");
    let kubectl = r#"echo '{"clusters":[{"cluster":{"server":"https://production:6443"}}]}'"#;
    fs::create_dir(folder.path().join("bin")).expect("a folder");
    script(&folder.path().join("bin"), "kubectl", kubectl);
    let path = format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").expect("a path"));
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    for (words, code, message) in [
        (
            "manifests --layout foo".to_owned(),
            2,
            "invalid value 'foo' for '--layout <layout>' [possible values: yaml".to_owned(),
        ),
        ("rbac --layout helm".to_owned(), 2, "unexpected argument '--layout' found".to_owned()),
        (
            "dev --samples nowhere".to_owned(),
            2,
            "--samples nowhere: there is no such file or folder".to_owned(),
        ),
        (format!("dev --port {}", address.port()), 1, format!("cannot listen on {address}: ")),
        (
            "dev --on production".to_owned(),
            2,
            "context production (https://production:6443) is not known to be".to_owned(),
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-operator"));
        command.arg("operator").args(words.split(' ')).current_dir(folder.path()).env("PATH", &path);
        let output = command.stdin(Stdio::null()).output().expect("the program runs");
        let text = errors(&output);
        assert_eq!(output.status.code(), Some(code), "{words}: {text}");
        assert!(text.starts_with(&format!("error: {message}")), "{words}: {text}");
        assert_eq!(text.lines().count(), 2, "an error and a hint: {text}");
    }
    assert!(!folder.path().join("target").exists(), "something was built");
}

#[test]
fn an_image_for_a_target_that_is_not_installed_is_refused_before_anything_is_built() {
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = "[package]\nname = \"plain\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n";
    fs::write(folder.path().join("Cargo.toml"), manifest).expect("a file");
    fs::create_dir(folder.path().join("src")).expect("a folder");
    fs::write(folder.path().join("src/main.rs"), "fn main() {}\n").expect("a file");
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).expect("a folder");
    // Like rustc without these targets, it names a folder that does not exist. There is no C compiler in the path.
    let genuine = Path::new(env!("CARGO")).with_file_name("rustc");
    let commands =
        format!("case \"$*\" in *libdir*) echo /nowhere ;; *) exec {} \"$@\" ;; esac", genuine.display());
    let rustc = script(&bin, "rustc", &commands);
    let musl = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    for (words, target, step) in [
        ("image", &*musl, "; then install musl-gcc, which compiles C code for "),
        ("image --target riscv64gc-unknown-linux-gnu", "riscv64gc-unknown-linux-gnu", "\n"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-operator"));
        command.arg("operator").args(words.split(' ')).current_dir(folder.path());
        command.env("CARGO", env!("CARGO")).env("RUSTC", &rustc).env("PATH", &bin);
        let output = command.output().expect("the program runs");
        let text = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{words}: {text}");
        let error = format!("error: target {target} is not installed\n");
        let hint = format!("        Hint rustup target add {target}{step}");
        assert!(text.starts_with(&(error + &hint)), "{words}: {text}");
        assert_eq!(text.lines().count(), 2, "an error and a hint: {text}");
    }
    assert!(!folder.path().join("target").exists(), "something was built");
}

#[test]
fn a_program_that_is_no_operator_is_named_and_finds_no_cluster() {
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = "[package]\nname = \"plain\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n";
    fs::write(folder.path().join("Cargo.toml"), manifest).expect("a file");
    fs::create_dir(folder.path().join("src")).expect("a folder");
    let code = "fn main() {\n    println!(\"{:?}\", std::env::var(\"KUBECONFIG\"));\n}\n";
    fs::write(folder.path().join("src/main.rs"), code).expect("a file");

    let asked = cargo_operator("rbac", folder.path());
    assert_eq!(answer(&asked), "Ok(\"/no-cluster-while-the-operator-is-asked\")\n", "{}", errors(&asked));
    let refused = |code, reasons: [&str; 2]| {
        let dev = cargo_operator("dev", folder.path());
        let text = errors(&dev);
        assert_eq!(dev.status.code(), Some(code), "{text}");
        assert!(reasons.iter().all(|reason| text.contains(reason)), "{text}");
    };
    let reason = "error: package plain has no program dev, which runs the API server of the session";
    refused(2, [reason, "Hint add src/bin/dev.rs, whose main returns kube_envtest::dev::run(…).await"]);

    // A program of this name that is no session finds no cluster either.
    fs::create_dir(folder.path().join("src/bin")).expect("a folder");
    let dev = folder.path().join("src/bin/dev.rs");
    fs::write(&dev, code.replace("println!", "eprintln!")).expect("a file");
    let reason = "error: the program dev of this project did not start a session: it ended (exit status: 0)";
    refused(1, [reason, "Ok(\"/no-cluster-while-the-operator-is-asked\")"]);

    // A session, and an operator that prints no manifests.
    let session = r##"fn main() {
        println!(r#"{{"hello":{{"schema":"operator-session/v2","library":"0.1.0"}}}}"#);
        for _ in std::io::stdin().lines() {
            println!(r#"{{"answer":{{"words":[]}}}}"#);
        }
    }"##;
    fs::write(&dev, session).expect("a file");
    let reason = "error: the operator's program printed its manifests in an unknown form: ";
    refused(1, [reason, "its main has to return operator().main().await"]);
    fs::write(&dev, session.replace("session/v2", "session/v9")).expect("a file");
    let reason = "error: the program dev uses session schema operator-session/v9 of kube-envtest 0.1.0, but cargo-operator ";
    refused(1, [reason, "Hint cargo operator upgrade sets the libraries to the versions of this program"]);
}
