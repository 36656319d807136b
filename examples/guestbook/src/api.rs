//! The Guestbook kind: what a user writes, and what the controller answers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page where visitors leave a word, served by a Deployment.
#[expect(clippy::duplicated_attributes, reason = "each printer column has the same attributes")]
#[derive(CustomResource, Deserialize, Serialize, Clone, Debug, PartialEq, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Guestbook",
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
    /// What visitors read at the top of the page.
    #[schemars(length(min = 1, max = 200))]
    pub greeting: String,

    /// How many pods serve the page.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 20))]
    pub replicas: i32,

    /// The ConfigMap in the same namespace whose `style.css` dresses the page; plain if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<String>,
}

fn one() -> i32 {
    1
}

/// What the controller found and did.
#[derive(Deserialize, Serialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuestbookStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Ready`: the Deployment and the ConfigMap exist as the spec wants them.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl Guestbook {
    /// The `Ready` condition, if it is about the present spec.
    #[must_use]
    pub fn ready(&self) -> Option<&Condition> {
        let status = self.status.as_ref()?;
        if status.observed_generation != self.metadata.generation {
            return None;
        }
        status.conditions.iter().find(|condition| condition.type_ == "Ready")
    }

    /// Whether the children exist as the present spec wants them.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready().is_some_and(|condition| condition.status == "True")
    }
}
