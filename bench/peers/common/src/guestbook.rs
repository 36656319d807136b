//! The Guestbook kind, for which every peer has an operator. A Guestbook owns a ConfigMap and a Deployment, and its status shows
//! when both exist.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::{CustomResource, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Spec of a Guestbook.
#[derive(Debug, Clone, PartialEq, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "bench.example.com",
    version = "v1",
    kind = "Guestbook",
    namespaced,
    status = "GuestbookStatus"
)]
#[serde(rename_all = "camelCase")]
pub struct GuestbookSpec {
    /// Text of the page.
    pub greeting: String,
    /// Number of pods that serve the page.
    pub replicas: i32,
}

/// State of a Guestbook.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuestbookStatus {
    /// Generation of the spec from which the children were applied.
    pub observed_generation: Option<i64>,
}

/// Field manager of the operators.
pub const FIELD_MANAGER: &str = "guestbook-operator";

/// ConfigMap with the page.
#[must_use]
pub fn page(guestbook: &Guestbook) -> ConfigMap {
    let page = format!("<h1>{}</h1>", guestbook.spec.greeting);
    ConfigMap {
        metadata: child(guestbook, "page"),
        data: Some([("index.html".to_owned(), page)].into()),
        ..ConfigMap::default()
    }
}

/// Deployment of the web server.
#[must_use]
pub fn server(guestbook: &Guestbook) -> Deployment {
    let labels = labels(guestbook);
    let container = Container {
        name: "web".to_owned(),
        image: Some("registry.example.com/web:1.27".to_owned()),
        ..Container::default()
    };
    Deployment {
        metadata: child(guestbook, "server"),
        spec: Some(DeploymentSpec {
            replicas: Some(guestbook.spec.replicas),
            selector: LabelSelector { match_labels: Some(labels.clone()), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

/// Status when both children exist; `None` if it is already stored.
#[must_use]
pub fn status(guestbook: &Guestbook) -> Option<GuestbookStatus> {
    let status = GuestbookStatus { observed_generation: guestbook.metadata.generation };
    (guestbook.status.as_ref() != Some(&status)).then_some(status)
}

fn child(guestbook: &Guestbook, what: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(format!("{}-{what}", guestbook.name_any())),
        namespace: guestbook.namespace(),
        labels: Some(labels(guestbook)),
        owner_references: guestbook.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    }
}

fn labels(guestbook: &Guestbook) -> BTreeMap<String, String> {
    [("guestbook".to_owned(), guestbook.name_any())].into()
}
