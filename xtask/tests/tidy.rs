//! Rules for the whole repository that lints cannot check. Each test checks one rule; its documentation states the reason.

#[path = "tidy/book.rs"]
mod book;
#[path = "tidy/data.rs"]
mod data;
#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/packages.rs"]
mod packages;
#[path = "tidy/places.rs"]
mod places;
#[cfg(unix)]
#[path = "tidy/public_api.rs"]
mod public_api;
#[path = "tidy/sources.rs"]
mod sources;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Applications choose the version of the Kubernetes types. A library with a version would impose it on all applications, and
/// two libraries with different versions could not be combined.
#[test]
fn libraries_choose_no_version_of_k8s_openapi() {
    let chooses = |dependency: &Dependency| {
        let is_version =
            |feature: &String| feature.starts_with("v1_") || ["latest", "earliest"].contains(&&**feature);
        dependency.name == "k8s-openapi" && !dependency.is_dev && dependency.features.iter().any(is_version)
    };
    let mut offences = Offences::default();
    for package in packages().iter().filter(|package| package.is_library()) {
        if package.dependencies.iter().any(chooses) {
            offences.add(&package.manifest, "[dependencies] of a library: k8s-openapi has a version feature");
        }
    }
    offences.assert_none();
}

/// Dependencies between crates as in ARCHITECTURE.md: the API server and the runtime meet only at `kube::Client`, the queue does not
/// depend on Kubernetes, transformations of objects stay pure, and `cargo operator` is compiled in a short time.
#[test]
fn crates_depend_only_on_what_lies_below_them() {
    let forbidden = [
        (
            "kube-workqueue",
            ["kube", "k8s-openapi", "controller-runtime", "kube-apiserver-embedded", "kube-envtest"]
                .as_slice(),
        ),
        (
            "kube-clock",
            &["kube", "k8s-openapi", "controller-runtime", "kube-apiserver-embedded", "kube-envtest"],
        ),
        (
            "kube-apimachinery",
            &[
                "kube",
                "k8s-openapi",
                "tokio",
                "http",
                "controller-runtime",
                "kube-apiserver-embedded",
                "kube-clock",
                "kube-envtest",
                "kube-workqueue",
            ],
        ),
        (
            "kube-apiserver-embedded",
            &["controller-runtime", "kube-workqueue", "kube-envtest", "kube-simulator"],
        ),
        ("kube-envtest", &["controller-runtime", "kube-workqueue", "kube-simulator"]),
        ("controller-runtime", &["kube-apiserver-embedded", "kube-envtest", "kube-simulator"]),
        (
            "cargo-operator",
            &[
                "kube",
                "k8s-openapi",
                "controller-runtime",
                "kube-apiserver-embedded",
                "kube-clock",
                "kube-envtest",
            ],
        ),
    ];
    let mut offences = Offences::default();
    for package in packages() {
        let banned =
            forbidden.iter().find(|(name, _)| *name == package.name).map_or(&[][..], |(_, banned)| banned);
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.is_dev) {
            if banned.contains(&&*dependency.name) {
                offences.add(&package.manifest, &format!("must not depend on {}", dependency.name));
            }
        }
    }
    offences.assert_none();
}

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

/// Without `biased`, `select!` picks the first branch at random, and stable tokio offers no seed: a simulation would not repeat. Test
/// code is exempt.
#[test]
fn every_select_is_biased() {
    let mut offences = Offences::default();
    let sources = ["crates/apiserver/src", "crates/controller-runtime/src", "crates/simulator/src"];
    for file in sources.iter().flat_map(|folder| files(folder, "rs")) {
        let is_test = file.components().any(|part| part.as_os_str() == "tests") || file.ends_with("tests.rs");
        let text = read(&file);
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines: Vec<&str> = code.lines().map(str::trim).collect();
        for (index, _) in lines.iter().enumerate().filter(|(_, line)| line.contains("select! {")) {
            if is_test || lines[index].starts_with("//") {
                continue;
            }
            let first = lines[index + 1..].iter().find(|line| !line.is_empty() && !line.starts_with("//"));
            if first != Some(&"biased;") {
                offences.add(&file, &format!("line {}: a select! without `biased;`", index + 1));
            }
        }
    }
    offences.assert_none();
}

/// A second TLS stack would double the longest part of a cold build, and some need more than a C compiler.
#[test]
fn there_is_one_tls_stack() {
    let lock = read(&root().join("Cargo.lock"));
    for package in ["aws-lc-rs", "aws-lc-sys", "native-tls", "openssl", "openssl-sys"] {
        assert!(
            !lock.contains(&format!("name = \"{package}\"\n")),
            "Cargo.lock: {package} came in: see `cargo tree -i {package}`"
        );
    }
}

/// Readers copy the README's Rust code, so it must compile and be short. It is compiled as a doc test of the crate that includes
/// the README.
#[test]
fn rust_in_the_readme_is_a_doc_test_of_at_most_40_lines() {
    let included = |file: &PathBuf| read(file).contains("#[doc = include_str!(\"../../../README.md\")]");
    assert!(files("crates", "rs").iter().any(included), "README.md: no crate has it as a doc test");
    let readme = read(&root().join("README.md"));
    for block in readme.split("```rust").skip(1) {
        let lines = block.lines().skip(1).take_while(|line| !line.starts_with("```")).count();
        assert!(lines <= 40, "README.md: a block of Rust has {lines} lines");
    }
}

/// The guides quote a project that is compiled and tested in this workspace, so that copied code works.
#[test]
fn guides_quote_the_example_that_is_tested() {
    let example = root().join("examples/getting-started");
    // In the guide the project has its own name and finds the crates in a checkout beside it.
    let manifest = read(&example.join("Cargo.toml"))
        .replace("name = \"getting-started\"", "name = \"team-operator\"")
        .replace("\"../../crates/", "\"../controller-runtime/crates/");
    let manifest: Vec<&str> = manifest.lines().filter(|line| !line.starts_with("description")).collect();
    let (manifest, main) = (manifest.join("\n"), read(&example.join("src/main.rs")));
    let tests = read(&example.join("src/tests.rs"));
    let webhooks = root().join("examples/webhooks/tests");
    let webhooks = ["common/mod.rs", "in_process.rs"].map(|file| read(&webhooks.join(file)));
    let all_tests = format!("{tests}{}", webhooks.concat());
    let mut offences = Offences::default();
    for (guide, whole, rust) in [
        (
            "docs/book/src/guides/getting-started.md",
            [("toml", &*manifest), ("rust", &*main)].as_slice(),
            &*main,
        ),
        ("docs/book/src/guides/testing.md", &[], &*all_tests),
    ] {
        let text = read(&root().join(guide));
        let blocks = |language: &str| -> Vec<String> {
            let fence = format!("```{language}\n");
            let ends = |block: &str| block.split("\n```").next().unwrap_or_default().to_owned();
            text.split(&*fence).skip(1).map(ends).collect()
        };
        for (language, file) in whole {
            if blocks(language) != [file.trim()] {
                offences
                    .add(&root().join(guide), &format!("its {language} differs from that of the example"));
            }
        }
        for (language, file) in [("toml", &*manifest), ("rust", rust)] {
            for block in blocks(language).iter().filter(|block| !file.contains(&***block)) {
                let line = block.lines().last().unwrap_or_default();
                offences.add(
                    &root().join(guide),
                    &format!("the {language} that ends with {line:?} is not in the example"),
                );
            }
        }
        for test in tests.split("async fn ").skip(1).filter_map(|rest| rest.split('(').next()) {
            if whole.is_empty() && !text.contains(test) {
                offences.add(&root().join(guide), &format!("lacks the test {test}"));
            }
        }
    }
    offences.assert_none();
}

/// The documents recommend the test command that CI runs.
#[test]
fn the_test_command_of_the_documents_is_the_one_of_ci() {
    for document in ["README.md", "CONTRIBUTING.md", ".ci/run", "justfile"] {
        assert!(
            read(&root().join(document)).contains("cargo test --workspace"),
            "{document}: has another test command"
        );
    }
}

/// Cargo.toml states the minimum Rust version, and the documents repeat it.
#[test]
fn documents_state_the_minimum_rust_version_of_cargo_toml() {
    let manifest = read(&root().join("Cargo.toml"));
    let stated = manifest.lines().find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'));
    let stated = stated.expect("Cargo.toml states a rust-version");
    for document in ["README.md", "CONTRIBUTING.md"] {
        assert!(
            read(&root().join(document)).contains(&format!("Rust {stated}")),
            "{document}: lacks `Rust {stated}`"
        );
    }
}

/// Relative links lead to existing files.
#[test]
fn links_between_documents_lead_to_files() {
    let mut offences = Offences::default();
    for document in files("", "md") {
        let text = read(&document);
        // Skip code blocks, where `](` is not a link.
        let prose: String = text.split("```").step_by(2).collect();
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ', '#']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains(':')) {
            if !document.with_file_name("").join(target).exists() {
                offences.add(&document, &format!("{target} does not exist"));
            }
        }
    }
    offences.assert_none();
}

/// The first line of a crate or module folder states its purpose.
#[test]
fn crates_and_folders_of_modules_begin_with_their_purpose() {
    let mut offences = Offences::default();
    for file in files("", "rs") {
        let heads = ["lib.rs", "main.rs", "mod.rs"].iter().any(|name| file.ends_with(name));
        if heads && !read(&file).starts_with("//! ") {
            offences.add(&file, "does not begin with `//! ` and a sentence");
        }
    }
    offences.assert_none();
}

/// Unfinished work belongs into an issue, not into a comment or a skipped test. Paths of one machine mean nothing on others.
#[test]
fn no_notes_to_self_remain() {
    let home = ["/home/", "/Users/", "/root/"];
    let checkout = root();
    let this_file = checkout.join("xtask/tests/tidy.rs");
    let mut offences = Offences::default();
    for file in ["rs", "md", "toml", "yml", "yaml"].iter().flat_map(|extension| files("", extension)) {
        if file == this_file {
            continue;
        }
        for (index, line) in read(&file).lines().enumerate() {
            let notes =
                ["TODO", "FIXME", "XXX", "HACK", "#[ignore"].iter().filter(|note| line.contains(**note));
            let paths = home.iter().copied().chain(checkout.to_str()).filter(|path| line.contains(path));
            for found in notes.copied().chain(paths) {
                offences.add(&file, &format!("line {}: {found}", index + 1));
            }
        }
    }
    offences.assert_none();
}

/// A doc comment that opens with `What`, `Those` or `The same` has no subject: readers need the code to understand it. The
/// limit allows for a few lines that begin with such a word for good reason.
#[test]
fn doc_comments_open_with_a_noun_or_a_verb() {
    const PERCENT: usize = 2;
    let mut offences = Offences::default();
    for folder in language_folders() {
        let (mut total, mut found) = (0, Vec::new());
        for file in files(&folder, "rs") {
            for opener in sources::openers(&read(&file)) {
                total += 1;
                if lacks_subject(&opener.text) {
                    found.push((file.clone(), opener));
                }
            }
        }
        if found.len() * 100 > PERCENT * total {
            for (file, opener) in found {
                offences.add(&file, &format!("line {}: {}", opener.line, opener.text));
            }
        }
    }
    offences.assert_none();
}

/// Operators read log lines and errors without knowing the code. The words below stand for a component or an action that the
/// text should name.
#[test]
fn log_lines_and_errors_name_components_and_actions() {
    const STOP: [&str; 14] = [
        "what",
        "who",
        "whom",
        "whose",
        "whoever",
        "somebody",
        "nobody",
        "anybody",
        "told",
        "tell",
        "tells",
        "telling",
        "anew",
        "the present",
    ];
    let mut offences = Offences::default();
    for file in language_folders().iter().flat_map(|folder| files(folder, "rs")) {
        for message in sources::messages(&read(&file)) {
            let words = format!(" {} ", words(&message.text).join(" "));
            for stop in STOP.iter().filter(|stop| words.contains(&format!(" {stop} "))) {
                offences.add(&file, &format!("line {}: {stop:?} in {:?}", message.line, message.text));
            }
        }
    }
    offences.assert_none();
}

/// Folders of all packages. A package inside of another's folder belongs to the outer one.
fn language_folders() -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for manifest in files("", "toml").iter().filter(|file| file.ends_with("Cargo.toml")) {
        let folder = manifest.parent().expect("a manifest is in a folder");
        let folder = folder.strip_prefix(root()).expect("files are below the root").display().to_string();
        let is_inner = found.iter().any(|outer| Path::new(&folder).starts_with(outer));
        if !folder.is_empty() && !is_inner {
            found.push(folder);
        }
    }
    found
}

/// Whether a doc comment opens with a pronoun or a relative clause. Questions such as `Whether` and `How many` are usual for
/// functions that return the answer.
fn lacks_subject(text: &str) -> bool {
    const OPENERS: [&str; 14] = [
        "what",
        "who",
        "whom",
        "whose",
        "of",
        "those",
        "that of",
        "that which",
        "the same",
        "the one",
        "as of",
        "by what",
        "to whom",
        "how",
    ];
    const QUESTIONS: [&str; 4] = ["how many", "how much", "how long", "how often"];
    let text = format!("{} ", words(text).join(" "));
    let begins = |with: &&str| text.starts_with(&format!("{with} "));
    OPENERS.iter().any(begins) && !QUESTIONS.iter().any(begins)
}

/// Words of a text in lower case.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// A package of this workspace, from `cargo metadata`.
struct Package {
    name: String,
    manifest: PathBuf,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    features: Vec<String>,
    is_dev: bool,
}

impl Package {
    fn is_library(&self) -> bool {
        let crates = root().join("crates");
        self.manifest.starts_with(&crates) && !self.manifest.starts_with(crates.join("cargo-operator"))
    }
}

/// The packages of this workspace, as `cargo metadata` prints them.
fn metadata() -> Value {
    let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output();
    let output = output.expect("cargo, which runs this test, runs");
    let reason = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "cargo metadata: {reason}");
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn packages() -> Vec<Package> {
    let metadata = metadata();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let dependency = |value: &Value| Dependency {
        name: text(&value["name"]),
        features: list(&value["features"]).iter().map(text).collect(),
        is_dev: value["kind"] == "dev",
    };
    let package = |value: &Value| Package {
        name: text(&value["name"]),
        manifest: text(&value["manifest_path"]).into(),
        dependencies: list(&value["dependencies"]).iter().map(dependency).collect(),
    };
    let packages: Vec<Package> = list(&metadata["packages"]).iter().map(package).collect();
    assert!(packages.len() > 1, "{} packages", packages.len());
    packages
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository").to_owned()
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Lists all files with an extension below a folder of the repository, except build output and hidden folders.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("a folder can be read to its end").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Violations of a rule, collected so that one run reports all of them.
#[derive(Default)]
struct Offences(String);

impl Offences {
    fn add(&mut self, file: &Path, what: &str) {
        let root = root();
        let file = file.strip_prefix(&root).unwrap_or(file);
        let _ = writeln!(self.0, "{}: {what}", file.display());
    }

    fn assert_none(self) {
        assert!(self.0.is_empty(), "\n{}", self.0);
    }
}
