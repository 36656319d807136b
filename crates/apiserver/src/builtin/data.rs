//! Data files about builtin kinds. Entries are looked up by name and parsed on demand.
//!
//! The first line of each file says where it comes from and what its entries are. Splitting all files into lines takes well
//! below a millisecond, and parsing them many times longer, so a server starts without parsing them.

use std::sync::LazyLock;

use super::message::Message;

static DEFINITIONS: LazyLock<Table> =
    LazyLock::new(|| Table::new(include_str!("../../data/definitions.txt")));
/// Columns of tables by kind: `[[name, type, priority, description], …]` without the name column. They were taken from
/// recorded tables; kinds without a recording, and those written earlier, have their columns in code.
static COLUMNS: LazyLock<Table> = LazyLock::new(|| Table::new(include_str!("../../data/columns.txt")));
/// Descriptions of ObjectMeta and the other schemas of metadata, by field; the empty name is the schema itself. They are those that
/// kube-apiserver v1.36.3 publishes. Fields of kinds have no descriptions.
static DESCRIPTIONS: LazyLock<Table> =
    LazyLock::new(|| Table::new(include_str!("../../data/descriptions.txt")));
static KINDS: LazyLock<Table> = LazyLock::new(|| Table::new(include_str!("../../data/message-kinds.txt")));
static MESSAGES: LazyLock<Vec<Message>> = LazyLock::new(|| {
    let files = lines(include_str!("../../data/messages.txt"));
    let mut messages: Vec<Message> = files.chain(METADATA).map(Message::new).collect();
    messages.sort_by_key(Message::name);
    messages
});
/// Views of the metadata of objects, which are in no group's tables.
const METADATA: [(&str, &str); 2] = [
    ("meta.v1.PartialObjectMetadata", r#"{"1":["metadata","meta.v1.ObjectMeta","!"]}"#),
    (
        "meta.v1.PartialObjectMetadataList",
        r#"{"1":["metadata","meta.v1.ListMeta","!"],"2":["items","[]meta.v1.PartialObjectMetadata","!"]}"#,
    ),
];

/// Returns the recorded columns of a kind as JSON.
pub(crate) fn columns(kind: &str) -> Option<&'static str> {
    COLUMNS.get(kind)
}

/// Returns all recorded columns as (kind, JSON).
#[cfg(test)]
pub(crate) fn all_columns() -> &'static [(&'static str, &'static str)] {
    &COLUMNS.0
}

/// Returns the text of the OpenAPI schema `name`, such as `io.k8s.api.apps.v1.Deployment`.
pub(crate) fn definition(name: &str) -> Option<&'static str> {
    DEFINITIONS.get(name)
}

/// Returns the descriptions of the schema `name` and its fields, as a JSON object of texts.
pub(crate) fn descriptions(name: &str) -> Option<&'static str> {
    DESCRIPTIONS.get(name)
}

/// Returns all OpenAPI schemas as (name, JSON), sorted by name.
pub(crate) fn definitions() -> &'static [(&'static str, &'static str)] {
    &DEFINITIONS.0
}

/// Returns all resources as (group version, JSON) in discovery order.
pub(crate) fn resources() -> impl Iterator<Item = (&'static str, &'static str)> {
    lines(include_str!("../../data/resources.txt"))
}

/// Returns the protobuf message (and Go struct) `name`, such as `apps.v1.Deployment`.
pub(crate) fn message(name: &str) -> Option<&'static Message> {
    let found = MESSAGES.binary_search_by(|message| message.name().cmp(name)).ok()?;
    Some(&MESSAGES[found])
}

/// Returns the message of a kind, such as `apps/v1` and `Deployment`.
pub(crate) fn message_of_kind(api_version: &str, kind: &str) -> Option<&'static Message> {
    match (api_version, kind) {
        ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", "PartialObjectMetadata") => message(METADATA[0].0),
        ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", "PartialObjectMetadataList") => message(METADATA[1].0),
        _ => message(KINDS.get(&format!("{api_version}/{kind}"))?),
    }
}

/// Whether there is a builtin kind of this name, served or not.
pub(crate) fn has_kind(api_version: &str, kind: &str) -> bool {
    KINDS.get(&format!("{api_version}/{kind}")).is_some()
}

/// Entries of a file with lines sorted by name.
struct Table(Vec<(&'static str, &'static str)>);

impl Table {
    fn new(text: &'static str) -> Self {
        Self(lines(text).collect())
    }

    fn get(&self, name: &str) -> Option<&'static str> {
        let found = self.0.binary_search_by(|(entry, _)| entry.cmp(&name)).ok()?;
        Some(self.0[found].1)
    }
}

fn lines(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_sorted_by_name_so_that_lookups_find_all_entries() {
        assert!(DEFINITIONS.0.is_sorted_by_key(|(name, _)| *name));
        assert!(COLUMNS.0.is_sorted_by_key(|(name, _)| *name));
        assert!(DESCRIPTIONS.0.is_sorted_by_key(|(name, _)| *name));
        assert!(KINDS.0.is_sorted_by_key(|(name, _)| *name));
        assert!(MESSAGES.is_sorted_by_key(Message::name));
    }

    #[test]
    fn descriptions_are_those_of_fields_that_exist() {
        for (name, texts) in &DESCRIPTIONS.0 {
            let schema: serde_json::Value = serde_json::from_str(definition(name).unwrap()).unwrap();
            let texts: serde_json::Map<String, serde_json::Value> = serde_json::from_str(texts).unwrap();
            for field in texts.keys().filter(|field| !field.is_empty()) {
                assert!(schema["properties"].get(field).is_some(), "{name} has no {field}");
            }
        }
    }

    #[test]
    fn every_message_parses_and_refers_to_messages_that_exist() {
        for (name, source) in lines(include_str!("../../data/messages.txt")).chain(METADATA) {
            let entries: serde_json::Map<String, serde_json::Value> = serde_json::from_str(source).unwrap();
            let message = message(name).unwrap();
            for (number, entry) in entries {
                assert!(message.field(number.parse().unwrap()).is_some(), "{name}: {entry}");
            }
        }
    }

    #[test]
    fn no_name_stands_for_two_fields_of_a_message() {
        for message in MESSAGES.iter() {
            for field in message.fields().iter().filter(|field| !field.name.is_empty()) {
                assert_eq!(message.slot(field.name).unwrap().field, field, "{}", message.name());
            }
        }
    }

    #[test]
    fn every_kind_has_its_message() {
        for (kind, name) in &KINDS.0 {
            assert!(message(name).is_some(), "{kind}: no message {name}");
        }
    }
}
