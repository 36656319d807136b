//! Tests of `.ci/public-api`, which finds changes of the public API that cargo-semver-checks has no rule for.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::root;

/// A repository with one library, its recorded API, a tag of its release, and a copy of the script.
struct Released {
    folder: PathBuf,
}

impl Released {
    /// Records this API as that of version 0.1.0.
    fn new(name: &str, api: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder); // of an earlier run
        let released = Self { folder };
        let script = root().join(".ci/public-api");
        released.write(".ci/public-api", &fs::read_to_string(script).expect("the script"));
        released.write("crates/queue/Cargo.toml", "[package]\nname = \"queue\"\n");
        released.set("0.1.0", api);
        for words in ["init -q", "add -A", "commit -q -m release", "tag v0.1.0"] {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=test", "-c", "user.email=test@example.com"]).args(words.split(' '));
            git.env("GIT_CONFIG_GLOBAL", "/dev/null");
            let output = git.current_dir(&released.folder).output().expect("git is installed");
            assert!(output.status.success(), "{words}: {}", text(&output));
        }
        released
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder is made");
        fs::write(path, text).expect("a file is written");
    }

    /// Sets the version, and records an API for it.
    fn set(&self, version: &str, api: &str) {
        let manifest = format!("[workspace.package]\nversion = \"{version}\"\n\n[profile.dev]\ndebug = 0\n");
        self.write("Cargo.toml", &manifest);
        self.write("docs/public-api/queue.txt", api);
    }

    /// Runs the script, with programs of the folder `bin` first.
    fn check(&self, words: &[&str]) -> (Option<i32>, String) {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.folder.join("bin").display());
        let script = self.folder.join(".ci/public-api");
        let output = Command::new("bash").arg(script).args(words).env("PATH", path).output();
        let output = output.expect("bash is installed");
        (output.status.code(), text(&output))
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_changed_or_removed_line_needs_a_version_without_compatibility() {
    let get = "pub fn queue::Queue::get(&self, key: &str) -> u32\n";
    let released = Released::new("public-api-since", get);
    let wider = get.replace("u32", "u64");
    let renamed = get.replace("key: ", "name: ");
    let more = format!("{get}pub fn queue::Queue::new() -> Self\n");
    for (api, version, code) in [
        (get, "0.1.0", 0),
        (&*more, "0.1.1", 0),
        (&*renamed, "0.1.1", 0),
        (&*wider, "0.1.1", 3),
        (&*wider, "0.2.0", 0),
        (&*wider, "1.0.0", 0),
        ("", "0.1.1", 3),
    ] {
        released.set(version, api);
        let (found, text) = released.check(&["--since", "v0.1.0"]);
        assert_eq!(found, Some(code), "{version} {api}: {text}");
        let is_named = text.contains("queue: removed or changed since v0.1.0:\npub fn queue::Queue::get");
        assert_eq!(is_named, api == wider || api.is_empty(), "{version} {api}: {text}");
    }
}

#[test]
fn another_type_of_a_result_is_printed() {
    let released = Released::new("public-api-now", "pub fn queue::Queue::len(&self) -> u32\n");
    // Prints the public API that the real program would read from rustdoc.
    released.write("bin/cargo", "#!/bin/sh\necho 'pub fn queue::Queue::len(&self) -> u64'\n");
    let program = released.folder.join("bin/cargo");
    fs::set_permissions(program, PermissionsExt::from_mode(0o755)).expect("it can be run");
    let (code, text) = released.check(&[]);
    assert_eq!(code, Some(3), "{text}");
    for line in ["-pub fn queue::Queue::len(&self) -> u32\n", "+pub fn queue::Queue::len(&self) -> u64\n"] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(released.check(&["--write"]).0, Some(0));
    assert_eq!(released.check(&[]).0, Some(0), "the written files are compared");
}
