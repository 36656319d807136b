//! Floors of modules: which modules of a crate may import which others.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{Offences, files, imports, read, root};

/// Folders with modules on floors: the folder, its module path, and its modules from the lowest floor up. A module imports
/// only from itself and from modules before it in the list, so that a lower one can be read, tested and changed without the
/// upper ones. Links in documentation may point upwards.
const FLOORS: [(&str, &[&str], &[&str]); 7] = [
    (
        "crates/controller-runtime/src",
        &[],
        &[
            // Ground: no module of the crate but each other.
            "brief",
            "conditions",
            "error",
            "host",
            "json",
            "logging",
            "ordered_watch",
            "pace",
            "panics",
            "object",
            // Rights that registrations imply; pure.
            "rights",
            // Access to the API server.
            "client",
            // Cached objects and their changes.
            "cache",
            // Traits of users, and parameters of a reconcile.
            "recorder",
            "predicate",
            "reconcile",
            "finalizer",
            "telemetry",
            // From a change to a request in the queue.
            "metrics",
            "findings",
            "request_queue",
            "handler",
            "source",
            // Parts that a manager runs.
            "runnable",
            "serving",
            "health",
            "leader_election",
            "controller",
            "webhook",
            // Composition.
            "manager",
            "builder",
            "manifests",
            "operator",
        ],
    ),
    (
        "crates/controller-runtime/src/client",
        &["client"],
        &["connection", "transport", "requests", "helpers"],
    ),
    ("crates/controller-runtime/src/cache", &["cache"], &["objects", "query", "watch", "state", "read"]),
    (
        "crates/apimachinery/src",
        &[],
        &[
            "data_file",
            "testing",
            "go",
            "status",
            "names",
            "metadata",
            "quantity",
            "decode",
            "yaml",
            "selector",
            "rbac",
            "crd_compat",
            "field_path",
            "go_struct",
            "schema",
            "cel",
            "patch",
            "managed_fields",
            "protobuf",
            "table",
        ],
    ),
    (
        "crates/apiserver/src",
        &[],
        &[
            // Calls to the outside.
            "webhook_client",
            // Data: users, stored objects, kinds and their rules.
            "user",
            "store",
            "kind",
            "kinds",
            "metrics",
            // The cluster, and parts that write to it without a request.
            "state",
            "bootstrap",
            "controllers",
            // Parts of requests and responses, and faults in them.
            "request",
            "faults",
            "response",
            // From a request to the response.
            "api",
            "http",
            "listener",
            // Composition.
            "api_server",
            "testing",
        ],
    ),
    (
        "crates/apiserver/src/api",
        &["api"],
        &[
            "authentication",
            "authorization",
            "audit",
            "impersonation",
            "flow_control",
            "conversion",
            "admission",
            "selection",
            "verbs",
        ],
    ),
    (
        "crates/simulator/src",
        &[],
        &[
            // Hooks into the runtimes; then pure: texts, comparison, logs.
            "idle",
            "watchdog",
            "reconciles",
            "oracle",
            "plan",
            "names",
            "similar",
            "truth",
            "trace",
            // The border of a process.
            "hub",
            "gate",
            "remote",
            "user",
            "stepping",
            // One run, its judgement, and the search.
            "definition",
            "run",
            "judge",
            "explore",
            // Output, and composition.
            "trace_file",
            "picture",
            "simulation",
            "actors",
        ],
    ),
];

#[test]
fn modules_import_only_from_their_floor_and_those_below() {
    let mut offences = Offences::default();
    for (folder, module, floors) in FLOORS {
        for name in modules_in(folder) {
            if !floors.contains(&&*name) {
                offences.add(&root().join(folder), &format!("module {name} has no floor: add it to FLOORS"));
            }
        }
        for (height, floor) in floors.iter().enumerate() {
            let sources = files_of_module(folder, floor);
            let is_test = |file: &PathBuf| {
                file.components().any(|part| part.as_os_str().to_string_lossy().starts_with("tests"))
            };
            assert!(!sources.is_empty(), "{folder}/{floor} has no module");
            for file in sources
                .iter()
                .filter(|file| !is_test(&file.strip_prefix(root()).expect("below the root").to_owned()))
            {
                let below =
                    file.strip_prefix(root().join(folder)).expect("below the folder").with_extension("");
                let names = below.iter().map(|part| part.to_str().expect("a name in UTF-8"));
                let path: Vec<&str> =
                    module.iter().copied().chain(names.filter(|name| *name != "mod")).collect();
                for import in imports::imports(&read(file), &path) {
                    let Some(rest) = import
                        .path
                        .strip_prefix(&*module.iter().map(ToString::to_string).collect::<Vec<_>>())
                    else {
                        continue;
                    };
                    let Some(target) = rest.first() else { continue };
                    match floors.iter().position(|floor| floor == target) {
                        Some(at) if at <= height => {}
                        Some(_) => offences.add(
                            file,
                            &format!(
                                "line {}: imports {}, which is above {floor}",
                                import.line,
                                rest.join("::")
                            ),
                        ),
                        None => offences.add(
                            file,
                            &format!("line {}: imports {target} without naming its floor", import.line),
                        ),
                    }
                }
            }
        }
    }
    offences.assert_none();
}

/// Names of the modules in a folder of sources, each a file or a folder.
fn modules_in(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join(folder)).expect("the folder exists");
    let names = entries.map(|entry| entry.expect("an entry").path());
    let modules = names.filter(|path| path.is_dir() || path.extension().is_some_and(|kind| kind == "rs"));
    let stem =
        |path: PathBuf| path.file_stem().expect("a name").to_str().expect("a name in UTF-8").to_owned();
    modules.map(stem).filter(|name| !["bin", "lib", "mod", "main"].contains(&&**name)).collect()
}

/// Sources of a module: its file, and those in its folder.
fn files_of_module(folder: &str, module: &str) -> Vec<PathBuf> {
    let file = root().join(folder).join(module).with_extension("rs");
    let inner = if root().join(folder).join(module).is_dir() {
        files(&format!("{folder}/{module}"), "rs")
    } else {
        Vec::new()
    };
    inner.into_iter().chain(file.is_file().then_some(file)).collect()
}
