//! Fields that are not compared: those that differ with every write, and those that a simulation masks.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

/// Fields that are not compared, by resource: paths of names, such as `["status", "lastProbe"]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Masks(BTreeMap<String, Vec<Vec<String>>>);

impl Masks {
    /// Adds the field that a JSON pointer names.
    ///
    /// # Errors
    ///
    /// `pointer` is not a JSON pointer to a field.
    pub(crate) fn add(&mut self, resource: String, pointer: &str) -> Result<(), String> {
        let names = pointer.strip_prefix('/').filter(|names| !names.is_empty());
        let names = names.ok_or_else(|| {
            format!(
                "{pointer:?} is not a JSON pointer to a field, which is, for example, \"/status/lastProbe\""
            )
        })?;
        let plain = |name: &str| name.replace("~1", "/").replace("~0", "~");
        self.0.entry(resource).or_default().push(names.split('/').map(plain).collect());
        Ok(())
    }

    /// Fields as text, for reports.
    pub(crate) fn texts(&self) -> impl Iterator<Item = String> {
        let texts = |(resource, fields): (&String, &Vec<Vec<String>>)| {
            let resource = resource.clone();
            let text = move |names: &Vec<String>| format!("{resource} /{}", names.join("/"));
            fields.iter().map(text).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(texts)
    }

    fn remove_from(&self, resource: &str, object: &mut Value) {
        for names in self.0.get(resource).into_iter().flatten() {
            let Some((last, before)) = names.split_last() else { continue };
            let parent = before.iter().try_fold(&mut *object, |value, name| value.get_mut(name));
            if let Some(fields) = parent.and_then(Value::as_object_mut) {
                fields.remove(last);
            }
        }
    }
}

/// Returns an object without the fields that change with every write and those that are masked, and with times replaced by a symbol.
pub(crate) fn without_volatile_fields(resource: &str, object: &Value, masks: &Masks) -> Value {
    let mut object = object.clone();
    masks.remove_from(resource, &mut object);
    let generation = object["metadata"]["generation"].clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["resourceVersion", "managedFields", "generation", "creationTimestamp", "selfLink"] {
            metadata.remove(field);
        }
    }
    mask(&mut object, &generation);
    object
}

/// Replaces times, and `observedGeneration` by its relation to the generation.
fn mask(value: &mut Value, generation: &Value) {
    match value {
        Value::String(text) if is_time(text) => *value = json!("<time>"),
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, generation)),
        Value::Object(fields) => {
            for (name, field) in fields {
                if name == "observedGeneration" && field == generation {
                    *field = json!("<current>");
                } else if name == "observedGeneration" {
                    *field = json!("<outdated>");
                } else {
                    mask(field, generation);
                }
            }
        }
        _ => {}
    }
}

fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20 && bytes[4] == b'-' && bytes[10] == b'T' && text.parse::<Timestamp>().is_ok()
}
