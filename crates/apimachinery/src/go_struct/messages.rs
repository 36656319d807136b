//! Messages of builtin kinds, from the data files.

use std::sync::LazyLock;

use super::Message;
use crate::data_file::{self, Table};

static KINDS: LazyLock<Table> = LazyLock::new(|| Table::new(include_str!("../../data/message-kinds.txt")));
static MESSAGES: LazyLock<Vec<Message>> = LazyLock::new(|| {
    let files = data_file::entries(include_str!("../../data/messages.txt"));
    let mut messages: Vec<Message> = files.chain(METADATA).map(Message::new).collect();
    messages.sort_by_key(Message::name);
    messages
});
/// Messages for the metadata of objects of any kind, which are in no group's tables.
const METADATA: [(&str, &str); 2] = [
    ("meta.v1.PartialObjectMetadata", r#"{"1":["metadata","meta.v1.ObjectMeta","!"]}"#),
    (
        "meta.v1.PartialObjectMetadataList",
        r#"{"1":["metadata","meta.v1.ListMeta","!"],"2":["items","[]meta.v1.PartialObjectMetadata","!"]}"#,
    ),
];

/// Returns the protobuf message (and Go struct) `name`, such as `apps.v1.Deployment`.
pub fn message(name: &str) -> Option<&'static Message> {
    let found = MESSAGES.binary_search_by(|message| message.name().cmp(name)).ok()?;
    Some(&MESSAGES[found])
}

/// Returns the message of a kind, such as `apps/v1` and `Deployment`.
pub fn message_of_kind(api_version: &str, kind: &str) -> Option<&'static Message> {
    match (api_version, kind) {
        ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", "PartialObjectMetadata") => message(METADATA[0].0),
        ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", "PartialObjectMetadataList") => message(METADATA[1].0),
        _ => message(KINDS.get(&format!("{api_version}/{kind}"))?),
    }
}

/// Whether there is a builtin kind of this name, served or not.
pub fn has_kind(api_version: &str, kind: &str) -> bool {
    KINDS.get(&format!("{api_version}/{kind}")).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_sorted_by_name_so_that_lookups_find_all_entries() {
        assert!(KINDS.entries().is_sorted_by_key(|(name, _)| *name));
        assert!(MESSAGES.is_sorted_by_key(Message::name));
    }

    #[test]
    fn every_message_parses_and_refers_to_messages_that_exist() {
        for (name, source) in data_file::entries(include_str!("../../data/messages.txt")).chain(METADATA) {
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
        for (kind, name) in KINDS.entries() {
            assert!(message(name).is_some(), "{kind}: no message {name}");
        }
    }
}
