//! Encoding of responses, byte for byte as a Go server writes them: fields in the order of their numbers, maps in the order of their keys.
//! Plain values are always written, pointers and lists only if they are set.
//!
//! The input has been completed by [`crate::go_struct::complete`], so each value has the type of its field. A value of another type is
//! written as the zero of that type: encoding never fails and never panics.

use serde::de::DeserializeSeed;
use serde_json::Value;

use super::MAGIC;
use super::object::{MessageWriter, ValueSeed};
use super::output::{put_bytes, put_nested, put_tag, put_varint};
use crate::go_struct::{Field, GoType, message_of_kind};

/// Encodes an object with `apiVersion` and `kind`: the prefix `k8s\0`, then a `runtime.Unknown` that contains its message. Returns `None`
/// if the kind has no message, like custom kinds and tables.
#[must_use]
pub fn encode(object: &Value) -> Option<Vec<u8>> {
    let kind = object.get("kind")?.as_str()?;
    let (api_version, table_version) = match (object.get("apiVersion"), kind) {
        // Discovery documents of the core group have no version, for historical reasons.
        (None, "APIVersions" | "APIResourceList") => ("", "v1"),
        (api_version, _) => (api_version?.as_str()?, api_version?.as_str()?),
    };
    let message = message_of_kind(table_version, kind)?;
    let mut writer = envelope(api_version, kind, 512);
    // Deserializing from a `Value` cannot fail: the seeds accept every type.
    let _ = ValueSeed::new(&mut writer, OBJECT, GoType::Message(message)).deserialize(object);
    Some(finish(writer))
}

/// Like [`encode`], but reads JSON text without building a tree, and takes the kind from the arguments.
#[must_use]
pub fn encode_text(api_version: &str, kind: &str, text: &[u8]) -> Option<Vec<u8>> {
    let message = message_of_kind(api_version, kind)?;
    let mut writer = envelope(api_version, kind, text.len() + 64);
    read(text, ValueSeed::new(&mut writer, OBJECT, GoType::Message(message)))?;
    Some(finish(writer))
}

/// Encodes a list, writing one item at a time.
pub struct ListMessage {
    api_version: String,
    kind: String,
    metadata: &'static Field,
    items: &'static Field,
}

impl ListMessage {
    /// Creates the encoder for a kind of list; `None` if the kind has no message.
    #[must_use]
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        let message = message_of_kind(api_version, kind)?;
        let named = |name: &str| message.slot(name).map(|slot| slot.field);
        Some(Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            metadata: named("metadata")?,
            items: named("items")?,
        })
    }

    /// Appends an item given as JSON text.
    pub fn write_item(&self, out: &mut Vec<u8>, text: &[u8]) {
        let mut writer = MessageWriter::new(std::mem::take(out));
        // Stored text was serialized from a tree, so it parses.
        let _ = read(text, ValueSeed::new(&mut writer, self.items.number, self.items.kind));
        *out = writer.into_bytes();
    }

    /// Returns the bytes before and after the items, which take `size` bytes.
    #[must_use]
    pub fn frame(&self, metadata: &Value, size: usize) -> (Vec<u8>, Vec<u8>) {
        let mut fields = MessageWriter::new(Vec::new());
        // Deserializing from a `Value` cannot fail: the seeds accept every type.
        let _ = ValueSeed::new(&mut fields, self.metadata.number, self.metadata.kind).deserialize(metadata);
        let fields = fields.into_bytes();
        let mut head = envelope(&self.api_version, &self.kind, 512).into_bytes();
        put_tag(&mut head, OBJECT);
        put_varint(&mut head, (fields.len() + size) as u64);
        head.extend_from_slice(&fields);
        (head, finish(MessageWriter::new(Vec::new())))
    }
}

/// Encodes a `meta.v1.WatchEvent` with the framing of watches: a big-endian length of four bytes, then the event.
/// `object` is the result of [`encode`].
#[must_use]
pub fn watch_frame(event: &str, object: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(object.len() + 32);
    frame.extend_from_slice(&[0; 4]);
    put_bytes(&mut frame, 1, event.as_bytes());
    put_nested(&mut frame, 2, |out| put_bytes(out, 1, object));
    // The limit of bodies keeps every object far below four gigabytes.
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// Field number of the object in a `runtime.Unknown`.
const OBJECT: u64 = 2;

/// Begins a `runtime.Unknown` with its type meta. The object must follow, then the fields that [`finish`] adds.
fn envelope(api_version: &str, kind: &str, size: usize) -> MessageWriter {
    let mut out = Vec::with_capacity(size);
    out.extend_from_slice(MAGIC);
    put_nested(&mut out, 1, |out| {
        put_bytes(out, 1, api_version.as_bytes());
        put_bytes(out, 2, kind.as_bytes());
    });
    MessageWriter::new(out)
}

/// Ends a `runtime.Unknown` with an empty content encoding and an empty content type.
fn finish(writer: MessageWriter) -> Vec<u8> {
    let mut out = writer.into_bytes();
    put_bytes(&mut out, 3, b"");
    put_bytes(&mut out, 4, b"");
    out
}

/// Parses text that was serialized from a tree; `None` if it does not parse.
fn read<'de, S: DeserializeSeed<'de>>(text: &'de [u8], seed: S) -> Option<S::Value> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    // Stored text may nest deeper than the parser's default limit. Its depth was bounded when the request was read.
    reader.disable_recursion_limit();
    seed.deserialize(&mut reader).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_frame_begins_with_its_length() {
        assert_eq!(watch_frame("ADDED", b"k8s\0"), b"\0\0\0\x0f\x0a\x05ADDED\x12\x06\x0a\x04k8s\0");
    }
}
