//! PATCH: merge, JSON and strategic merge patches. `server_side_apply` is the fourth type.

mod parsed_patch;
mod patch_refusal;
mod patched_type;
mod server_side_apply;

use std::sync::Arc;

use bytes::Bytes;
use kube_apimachinery::patch;
use kube_apimachinery::schema::MapKeys;
use kube_apimachinery::status::ApiError;
use serde_json::{Map, Value};

use super::empty_parts::EmptyParts;
use super::reply::Reply;
use super::update::{self, Ownership, RequestedState, UpdateReview};
use super::{Call, body_type, object_meta};
use crate::request::query::{FieldValidation, WriteKind, WriteOptions};
use crate::request::request_body;
use patch_refusal::{patched_text, refusal};
use patched_type::{report_strict, require_custom_version};

pub(super) use parsed_patch::Patch;
pub(super) use patched_type::check_type;
pub(super) use server_side_apply::read_configuration;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// Types of patches of builtin objects.
const BUILTIN_TYPES: [&str; 4] = [JSON, MERGE, STRATEGIC, APPLY];

/// Patch types of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchType {
    /// Returns the type of the request's body, as a handler compares it.
    ///
    /// # Errors
    /// 415 with the types that the resource supports.
    pub(super) fn of(call: &Call) -> Result<Self, ApiError> {
        let custom = call.served.is_custom();
        match request_body::media_type(call.content_type.as_deref()) {
            JSON => Ok(Self::Json),
            MERGE => Ok(Self::Merge),
            APPLY => Ok(Self::Apply),
            STRATEGIC if !custom => Ok(Self::Strategic),
            _ if custom => Err(request_body::unsupported(&[JSON, MERGE, APPLY])),
            _ => Err(request_body::unsupported(&BUILTIN_TYPES)),
        }
    }

    /// Returns the write to which this patch leads.
    pub(super) fn write(self) -> WriteKind {
        if self == Self::Apply { WriteKind::Apply } else { WriteKind::Patch }
    }
}

/// Checks the type of the body as the router of builtin kinds does: it looks for a known type in a list of types, and ignores parameters.
///
/// # Errors
/// 415.
pub(crate) fn check_routed_type(call: &Call) -> Result<(), ApiError> {
    let types = call.content_type.as_deref().unwrap_or_default();
    let mut named = types.split(',').map(|one| one.split(';').next().unwrap_or_default().trim_matches(' '));
    if named.any(|one| BUILTIN_TYPES.contains(&one)) {
        return Ok(());
    }
    Err(ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").with_details("", "", ""))
}

/// Checks the type of the body as the handler does.
///
/// # Errors
/// 415 with the types that the resource supports.
pub(crate) fn check_content_type(call: &Call) -> Result<(), ApiError> {
    PatchType::of(call).map(drop)
}

/// Patches the object in the URL. An apply creates the object if it does not exist.
pub(crate) async fn run(call: &Call, bytes: &Bytes) -> Result<Reply, ApiError> {
    let kind = PatchType::of(call)?;
    let options = WriteOptions::read(&call.query, kind.write())?;
    if kind == PatchType::Apply {
        return server_side_apply::apply(call, bytes, &options).await;
    }
    // Errors about the patch come after those about the object: it may be missing, and a webhook may fail to convert it.
    let patch = Patch::read(kind, bytes, options.field_validation);
    let changed = update::change(call, &options, UpdateReview::Object, |call, old| {
        let patch = patch.as_ref().map_err(Clone::clone)?;
        let validation = options.field_validation;
        let (mut object, empty) = match merge_beside_entries(call, old, patch, validation) {
            Some(patched) => patched,
            None => {
                let mut new = patch.apply(&call.served, old)?;
                let package = super::reply::go_package(&call.served.resource.storage.group);
                check_type(call, &new, patch, Some(package), validation)?;
                let empty = conform(call, old, &mut new, patch, validation)?;
                (new, empty)
            }
        };
        object_meta::reconcile_namespace(&call.served, &call.path.namespace, &mut object)?;
        update::check_name(call, &object)?;
        require_custom_version(call, old, &object)?;
        Ok(RequestedState { object, ownership: Ownership::Tracked, empty })
    })
    .await?;
    changed.reply(call)
}

/// Applies and decodes a merge patch that names neither the type nor the managed fields of the object. The result has no managed fields: an
/// object without them keeps those of its former state. They are often the largest part of an object, so this saves copying and checking them.
/// Returns `None` for any other patch, and for one that is refused; the caller then applies the patch to the whole object and gets the error.
fn merge_beside_entries(
    call: &Call,
    old: &Value,
    patch: &Patch,
    validation: FieldValidation,
) -> Option<(Value, EmptyParts)> {
    let Patch::Merge(_, merged, _) = patch else { return None };
    let changes = merged.as_object()?;
    let metadata_changes = match changes.get("metadata") {
        None => None,
        Some(Value::Object(changes)) => Some(changes),
        Some(_) => return None,
    };
    let names_entries = metadata_changes.is_some_and(|changes| changes.contains_key("managedFields"));
    if names_entries || ["apiVersion", "kind"].iter().any(|field| changes.contains_key(*field)) {
        return None;
    }
    let (fields, metadata) = (old.as_object()?, old.get("metadata")?.as_object()?);
    let others = metadata.iter().filter(|(name, _)| *name != "managedFields");
    let metadata: Map<String, Value> = others.map(|(name, value)| (name.clone(), value.clone())).collect();
    let others = fields.iter().filter(|(name, _)| *name != "metadata");
    let mut new: Map<String, Value> = others.map(|(name, value)| (name.clone(), value.clone())).collect();
    new.insert("metadata".to_owned(), Value::Object(metadata));
    let mut new = Value::Object(new);
    patch::merge(&mut new, merged);
    let empty = conform(call, old, &mut new, patch, validation).ok()?;
    Some((new, empty))
}

/// Decodes the patched object like an object in a body. Errors are attributed to the patch, which has changed `old` to `new`.
pub(super) fn conform(
    call: &Call,
    old: &Value,
    new: &mut Value,
    patch: &Patch,
    validation: FieldValidation,
) -> Result<EmptyParts, ApiError> {
    // A refusal shows the object before it was decoded. Refusals are rare: applying the patch again costs less than a copy for each patch.
    let sent = || patch.apply(&call.served, old).unwrap_or_default();
    body_type::complete_type(&call.served, new);
    let refuse = |why: &str| refusal(&call.served, patch, &sent(), why);
    let served = Arc::clone(&call.served);
    if let Patch::Strategic(..) = patch
        && let Err(why) = served.schema.restore(new)
    {
        return Err(refuse(&why));
    }
    // Searched first, because decoding drops nulls from the metadata of custom objects.
    let is_of_kind = served.is_of_kind(new);
    let unknown = match validation {
        FieldValidation::Ignore => Vec::new(),
        _ if matches!(patch, Patch::Strategic(..)) => {
            served.schema.unknown_fields_with(new, MapKeys::Omitted)
        }
        _ => call.unknown_fields(new),
    };
    if let Err(why) = served.decode_errors(new, patch.sent()) {
        let text = patched_text(&served, patch, &sent());
        let first = text.and_then(|text| served.text_decode_error(text.as_bytes(), patch.sent()));
        return Err(refuse(&first.unwrap_or(why)));
    }
    if let Some(why) = served.strategy.conversion_error(new) {
        // A strategic merge patch is converted after it was decoded.
        let is_strategic = matches!(patch, Patch::Strategic(..));
        return Err(if is_strategic { ApiError::internal(why) } else { refuse(&why) });
    }
    report_strict(call, sent, patch, unknown, validation)?;
    let empty = EmptyParts::of(&served, new);
    if is_of_kind {
        served.conform(new);
    }
    Ok(empty)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use kube_apimachinery::metadata;
    use serde_json::json;

    use super::*;
    use crate::testing;

    /// Applies a ConfigMap with one entry.
    fn apply_map(server: &testing::Running, value: &str) -> Result<Reply, ApiError> {
        let mut call = testing::call(server, "/api/v1/namespaces/default/configmaps/a");
        call.query = crate::request::query::Query::parse("fieldManager=test&force=true");
        call.content_type = Some(APPLY.to_owned());
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}});
        testing::now(run(&call, &Bytes::from(map.to_string())))
    }

    #[tokio::test]
    async fn an_apply_succeeds_while_a_client_deletes_the_object_again_and_again() {
        let server = testing::server();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // The object may not exist at the moment.
                    let _ = testing::delete(&server, "/api/v1/namespaces/default/configmaps/a");
                }
            });
            let failed = (0..2000).find_map(|n| apply_map(&server, &n.to_string()).err());
            done.store(true, Ordering::Relaxed);
            assert_eq!(failed, None);
        });
    }

    /// Observed with kube-apiserver v1.36.3.
    #[tokio::test]
    async fn an_apply_to_the_status_creates_objects_that_an_update_creates() {
        let server = testing::server();
        let apply = |path: &str, object: Value| {
            let mut call = testing::call(&server, path);
            call.query = crate::request::query::Query::parse("fieldManager=test&force=true");
            call.content_type = Some(APPLY.to_owned());
            match testing::now(run(&call, &Bytes::from(object.to_string()))) {
                Ok(reply) => (reply.code, String::new()),
                Err(error) => (error.code(), error.message().to_owned()),
            }
        };
        let service = |spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec});
        let path = "/api/v1/namespaces/default/services/a/status";
        let refused = "Service \"a\" is invalid: spec.ports: Required value".to_owned();
        assert_eq!(apply(path, service(json!({}))), (422, refused));
        assert_eq!(apply(path, service(json!({"ports": [{"port": 80}]}))), (201, String::new()));
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}});
        let (code, _) = apply("/apis/batch/v1/namespaces/default/jobs/a/status", job);
        assert_eq!(code, 404);
    }

    /// Entries and errors of kube-apiserver v1.36.3. The target is atomic in `v1` and granular in `v2`.
    #[tokio::test]
    async fn each_manager_owns_fields_in_the_version_of_its_writes() {
        const PLURAL: &str = "namespaces/default/horizontalpodautoscalers";
        let server = testing::server();
        let target = |name: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
        let mut call = testing::call(&server, &format!("/apis/autoscaling/v1/{PLURAL}"));
        call.query = crate::request::query::Query::parse("fieldManager=a");
        let scaler =
            json!({"metadata": {"name": "h"}, "spec": {"scaleTargetRef": target("a"), "maxReplicas": 3}});
        testing::now(super::super::create::run(&call, &Bytes::from(scaler.to_string()))).unwrap();
        let send = |version: &str, content_type: &str, query: &str, body: &Value| {
            let mut call = testing::call(&server, &format!("/apis/autoscaling/{version}/{PLURAL}/h"));
            call.query = crate::request::query::Query::parse(query);
            call.content_type = Some(content_type.to_owned());
            testing::now(run(&call, &Bytes::from(body.to_string()))).map(drop)
        };
        let owners = || -> Vec<String> {
            let call = testing::call(&server, &format!("/apis/autoscaling/v2/{PLURAL}/h"));
            let stored = call.cluster.read(|store| store.get(call.served.storage(), &call.key()).cloned());
            let scaler = call.served.value(&stored.unwrap());
            let entries = scaler["metadata"]["managedFields"].as_array().unwrap().iter();
            entries
                .map(|entry| {
                    format!("{} {} {}", entry["manager"], entry["apiVersion"], entry["fieldsV1"]["f:spec"])
                })
                .collect()
        };
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
        let changes = json!({"spec": {"metrics": [metric], "scaleTargetRef": {"name": "z"}}});
        send("v2", MERGE, "fieldManager=b", &changes).unwrap();
        assert_eq!(
            owners(),
            [
                r#""a" "autoscaling/v1" {"f:maxReplicas":{},"f:minReplicas":{}}"#,
                r#""b" "autoscaling/v2" {"f:metrics":{},"f:scaleTargetRef":{"f:name":{}}}"#,
            ]
        );
        let applied = json!({
            "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
            "spec": {"scaleTargetRef": target("a"), "maxReplicas": 3, "targetCPUUtilizationPercentage": 70},
        });
        let error = send("v1", APPLY, "fieldManager=c", &applied).unwrap_err();
        assert_eq!(
            error.message(),
            "Apply failed with 2 conflicts: conflicts with \"b\" using autoscaling/v2:\n- .spec.metrics\n- .spec.scaleTargetRef.name"
        );
        send("v1", APPLY, "fieldManager=c&force=true", &applied).unwrap();
        assert_eq!(
            owners(),
            [
                r#""c" "autoscaling/v1" {"f:maxReplicas":{},"f:scaleTargetRef":{},"f:targetCPUUtilizationPercentage":{}}"#,
                r#""a" "autoscaling/v1" {"f:maxReplicas":{},"f:minReplicas":{}}"#,
            ]
        );
    }

    /// Entries of kube-apiserver v1.36.3.
    #[tokio::test]
    async fn entries_in_versions_of_another_group_are_dropped() {
        let server = testing::server();
        let send = |path: &str, content_type: &str, query: &str, body: &Value| {
            let mut call = testing::call(&server, path);
            call.query = crate::request::query::Query::parse(query);
            call.content_type = Some(content_type.to_owned());
            testing::now(run(&call, &Bytes::from(body.to_string()))).map(drop).unwrap();
        };
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"}, "action": "A", "reason": "B",
            "eventTime": "2001-02-03T04:05:06.000001Z", "regarding": {"kind": "Pod", "name": "a", "namespace": "default"},
            "reportingController": "example.com/a", "reportingInstance": "a", "type": "Normal",
        });
        send("/apis/events.k8s.io/v1/namespaces/default/events/a", APPLY, "fieldManager=one", &event);
        let path = "/api/v1/namespaces/default/events/a";
        let changes = json!({"metadata": {"labels": {"a": "b"}}, "reason": "C"});
        send(path, MERGE, "fieldManager=three", &changes);
        let call = testing::call(&server, path);
        let stored = call.cluster.read(|store| store.get(call.served.storage(), &call.key()).cloned());
        let entries = call.served.value(&stored.unwrap())["metadata"]["managedFields"].take();
        assert_eq!(entries.as_array().map(Vec::len), Some(1), "{entries}");
        assert_eq!((&entries[0]["manager"], &entries[0]["apiVersion"]), (&json!("three"), &json!("v1")));
        let owned = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:reason": {}});
        assert_eq!(entries[0]["fieldsV1"], owned);
    }

    #[tokio::test]
    async fn a_merge_patch_beside_the_managed_fields_has_the_result_of_one_to_the_whole_object() {
        let server = testing::server();
        apply_map(&server, "v").unwrap();
        let call = testing::call(&server, "/api/v1/namespaces/default/configmaps/a");
        let stored = call.cluster.read(|store| store.get(call.served.storage(), &call.key()).cloned());
        let old = call.served.value(&stored.unwrap());
        assert!(!old["metadata"]["managedFields"].is_null());
        let patched = |changes: &Value| {
            let validation = FieldValidation::Strict;
            let patch = Patch::read(PatchType::Merge, &Bytes::from(changes.to_string()), validation).unwrap();
            let beside = merge_beside_entries(&call, &old, &patch, validation);
            let mut whole = patch.apply(&call.served, &old).unwrap();
            let empty = conform(&call, &old, &mut whole, &patch, validation);
            metadata::of(&mut whole).remove("managedFields");
            (beside, empty.ok().map(|empty| (whole, empty)))
        };
        for changes in [
            json!({"data": {"k": "w", "l": "x"}}),
            json!({"data": null, "immutable": true}),
            json!({"metadata": {"labels": {"a": "b"}, "uid": "other"}}),
            json!({}),
        ] {
            let (beside, whole) = patched(&changes);
            assert!(beside.is_some(), "{changes}");
            assert_eq!(beside, whole, "{changes}");
        }
        for left in [
            json!({"kind": "Secret"}),
            json!({"metadata": {"managedFields": []}}),
            json!({"metadata": null}),
            json!({"unknown": 1}),
            json!({"data": {"k": 1}}),
        ] {
            assert_eq!(patched(&left).0, None, "{left}");
        }
    }
}
