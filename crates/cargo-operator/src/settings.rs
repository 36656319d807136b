//! Settings of an operator in its Cargo.toml: `[package.metadata.operator]`.

use std::ffi::{OsStr, OsString};

use serde::Deserialize;
use serde_json::Value;

use crate::failure::Failure;

/// Key of the table in `[package.metadata]` that marks an operator.
pub(crate) const TABLE: &str = "operator";

/// Settings, all of which have defaults.
///
/// ```toml
/// [package.metadata.operator]
/// namespace = "guestbook-system"
/// image = "registry.example.com/guestbook:1.2.0"
/// replicas = 2
/// resources = { requests = { cpu = "50m", memory = "128Mi" } }
/// service-monitor = true
/// args = ["--leader-elect", "--metrics-bind-address=:8443"]
/// allow = [{ at = "guestbooks/v1 .spec.theme", rule = "field-removed", reason = "never released", until = "0.4" }]
/// dev.contexts = ["kind-guestbook"]
/// ```
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    namespace: Option<String>,
    image: Option<String>,
    replicas: Option<u32>,
    resources: Option<Value>,
    service_monitor: bool,
    /// Flags with which the operator runs in a cluster.
    args: Vec<String>,
    /// Changes of CustomResourceDefinitions that `--check` allows.
    allow: Vec<Value>,
    /// Settings of `dev`.
    pub dev: DevSettings,
}

/// Settings of `dev`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct DevSettings {
    /// Contexts of the kubeconfig on which `dev --on` may run the operator without asking.
    pub contexts: Vec<String>,
}

impl Settings {
    /// Reads the table of a package's metadata; defaults if there is none.
    ///
    /// # Errors
    ///
    /// A key is unknown, or a value has another type.
    pub fn of(package: &str, metadata: &Value) -> Result<Self, Failure> {
        match metadata.get(TABLE) {
            None => Ok(Self::default()),
            Some(table) => Self::deserialize(table).map_err(|error| {
                Failure::usage(format!("[package.metadata.operator] in Cargo.toml of {package}: {error}"))
            }),
        }
    }

    /// Options from the settings for a command of the operator's program, without those that the user gives on the command line.
    pub(crate) fn options(&self, command: &str, given: &[OsString]) -> Vec<OsString> {
        if command != "manifests" {
            return Vec::new();
        }
        let checks = is_given(given, "--check");
        let json = |values: &Value| values.to_string();
        let options = [
            ("--namespace", self.namespace.clone()),
            ("--image", self.image.clone()),
            ("--replicas", self.replicas.map(|number| number.to_string())),
            ("--resources", self.resources.as_ref().map(json)),
            (
                "--allow",
                (checks && !self.allow.is_empty()).then(|| Value::from(self.allow.clone()).to_string()),
            ),
        ];
        let mut words: Vec<OsString> = Vec::new();
        for (option, value) in options {
            if let Some(value) = value.filter(|_| !is_given(given, option)) {
                words.extend([option.into(), value.into()]);
            }
        }
        if self.service_monitor && !is_given(given, "--service-monitor") {
            words.push("--service-monitor".into());
        }
        words
    }

    /// Flags with which the operator runs: those of the user, or else those of the settings.
    pub(crate) fn flags(&self, command: &str, given: &[OsString]) -> Vec<OsString> {
        match given {
            [] if matches!(command, "manifests" | "rbac") => self.args.iter().map(OsString::from).collect(),
            _ => given.to_vec(),
        }
    }
}

/// Whether an option is among the words, as `--name` or `--name=value`.
pub(crate) fn is_given(words: &[OsString], option: &str) -> bool {
    words.iter().any(|word| value_after(word, option).is_some())
}

/// Returns the part of a word after the option: empty, or `=value`.
fn value_after<'w>(word: &'w OsStr, option: &str) -> Option<&'w str> {
    word.to_str()?.strip_prefix(option).filter(|rest| rest.is_empty() || rest.starts_with('='))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(words: &[OsString]) -> String {
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    fn given(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn settings_are_defaults_of_the_options() {
        let table = json!({ "operator": {
            "namespace": "shop", "image": "a/b:1", "replicas": 2, "resources": { "limits": { "cpu": "1" } }, "service-monitor": true,
            "args": ["--leader-elect"], "allow": [{ "at": "x" }],
        } });
        let settings = Settings::of("album", &table).expect("settings");
        assert_eq!(
            words(&settings.options("manifests", &[])),
            r#"--namespace shop --image a/b:1 --replicas 2 --resources {"limits":{"cpu":"1"}} --service-monitor"#
        );
        assert_eq!(
            words(&settings.options(
                "manifests",
                &given("--image=c:2 --namespace other --replicas=1 --resources {} --check")
            )),
            r#"--allow [{"at":"x"}] --service-monitor"#
        );
        assert_eq!(words(&settings.options("crds", &[])), "");
        assert_eq!(words(&settings.flags("manifests", &[])), "--leader-elect");
        assert_eq!(words(&settings.flags("rbac", &given("--other"))), "--other");
        assert_eq!(words(&settings.flags("crds", &[])), "");
    }

    #[test]
    fn unknown_keys_and_other_types_are_named() {
        let refused = |table: Value| Settings::of("album", &table).expect_err("refused").message;
        let message = refused(json!({ "operator": { "imgae": "x" } }));
        assert!(
            message.starts_with("[package.metadata.operator] in Cargo.toml of album: unknown field `imgae`"),
            "{message}"
        );
        assert!(refused(json!({ "operator": { "replicas": "two" } })).contains("expected u32"));
        assert_eq!(Settings::of("album", &json!(null)), Ok(Settings::default()));
    }
}
