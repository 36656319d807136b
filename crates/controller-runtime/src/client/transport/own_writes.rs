//! Effects of this process's own writes on cached objects, derived from the responses.

use std::borrow::Cow;

use bytes::Bytes;
use kube::core::ApiResource;
use serde::de::IgnoredAny;

use super::{
    call::{Call, METADATA, Verb},
    preconditions::Preconditions,
};
use crate::{
    json::scan::{Malformed, Reader},
    object::Object,
};

/// Receives this process's own writes, so that its cached reads need not wait for the watch to show them.
pub(crate) trait OwnWrites: Send + Sync + 'static {
    /// Returns whether a cache holds more of the call's kind than metadata.
    fn needs_whole(&self, call: &Call) -> bool;

    /// Returns the other API versions in which the call's kind is cached, and how much of the objects.
    fn other_versions(&self, call: &Call) -> Vec<(ApiResource, Extent)>;

    /// Records that the API server has stored an object; `object` is the response as JSON, the whole object or its
    /// metadata.
    fn record_write(&self, call: &Call, object: &Bytes, extent: Extent);

    /// Returns the latest known resourceVersion of the object that `call` names.
    fn reached(&self, call: &Call) -> Option<u64>;

    /// Records that the API server has removed the object that `call` names; `after` is the latest version known before
    /// the call was sent.
    fn record_deletion(&self, call: &Call, deletion: &ReportedDeletion, after: Option<u64>);

    /// Records that the API server has most likely removed this object of the call's kind: the delete was accepted, and
    /// nothing in the response delays the object's removal.
    fn record_presumed_deletion(&self, call: &Call, deletion: &PresumedDeletion);
}

/// Part of an object that a response contains, or that a list and watch request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extent {
    Metadata,
    Whole,
}

impl Extent {
    /// Returns the part of an object that type `K` needs.
    pub(crate) fn of<K: Object>() -> Self {
        if K::metadata_api() { Self::Metadata } else { Self::Whole }
    }
}

/// An object that was removed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReportedDeletion {
    pub(crate) uid: String,
    /// Version of the object's last state or of its deletion, if known.
    pub(crate) version: Option<String>,
}

/// An object that a delete of many objects most likely removed, in its state before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PresumedDeletion {
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) version: String,
}

/// Time that deleted pods have to terminate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::client) enum Termination {
    /// Their grace period.
    Graceful,
    /// None: a grace period of 0 was requested.
    AtOnce,
}

/// Returns the objects that a delete of many objects removed at once. Its response lists all objects in their state
/// before the delete.
///
/// An object with finalizers stays until they are removed. A pod stays until it has terminated, and a namespace until it is empty.
pub(in crate::client) fn presumed_deletions(
    call: &Call,
    answer: &[u8],
    termination: Termination,
) -> Vec<PresumedDeletion> {
    #[derive(serde::Deserialize)]
    struct ResponseList {
        #[serde(default)]
        items: Vec<ResponseItem>,
    }
    #[derive(serde::Deserialize)]
    struct ResponseItem {
        metadata: ItemMeta,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ItemMeta {
        namespace: Option<String>,
        name: String,
        uid: String,
        resource_version: String,
        #[serde(default)]
        finalizers: Vec<String>,
    }
    let resource = &call.kind().resource;
    let takes_time = is_namespace(resource) || is_pod(resource) && termination == Termination::Graceful;
    let items = serde_json::from_slice::<ResponseList>(answer).map(|list| list.items).unwrap_or_default();
    let gone = items.into_iter().filter(|item| !takes_time && item.metadata.finalizers.is_empty());
    gone.map(|ResponseItem { metadata: ItemMeta { namespace, name, uid, resource_version, .. } }| {
        PresumedDeletion { namespace, name, uid, version: resource_version }
    })
    .collect()
}

fn is_pod(resource: &ApiResource) -> bool {
    resource.group.is_empty() && resource.kind == "Pod"
}

fn is_namespace(resource: &ApiResource) -> bool {
    resource.group.is_empty() && resource.kind == "Namespace"
}

/// Effect of a response on the cached object.
#[derive(Debug, PartialEq)]
pub(in crate::client) enum WriteOutcome {
    /// The object was stored with the content of the response.
    Written(Extent),
    /// The object was removed.
    Deleted(ReportedDeletion),
    /// The response has no effect on the cached object, or cannot be relied on.
    Nothing,
}

impl WriteOutcome {
    /// Derives the effect of a call from its response.
    ///
    /// A write to an object that is being deleted may remove it: when no finalizer and no grace period is left, the API server
    /// answers with the object's last state.
    pub(in crate::client) fn of(call: &Call, answer: &Bytes) -> Self {
        let about_one =
            matches!(call.verb(), Verb::Create | Verb::Update | Verb::Patch | Verb::Apply | Verb::Delete);
        // A response from behind the API server's proxy may have any content.
        if !about_one || call.is_dry_run() || call.subresource() == Some("proxy") {
            return Self::Nothing;
        }
        let Ok(seen) = ResponseObject::read(answer) else { return Self::Nothing };
        let resource = &call.kind().resource;
        match seen.kind.as_deref() {
            Some("Status") if call.verb() == Verb::Delete => {
                // The delete succeeded, so its preconditions held.
                let Preconditions { uid, resource_version } = Preconditions::sent_by(call);
                Self::deleted(seen.details_uid.map(Cow::into_owned).or(uid), resource_version)
            }
            // The metadata of a namespace do not show whether it was removed.
            Some("PartialObjectMetadata") if call.accept == METADATA && is_namespace(resource) => {
                Self::Written(Extent::Metadata)
            }
            Some("PartialObjectMetadata") if call.accept == METADATA => {
                Self::about(call, seen, answer, Extent::Metadata)
            }
            Some(kind) if kind == resource.kind && seen.is_of(resource) => {
                Self::about(call, seen, answer, Extent::Whole)
            }
            _ => Self::Nothing, // a subresource of another kind, or a response made by an interceptor
        }
    }

    fn about(call: &Call, seen: ResponseObject<'_>, answer: &[u8], extent: Extent) -> Self {
        if seen.is_deleted(call.verb(), answer) {
            let ResponseMetadata { uid, resource_version, .. } = seen.metadata;
            Self::deleted(uid.map(Cow::into_owned), resource_version.map(Cow::into_owned))
        } else {
            Self::Written(extent)
        }
    }

    fn deleted(uid: Option<String>, version: Option<String>) -> Self {
        // Without a UID the object cannot be distinguished from a successor of the same name.
        uid.map_or(Self::Nothing, |uid| Self::Deleted(ReportedDeletion { uid, version }))
    }
}

/// Returns whether an object was removed, from the response to its delete: a `Status`, or for some kinds the object's last
/// state.
pub(in crate::client) fn reports_deletion(answer: &[u8]) -> bool {
    let seen = ResponseObject::read(answer);
    seen.is_ok_and(|seen| seen.kind.as_deref() == Some("Status") || seen.is_deleted(Verb::Delete, answer))
}

/// Returns the name of the object in a response.
pub(in crate::client) fn name_in(answer: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct NamedObject {
        metadata: NameOnly,
    }
    #[derive(serde::Deserialize)]
    struct NameOnly {
        name: String,
    }
    Some(serde_json::from_slice::<NamedObject>(answer).ok()?.metadata.name)
}

/// The parts of a response that determine its effect.
#[derive(Default)]
struct ResponseObject<'a> {
    api_version: Option<Cow<'a, str>>,
    kind: Option<Cow<'a, str>>,
    metadata: ResponseMetadata<'a>,
    /// UID in the details of a `Status`.
    details_uid: Option<Cow<'a, str>>,
}

#[derive(Default)]
struct ResponseMetadata<'a> {
    uid: Option<Cow<'a, str>>,
    resource_version: Option<Cow<'a, str>>,
    is_deleting: bool,
    deletion_grace_period_seconds: Option<i64>,
    has_finalizers: bool,
}

impl<'a> ResponseObject<'a> {
    /// Finds the parts in one pass, because every write has a response.
    fn read(answer: &'a [u8]) -> Result<Self, Malformed> {
        let (mut seen, mut reader) = (Self::default(), Reader::new(answer));
        reader.object(|key, reader| match &*key {
            "apiVersion" => reader.optional_string().map(|text| seen.api_version = text),
            "kind" => reader.optional_string().map(|text| seen.kind = text),
            "metadata" => reader.object(|key, reader| seen.metadata.read_member(&key, reader)),
            "details" if reader.peek() == Some(b'{') => reader.object(|key, reader| match &*key {
                "uid" => reader.optional_string().map(|text| seen.details_uid = text),
                _ => reader.value().map(drop),
            }),
            _ => reader.value().map(drop),
        })?;
        reader.end()?;
        Ok(seen)
    }

    /// Returns whether the response is of this group and version; true if it has none.
    fn is_of(&self, resource: &ApiResource) -> bool {
        self.api_version.as_ref().is_none_or(|version| *version == resource.api_version)
    }

    /// Returns whether the object in the response `answer` was removed. A response to an immediate delete may hold the state
    /// before.
    fn is_deleted(&self, verb: Verb, answer: &[u8]) -> bool {
        let ResponseMetadata { is_deleting, deletion_grace_period_seconds, has_finalizers, .. } =
            self.metadata;
        // Some kinds answer a delete with the object unchanged. After other writes the object is not being deleted.
        if !is_deleting {
            return verb == Verb::Delete;
        }
        let is_namespace =
            self.kind.as_deref() == Some("Namespace") && self.api_version.as_deref() == Some("v1");
        // Each of these still delays the removal.
        !has_finalizers
            && deletion_grace_period_seconds.unwrap_or(0) == 0
            && !(is_namespace && (verb != Verb::Delete || namespace_waits(answer)))
    }
}

impl<'a> ResponseMetadata<'a> {
    fn read_member(&mut self, name: &str, reader: &mut Reader<'a>) -> Result<(), Malformed> {
        match name {
            "uid" => self.uid = reader.optional_string()?,
            "resourceVersion" => self.resource_version = reader.optional_string()?,
            "deletionTimestamp" => self.is_deleting = reader.optional_string()?.is_some(),
            "deletionGracePeriodSeconds" => {
                // `null` and values of another type count as absent.
                self.deletion_grace_period_seconds = serde_json::from_slice(reader.value()?).ok();
            }
            "finalizers" => {
                let finalizers = serde_json::from_slice::<Vec<IgnoredAny>>(reader.value()?);
                self.has_finalizers = finalizers.is_ok_and(|finalizers| !finalizers.is_empty());
            }
            _ => drop(reader.value()?),
        }
        Ok(())
    }
}

/// Returns whether a namespace that is being deleted still waits for the finalizers of its spec, mostly for its content. Once
/// they are gone, the next delete removes the namespace.
fn namespace_waits(namespace: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct TerminatingNamespace {
        spec: NamespaceSpec,
    }
    #[derive(serde::Deserialize)]
    struct NamespaceSpec {
        #[serde(default)]
        finalizers: Vec<String>,
    }
    let spec = serde_json::from_slice::<TerminatingNamespace>(namespace).map(|namespace| namespace.spec);
    spec.is_ok_and(|spec| !spec.finalizers.is_empty())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
    use serde_json::{Value, json};

    use super::*;
    use crate::object::DynamicKind;

    fn call(verb: Verb) -> Call {
        Call::new(verb, Arc::new(DynamicKind::of::<ConfigMap>()))
    }

    fn of(call: &Call, answer: &Value) -> WriteOutcome {
        WriteOutcome::of(call, &Bytes::from(answer.to_string()))
    }

    #[test]
    fn writes_are_recorded_and_dry_runs_are_not() {
        let answer = json!({ "kind": "ConfigMap", "metadata": { "uid": "1" } });
        assert_eq!(of(&call(Verb::Update), &answer), WriteOutcome::Written(Extent::Whole));
        let mut trial = call(Verb::Update);
        trial.dry_run = true;
        assert_eq!(of(&trial, &answer), WriteOutcome::Nothing);
    }

    #[test]
    fn a_subresource_answer_with_the_object_is_recorded() {
        let mut below = Call::new(Verb::Update, Arc::new(DynamicKind::of::<Pod>()));
        let answer =
            |kind, version| json!({ "kind": kind, "apiVersion": version, "metadata": { "uid": "1" } });
        for name in ["status", "resize", "ephemeralcontainers"] {
            below.subresource = Some(name.to_owned());
            assert_eq!(of(&below, &answer("Pod", "v1")), WriteOutcome::Written(Extent::Whole), "{name}");
        }
        for (name, kind, version) in [
            ("scale", "Scale", "autoscaling/v1"),
            ("eviction", "Status", "v1"),
            ("x", "Pod", "example.com/v1"),
            ("proxy", "Pod", "v1"),
        ] {
            below.subresource = Some(name.to_owned());
            assert_eq!(of(&below, &answer(kind, version)), WriteOutcome::Nothing, "{name}");
        }
    }

    #[test]
    fn an_object_is_removed_by_its_delete_or_with_its_last_finalizer() {
        let gone = |version: Option<&str>| {
            WriteOutcome::Deleted(ReportedDeletion {
                uid: "1".to_owned(),
                version: version.map(str::to_owned),
            })
        };
        let mut status = json!({ "kind": "Status", "status": "Success", "details": { "uid": "1" } });
        assert_eq!(of(&call(Verb::Delete), &status), gone(None));
        let mut on_condition = call(Verb::Delete);
        on_condition.body = Bytes::from_static(br#"{"preconditions":{"uid":"1","resourceVersion":"5"}}"#);
        assert_eq!(of(&on_condition, &status), gone(Some("5")));
        status["details"] = json!(null);
        assert_eq!(of(&on_condition, &status), gone(Some("5")));
        assert_eq!(
            of(&call(Verb::Delete), &status),
            WriteOutcome::Nothing,
            "the answer does not name the object"
        );

        let last = json!({ "kind": "ConfigMap", "metadata": { "uid": "1", "resourceVersion": "6" } });
        assert_eq!(of(&call(Verb::Delete), &last), gone(Some("6")), "some kinds answer with the last state");

        let mut going = json!({
            "kind": "ConfigMap",
            "metadata": { "uid": "1", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"] },
        });
        let wrote = WriteOutcome::Written(Extent::Whole);
        assert_eq!(of(&call(Verb::Delete), &going), wrote, "it waits for a finalizer");
        going["metadata"]["finalizers"] = json!([]);
        assert_eq!(of(&call(Verb::Patch), &going), gone(None));
        going["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        assert_eq!(of(&call(Verb::Patch), &going), wrote, "it ends in its own time");
    }

    #[test]
    fn a_namespace_waits_for_the_finalizers_of_its_spec() {
        let mut going = json!({
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": { "uid": "1", "deletionTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "finalizers": ["kubernetes"] },
            "status": { "phase": "Terminating" },
        });
        let call = |verb| Call::new(verb, Arc::new(DynamicKind::of::<Namespace>()));
        assert_eq!(of(&call(Verb::Delete), &going), WriteOutcome::Written(Extent::Whole));
        assert!(!reports_deletion(going.to_string().as_bytes()));
        assert_eq!(of(&call(Verb::Patch), &going), WriteOutcome::Written(Extent::Whole));
        for spec in [json!({ "finalizers": [] }), json!({})] {
            going["spec"] = spec;
            assert_eq!(
                of(&call(Verb::Update), &going),
                WriteOutcome::Written(Extent::Whole),
                "it goes with the next delete"
            );
            let gone = ReportedDeletion { uid: "1".to_owned(), version: None };
            assert_eq!(of(&call(Verb::Delete), &going), WriteOutcome::Deleted(gone));
        }
        // A kind of that name in another group.
        going["apiVersion"] = json!("example.com/v1");
        going["spec"] = json!({ "finalizers": ["kubernetes"] });
        assert!(reports_deletion(going.to_string().as_bytes()));
    }

    #[test]
    fn a_bulk_delete_removes_objects_that_nothing_delays() {
        let item = |name: &str, finalizers: &[&str]| json!({ "metadata": { "name": name, "uid": name, "resourceVersion": "5", "finalizers": finalizers } });
        let answer = json!({ "kind": "ConfigMapList", "items": [item("a", &[]), item("b", &["x/y"])] });
        let names = |call: &Call, termination| -> Vec<String> {
            let gone = presumed_deletions(call, answer.to_string().as_bytes(), termination);
            gone.into_iter().map(|gone| gone.name).collect()
        };
        assert_eq!(names(&call(Verb::DeleteCollection), Termination::Graceful), ["a"]);
        let pods = Call::new(Verb::DeleteCollection, Arc::new(DynamicKind::of::<Pod>()));
        assert!(names(&pods, Termination::Graceful).is_empty(), "they end in their own time");
        assert_eq!(names(&pods, Termination::AtOnce), ["a"]);
        let namespaces = Call::new(Verb::DeleteCollection, Arc::new(DynamicKind::of::<Namespace>()));
        assert!(names(&namespaces, Termination::AtOnce).is_empty(), "they end when they are empty");
        assert!(presumed_deletions(&pods, br#"{ "kind": "Status" }"#, Termination::AtOnce).is_empty());
    }

    #[test]
    fn requested_metadata_are_recorded_as_metadata() {
        let mut answer = json!({ "kind": "PartialObjectMetadata", "metadata": { "uid": "1" } });
        let mut patch = call(Verb::Patch);
        assert_eq!(of(&patch, &answer), WriteOutcome::Nothing);
        patch.accept = METADATA;
        assert_eq!(of(&patch, &answer), WriteOutcome::Written(Extent::Metadata));
        answer["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let gone = ReportedDeletion { uid: "1".to_owned(), version: None };
        assert_eq!(of(&patch, &answer), WriteOutcome::Deleted(gone), "the last finalizer went");
        patch.kind = Arc::new(DynamicKind::of::<Namespace>());
        assert_eq!(of(&patch, &answer), WriteOutcome::Written(Extent::Metadata), "its spec is not known");
    }
}
