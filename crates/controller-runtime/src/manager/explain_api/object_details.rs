//! Metadata of a cached object, and the requests that it leads to.

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Refusal;
use crate::{
    findings::owned_fields::{FieldManager, field_managers, finalizer_manager},
    manager::explainer::Explainer,
    request_queue::RequestState,
};

/// The answer of `/objects/…`. Labels and annotations are left out, because they may contain anything.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectAnswer {
    kind: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    uid: String,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<Timestamp>,
    finalizers: Vec<FinalizerEntry>,
    owners: Vec<OwnerEntry>,
    /// Managers of its fields.
    managers: Vec<FieldManager>,
    /// Requests of controllers of its kind, and of the kinds of its owners.
    requests: Vec<RequestOfObject>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FinalizerEntry {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    added_by: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerEntry {
    api_version: String,
    kind: String,
    name: String,
}

#[derive(Debug, Serialize)]
struct RequestOfObject {
    controller: String,
    request: String,
    state: RequestState,
}

#[derive(Deserialize)]
struct MetadataList {
    /// `null` if the list is empty.
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct Item {
    metadata: ObjectMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectMetadata {
    name: String,
    namespace: Option<String>,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
    generation: Option<i64>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    owner_references: Vec<OwnerEntry>,
    managed_fields: Option<Box<RawValue>>,
}

/// Reads the metadata of an object of a cached kind from the API server.
pub(super) async fn object(
    explainer: &Explainer,
    group: &str,
    resource: &str,
    namespace: &str,
    name: &str,
) -> Result<ObjectAnswer, Refusal> {
    let group = if group == "core" { "" } else { group };
    let namespace = (namespace != "-").then_some(namespace);
    // The names become part of a URL and of a field selector of a request with the operator's permissions.
    if let Some(wrong) = [Some(name), namespace].into_iter().flatten().find(|name| !is_plain(name)) {
        return Err(Refusal::bad(format!("{wrong:?} is not the name of an object or namespace")));
    }
    // Only kinds that the operator caches anyway, so that this API does not give its clients access to others.
    let resource = explainer.cache.cached_resource(group, resource).ok_or_else(|| {
        Refusal::not_found(format!("this operator does not cache {resource} of group {group:?}"))
    })?;
    let read = explainer.read_metadata(&resource, namespace, name).await.map_err(|error| {
        Refusal(http::StatusCode::BAD_GATEWAY, format!("the API server did not answer: {error}"))
    })?;
    let metadata = decode(&read, &resource.kind)?;
    let managed_fields = metadata.managed_fields.as_ref().map_or("", |raw| raw.get()).as_bytes();
    let finalizer = |name: &String| FinalizerEntry {
        name: name.clone(),
        added_by: finalizer_manager(managed_fields, name),
    };
    let in_namespace = |name: &str| match &metadata.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    };
    let mut about = vec![RequestNames {
        kind: qualified(&resource.kind, &resource.group),
        texts: vec![in_namespace(&metadata.name)],
    }];
    about.extend(metadata.owner_references.iter().map(|owner| {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        // An owner is in the namespace of the object or in none; its reference does not say which.
        let mut texts = vec![in_namespace(&owner.name), owner.name.clone()];
        texts.dedup();
        RequestNames { kind: qualified(&owner.kind, group), texts }
    }));
    Ok(ObjectAnswer {
        kind: resource.kind.clone(),
        finalizers: metadata.finalizers.iter().map(finalizer).collect(),
        managers: field_managers(managed_fields),
        requests: requests(explainer, &about).await,
        owners: metadata.owner_references,
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        version: metadata.resource_version,
        generation: metadata.generation,
        created: metadata.creation_timestamp,
        deleted: metadata.deletion_timestamp,
    })
}

/// Returns whether the text may be the name of an object, and contains nothing that has a meaning in a path or field selector.
fn is_plain(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:".contains(letter);
    !name.is_empty()
        && name.len() <= 253
        && !name.chars().all(|letter| letter == '.')
        && name.chars().all(is_plain)
}

/// Returns the metadata in a list with one object of a kind or none.
fn decode(list: &[u8], kind: &str) -> Result<ObjectMetadata, Refusal> {
    let list: MetadataList = serde_json::from_slice(list).map_err(|error| {
        Refusal(http::StatusCode::BAD_GATEWAY, format!("the API server's answer cannot be decoded: {error}"))
    })?;
    let first = list.items.into_iter().flatten().next().map(|item| item.metadata);
    first.ok_or_else(|| Refusal::not_found(format!("the API server has no {kind} of this name")))
}

/// Names that a request for an object can have.
struct RequestNames {
    /// Kind and group, such as `Deployment.apps`.
    kind: String,
    texts: Vec<String>,
}

fn qualified(kind: &str, group: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

/// Requests for the objects `about` in the controllers of their kinds.
async fn requests(explainer: &Explainer, about: &[RequestNames]) -> Vec<RequestOfObject> {
    let controllers = explainer.registry.upgrade().map(|registry| registry.controllers()).unwrap_or_default();
    let mut requests = Vec::new();
    for RequestNames { kind, texts } in about {
        for (controller, explains) in
            controllers.iter().filter(|(_, explains)| explains.kind() == Some(&**kind))
        {
            for text in texts {
                if let Ok(explanation) = explains.explain_text(text).await {
                    requests.push(RequestOfObject {
                        controller: controller.to_string(),
                        request: explanation.request,
                        state: explanation.state,
                    });
                    break;
                }
            }
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_cannot_be_decoded_is_not_an_absent_object() {
        let refused =
            |list: &str| decode(list.as_bytes(), "Widget").map(|metadata| metadata.name).unwrap_err();
        for empty in [r#"{"items":[]}"#, r#"{"items":null}"#] {
            let Refusal(code, text) = refused(empty);
            assert_eq!((code.as_u16(), &*text), (404, "the API server has no Widget of this name"));
        }
        let Refusal(code, text) = refused(r#"{"items":[{"metadata":{"name":5}}]}"#);
        assert_eq!(code.as_u16(), 502);
        assert!(text.starts_with("the API server's answer cannot be decoded: invalid type"), "{text}");
    }

    #[test]
    fn names_that_change_the_request_are_refused() {
        for name in ["web", "a.b-c", "system:node:1", "1"] {
            assert!(is_plain(name), "{name}");
        }
        let long = "x".repeat(254);
        for name in
            ["", ".", "..", "a/b", "a%2fb", "a?b", "a#b", "a,b", "a=b", "a!b", "a b", "a\nb", "\u{e4}", &long]
        {
            assert!(!is_plain(name), "{name:?}");
        }
    }
}
