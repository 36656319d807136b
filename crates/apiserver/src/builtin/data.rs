//! The data files: what is known about builtin kinds, found by name and parsed when asked for.
//!
//! `cargo xtask data` writes the files; its documentation says what an entry is. Finding the lines of all files takes
//! well under a millisecond, parsing all of them many times that: a server starts with the former alone.

use std::sync::LazyLock;

use super::message::Message;

static DEFINITIONS: LazyLock<Table> =
    LazyLock::new(|| Table::new(include_str!("../../data/definitions.txt")));
/// Columns of Tables: `[[name, type, priority, description], …]` by kind, the name column left out. Taken from the recorded
/// Tables; kinds that have none there, and those that were written before, are in code.
static COLUMNS: LazyLock<Table> = LazyLock::new(|| Table::new(include_str!("../../data/columns.txt")));
static KINDS: LazyLock<Table> = LazyLock::new(|| Table::new(include_str!("../../data/message-kinds.txt")));
static MESSAGES: LazyLock<Vec<Message>> = LazyLock::new(|| {
    let files = lines(include_str!("../../data/messages.txt"));
    let mut messages: Vec<Message> = files.chain(METADATA).map(Message::new).collect();
    messages.sort_by_key(Message::name);
    messages
});
/// The views of the metadata of objects, which belong to no group's tables.
const METADATA: [(&str, &str); 2] = [
    ("meta.v1.PartialObjectMetadata", r#"{"1":["metadata","meta.v1.ObjectMeta","!"]}"#),
    (
        "meta.v1.PartialObjectMetadataList",
        r#"{"1":["metadata","meta.v1.ListMeta","!"],"2":["items","[]meta.v1.PartialObjectMetadata","!"]}"#,
    ),
];

/// The recorded columns of a kind, as JSON.
pub(crate) fn columns(kind: &str) -> Option<&'static str> {
    COLUMNS.get(kind)
}

/// All recorded columns as (kind, JSON).
#[cfg(test)]
pub(crate) fn all_columns() -> &'static [(&'static str, &'static str)] {
    &COLUMNS.0
}

/// The text of the OpenAPI schema `name`, e.g. `io.k8s.api.apps.v1.Deployment`.
pub(crate) fn definition(name: &str) -> Option<&'static str> {
    DEFINITIONS.get(name)
}

/// All OpenAPI schemas as (name, JSON), sorted by name.
pub(crate) fn definitions() -> &'static [(&'static str, &'static str)] {
    &DEFINITIONS.0
}

/// All resources as (group version, JSON), in the order of discovery.
pub(crate) fn resources() -> impl Iterator<Item = (&'static str, &'static str)> {
    lines(include_str!("../../data/resources.txt"))
}

/// The protobuf message (and Go struct) `name`, e.g. `apps.v1.Deployment`.
pub(crate) fn message(name: &str) -> Option<&'static Message> {
    let found = MESSAGES.binary_search_by(|message| message.name().cmp(name)).ok()?;
    Some(&MESSAGES[found])
}

/// The message of a kind, e.g. of `apps/v1` and `Deployment`.
pub(crate) fn message_of_kind(api_version: &str, kind: &str) -> Option<&'static Message> {
    match (api_version, kind) {
        ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", "PartialObjectMetadata") => message(METADATA[0].0),
        ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", "PartialObjectMetadataList") => message(METADATA[1].0),
        _ => message(KINDS.get(&format!("{api_version}/{kind}"))?),
    }
}

/// Whether a kind of this name is builtin, served or not.
pub(crate) fn has_kind(api_version: &str, kind: &str) -> bool {
    KINDS.get(&format!("{api_version}/{kind}")).is_some()
}

/// Entries of a file whose lines are sorted by name.
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
    text.lines().filter_map(|line| line.split_once(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_sorted_by_name_so_that_lookups_find_all_entries() {
        assert!(DEFINITIONS.0.is_sorted_by_key(|(name, _)| *name));
        assert!(COLUMNS.0.is_sorted_by_key(|(name, _)| *name));
        assert!(KINDS.0.is_sorted_by_key(|(name, _)| *name));
        assert!(MESSAGES.is_sorted_by_key(Message::name));
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
