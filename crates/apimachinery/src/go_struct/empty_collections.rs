//! Empty lists, maps and bytes of a decoded object. Go distinguishes them from absent ones, but neither JSON with `omitempty` nor protobuf does.

use serde_json::Value;

use super::{Count, GoType, Message};

/// Empty lists, maps and bytes of an object as a client sent it, with their places. Messages of kube-apiserver show them as `[]` and `{}` instead of
/// `null`, and some of its comparisons count them as changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EmptyCollections {
    places: Vec<EmptyPlace>,
}

/// Place of an empty list, map or text of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct EmptyPlace {
    path: Vec<Step>,
    /// `[]`, `{}` or `""`.
    empty: Value,
    effect: Effect,
}

/// Effect of an empty list or map on validation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Messages do not show it: it is a part of a label selector, which they show with `omitempty`.
    Hidden,
    /// Messages show it.
    Shown,
    /// Like `Shown`, and validation refuses it: Go's code compares the field with nil.
    Refused,
    /// Like `Refused`, and no default replaces it.
    Kept,
}

/// Fields of structs in which validation refuses an empty list or map, with the struct's name and their paths.
const REFUSED: [(&str, &[&str]); 5] = [
    // Only labels and annotations may be set in the metadata of a template.
    ("core.v1.PersistentVolumeClaimTemplate", &TEMPLATE_METADATA),
    ("resource.v1.ResourceClaimTemplateSpec", &TEMPLATE_METADATA),
    (
        "core.v1.EphemeralContainer",
        &[
            "/ports",
            "/resizePolicy",
            "/restartPolicyRules",
            "/resources/claims",
            "/resources/limits",
            "/resources/requests",
        ],
    ),
    ("core.v1.PodSpec", &["/resources/claims"]),
    // The two fields exclude each other.
    ("resource.v1.ResourceSliceSpec", &["/devices", "/sharedCounters"]),
];
const TEMPLATE_METADATA: [&str; 3] =
    ["/metadata/finalizers", "/metadata/managedFields", "/metadata/ownerReferences"];
/// Like [`REFUSED`], for lists that would have a default if they were absent.
const KEPT: (&str, &str) = ("autoscaling.v2.HPAScalingRules", "/policies");
/// Field of a pod with Windows that is refused.
const LINUX_GROUPS: &str = "/securityContext/supplementalGroups";

/// Part of the path to a place.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(usize),
}

impl EmptyCollections {
    /// Finds the places in an object before [`complete`](super::complete) removes them. Its own metadata are not searched: no message shows
    /// them.
    #[must_use]
    pub fn of(message: &'static Message, object: &Value) -> Self {
        let mut found = Self::default();
        let mut others = object.as_object().into_iter().flatten().filter(|(name, _)| *name != "metadata");
        // Most objects have no empty collections, and this look avoids the search with its paths.
        if others.any(|(_, value)| holds_empty(value)) {
            found.search(message, object, &mut Vec::new());
        }
        found
    }

    /// Whether the object has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Forgets the places in those fields of the object that `keep` rejects by their name.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.places.retain(|place| matches!(place.path.first(), Some(Step::Field(name)) if keep(name)));
    }

    /// Puts the lists and maps back into an object where it has no value, or null, in an existing struct.
    pub fn put_into(&self, object: &mut Value) {
        Self::put(self.places.iter(), object);
    }

    /// Like [`put_into`](Self::put_into), but only those that messages show.
    pub fn show_in(&self, object: &mut Value) {
        Self::put(self.places.iter().filter(|place| place.effect != Effect::Hidden), object);
    }

    /// Whether validation refuses some of them, although it would accept absent ones.
    #[must_use]
    pub fn has_refused(&self) -> bool {
        self.refused().next().is_some()
    }

    /// Like [`put_into`](Self::put_into), but only those that validation refuses.
    pub fn put_refused(&self, object: &mut Value) {
        Self::put(self.refused(), object);
    }

    fn refused(&self) -> impl Iterator<Item = &EmptyPlace> {
        self.places.iter().filter(|place| matches!(place.effect, Effect::Refused | Effect::Kept))
    }

    fn put<'a>(places: impl Iterator<Item = &'a EmptyPlace>, object: &mut Value) {
        for EmptyPlace { path, empty, effect } in places {
            let Some((last, parents)) = path.split_last() else { continue };
            let parent = parents.iter().try_fold(&mut *object, |value, step| match step {
                Step::Field(name) => value.get_mut(name),
                Step::Index(index) => value.get_mut(*index),
            });
            let (Some(Value::Object(fields)), Step::Field(name)) = (parent, last) else { continue };
            // A default may already stand in the place of a kept list; only those are overwritten.
            if *effect == Effect::Kept || fields.get(name).is_none_or(Value::is_null) {
                fields.insert(name.clone(), empty.clone());
            }
        }
    }

    /// Finds the refused places of a struct. The further search finds them again, as shown ones.
    fn search_refused(&mut self, name: &str, value: &Value, path: &[Step]) {
        for (field, effect) in refused_fields(name, value) {
            let Some(empty) = value.pointer(field).filter(|value| is_empty_collection(value)) else {
                continue;
            };
            let steps = field.split('/').skip(1).map(|name| Step::Field(name.to_owned()));
            let path = path.iter().cloned().chain(steps).collect();
            self.places.push(EmptyPlace { path, empty: empty.clone(), effect });
        }
    }

    fn search(&mut self, message: &'static Message, value: &Value, path: &mut Vec<Step>) {
        let is_of_selector = message.name().starts_with("meta.v1.LabelSelector");
        let effect = if is_of_selector { Effect::Hidden } else { Effect::Shown };
        // The refused places come first: `put` does not replace a value that stands there already.
        self.search_refused(message.name(), value, path);
        for (name, value) in value.as_object().into_iter().flatten() {
            // Only the metadata of the object itself are exempt; those of templates are searched.
            if path.is_empty() && name == "metadata" {
                continue;
            }
            let Some(field) = message.slot(name).map(|slot| slot.field) else { continue };
            path.push(Step::Field(name.clone()));
            match (field.count, field.kind, value) {
                (Count::List, _, Value::Array(_)) | (Count::Map, _, Value::Object(_))
                    if is_empty_collection(value) =>
                {
                    self.places.push(EmptyPlace { path: path.clone(), empty: value.clone(), effect });
                }
                (Count::One, GoType::Bytes, Value::String(text)) if text.is_empty() => {
                    self.places.push(EmptyPlace { path: path.clone(), empty: value.clone(), effect });
                }
                (Count::One, GoType::Message(inner), value) => self.search(inner, value, path),
                (Count::List, GoType::Message(inner), Value::Array(items)) => {
                    for (index, item) in items.iter().enumerate() {
                        path.push(Step::Index(index));
                        self.search(inner, item, path);
                        path.pop();
                    }
                }
                (Count::Map, GoType::Message(inner), Value::Object(entries)) => {
                    for (key, entry) in entries {
                        path.push(Step::Field(key.clone()));
                        self.search(inner, entry, path);
                        path.pop();
                    }
                }
                _ => {}
            }
            path.pop();
        }
    }
}

/// Returns the paths of fields of the struct `name` in which validation refuses an empty list or map.
fn refused_fields(name: &str, value: &Value) -> Vec<(&'static str, Effect)> {
    let of_struct = REFUSED.iter().filter(|(message, _)| *message == name);
    let mut fields: Vec<_> =
        of_struct.flat_map(|(_, fields)| *fields).map(|field| (*field, Effect::Refused)).collect();
    if name == KEPT.0 {
        fields.push((KEPT.1, Effect::Kept));
    }
    // Validation compares the Linux groups with nil only if the pod runs Windows.
    if name == "core.v1.PodSpec" && value["os"]["name"] == "windows" {
        fields.push((LINUX_GROUPS, Effect::Refused));
    }
    fields
}

fn is_empty_collection(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Whether a value contains an empty list, object or text.
fn holds_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() || items.iter().any(holds_empty),
        Value::Object(fields) => fields.is_empty() || fields.values().any(holds_empty),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::go_struct::{complete, message_of_kind};

    #[test]
    fn empty_lists_and_maps_are_put_back_after_completion() {
        let pod = message_of_kind("v1", "Pod").unwrap();
        let sent = json!({
            "metadata": {"labels": {}},
            "spec": {
                "nodeSelector": {},
                "volumes": [{"name": "a", "configMap": {"items": []}}],
                "containers": [{"name": "a", "ports": [], "resources": {"requests": {}}, "securityContext": {}}],
            },
        });
        let mut object = sent.clone();
        complete(pod, &mut object);
        let completed = object.clone();
        assert_eq!(completed.pointer("/spec/nodeSelector"), None);
        let found = EmptyCollections::of(pod, &sent);
        assert!(!found.is_empty() && EmptyCollections::of(pod, &completed).is_empty());
        found.put_into(&mut object);
        let mut expected = sent;
        expected["metadata"] = json!({});
        expected["status"] = json!({});
        assert_eq!(object, expected);
        let mut forgotten = found.clone();
        forgotten.retain(|name| name != "spec");
        assert!(forgotten.is_empty());
        let policy = message_of_kind("networking.k8s.io/v1", "NetworkPolicy").unwrap();
        let sent = json!({"spec": {"podSelector": {"matchLabels": {}}, "ingress": []}});
        let (mut all, mut shown) =
            (json!({"spec": {"podSelector": {}}}), json!({"spec": {"podSelector": {}}}));
        EmptyCollections::of(policy, &sent).put_into(&mut all);
        EmptyCollections::of(policy, &sent).show_in(&mut shown);
        assert_eq!((all, shown), (sent, json!({"spec": {"podSelector": {}, "ingress": []}})));
        let configuration =
            message_of_kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration").unwrap();
        let sent = json!({"webhooks": [{"clientConfig": {"caBundle": "", "url": ""}}]});
        let mut completed = json!({"webhooks": [{"clientConfig": {}}]});
        EmptyCollections::of(configuration, &sent).put_into(&mut completed);
        assert_eq!(completed, json!({"webhooks": [{"clientConfig": {"caBundle": ""}}]}));
        // Some are refused.
        let template = message_of_kind("resource.k8s.io/v1", "ResourceClaimTemplate").unwrap();
        let sent = json!({"spec": {"metadata": {"labels": {}, "finalizers": []}, "spec": {"devices": {"requests": []}}}});
        let mut refused = json!({"spec": {"metadata": {}, "spec": {"devices": {}}}});
        assert!(!found.has_refused() && EmptyCollections::of(template, &sent).has_refused());
        EmptyCollections::of(template, &sent).put_refused(&mut refused);
        assert_eq!(refused, json!({"spec": {"metadata": {"finalizers": []}, "spec": {"devices": {}}}}));
        let scaler = message_of_kind("autoscaling/v2", "HorizontalPodAutoscaler").unwrap();
        let sent = json!({"spec": {"behavior": {"scaleUp": {"policies": []}}}});
        let mut defaulted = json!({"spec": {"behavior": {"scaleUp": {"policies": [{"type": "Pods"}]}}}});
        EmptyCollections::of(scaler, &sent).put_refused(&mut defaulted);
        assert_eq!(defaulted, sent);
        // Values that were set meanwhile stay, and missing structs are not created.
        let mut changed = json!({"spec": {"nodeSelector": {"a": "b"}, "containers": []}});
        let before = changed.clone();
        found.put_into(&mut changed);
        assert_eq!(changed, before);
    }
}
