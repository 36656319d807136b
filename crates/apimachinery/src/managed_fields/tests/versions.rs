//! Ownership in versions that have different fields.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::{OnConflict, Schemas, Versions, Writer, apply_across, track_update, track_update_across};
use crate::schema::{Schema, schema_of_kind};
use crate::status::ApiError;

const NOW: &str = "2024-01-01T00:00:00Z";

/// `spec.size` of v1 is `spec.amount` in v2. Both versions have `spec.name` and the set `spec.tags`.
struct Renamed {
    v1: Arc<Schema>,
    v2: Arc<Schema>,
}

impl Renamed {
    fn new() -> Self {
        let schema = |field: &str| {
            Schema::of_crd(
                &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
                    field: {"type": "integer"}, "name": {"type": "string"},
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                }}}}),
            )
        };
        Self { v1: schema("size"), v2: schema("amount") }
    }

    fn schemas(&self, version: &str) -> Schemas<'_> {
        Schemas { own: if version == "v1" { &self.v1 } else { &self.v2 }, others: Some(self), versions: &[] }
    }

    fn apply(
        &self,
        version: &str,
        manager: &str,
        live: Option<&Value>,
        spec: &Value,
        on_conflict: OnConflict,
    ) -> Result<Value, ApiError> {
        let api_version = format!("example.com/{version}");
        let live = live.map(|live| self.convert_all(live, &api_version));
        let applied =
            json!({"apiVersion": api_version, "kind": "Thing", "metadata": {"name": "a"}, "spec": spec});
        let writer = Writer { manager, subresource: "", api_version: &api_version, now: NOW };
        apply_across(self.schemas(version), live.as_ref(), &applied, &writer, on_conflict, &[])
    }

    /// Converts an object with its `managedFields`.
    fn convert_all(&self, object: &Value, api_version: &str) -> Value {
        let mut converted = self.convert(object, api_version).unwrap();
        converted["metadata"] = object["metadata"].clone();
        converted
    }
}

impl Versions for Renamed {
    fn schema(&self, api_version: &str) -> Option<&Schema> {
        match api_version {
            "example.com/v1" => Some(&self.v1),
            "example.com/v2" => Some(&self.v2),
            _ => None,
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ApiError> {
        let (from, to) = match api_version {
            "example.com/v1" => ("amount", "size"),
            "example.com/v2" => ("size", "amount"),
            _ => return Err(ApiError::internal(format!("no version {api_version}"))),
        };
        let mut object = object.clone();
        object["apiVersion"] = json!(api_version);
        if let Some(spec) = object["spec"].as_object_mut()
            && let Some(value) = spec.remove(from)
        {
            spec.insert(to.to_owned(), value);
        }
        Ok(object)
    }
}

/// Returns the entries as `manager version {fields of spec}`, sorted.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let show = |entry: &Value| {
        let version = text(&entry["apiVersion"]).replace("example.com/", "");
        format!("{} {version} {}", text(&entry["manager"]), entry["fieldsV1"]["f:spec"])
    };
    let mut owners: Vec<String> = entries.map(show).collect();
    owners.sort();
    owners
}

#[test]
fn an_update_takes_the_field_from_its_owner_in_another_version() {
    let kind = Renamed::new();
    let track = |version: &str, old: Option<&Value>, new: &mut Value| {
        let api_version = format!("example.com/{version}");
        let writer = Writer { manager: "m", subresource: "", api_version: &api_version, now: NOW };
        track_update_across(kind.schemas(version), old, new, &writer, &[])
    };
    let mut object = json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": 1},
    });
    track("v1", None, &mut object).unwrap();
    assert_eq!(owners(&object), [r#"m v1 {".":{},"f:size":{}}"#]);
    let old = kind.convert_all(&object, "example.com/v2");
    let mut new = old.clone();
    new["spec"]["amount"] = json!(5);
    track("v2", Some(&old), &mut new).unwrap();
    // As recorded in `cr-versions/webhook`.
    assert_eq!(owners(&new), ["m v1 {}", r#"m v2 {"f:amount":{}}"#]);
    new["metadata"]["managedFields"][0]["apiVersion"] = json!("example.com/v7");
    let (old, mut new) = (new.clone(), new);
    let error = track("v2", Some(&old), &mut new).unwrap_err();
    assert_eq!(error.message(), "failed to convert old object: no version example.com/v7");
    assert_eq!(new["metadata"].get("managedFields"), None);
}

/// Checked against kube-apiserver v1.36.3.
#[test]
fn an_update_drops_entries_of_versions_that_the_kind_does_not_have() {
    let update = |schema: &Schema, api_version: &str, sent: &str| {
        let writer = Writer { manager: "m", subresource: "", api_version, now: NOW };
        let entry = json!({
            "manager": "made-up", "operation": "Apply", "apiVersion": sent, "time": NOW, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:replicas": {}}},
        });
        let old = json!({"apiVersion": api_version, "kind": "Any", "metadata": {"name": "a"}, "spec": {"replicas": 1}});
        let mut new = old.clone();
        new["spec"]["paused"] = json!(true);
        new["metadata"]["managedFields"] = json!([entry]);
        track_update(schema, Some(&old), &mut new, &writer, &[]);
        owners(&new)
    };
    let deployment = schema_of_kind("apps/v1", "Deployment").unwrap();
    assert_eq!(
        update(&deployment, "apps/v1", "apps/v1"),
        [r#"m apps/v1 {"f:paused":{}}"#, r#"made-up apps/v1 {"f:replicas":{}}"#]
    );
    for unknown in ["apps/v1beta1", "apps/v9", "v1", "node.k8s.io/v1"] {
        assert_eq!(update(&deployment, "apps/v1", unknown), [r#"m apps/v1 {"f:paused":{}}"#], "{unknown}");
    }
    let custom = Schema::of_crd(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}),
    );
    assert_eq!(
        update(&custom, "example.com/v1", "example.com/v1"),
        [r#"m v1 {"f:paused":{}}"#, r#"made-up v1 {"f:replicas":{}}"#]
    );
    for unknown in ["v1", "apps/v1"] {
        assert_eq!(update(&custom, "example.com/v1", unknown), [""; 0], "{unknown}");
    }
}

#[test]
fn a_conflict_names_the_field_in_the_version_of_its_owner() {
    let kind = Renamed::new();
    let first = kind.apply("v1", "one", None, &json!({"size": 1}), OnConflict::Refuse).unwrap();
    let shared = kind.apply("v2", "other", Some(&first), &json!({"amount": 1}), OnConflict::Refuse).unwrap();
    assert_eq!(owners(&shared), [r#"one v1 {"f:size":{}}"#, r#"other v2 {"f:amount":{}}"#]);
    let error =
        kind.apply("v2", "other", Some(&shared), &json!({"amount": 2}), OnConflict::Refuse).unwrap_err();
    assert_eq!(error.message(), "Apply failed with 1 conflict: conflict with \"one\": .spec.size");
    let forced = kind.apply("v2", "other", Some(&shared), &json!({"amount": 2}), OnConflict::Force).unwrap();
    assert_eq!(
        (owners(&forced), &forced["spec"]),
        (vec![r#"other v2 {"f:amount":{}}"#.to_owned()], &json!({"amount": 2}))
    );
}

#[test]
fn fields_applied_in_another_version_are_removed_unless_another_manager_owns_them() {
    let kind = Renamed::new();
    let first = kind.apply("v1", "one", None, &json!({"size": 1, "name": "x"}), OnConflict::Refuse).unwrap();
    // The applier changes to v2 and drops a field.
    let second = kind.apply("v2", "one", Some(&first), &json!({"amount": 1}), OnConflict::Refuse).unwrap();
    assert_eq!(
        (&second["spec"], owners(&second)),
        (&json!({"amount": 1}), vec![r#"one v2 {"f:amount":{}}"#.to_owned()])
    );
    // Another manager has the field in v1.
    let shared = kind.apply("v1", "other", Some(&second), &json!({"size": 1}), OnConflict::Refuse).unwrap();
    let kept = kind.apply("v2", "one", Some(&shared), &json!({"name": "y"}), OnConflict::Refuse).unwrap();
    assert_eq!(kept["spec"], json!({"amount": 1, "name": "y"}));
    assert_eq!(owners(&kept), [r#"one v2 {"f:name":{}}"#, r#"other v1 {"f:size":{}}"#]);
    let gone = kind.apply("v1", "other", Some(&kept), &json!({}), OnConflict::Refuse).unwrap();
    assert_eq!(gone["spec"], json!({"name": "y"}));
}

/// Checked against kube-apiserver v1.36.3, whose validation refuses the null then.
#[test]
fn a_list_that_loses_its_last_element_in_another_version_becomes_null() {
    let kind = Renamed::new();
    let mut created = json!({
        "apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"tags": []},
    });
    let writer = Writer { manager: "creator", subresource: "", api_version: "example.com/v2", now: NOW };
    track_update_across(kind.schemas("v2"), None, &mut created, &writer, &[]).unwrap();
    let tagged = kind.apply("v1", "two", Some(&created), &json!({"tags": ["x"]}), OnConflict::Force).unwrap();
    assert_eq!(tagged["spec"], json!({"tags": ["x"]}));
    let empty = kind.apply("v2", "two", Some(&tagged), &json!({}), OnConflict::Refuse).unwrap();
    assert_eq!(empty["spec"], json!({"tags": null}));
}
