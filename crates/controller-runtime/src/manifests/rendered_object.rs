//! A rendered object.

use std::{fmt, str::FromStr};

use ring::digest;
use serde_json::{Map, Value};

/// Annotation of each rendered object: the version of this library, and a digest of the object without the annotation, which shows
/// whether the object was edited.
pub const RENDERED_BY: &str = "operator/rendered-by";

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
    /// The NetworkPolicy.
    Network,
    /// The ServiceMonitor of the Prometheus operator.
    Monitoring,
}

impl Part {
    /// Every part, in the order in which they are to be applied.
    pub const ALL: [Self; 8] = [
        Self::Namespace,
        Self::Definitions,
        Self::Rbac,
        Self::Services,
        Self::Deployment,
        Self::Webhooks,
        Self::Network,
        Self::Monitoring,
    ];

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
            Self::Network => "network",
            Self::Monitoring => "monitoring",
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
    /// Annotates an object with the version of this library and a digest of the rest of the object.
    pub(super) fn new(part: Part, mut value: Value) -> Self {
        let annotation =
            format!("controller-runtime {}, sha256:{}", env!("CARGO_PKG_VERSION"), digest(&value));
        let metadata = value["metadata"].as_object_mut().expect("a rendered object has metadata");
        let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        annotations[RENDERED_BY] = Value::String(annotation);
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

/// First twelve hexadecimal digits of the SHA-256 of an object as JSON.
fn digest(value: &Value) -> String {
    let digest = digest::digest(&digest::SHA256, value.to_string().as_bytes());
    digest.as_ref()[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a JSON object of the fields that are not null.
pub(super) fn without_nulls<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}
