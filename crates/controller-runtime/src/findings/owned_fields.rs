//! Fields and their managers, from `metadata.managedFields`. Pure.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Number of fields of one entry that are read; others are ignored.
const FIELDS: usize = 1024;
/// Largest number of bytes of a value that are shown.
const LONGEST_VALUE: usize = 64;

/// One entry of `managedFields`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ManagedFieldsEntry {
    #[serde(default)]
    pub(super) manager: String,
    #[serde(default)]
    pub(super) time: Option<String>,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    fields_v1: Value,
}

/// Decodes `managedFields`; returns no entries if the text is invalid.
pub(super) fn entries(managed_fields: &[u8]) -> Vec<ManagedFieldsEntry> {
    serde_json::from_slice(managed_fields).unwrap_or_default()
}

/// A field manager of an object, with the fields of one entry of `managedFields`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FieldManager {
    manager: String,
    /// `Apply` or `Update`.
    operation: String,
    /// Empty for the object itself.
    subresource: String,
    /// Time of its last change.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    /// Paths of the first fields.
    fields: Vec<String>,
    /// Number of other fields.
    more: usize,
}

/// Number of fields of a [`FieldManager`] that are listed by path.
const SHOWN: usize = 100;

/// The field managers of an object, in the order of the text; none if that is invalid.
pub(crate) fn field_managers(managed_fields: &[u8]) -> Vec<FieldManager> {
    let manager = |entry: ManagedFieldsEntry| {
        let fields = entry.fields();
        FieldManager {
            more: fields.len().saturating_sub(SHOWN),
            fields: fields.iter().take(SHOWN).map(ToString::to_string).collect(),
            manager: entry.manager,
            operation: entry.operation,
            subresource: entry.subresource,
            time: entry.time,
        }
    };
    entries(managed_fields).into_iter().map(manager).collect()
}

/// The manager that added a finalizer, as far as that is known.
pub(crate) fn finalizer_manager(managed_fields: &[u8], finalizer: &str) -> Option<String> {
    manager_of_finalizer(&entries(managed_fields), finalizer)
}

/// Path of a field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OwnedPath(Vec<PathElement>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum PathElement {
    Field(String),
    /// An item of a list by its keys, as JSON.
    Item(String),
    /// An item of a set, as JSON.
    Value(String),
    Index(usize),
}

impl PathElement {
    /// Reads an element such as `f:spec`, `k:{"name":"web"}`, `v:"a"` or `i:0`.
    fn of(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("f", name) => Some(Self::Field(name.to_owned())),
            ("k", keys) => Some(Self::Item(keys.to_owned())),
            ("v", value) => Some(Self::Value(value.to_owned())),
            ("i", index) => index.parse().ok().map(Self::Index),
            _ => None,
        }
    }

    /// Finds the element's value in an object or list.
    fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Field(name) => value.get(name),
            Self::Index(index) => value.get(index),
            Self::Value(item) => {
                let wanted: Value = serde_json::from_str(item).ok()?;
                value.as_array()?.iter().find(|item| **item == wanted)
            }
            Self::Item(keys) => {
                let wanted: Value = serde_json::from_str(keys).ok()?;
                let fits = |item: &&Value| {
                    wanted
                        .as_object()
                        .is_some_and(|keys| keys.iter().all(|(key, value)| item.get(key) == Some(value)))
                };
                value.as_array()?.iter().find(fits)
            }
        }
    }
}

/// Formats as `.spec.containers[name="web"].image` or `.metadata.annotations["example.com/a"]`.
impl fmt::Display for OwnedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for element in &self.0 {
            match element {
                PathElement::Field(name) if name.contains(['.', '/']) => write!(f, "[\"{name}\"]")?,
                PathElement::Field(name) => write!(f, ".{name}")?,
                PathElement::Value(value) => write!(f, "[{value}]")?,
                PathElement::Index(index) => write!(f, "[{index}]")?,
                PathElement::Item(keys) => {
                    let keys: serde_json::Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                    let keys: Vec<_> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                    write!(f, "[{}]", keys.join(","))?;
                }
            }
        }
        Ok(())
    }
}

impl OwnedPath {
    /// The value of the field in an object, shortened. `None` if it is absent, which it also is in metadata alone.
    pub(super) fn value_in(&self, object: &Value) -> Option<String> {
        let found = self.0.iter().try_fold(object, |value, element| element.find(value))?;
        Some(super::text::beginning(&found.to_string(), LONGEST_VALUE))
    }
}

impl ManagedFieldsEntry {
    /// Paths of the fields of the entry: leaves only.
    pub(super) fn fields(&self) -> BTreeSet<OwnedPath> {
        let mut fields = BTreeSet::new();
        collect(&self.fields_v1, &mut Vec::new(), &mut fields);
        fields
    }
}

/// Adds the paths of the leaves below `path`.
fn collect(value: &Value, path: &mut Vec<PathElement>, fields: &mut BTreeSet<OwnedPath>) {
    let Some(members) = value.as_object() else { return };
    for (key, below) in members {
        if fields.len() == FIELDS {
            return;
        }
        let Some(element) = PathElement::of(key) else { continue };
        path.push(element);
        // A leaf is an empty object; `{".": {}}` alone is an object or item without fields of its own.
        let is_leaf = below.as_object().is_none_or(|below| below.keys().all(|key| key == "."));
        if is_leaf {
            fields.insert(OwnedPath(path.clone()));
        } else {
            collect(below, path, fields);
        }
        path.pop();
    }
}

/// The fields of all entries of a manager.
pub(super) fn fields_of(entries: &[ManagedFieldsEntry], manager: &str) -> BTreeSet<OwnedPath> {
    entries.iter().filter(|entry| entry.manager == manager).flat_map(ManagedFieldsEntry::fields).collect()
}

/// The manager of a field other than `except`; if there is none, the manager other than `except` that wrote last.
pub(super) fn manager_of<'e>(
    entries: &'e [ManagedFieldsEntry],
    field: &OwnedPath,
    except: &str,
) -> Option<&'e str> {
    let others = || entries.iter().filter(|entry| entry.manager != except);
    let owner = others().find(|entry| entry.fields().contains(field));
    // All times are in UTC and have one format, so that the texts compare like the times.
    let last = || others().max_by_key(|entry| entry.time.as_deref());
    owner.or_else(last).map(|entry| &*entry.manager)
}

/// The manager that added a finalizer, as far as that is known.
pub(super) fn manager_of_finalizer(entries: &[ManagedFieldsEntry], finalizer: &str) -> Option<String> {
    let value = PathElement::Value(Value::from(finalizer).to_string());
    let field = ["metadata", "finalizers"].map(|name| PathElement::Field(name.to_owned()));
    let field = OwnedPath(field.into_iter().chain([value]).collect());
    let owner = entries.iter().find(|entry| entry.fields().contains(&field))?;
    Some(owner.manager.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_have_paths_and_values() {
        let managed = json!([{
            "manager": "hpa", "operation": "Update", "time": "2026-01-01T10:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": { "f:annotations": { ".": {}, "f:example.com/a": {} }, "f:finalizers": { "v:\"x/y\"": {} } },
                "f:spec": { "f:replicas": {}, "f:containers": { "k:{\"name\":\"web\"}": { ".": {}, "f:image": {} } } },
            },
        }]);
        let entries = entries(managed.to_string().as_bytes());
        let object = json!({
            "metadata": { "annotations": { "example.com/a": "b" }, "finalizers": ["x/y"] },
            "spec": { "replicas": 3, "containers": [{ "name": "web", "image": "x".repeat(70) }] },
        });
        let fields: Vec<_> = entries[0]
            .fields()
            .iter()
            .map(|field| format!("{field} {}", field.value_in(&object).unwrap_or_default()))
            .collect();
        assert_eq!(
            fields,
            [
                ".metadata.annotations[\"example.com/a\"] \"b\"".to_owned(),
                ".metadata.finalizers[\"x/y\"] \"x/y\"".to_owned(),
                format!(".spec.containers[name=\"web\"].image \"{}…", "x".repeat(63)),
                ".spec.replicas 3".to_owned(),
            ]
        );
        assert_eq!(manager_of(&entries, &OwnedPath(vec![PathElement::Index(0)]), "x"), Some("hpa"));
        assert_eq!(manager_of(&entries, &OwnedPath(Vec::new()), "hpa"), None);
        assert_eq!(manager_of_finalizer(&entries, "x/y").as_deref(), Some("hpa"));
        assert_eq!(manager_of_finalizer(&entries, "x/z"), None);
        let managers = serde_json::to_value(field_managers(managed.to_string().as_bytes())).expect("JSON");
        let expected = json!([{
            "manager": "hpa", "operation": "Update", "subresource": "", "time": "2026-01-01T10:00:00Z",
            "fields": [
                ".metadata.annotations[\"example.com/a\"]", ".metadata.finalizers[\"x/y\"]",
                ".spec.containers[name=\"web\"].image", ".spec.replicas",
            ],
            "more": 0,
        }]);
        assert_eq!(managers, expected);
    }

    #[test]
    fn invalid_texts_have_no_fields() {
        for text in ["", "{}", "[1]", r#"[{"fieldsV1": 5}]"#, r#"[{"fieldsV1": {"f": {}, "z:1": {}}}]"#] {
            assert_eq!(
                entries(text.as_bytes()).iter().map(|entry| entry.fields().len()).sum::<usize>(),
                0,
                "{text}"
            );
        }
    }
}
