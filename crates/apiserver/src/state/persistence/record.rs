//! Encoding of an object in the file: two numbers and its JSON text.
//!
//! ```text
//! revision  8 bytes, little-endian
//! stored in 8 bytes, little-endian: identifies the storage version
//! text      as the store keeps it
//! ```

use bytes::Bytes;

use crate::store::{Document, Stored};

/// Bytes before the text.
const HEAD: usize = 16;

pub(super) fn encode(stored: &Stored) -> Vec<u8> {
    let document = &stored.document;
    let mut record = Vec::with_capacity(HEAD + document.len());
    record.extend_from_slice(&stored.revision.to_le_bytes());
    record.extend_from_slice(&document.stored_in().to_le_bytes());
    record.extend_from_slice(document.text());
    record
}

/// Decodes a record; `None` if the bytes are not a record.
pub(super) fn decode(record: &[u8]) -> Option<Stored> {
    let (revision, rest) = record.split_first_chunk()?;
    let (stored_in, text) = rest.split_first_chunk()?;
    let text = Bytes::copy_from_slice(text);
    let document = Document::from_text(text, u64::from_le_bytes(*stored_in))?;
    Some(Stored::new(u64::from_le_bytes(*revision), document))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let object = json!({
            "metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [{"uid": "u"}]},
            "data": {"k": "\u{1F600}"},
        });
        let stored = Stored::new(7, Document::new(&object, 3, 9));
        let read = decode(&encode(&stored)).unwrap();
        assert_eq!(read.revision, 7);
        assert_eq!(read.document.stored_in(), 9);
        assert!(read.document.same(&stored.document));
        assert!(read.document.is_owned() && read.document.is_terminating());
    }

    #[test]
    fn bytes_that_are_not_a_record_are_refused() {
        let stored = Stored::new(7, Document::new(&json!({"metadata": {"name": "a"}}), 0, 0));
        let record = encode(&stored);
        for length in 0..record.len() {
            assert!(decode(&record[..length]).is_none(), "{length}");
        }
        let mut garbled = record;
        garbled[HEAD] = b'x';
        assert!(decode(&garbled).is_none());
    }
}
