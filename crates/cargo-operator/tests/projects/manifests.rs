//! `cargo operator manifests`, `crds` and `rbac`.

use std::fs;

use crate::{
    support::{answer, errors},
    workspace::Projects,
};

/// Part of the test of new projects, which are compiled once.
pub(crate) fn programs_print_their_manifests(projects: &Projects) {
    let crds = projects.operator("crds", "dns-policies");
    let text = answer(&crds);
    assert!(crds.status.success(), "{}", errors(&crds));
    for line in [
        "name: dnspolicies.net.example.org",
        "scope: Cluster",
        "name: v1beta1",
        "description: A greeting, which the operator keeps in a ConfigMap.",
        "name: Ready",
        "name: Age",
    ] {
        assert!(text.contains(line), "{text}");
    }

    // Rights name the lines that need them, also those of a kind and of webhooks that were added.
    let rights = projects.operator("rbac", "album");
    let text = answer(&rights);
    assert!(rights.status.success(), "{}", errors(&rights));
    for line in ["photos.example.com", "src/photo/controller.rs:", "src/album/controller.rs:"] {
        assert!(text.contains(line), "{text}");
    }

    // Options of the program stand behind those of cargo, and flags of the operator behind `--`.
    let words =
        "manifests -q -p album --image registry.example.com/album:1 --only deployment -- --leader-elect";
    let manifests = projects.operator(words, "");
    let text = answer(&manifests);
    assert!(manifests.status.success(), "{}", errors(&manifests));
    assert!(text.contains("registry.example.com/album:1"), "{text}");
    assert!(text.contains("--leader-elect") && !text.contains("kind: CustomResourceDefinition"), "{text}");
    assert_eq!(errors(&manifests), "", "quiet");
    let plain = projects.operator("manifests --only deployment -- --metrics-bind-address=:8443", "album");
    assert!(answer(&plain).contains("--metrics-bind-address=:8443"), "{}", errors(&plain));

    // Wrong options of the program are usage errors.
    let wrong = projects.operator("manifests --no-such-option", "album");
    assert_eq!(wrong.status.code(), Some(2), "{}", errors(&wrong));
    assert!(errors(&wrong).contains("--no-such-option"), "{}", errors(&wrong));

    // Several packages could be meant.
    let several = projects.operator("crds", "");
    assert_eq!(several.status.code(), Some(2));
    assert!(errors(&several).contains("Hint select one with --package NAME"), "{}", errors(&several));

    // A compile error is cargo's own message, and the answer is empty.
    let lib = projects.path().join("album/src/lib.rs");
    let code = fs::read_to_string(&lib).expect("text");
    fs::write(&lib, format!("{code}\nfn broken( {{}}\n")).expect("a file is written");
    let broken = projects.operator("crds", "album");
    fs::write(&lib, code).expect("a file is written");
    assert_eq!(broken.status.code(), Some(1));
    assert_eq!(answer(&broken), "");
    let text = errors(&broken);
    assert!(text.contains("src/lib.rs") && text.contains("error: album does not compile"), "{text}");
}
