//! Cuts a list into its items while it arrives, so that a page is never held whole.

use bytes::{Buf, Bytes, BytesMut};
use serde::Deserialize;

/// The longest item that is accepted: ten times what the largest object takes.
const LONGEST: usize = 32 << 20;

/// A list that is arriving. Pure.
///
/// What stands around the items is collected, and read when the list has ended: some servers say the version of a list after
/// its items.
#[derive(Debug, Default)]
pub(crate) struct Items {
    buffer: BytesMut,
    /// How much of the buffer has been looked at.
    looked_at: usize,
    /// Objects and arrays that have begun and not ended.
    depth: usize,
    text: Text,
    place: Place,
    /// The list without its items.
    envelope: Vec<u8>,
}

/// Where in a string the looking stopped.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Text {
    #[default]
    Outside,
    Inside,
    AfterBackslash,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Place {
    #[default]
    Before,
    Among,
    After,
}

/// What a list says of itself.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListMeta {
    pub(crate) resource_version: String,
    /// Names the next page; empty on the last one.
    #[serde(rename = "continue", default)]
    pub(crate) continue_token: String,
}

impl Items {
    /// Adds what was received.
    ///
    /// # Errors
    ///
    /// An item is longer than 32 MiB.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<(), String> {
        if self.buffer.len() + self.envelope.len() + chunk.len() > LONGEST {
            return Err(format!("an item of a list is longer than {} MiB", LONGEST >> 20));
        }
        self.buffer.extend_from_slice(chunk);
        Ok(())
    }

    /// The next item that has arrived whole. What it is, is not looked at.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        while let Some(byte) = self.buffer.get(self.looked_at).copied() {
            let among = self.place == Place::Among && self.depth == 2 && self.text == Text::Outside;
            if among && matches!(byte, b',' | b']') {
                let item = self.buffer.split_to(self.looked_at).freeze();
                self.looked_at = 0;
                if byte == b',' {
                    self.buffer.advance(1);
                } else {
                    self.place = Place::After;
                }
                if !item.trim_ascii().is_empty() {
                    return Some(item);
                }
                continue;
            }
            self.look_at(byte);
            self.looked_at += 1;
            if byte == b'[' && self.depth == 2 && self.text == Text::Outside && self.place == Place::Before {
                self.envelope.extend_from_slice(&self.buffer.split_to(self.looked_at));
                self.looked_at = 0;
                if ends_with_key(&self.envelope[..self.envelope.len() - 1], b"\"items\"") {
                    self.place = Place::Among;
                }
            }
        }
        if self.place != Place::Among {
            self.envelope.extend_from_slice(&self.buffer.split());
            self.looked_at = 0;
        }
        None
    }

    /// What the list says of itself, after its end.
    ///
    /// # Errors
    ///
    /// It was no list, or its end is missing.
    pub(crate) fn finish(self) -> Result<ListMeta, serde_json::Error> {
        #[derive(Deserialize)]
        struct List {
            metadata: ListMeta,
        }
        serde_json::from_slice::<List>(&self.envelope).map(|list| list.metadata)
    }

    fn look_at(&mut self, byte: u8) {
        match (self.text, byte) {
            (Text::Inside, b'\\') => self.text = Text::AfterBackslash,
            (Text::Inside, b'"') => self.text = Text::Outside,
            (Text::AfterBackslash, _) | (Text::Outside, b'"') => self.text = Text::Inside,
            (Text::Outside, b'{' | b'[') => self.depth += 1,
            // Too many ends make no JSON: whoever reads the envelope says so.
            (Text::Outside, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

/// Whether the text ends with this key and a colon.
fn ends_with_key(text: &[u8], key: &[u8]) -> bool {
    let before_colon = text.trim_ascii_end().strip_suffix(b":");
    let before_key = before_colon.and_then(|text| text.trim_ascii_end().strip_suffix(key));
    before_key.is_some_and(|text| !text.ends_with(b"\\"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// The items and the metadata of a list that arrives in pieces.
    fn read(list: &[u8], pieces: &[usize]) -> (Vec<Value>, Result<ListMeta, String>) {
        let (mut items, mut found, mut rest, mut pieces) = (Items::default(), Vec::new(), list, pieces.iter());
        while !rest.is_empty() {
            let piece = pieces.next().copied().unwrap_or(rest.len()).clamp(1, rest.len());
            items.push(&rest[..piece]).expect("short enough");
            rest = &rest[piece..];
            found.extend(std::iter::from_fn(|| items.next()).map(|item| serde_json::from_slice(&item).expect("JSON")));
        }
        (found, items.finish().map_err(|error| error.to_string()))
    }

    fn meta(version: &str, token: &str) -> Result<ListMeta, String> {
        Ok(ListMeta { resource_version: version.to_owned(), continue_token: token.to_owned() })
    }

    #[test]
    fn items_are_cut_wherever_the_pieces_end() {
        let list = br#" {"kind":"L","x":[[1],{"items":[2]}],"metadata":{"resourceVersion":"7","continue":"t"},
            "items" : [ {"a":"],[{\"\\"} , {}, 5,null ] } "#;
        let items = vec![json!({ "a": "],[{\"\\" }), json!({}), json!(5), json!(null)];
        for piece in 1..list.len() {
            assert_eq!(read(list, &vec![piece; list.len()]), (items.clone(), meta("7", "t")), "{piece}");
        }
    }

    #[test]
    fn metadata_may_come_last_and_items_may_be_missing() {
        assert_eq!(read(br#"{"items":[],"metadata":{"resourceVersion":"7"}}"#, &[]), (vec![], meta("7", "")));
        assert_eq!(read(br#"{"items":[{}],"metadata":{"resourceVersion":"7"}}"#, &[]), (vec![json!({})], meta("7", "")));
        for items in ["", r#","items":null"#, r#","items":{"items":[1]}"#, r#","\"items":[1]"#] {
            let list = format!(r#"{{"metadata":{{"resourceVersion":"7"}}{items}}}"#);
            assert_eq!(read(list.as_bytes(), &[]), (vec![], meta("7", "")), "{list}");
        }
    }

    #[test]
    fn what_is_no_list_or_is_cut_off_is_refused() {
        for text in ["", "[]", "{}", "}}]]", r#"{"items":[{}"#, r#"{"metadata":{"resourceVersion":"7"},"items":[{}]"#] {
            assert!(read(text.as_bytes(), &[]).1.is_err(), "{text}");
        }
    }

    #[test]
    fn an_item_without_end_is_refused() {
        let mut items = Items::default();
        items.push(br#"{"items":[""#).expect("short enough");
        let chunk = vec![b'x'; 20 << 20];
        items.push(&chunk).expect("20 MiB are accepted");
        assert!(items.next().is_none());
        assert_eq!(items.push(&chunk), Err("an item of a list is longer than 32 MiB".to_owned()));
    }

    proptest! {
        #[test]
        fn what_went_in_comes_out(
            texts in prop::collection::vec(("\\PC{0,6}", any::<String>()), 0..6),
            pieces in prop::collection::vec(1..40usize, 0..40),
            last in any::<bool>(),
        ) {
            let items: Vec<_> = texts.into_iter().map(|(key, value)| json!({ key: [value] })).collect();
            let (list, version) = (Value::from(items.clone()), r#""metadata":{"resourceVersion":"7"}"#);
            let text = if last { format!(r#"{{"items":{list},{version}}}"#) } else { format!(r#"{{{version},"items":{list}}}"#) };
            prop_assert_eq!(read(text.as_bytes(), &pieces), (items, meta("7", "")));
        }
    }
}
