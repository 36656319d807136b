//! Atomic lists with empty lists or maps inside their elements.
//!
//! structured-merge-diff compares two lists of Go structs with `reflect.DeepEqual`, for which an empty list and a missing list differ. The
//! storage does not keep empty lists and maps, so that a written atomic list with one inside always differs from the stored list: the
//! writer becomes its owner, even if JSON shows no difference.

use serde_json::Value;

use super::Writer;
use super::managers::{ManagerId, Managers, Operation, Owned};
use super::set::{FieldSet, PathElement, SetNode};
use super::typed::{Composite, Fields, Shape, Ty};
use crate::schema::{JsonType, Schema, ValueKind};

/// Atomic lists of a builtin object with empty lists or maps inside their elements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Emptied(FieldSet);

impl Emptied {
    /// Finds the lists in an object as the client sent it, before empty fields are removed.
    #[must_use]
    pub fn of(schema: &Schema, sent: &Value) -> Self {
        // Metadata have no atomic lists. Their managed fields contain empty objects.
        let mut others = sent.as_object().into_iter().flatten().filter(|(name, _)| *name != "metadata");
        if schema.is_custom() || !others.any(|(_, value)| holds_empty(value)) {
            return Self::default();
        }
        let mut root = SetNode::default();
        collect(Ty::Schema(schema.root()), sent, &mut root);
        root.below.remove_field(&["metadata"]);
        Self(root.below)
    }

    /// Whether there are no such lists.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes the writer of an update the owner of the lists, after [`track_update`](super::track_update). `reset` names fields that the
    /// endpoint ignores.
    pub fn track(&self, new: &mut Value, writer: &Writer<'_>, reset: &[&str]) {
        let mut set = self.0.clone();
        set.remove_paths(reset);
        if set.is_empty() {
            return;
        }
        let Ok(mut managers) = Managers::decode(new) else { return };
        if managers.is_empty() {
            // Nothing is tracked until the next apply.
            return;
        }
        // All owners lose the lists, the writer too, which gets them back below.
        managers.adjust(|_, owned| owned.set.subtract(&set));
        let id = ManagerId::new(writer, Operation::Update);
        if let Some(owned) = managers.get(&id) {
            set.merge(owned.set.clone());
        }
        let (api_version, time) = (writer.api_version.to_owned(), Some(writer.now.to_owned()));
        managers.put(id, Owned { set, api_version, time });
        managers.encode(new);
    }
}

/// Whether a value contains an empty list or object.
fn holds_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() || items.iter().any(holds_empty),
        Value::Object(fields) => fields.is_empty() || fields.values().any(holds_empty),
        _ => false,
    }
}

/// Adds the lists at and below a place.
fn collect(ty: Ty<'_>, value: &Value, node: &mut SetNode) {
    match ty.shape(value) {
        Shape::Scalar(_) => {}
        Shape::Atomic(_) => node.member |= differs(ty, value),
        Shape::Map(fields) => {
            for (name, value) in value.as_object().into_iter().flatten() {
                if let Some(ty) = fields.field(name) {
                    attach(PathElement::Field(name.clone()), ty, value, node);
                }
            }
        }
        Shape::List(elements) => {
            for item in value.as_array().into_iter().flatten() {
                if let Ok(identity) = elements.identity(item) {
                    attach(identity, elements.ty(), item, node);
                }
            }
        }
    }
}

fn attach(element: PathElement, ty: Ty<'_>, value: &Value, node: &mut SetNode) {
    let mut below = SetNode::default();
    collect(ty, value, &mut below);
    node.below.insert(element, below);
}

/// Whether an atomic value contains a list with an empty list or map inside its elements.
fn differs(ty: Ty<'_>, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| is_emptied(ty.items(), item)),
        Value::Object(fields) if !is_opaque(ty, value) => {
            let types = Fields::of(ty);
            fields.iter().any(|(name, value)| types.field(name).is_some_and(|ty| differs(ty, value)))
        }
        _ => false,
    }
}

/// Whether a value is, or contains, an empty list or map. An empty object may also be a struct.
fn is_emptied(ty: Ty<'_>, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() || items.iter().any(|item| is_emptied(ty.items(), item)),
        Value::Object(fields) if !is_opaque(ty, value) => {
            let types = Fields::of(ty);
            (fields.is_empty() && is_map(ty))
                || fields
                    .iter()
                    .any(|(name, value)| types.field(name).is_some_and(|ty| is_emptied(ty, value)))
        }
        _ => false,
    }
}

/// Whether a value is JSON text in Go.
fn is_opaque(ty: Ty<'_>, value: &Value) -> bool {
    matches!(ty, Ty::Deduced) || matches!(ty.shape(value), Shape::Atomic(Composite::Any))
}

fn is_map(ty: Ty<'_>) -> bool {
    match ty {
        Ty::Schema(schema) => {
            schema.kind() == ValueKind::Of(JsonType::Object) && schema.additional().is_some()
        }
        Ty::Deduced => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::track_update;
    use super::*;
    use crate::schema::schema_of_kind;

    fn paths(api_version: &str, kind: &str, sent: &Value) -> Vec<String> {
        Emptied::of(&schema_of_kind(api_version, kind).unwrap(), sent).0.paths()
    }

    #[test]
    fn an_empty_list_or_map_counts_inside_the_elements_of_an_atomic_list() {
        let role = |rules: Value| paths("rbac.authorization.k8s.io/v1", "Role", &json!({ "rules": rules }));
        assert_eq!(role(json!([{"verbs": ["get"], "resourceNames": []}])), [".rules"]);
        for rules in [json!([{"verbs": ["get"]}]), json!([]), json!(null)] {
            assert!(role(rules.clone()).is_empty(), "{rules}");
        }
        let policy = |spec: Value| paths("networking.k8s.io/v1", "NetworkPolicy", &json!({ "spec": spec }));
        let peer = |selector: Value| json!({"ingress": [{"from": [{ "podSelector": selector }]}]});
        assert_eq!(policy(peer(json!({"matchLabels": {}}))), [".spec.ingress"]);
        // An empty struct is not an empty map, and a selector outside of a list has no element.
        assert!(policy(peer(json!({}))).is_empty());
        assert!(policy(json!({"podSelector": {"matchLabels": {}, "matchExpressions": []}})).is_empty());
        let expression =
            json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": []}]}});
        assert_eq!(policy(expression), [".spec.podSelector"]);
        // Elements of a keyed list are compared field by field.
        let pod = json!({"metadata": {"ownerReferences": []}, "spec": {"containers": [{"name": "a", "env": [], "command": []}]}});
        assert!(paths("v1", "Pod", &pod).is_empty());
    }

    #[test]
    fn the_writer_becomes_the_owner_of_such_a_list() {
        let schema = &schema_of_kind("rbac.authorization.k8s.io/v1", "Role").unwrap();
        let writer = |manager: &'static str| Writer {
            manager,
            subresource: "",
            api_version: "rbac.authorization.k8s.io/v1",
            now: "2024-01-01T00:00:00Z",
        };
        let mut role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
        });
        track_update(schema, None, &mut role, &writer("a"), &[]);
        let sent = json!({"rules": [{"resourceNames": []}]});
        let mut new = role.clone();
        track_update(schema, Some(&role), &mut new, &writer("b"), &[]);
        assert_eq!(new["metadata"], role["metadata"]);
        Emptied::of(schema, &sent).track(&mut new, &writer("b"), &["rules"]);
        assert_eq!(new["metadata"], role["metadata"], "the endpoint ignores the field");
        Emptied::of(schema, &sent).track(&mut new, &writer("b"), &[]);
        let entries = new["metadata"]["managedFields"].as_array().unwrap();
        let shown: Vec<String> =
            entries.iter().map(|entry| format!("{} {}", entry["manager"], entry["fieldsV1"])).collect();
        assert_eq!(shown, [r#""b" {"f:rules":{}}"#]);
    }
}
