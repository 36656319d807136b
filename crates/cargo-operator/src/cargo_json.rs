//! Cargo's answers in JSON, as far as this program reads them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;

/// Answer of `cargo metadata --no-deps`: the members of a workspace.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_root: PathBuf,
}

/// A member of a workspace.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) targets: Vec<BuildTarget>,
    /// Features, with those that each enables.
    #[serde(default)]
    pub(crate) features: BTreeMap<String, Vec<String>>,
    /// `[package.metadata]`; null without it.
    #[serde(default)]
    pub(crate) metadata: Value,
}

/// A library, program, test or example.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct BuildTarget {
    pub(crate) name: String,
    kind: Vec<String>,
    pub(crate) src_path: PathBuf,
    #[serde(default, rename = "required-features")]
    pub(crate) required_features: Vec<String>,
}

/// Message of `cargo build --message-format=json` about a result. All other messages lack these fields.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Artifact {
    target: BuildTarget,
    executable: Option<PathBuf>,
}

impl Metadata {
    /// Reads the answer, which is one line among others.
    pub(crate) fn parse(answer: &[u8]) -> Result<Self, String> {
        let mut lines = answer.split(|byte| *byte == b'\n');
        // Wrappers of cargo may print other lines before it.
        let line = lines.find(|line| line.starts_with(b"{")).ok_or("it printed no JSON")?;
        serde_json::from_slice(line).map_err(|error| error.to_string())
    }
}

impl Package {
    /// Folder of the package.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new(""))
    }

    /// Whether the default features enable any feature other than `known` ones and those that `known` ones enable.
    pub(crate) fn defaults_enable_more_than(&self, known: &[String]) -> bool {
        let mut seen = BTreeSet::from(["default"]);
        let mut waiting = vec!["default"];
        while let Some(feature) = waiting.pop() {
            for enabled in self.features.get(feature).into_iter().flatten() {
                let is_dependency = enabled.starts_with("dep:") || enabled.contains('/');
                // A known feature may enable its dependencies, which are then wanted.
                if is_dependency && feature != "default" {
                    continue;
                }
                if is_dependency || !known.contains(enabled) {
                    return true;
                }
                if seen.insert(enabled) {
                    waiting.push(enabled);
                }
            }
        }
        false
    }

    /// Whether the default features enable all of these.
    pub(crate) fn defaults_enable(&self, wanted: &[String]) -> bool {
        let mut enabled = BTreeSet::from(["default"]);
        let mut waiting = vec!["default"];
        while let Some(feature) = waiting.pop() {
            for other in self.features.get(feature).into_iter().flatten() {
                if enabled.insert(other) {
                    waiting.push(other);
                }
            }
        }
        wanted.iter().all(|feature| enabled.contains(&**feature))
    }
}

impl BuildTarget {
    pub(crate) fn is_lib(&self) -> bool {
        self.kind.iter().any(|kind| kind == "lib")
    }

    pub(crate) fn is_bin(&self) -> bool {
        self.kind.iter().any(|kind| kind == "bin")
    }
}

/// Returns the path of the program with this name, from the messages of the build that made it.
pub(crate) fn program(messages: &[u8], name: &str) -> Option<PathBuf> {
    let lines = messages.split(|byte| *byte == b'\n');
    let artifacts = lines.filter_map(|line| serde_json::from_slice::<Artifact>(line).ok());
    artifacts
        .filter(|artifact| artifact.target.name == name)
        .filter_map(|artifact| artifact.executable)
        .next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_their_targets_are_read() {
        let answer = br#"a line of a wrapper
{"packages":[{"name":"album","version":"0.1.0","id":"path+file:///p#album@0.1.0","license":null,"manifest_path":"/p/Cargo.toml","metadata":null,
"targets":[]}]}"#;
        assert!(Metadata::parse(answer).is_err_and(|reason| reason.contains("EOF")), "one line is read");
        let answer = String::from_utf8_lossy(answer).replace("null,\n", "null,").replace(
            "\"targets\":[]}]",
            "\"targets\":[{\"kind\":[\"lib\"],\"crate_types\":[\"lib\"],\"name\":\"album\",\"src_path\":\"/p/src/lib.rs\"},\
             {\"kind\":[\"bin\"],\"name\":\"dev\",\"src_path\":\"/p/src/bin/dev.rs\",\"required-features\":[\"dev\"]}]}],\
             \"workspace_root\":\"/p\"",
        );
        let metadata = Metadata::parse(answer.as_bytes()).expect("metadata");
        assert_eq!(metadata.workspace_root, Path::new("/p"));
        let [package] = &metadata.packages[..] else { panic!("one package") };
        assert_eq!(
            (&*package.name, &*package.version, package.folder()),
            ("album", "0.1.0", Path::new("/p"))
        );
        assert_eq!(package.metadata, Value::Null);
        let [library, dev] = &package.targets[..] else { panic!("two targets") };
        assert!(library.is_lib() && !library.is_bin() && library.required_features.is_empty());
        assert!(dev.is_bin() && !dev.is_lib());
        assert_eq!(dev.required_features, ["dev"]);
        for (answer, reason) in
            [("", "it printed no JSON"), ("{}", "missing field"), ("{\"packages\":", "EOF")]
        {
            assert!(
                Metadata::parse(answer.as_bytes()).is_err_and(|error| error.contains(reason)),
                "{answer}"
            );
        }
    }

    #[test]
    fn default_features_beside_those_of_dev_are_found() {
        for (features, known, expected) in [
            ("{}", "", false),
            (r#"{"default":[]}"#, "", false),
            (r#"{"default":["dev"],"dev":["dep:kube-envtest"]}"#, "dev", false),
            (r#"{"default":["dev"],"dev":["dep:kube-envtest","kube-envtest/dev"],"extra":[]}"#, "dev", false),
            (r#"{"default":["dev"],"dev":["tools"],"tools":["dev","dep:clap"]}"#, "dev,tools", false),
            (r#"{"default":["dev"],"dev":[]}"#, "", true),
            (r#"{"default":["dev","extra"],"dev":[],"extra":[]}"#, "dev", true),
            (r#"{"default":["dev"],"dev":["extra"],"extra":[]}"#, "dev", true),
            (r#"{"default":["dev","dep:clap"],"dev":[]}"#, "dev", true),
            (r#"{"default":["dev","controller-runtime/http2"],"dev":[]}"#, "dev", true),
        ] {
            let answer = format!(
                r#"{{"packages":[{{"name":"a","version":"1.0.0","manifest_path":"/a/Cargo.toml","targets":[],"features":{features}}}],"workspace_root":"/a"}}"#
            );
            let metadata = Metadata::parse(answer.as_bytes()).expect("metadata");
            let known: Vec<_> = known.split(',').map(str::to_owned).collect();
            assert_eq!(
                metadata.packages[0].defaults_enable_more_than(&known),
                expected,
                "{features} {known:?}"
            );
        }
    }

    #[test]
    fn features_that_the_defaults_enable_are_found() {
        for (features, wanted, expected) in [
            ("{}", "dev", false),
            (r#"{"default":["dev"],"dev":["dep:kube-envtest"]}"#, "dev", true),
            (r#"{"default":["all"],"all":["dev","extra"],"dev":[],"extra":[]}"#, "dev,extra", true),
            (r#"{"default":["dev"],"dev":[],"extra":[]}"#, "dev,extra", false),
            (r#"{"default":["dev"],"dev":["default"]}"#, "dev", true),
        ] {
            let answer = format!(
                r#"{{"packages":[{{"name":"a","version":"1.0.0","manifest_path":"/a/Cargo.toml","targets":[],"features":{features}}}],"workspace_root":"/a"}}"#
            );
            let metadata = Metadata::parse(answer.as_bytes()).expect("metadata");
            let wanted: Vec<_> = wanted.split(',').map(str::to_owned).collect();
            assert_eq!(metadata.packages[0].defaults_enable(&wanted), expected, "{features} {wanted:?}");
        }
    }

    #[test]
    fn the_program_is_the_last_artifact_with_its_name() {
        let messages = br#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"dev","src_path":"/p/src/lib.rs"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"other","src_path":"/p/src/main.rs"},"executable":"/t/debug/other"}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"dev","src_path":"/p/src/bin/dev.rs"},"executable":"/t/debug/dev"}
not a message
{"reason":"build-finished","success":true}
"#;
        assert_eq!(program(messages, "dev"), Some("/t/debug/dev".into()));
        assert_eq!(program(messages, "album"), None);
    }
}
