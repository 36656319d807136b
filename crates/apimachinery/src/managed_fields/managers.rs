//! `metadata.managedFields` in memory: field sets by owner and operation.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Writer;
use super::fields_v1;
use super::set::FieldSet;
use crate::go::{self, quote};

/// Maximum number of Update entries. If there are more, the oldest are merged.
const MAX_UPDATE_MANAGERS: usize = 10;

/// Manager name of merged entries.
const ANCIENT: &str = "ancient-changes";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Key of an entry. An applier has one entry, whatever version it applies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ManagerId {
    pub(super) manager: String,
    pub(super) operation: Operation,
    /// Version of the written object; empty for appliers.
    version: String,
    pub(super) subresource: String,
}

impl ManagerId {
    pub(super) fn new(writer: &Writer<'_>, operation: Operation) -> Self {
        Self {
            // kube-apiserver records this name for a writer without a field manager.
            manager: if writer.manager.is_empty() { "unknown" } else { writer.manager }.to_owned(),
            operation,
            version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => writer.api_version.to_owned(),
            },
            subresource: writer.subresource.to_owned(),
        }
    }

    /// Returns the key of this manager for an object in another version.
    pub(super) fn in_version(&self, api_version: &str) -> Self {
        let version = match self.operation {
            Operation::Apply => "",
            Operation::Update => api_version,
        };
        Self { version: version.to_owned(), ..self.clone() }
    }

    /// Formats the manager for messages.
    pub(super) fn describe(&self) -> String {
        // Go quotes the names with `%q`. The key of an entry has no time, so that Go's suffix ` at …` never appears.
        let mut text = Value::from(self.manager.as_str()).to_string();
        if !self.subresource.is_empty() {
            text += &format!(" with subresource {}", Value::from(self.subresource.as_str()));
        }
        if self.operation == Operation::Update {
            text += &format!(" using {}", self.version);
        }
        text
    }
}

/// Content of one entry.
#[derive(Debug, Clone, Default)]
pub(super) struct Owned {
    pub(super) set: FieldSet,
    /// Version in which the set was written.
    pub(super) api_version: String,
    /// Time of the last change: whole seconds in UTC, which sort as text; `None` sorts first.
    pub(super) time: Option<String>,
}

/// All entries of an object.
#[derive(Debug, Clone, Default)]
pub(super) struct Managers(BTreeMap<ManagerId, Owned>);

impl Managers {
    /// Reads the entries of an object.
    ///
    /// # Errors
    /// The reason why an entry is invalid.
    pub(super) fn decode(object: &Value) -> Result<Self, String> {
        let mut managers = Self::default();
        let entries = object["metadata"]["managedFields"].as_array();
        for (index, entry) in entries.into_iter().flatten().enumerate() {
            let (id, owned) = decode_entry(index, entry)?;
            // As in Go's map, the last of several entries with the same key counts.
            managers.0.insert(id, owned);
        }
        Ok(managers)
    }

    /// Writes the entries into an object.
    pub(super) fn encode(self, object: &mut Value) {
        encode(self.0.into_iter().collect(), object);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get_mut(&mut self, id: &ManagerId) -> Option<&mut Owned> {
        self.0.get_mut(id)
    }

    pub(super) fn remove(&mut self, id: &ManagerId) -> Option<Owned> {
        self.0.remove(id)
    }

    pub(super) fn get(&self, id: &ManagerId) -> Option<&Owned> {
        self.0.get(id)
    }

    /// Inserts an entry, or removes it if it has no fields.
    pub(super) fn put(&mut self, id: ManagerId, owned: Owned) {
        if owned.set.is_empty() {
            self.0.remove(&id);
        } else {
            self.0.insert(id, owned);
        }
    }

    /// Removes entries without fields.
    pub(super) fn drop_empty(&mut self) {
        self.0.retain(|_, owned| !owned.set.is_empty());
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = (ManagerId, Owned)> {
        self.0.into_iter()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ManagerId, &Owned)> {
        self.0.iter()
    }

    /// Lets `f` change each entry, and removes entries without fields.
    pub(super) fn adjust(&mut self, mut f: impl FnMut(&ManagerId, &mut Owned)) {
        self.0.retain(|id, owned| {
            f(id, owned);
            !owned.set.is_empty()
        });
    }

    /// Merges the oldest Update entries of a version into one while there are too many.
    pub(super) fn cap(&mut self) {
        let updates = self.0.iter().filter(|(id, _)| id.operation == Operation::Update);
        let mut count = updates.clone().count();
        if count <= MAX_UPDATE_MANAGERS {
            // The usual case: no entry has to be copied.
            return;
        }
        let mut oldest: Vec<(Option<String>, ManagerId)> =
            updates.map(|(id, owned)| (owned.time.clone(), id.clone())).collect();
        // The time comes first in the tuple: the oldest entries are merged first.
        oldest.sort();
        let mut first_of_version: BTreeMap<String, ManagerId> = BTreeMap::new();
        for (time, id) in oldest {
            if count <= MAX_UPDATE_MANAGERS {
                break;
            }
            // The oldest entry of a version is kept until a second one can be merged with it.
            let Some(first) = first_of_version.get(&id.version) else {
                first_of_version.insert(id.version.clone(), id);
                continue;
            };
            let bucket_id = ManagerId {
                manager: ANCIENT.to_owned(),
                operation: Operation::Update,
                version: id.version.clone(),
                subresource: String::new(),
            };
            if id == bucket_id {
                // kube-apiserver merges the bucket with itself and then removes it. That happens if the oldest entry of the version belongs
                // to another manager and was written in the same second.
                self.0.remove(&id);
                count -= 1;
                continue;
            }
            // The first merge of a version turns its oldest entry into the bucket.
            let bucket = self.0.remove(&bucket_id).or_else(|| self.0.remove(first));
            let mut bucket = bucket.unwrap_or_default();
            if let Some(owned) = self.0.remove(&id) {
                bucket.set.merge(owned.set);
                bucket.api_version = owned.api_version;
            }
            // The merged entry is the more recent one, so the bucket takes its time.
            bucket.time = time;
            self.0.insert(bucket_id, bucket);
            count -= 1;
        }
    }
}

/// Writes entries into an object: appliers first, then by time.
pub(super) fn encode(mut entries: Vec<(ManagerId, Owned)>, object: &mut Value) {
    let Some(metadata) = metadata(object) else {
        return;
    };
    entries.sort_by(|(a, a_owned), (b, b_owned)| {
        (a.operation.cmp(&b.operation))
            .then_with(|| a_owned.time.cmp(&b_owned.time))
            .then_with(|| a.manager.cmp(&b.manager))
            .then_with(|| a_owned.api_version.cmp(&b_owned.api_version))
            .then_with(|| a.subresource.cmp(&b.subresource))
    });
    if entries.is_empty() {
        metadata.remove("managedFields");
    } else {
        let entries = entries.into_iter().map(encode_entry).collect();
        metadata.insert("managedFields".to_owned(), Value::Array(entries));
    }
}

/// Returns the `metadata` of an object, and adds it if missing.
pub(super) fn metadata(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.as_object_mut()?.entry("metadata").or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

/// Reads one entry, with apimachinery's messages as far as they do not print Go values.
fn decode_entry(index: usize, entry: &Value) -> Result<(ManagerId, Owned), String> {
    let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let operation = match entry["operation"].as_str() {
        Some("Apply") => Operation::Apply,
        Some("Update") => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    let api_version = text("apiVersion");
    if api_version.is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    match entry["fieldsType"].as_str().unwrap_or_default() {
        "FieldsV1" => {}
        "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
        other => return Err(format!("invalid fieldsType {} in managed fields entry {index}", quote(other))),
    }
    let set = match &entry["fieldsV1"] {
        Value::Null => FieldSet::default(),
        fields => fields_v1::decode(fields)
            .ok_or_else(|| format!("error decoding the fieldsV1 of managed fields entry {index}"))?,
    };
    let time = match &entry["time"] {
        Value::String(text) => {
            let time = text.parse().map_err(|_| format!("invalid time in managed fields entry {index}"))?;
            // Servers write whole seconds in UTC; only times from clients need a conversion.
            Some(if go::is_in_seconds(text) { text.clone() } else { go::format_seconds(time) })
        }
        _ => None,
    };
    let id = ManagerId {
        manager: text("manager"),
        operation,
        version: match operation {
            Operation::Apply => String::new(),
            Operation::Update => api_version.clone(),
        },
        subresource: text("subresource"),
    };
    let owned = Owned { set, api_version, time };
    Ok((id, owned))
}

fn encode_entry((id, owned): (ManagerId, Owned)) -> Value {
    // Without `json!`, which would copy the set, and without `collect`, which would sort a list of the fields first.
    let mut entry = Map::new();
    let mut insert = |name: &str, value: Value| entry.insert(name.to_owned(), value);
    insert("apiVersion", Value::String(owned.api_version));
    insert("fieldsType", Value::from("FieldsV1"));
    insert("fieldsV1", fields_v1::encode(&owned.set));
    insert("manager", Value::String(id.manager));
    insert("operation", Value::from(id.operation.name()));
    if !id.subresource.is_empty() {
        insert("subresource", Value::String(id.subresource));
    }
    if let Some(time) = owned.time {
        insert("time", Value::String(time));
    }
    Value::Object(entry)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Managers of the entries that are left of 11.
    fn capped(first: &str) -> Vec<String> {
        let entry = |manager: &str, second: usize| {
            json!({
                "manager": manager, "operation": "Update", "apiVersion": "v1", "time": format!("2026-01-01T00:00:{second:02}Z"),
                "fieldsType": "FieldsV1", "fieldsV1": {format!("f:{manager}"): {}},
            })
        };
        let mut entries = vec![entry(first, 1), entry(ANCIENT, 1)];
        entries.extend((2..11).map(|second| entry(&format!("u{second:02}"), second)));
        let mut object = json!({"metadata": {"managedFields": entries}});
        let mut managers = Managers::decode(&object).unwrap();
        managers.cap();
        managers.encode(&mut object);
        let left = object["metadata"]["managedFields"].as_array().unwrap();
        left.iter()
            .map(|entry| format!("{} {}", entry["manager"].as_str().unwrap(), entry["fieldsV1"]))
            .collect()
    }

    /// In Go, the merged entry is lost if it is not the oldest of its version.
    #[test]
    fn ten_entries_are_left() {
        let rest = (2..11).map(|n| format!(r#"u{n:02} {{"f:u{n:02}":{{}}}}"#));
        let expected = [r#"a {"f:a":{}}"#.to_owned()].into_iter().chain(rest.clone());
        assert_eq!(capped("a"), expected.collect::<Vec<_>>());
        let expected =
            [r#"ancient-changes {"f:ancient-changes":{},"f:b":{}}"#.to_owned()].into_iter().chain(rest);
        assert_eq!(capped("b"), expected.collect::<Vec<_>>());
    }
}
