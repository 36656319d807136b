//! A rendered object.

use std::{fmt, str::FromStr};

use serde_json::{Map, Value};

/// A rendered object, and the part of the manifests that it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestObject {
    part: Part,
    value: Value,
}

/// A group of objects that can be rendered alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Part {
    /// The namespace of the operator.
    Namespace,
    /// CustomResourceDefinitions.
    Definitions,
    /// ServiceAccount, roles and bindings.
    Rbac,
    /// Services of metrics and webhooks.
    Services,
    /// The Deployment.
    Deployment,
    /// Webhook configurations.
    Webhooks,
}

impl Part {
    /// Every part, in the order in which they are to be applied.
    pub const ALL: [Self; 6] =
        [Self::Namespace, Self::Definitions, Self::Rbac, Self::Services, Self::Deployment, Self::Webhooks];

    /// Name of the part on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Definitions => "crds",
            Self::Rbac => "rbac",
            Self::Services => "services",
            Self::Deployment => "deployment",
            Self::Webhooks => "webhooks",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Parses the name of a part, such as `crds`.
impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|part| part.as_str() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|part| part.as_str()).collect();
            format!("give one of {}", names.join(", "))
        })
    }
}

impl ManifestObject {
    /// An object without fields that are null or empty objects, which a typed object has for nothing.
    pub(super) fn new(part: Part, mut value: Value) -> Self {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata
                .retain(|_, field| !field.is_null() && field.as_object().is_none_or(|map| !map.is_empty()));
        }
        Self { part, value }
    }

    /// The part that the object belongs to.
    #[must_use]
    pub fn part(&self) -> Part {
        self.part
    }

    /// The object.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Kind of the object, such as `Deployment`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.value["kind"].as_str().unwrap_or_default()
    }

    /// Name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }
}

/// The fields of a JSON object that are not null.
pub(super) fn present<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}
