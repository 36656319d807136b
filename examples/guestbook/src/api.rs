//! The Guestbook kind: spec, status and conditions.

use controller_runtime::conditions_schema;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Desired state of the page.
#[expect(clippy::duplicated_attributes, reason = "each printer column has the same attributes")]
#[derive(CustomResource, Deserialize, Serialize, Clone, Debug, PartialEq, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Guestbook",
    doc = "A web page with a greeting, served by a Deployment.",
    namespaced,
    shortname = "gb",
    status = "GuestbookStatus",
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct GuestbookSpec {
    /// Greeting at the top of the page.
    #[schemars(length(min = 1, max = 200))]
    pub greeting: String,

    /// Number of pods that serve the page.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 20))]
    pub replicas: i32,

    /// Name of a ConfigMap in the same namespace. Its key `style.css` is the page's style sheet. Without it the page is plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<String>,
}

fn one() -> i32 {
    1
}

/// State of a Guestbook as observed by the controller.
#[derive(Deserialize, Serialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuestbookStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Ready` means that the Deployment and the ConfigMap exist as specified.
    #[serde(default)]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

impl Guestbook {
    /// Returns the `Ready` condition, unless it describes an older spec.
    #[must_use]
    pub fn ready(&self) -> Option<&Condition> {
        let status = self.status.as_ref()?;
        if status.observed_generation != self.metadata.generation {
            return None;
        }
        status.conditions.iter().find(|condition| condition.type_ == "Ready")
    }

    /// Returns whether the children exist as specified by the current spec.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready().is_some_and(|condition| condition.status == "True")
    }
}
