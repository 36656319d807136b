//! `cargo operator upgrade`.
//!
//! The folder `scaffolds` has five projects as earlier versions of `cargo operator new`, `api` and `webhook` made them, each in one file:
//!
//! | project | made when |
//! |---|---|
//! | `journal` | `cargo run` was a call of `kube_envtest::dev::Dev`, and programs had no `Operator` |
//! | `recipes` | programs were an `Operator`, and `cargo run` still a call of `Dev` |
//! | `route-rules` | `cargo run` was a call of `kube_envtest::dev::run`; with a second kind |
//! | `tickets` | tests ran with the rights of the manifests; with a second kind that has webhooks |
//! | `web-sites` | manifests had profiles, and programs no tests |

use std::{collections::BTreeSet, fs};

use crate::{
    support::{errors, files, repository},
    workspace::Projects,
};

const SCAFFOLDS: [(&str, &str); 5] = [
    ("journal", include_str!("../scaffolds/journal.txt")),
    ("recipes", include_str!("../scaffolds/recipes.txt")),
    ("route-rules", include_str!("../scaffolds/route-rules.txt")),
    ("tickets", include_str!("../scaffolds/tickets.txt")),
    ("web-sites", include_str!("../scaffolds/web-sites.txt")),
];

/// Requirements of these projects, which have stayed the same, and of a release before.
const REQUIREMENTS: [(&str, &str); 6] = [
    ("controller-runtime = { version = \"0.1.0\"", "controller-runtime = { version = \"0.0.9\""),
    ("kube-envtest = { version = \"0.1.0\"", "kube-envtest = { version = \"0.0.9\""),
    ("kube-envtest = \"0.1.0\"", "kube-envtest = \"0.0.9\""),
    ("k8s-openapi = { version = \"0.29\"", "k8s-openapi = { version = \"0.28\""),
    ("\"v1_36\"", "\"v1_35\""),
    ("kube = { version = \"5\"", "kube = { version = \"4\""),
];

/// Five projects are upgraded together, without a conflict and without an edit by hand, and compile.
#[test]
fn past_projects_compile_after_an_upgrade() {
    let projects = Projects::new(&SCAFFOLDS.map(|(name, _)| name));
    let root = repository().display();
    let patch = format!(
        "\n[patch.crates-io]\ncontroller-runtime = {{ path = \"{root}/crates/controller-runtime\" }}\n\
         kube-envtest = {{ path = \"{root}/crates/envtest\" }}\n"
    );
    let workspace = projects.path().join("Cargo.toml");
    let manifest = fs::read_to_string(&workspace).expect("text");
    fs::write(&workspace, manifest + &patch).expect("a file is written");
    for (name, scaffold) in SCAFFOLDS {
        unpack(&projects, name, scaffold);
    }
    let before = texts(&projects);

    let check = projects.operator("upgrade --check", ".");
    let older =
        "controller-runtime 0.0.9 → 0.1.0, kube-envtest 0.0.9 → 0.1.0, kube 4 → 5, k8s-openapi 0.28 → 0.29";
    let programs = "journal/src/bin/dev.rs, journal/src/main.rs, journal/src/lib.rs, recipes/src/bin/dev.rs";
    assert_eq!(check.status.code(), Some(3), "{}", errors(&check));
    assert!(errors(&check).contains(&format!("0.1.0: {older}, {programs}\n")), "{}", errors(&check));
    assert_eq!(texts(&projects), before, "a check changes nothing");

    let upgraded = projects.operator("upgrade --offline", ".");
    let text = errors(&upgraded);
    assert!(upgraded.status.success(), "{text}");
    assert!(text.contains(&format!("Upgraded {older}\n")), "{text}");
    assert!(text.contains(&format!("Edited {programs}\n")), "{text}");
    assert!(!text.contains("is not replaced"), "no file is left for the user: {text}");
    let changed = texts(&projects).into_iter().filter(|file| !before.contains(file)).map(|(path, _)| path);
    let sources: BTreeSet<_> = changed.filter(|path| !path.ends_with("Cargo.toml")).collect();
    assert_eq!(
        sources,
        programs.split(", ").map(str::to_owned).collect(),
        "the other files stay as they are"
    );
    let again = projects.operator("upgrade --check", ".");
    assert!(again.status.success(), "a second time: {}", errors(&again));
}

/// Writes the files of a project, each below a line `-- path --`, with the requirements of a release before.
fn unpack(projects: &Projects, name: &str, scaffold: &str) {
    let mut files: Vec<(&str, String)> = Vec::new();
    for line in scaffold.lines() {
        match line.strip_prefix("-- ").and_then(|line| line.strip_suffix(" --")) {
            Some(path) => files.push((path, String::new())),
            None => {
                let (_, text) = files.last_mut().expect("a path comes first");
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    for (path, mut text) in files {
        if path == "Cargo.toml" {
            for (now, then) in REQUIREMENTS {
                text = text.replace(now, then);
            }
        }
        let path = projects.path().join(name).join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder is made");
        fs::write(path, text).expect("a file is written");
    }
}

/// Paths and texts of the files of all projects.
fn texts(projects: &Projects) -> Vec<(String, String)> {
    let paths = files(projects.path()).into_iter().filter(|path| path.contains('/'));
    paths.map(|path| (path.clone(), fs::read_to_string(projects.path().join(&path)).expect("text"))).collect()
}
