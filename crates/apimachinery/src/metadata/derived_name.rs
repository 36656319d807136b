//! Names that other fields of an object determine.

use serde_json::Value;

use crate::go::quote;

/// Kind with names that other fields of the object determine. As in kube-apiserver, the prefix of a generated name is compared with the whole
/// name too, so that an object with another prefix is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DerivedName {
    /// `<version>.<group>`.
    ApiService,
    /// `<plural>.<group>`.
    Definition,
}

impl DerivedName {
    /// Adds the error of a name, or of a prefix, that differs from the name of the object. `errors` are those of its syntax.
    pub(super) fn check(self, object: &Value, given: &str, errors: &mut Vec<String>) {
        let spec = &object["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let first = match self {
            Self::ApiService => &spec["version"],
            Self::Definition => &spec["names"]["plural"],
        };
        let expected = format!("{}.{}", text(first), text(&spec["group"]));
        match self {
            _ if given == expected => {}
            Self::ApiService if errors.is_empty() => {
                errors.push(format!("must be `spec.version+\".\"+spec.group`: {}", quote(&expected)));
            }
            Self::ApiService => {}
            Self::Definition => errors.push("must be spec.names.plural+\".\"+spec.group".to_owned()),
        }
    }
}
