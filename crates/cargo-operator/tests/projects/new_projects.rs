//! Projects of `cargo operator new`, with kinds and webhooks of `api`, `webhook` and `import`.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    dev, manifests,
    support::{answer, cargo_operator, errors},
    workspace::Projects,
};

/// Two projects with different names, kinds, plural rules and scopes. Their own tests pass, they are formatted, and `cargo run`
/// shows how the operator reconciles a sample.
#[test]
fn new_projects_pass_their_own_tests_and_run() {
    let projects = Projects::new(&["album", "dns-policies"]);
    for words in [
        "new album",
        "new dns-policies --group net.example.org --kind DNSPolicy --version v1beta1 --cluster-scoped --no-ci",
    ] {
        let made = cargo_operator(words, projects.path());
        assert!(made.status.success(), "{words}: {}", errors(&made));
    }
    for words in ["api Photo --version v1alpha1", "webhook Photo --defaulting --validation"] {
        let added = projects.operator(words, "album");
        assert!(added.status.success(), "{words}: {}", errors(&added));
    }
    add_types(&projects);
    let tests = projects.succeed("test --offline");
    assert!(tests.matches("2 passed").count() == 3, "{tests}");
    assert!(tests.contains("test written_types_keep_objects ... ok"), "{tests}");
    projects.succeed("fmt --check");
    run_and_test_share_their_libraries(&projects);
    a_test_names_the_right_that_nothing_declares(&projects);

    manifests::programs_print_their_manifests(&projects);
    dev::a_taken_port_and_an_unknown_cluster_are_refused(&projects);
    dev::the_operator_follows_its_sources(&projects);
    for (package, line) in [
        ("album", "album default/sample  created → configmaps default/album-sample created → Ready"),
        ("dns-policies", "dnspolicy sample  created → configmaps default/dns-policy-sample created → Ready"),
    ] {
        let folder = projects.path().join(package);
        projects.succeed(&format!("build --offline -p {package} --bin dev"));
        let mut program = Command::new(Projects::program("dev"))
            .env("CARGO_MANIFEST_DIR", &folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut output = BufReader::new(program.stdout.take().expect("a pipe"));
        let mut seen = String::new();
        while !seen.contains(line) {
            let read = output.read_line(&mut seen).expect("the output is text");
            assert!(read > 0, "it ended: {seen}");
        }
        assert!(seen.contains("kubectl --kubeconfig target/operator/kubeconfig get"), "{seen}");
        assert!(folder.join("target/operator/kubeconfig").is_file());
        kill_process(Pid::from_child(&program), Signal::INT).expect("the signal is sent");
        let status = program.wait().expect("it ends");
        let mut log = String::new();
        program.stderr.take().expect("a pipe").read_to_string(&mut log).expect("the log is text");
        assert!(status.success(), "{status}: {log}");
    }
}

/// The operator does not send a request that nothing declares. The test in which it tries to fails, also where the outcome is as expected, with
/// the line to add.
fn a_test_names_the_right_that_nothing_declares(projects: &Projects) {
    let path = projects.path().join("dns-policies/src/dns_policy/controller.rs");
    let code = fs::read_to_string(&path).expect("text");
    let (before, end) = code.rsplit_once("        Ok(Action::done())").expect("the last line");
    let delete = "cx.client().delete_key(&ObjectKey::<ConfigMap>::new(\"default\", \"other\")).await?;";
    let undeclared = format!("{before}        {delete}\n        Ok(Action::done()){end}");
    fs::write(&path, undeclared).expect("a file is written");
    let test = "test --offline -p dns-policies --test dns_policy the_config_map";
    let output = projects.cargo(test).output().expect("cargo runs");
    fs::write(&path, code).expect("a file is written");
    let text = format!("{}{}", answer(&output), errors(&output));
    assert!(!output.status.success(), "{text}");
    for part in [
        "(403 Forbidden); no registration declares this right: add .needs::<ConfigMap>([Verb::Delete]) to the controller's builder",
        "(called at dns-policies/src/dns_policy/controller.rs:",
        "requests were not sent, because no registration declares them:",
        "delete configmaps in default: no registration declares this right: add .needs::<ConfigMap>([Verb::Delete]) to the controller's builder",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

/// `cargo test` after `cargo run`, and the other way round, compiles the project alone.
fn run_and_test_share_their_libraries(projects: &Projects) {
    let libraries = |edges: &str| {
        let tree =
            projects.succeed(&format!("tree --offline -p album --prefix none -f {{p}}:{{f}} -e {edges}"));
        // The rest are messages of cargo, such as that it waits for a lock.
        let packages = tree.lines().filter(|line| line.contains(" v"));
        packages.map(|line| line.trim_end_matches(" (*)").to_owned()).collect::<BTreeSet<_>>()
    };
    let (run, test) = (libraries("normal"), libraries("normal,dev"));
    assert!(run.iter().any(|line| line.starts_with("tokio v")), "{run:?}");
    assert_eq!(run.difference(&test).collect::<Vec<_>>(), Vec::<&String>::new(), "other features in tests");
}

/// Adds types that `cargo operator import` writes, and a test of them, to the project `album`.
fn add_types(projects: &Projects) {
    let album = projects.path().join("album");
    fs::write(album.join("definitions.yaml"), include_str!("../import/definitions.yaml")).expect("a file");
    for kind in ["Tunnel", "Gateway"] {
        let added = projects.operator(&format!("import definitions.yaml --kind {kind}"), "album");
        assert!(added.status.success(), "{}", errors(&added));
    }
    fs::write(album.join("tests/imported.rs"), include_str!("../import/round_trip.rs")).expect("a file");
    // The settings of the folder differ from those of this repository.
    let formatted =
        Command::new("rustfmt").args(["--edition", "2024", "tests/imported.rs"]).current_dir(album).status();
    assert!(formatted.expect("rustfmt is installed").success());
}
