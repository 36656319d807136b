//! Fields that are not compared: those that differ with every write, and those that a simulation masks.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::Value;

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

    /// Whether fields of a resource are masked.
    pub(super) fn concern(&self, resource: &str) -> bool {
        self.0.contains_key(resource)
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

/// Fields of `metadata` that change with every write, or from run to run.
pub(super) const VOLATILE: [&str; 5] =
    ["resourceVersion", "managedFields", "generation", "creationTimestamp", "selfLink"];

/// Resource with entries that are compared decoded.
pub(super) const SECRETS: &str = "secrets";

/// Field that is compared by its relation to the generation.
pub(super) const OBSERVED_GENERATION: &str = "observedGeneration";

/// Returns an object without the fields that change with every write and those that are masked, and with times replaced by a symbol.
pub(crate) fn without_volatile_fields(resource: &str, object: &Value, masks: &Masks) -> Value {
    if masks.concern(resource) {
        // The masked fields must also be gone where the generation and times are replaced, so they are
        // removed first.
        let mut object = object.clone();
        masks.remove_from(resource, &mut object);
        return without_volatile_fields(resource, &object, &Masks::default());
    }
    let generation = &object["metadata"]["generation"];
    let Value::Object(fields) = object else { return masked(object, generation) };
    let part = |(name, field): (&String, &Value)| {
        let part = match field {
            data if name == "data" && resource == SECRETS => secret_data(data),
            Value::Object(metadata) if name == "metadata" => {
                let lasting = metadata.iter().filter(|(name, _)| !VOLATILE.contains(&name.as_str()));
                Value::Object(lasting.map(|field| masked_field(field, generation)).collect())
            }
            _ => return masked_field((name, field), generation),
        };
        (name.clone(), part)
    };
    Value::Object(fields.iter().map(part).collect())
}

/// Copies a value, with symbols in place of times, and `observedGeneration` by its relation to the generation.
fn masked(value: &Value, generation: &Value) -> Value {
    match value {
        Value::String(text) if is_time(text) => time(),
        Value::Array(items) => Value::Array(items.iter().map(|item| masked(item, generation)).collect()),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|field| masked_field(field, generation)).collect())
        }
        other => other.clone(),
    }
}

fn masked_field((name, field): (&String, &Value), generation: &Value) -> (String, Value) {
    let value = match &**name {
        OBSERVED_GENERATION => observed_generation(field, generation),
        name => in_order(name, masked(field, generation)),
    };
    (name.clone(), value)
}

/// Sorts a list without a meaningful order: finalizers by their text, owner references by name, and conditions by type.
pub(super) fn in_order(field: &str, mut value: Value) -> Value {
    let key: fn(&Value) -> Option<&str> = match field {
        "finalizers" => Value::as_str,
        "ownerReferences" => |owner| owner["name"].as_str(),
        "conditions" => |condition| condition["type"].as_str(),
        _ => return value,
    };
    if let Value::Array(items) = &mut value
        // A custom resource may use the name for another list, and the order of that may have a meaning.
        && items.iter().all(|item| key(item).is_some())
    {
        items.sort_by(|one, other| key(one).cmp(&key(other)));
    }
    value
}

/// Returns the entries of a Secret, decoded where they are text.
pub(super) fn secret_data(data: &Value) -> Value {
    let Value::Object(entries) = data else { return data.clone() };
    let part = |(name, value): (&String, &Value)| (name.clone(), masked(&decoded(value), &Value::Null));
    Value::Object(entries.iter().map(part).collect())
}

/// Decodes an entry of a Secret if it is text, because other places, such as a remote system, hold it as text.
fn decoded(value: &Value) -> Value {
    let bytes = serde_json::from_value::<ByteString>(value.clone());
    let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes.0).ok());
    text.map_or_else(|| value.clone(), Value::String)
}

/// Symbol in place of an observed generation.
pub(super) fn observed_generation(observed: &Value, generation: &Value) -> Value {
    Value::String(if observed == generation { "<current>" } else { "<outdated>" }.to_owned())
}

/// Symbol in place of a time.
pub(super) fn time() -> Value {
    Value::String("<time>".to_owned())
}

pub(super) fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20 && bytes[4] == b'-' && bytes[10] == b'T' && text.parse::<Timestamp>().is_ok()
}
