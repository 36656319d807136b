//! Splits a list into its items while it arrives, so that a page is never in memory as a whole.

use bytes::Bytes;
use serde::Deserialize;

use super::chunk_buffer::{ChunkBuffer, TooLong};
use crate::json::scan::Skip;

/// A list that is arriving. Pure.
///
/// The text around the items is collected and decoded at the end of the list, because some servers send the version of
/// a list after its items.
///
/// ```text
///     list  = '{' members '"items"' ':' items members '}'
///     items = '[' [ item { ',' item } ] ']'
/// ```
///
/// `members` are all other members of the top-level object, and an `item` is any JSON value.
///
/// | position | position | next byte | next position |
/// |---|---|---|---|
/// | `Before` | text before the items | `[` after the key `"items"` of the top-level object | `First` |
/// | `First` | after `[` | `]`, or the start of a value | `After`, `Within` |
/// | `Within` | inside an item | end of the item, found by [`Skip`] | `Next` |
/// | `Next` | after an item | `,` or `]` | `Item`, `After` |
/// | `Item` | after `,` | the start of a value | `Within` |
/// | `After` | text after the items | any | `After` |
///
/// White space may stand between all of these. A list without items stays in `Before`. Brackets and quotes of the text
/// around are only counted: serde checks it in [`ListDecoder::finish`].
#[derive(Debug, Default)]
pub(crate) struct ListDecoder {
    buffer: ChunkBuffer,
    position: ListPosition,
    /// The list without its items.
    envelope: Vec<u8>,
    /// Scan state at the end of `envelope`.
    around: Skip,
    /// Scan state of the current item.
    within: Skip,
    /// Number of items returned.
    taken: usize,
}

/// Position in the list, see [`ListDecoder`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ListPosition {
    #[default]
    Before,
    /// After `[`: an item or the end follows.
    First,
    /// After a comma: an item follows.
    Item,
    Within,
    /// After an item: a comma or the end follows.
    Next,
    After,
}

/// Metadata of a list.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListMeta {
    pub(crate) resource_version: String,
    /// Token of the next page; empty on the last one.
    #[serde(rename = "continue", default)]
    pub(crate) continue_token: String,
}

/// Error in a list.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    #[error("an item of the list is {0}")]
    TooLong(#[from] TooLong),
    #[error("the list is not valid JSON: {1:?} after {0} items")]
    Unexpected(usize, char),
    #[error("the list ends unexpectedly after {0} items")]
    BrokenOff(usize),
    #[error("the response is not a list: {0}")]
    Envelope(serde_json::Error),
}

impl ListDecoder {
    /// Adds received bytes.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.buffer.push(chunk);
    }

    /// Returns the next complete item. The item is not checked: its decoder does that.
    ///
    /// # Errors
    ///
    /// The items are not separated by commas, or an item is longer than 32 MiB.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, ListError> {
        loop {
            let chunk = self.buffer.chunk();
            match self.position {
                ListPosition::Before | ListPosition::After => {
                    let Some(&byte) = chunk.first() else { return Ok(None) };
                    self.around(byte)?;
                    self.buffer.skip(1);
                }
                ListPosition::Within => {
                    // The item does not end in this chunk: store the chunk, and continue the scan with the next one.
                    let Some(end) = self.within.advance(chunk) else {
                        self.buffer.keep()?;
                        return Ok(None);
                    };
                    self.position = ListPosition::Next;
                    self.taken += 1;
                    return Ok(Some(self.buffer.take(end)));
                }
                ListPosition::First | ListPosition::Item | ListPosition::Next => {
                    let blank = chunk.len() - chunk.trim_ascii_start().len();
                    let next = chunk.get(blank).copied();
                    self.buffer.skip(blank);
                    let Some(next) = next else { return Ok(None) };
                    self.position = match (self.position, next) {
                        // The bracket is not skipped, because `around` adds it to the envelope.
                        (ListPosition::First | ListPosition::Next, b']') => ListPosition::After,
                        (ListPosition::Next, b',') => {
                            self.buffer.skip(1);
                            ListPosition::Item
                        }
                        (ListPosition::Next, _) | (_, b',' | b':' | b'}' | b']') => {
                            return Err(ListError::Unexpected(self.taken, next.into()));
                        }
                        _ => {
                            self.within = Skip::default();
                            ListPosition::Within
                        }
                    };
                }
            }
        }
    }

    /// Returns the metadata of the list, after all of it was received.
    ///
    /// # Errors
    ///
    /// The text is not a list, or its end is missing.
    pub(crate) fn finish(self) -> Result<ListMeta, ListError> {
        #[derive(Deserialize)]
        struct ListEnvelope {
            metadata: ListMeta,
        }
        if !matches!(self.position, ListPosition::Before | ListPosition::After) {
            return Err(ListError::BrokenOff(self.taken));
        }
        serde_json::from_slice(&self.envelope)
            .map(|ListEnvelope { metadata }| metadata)
            .map_err(ListError::Envelope)
    }

    /// Processes a byte of the text around the items.
    fn around(&mut self, byte: u8) -> Result<(), TooLong> {
        self.around.advance(&[byte]);
        // Depth 2 is inside the top-level object and the bracket itself: a nested `items` is not the list's.
        if self.position == ListPosition::Before
            && byte == b'['
            && self.around.depth() == 2
            && ends_with_key(&self.envelope, b"\"items\"")
        {
            self.position = ListPosition::First;
        }
        self.envelope.push(byte);
        if self.envelope.len() > ChunkBuffer::LONGEST { Err(TooLong) } else { Ok(()) }
    }
}

/// Whether the text of an object's members ends with this key and a colon.
fn ends_with_key(text: &[u8], key: &[u8]) -> bool {
    let before_colon = text.trim_ascii_end().strip_suffix(b":");
    let before_key = before_colon.and_then(|text| text.trim_ascii_end().strip_suffix(key));
    // Without this check, `"\"items"` would match: the key must follow `{` or `,`.
    before_key
        .is_some_and(|text| text.trim_ascii_end().ends_with(b"{") || text.trim_ascii_end().ends_with(b","))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Returns the items and the metadata of a list that arrives in pieces.
    fn read(list: &[u8], pieces: &[usize]) -> Result<(Vec<Value>, ListMeta), String> {
        let (mut items, mut found, mut rest, mut pieces) =
            (ListDecoder::default(), Vec::new(), list, pieces.iter());
        while !rest.is_empty() {
            let piece = pieces.next().copied().unwrap_or(rest.len()).clamp(1, rest.len());
            items.push(Bytes::copy_from_slice(&rest[..piece]));
            rest = &rest[piece..];
            while let Some(item) = items.next().map_err(|error| error.to_string())? {
                found.push(serde_json::from_slice(&item).expect("JSON"));
            }
        }
        items.finish().map(|meta| (found, meta)).map_err(|error| error.to_string())
    }

    fn meta(version: &str, token: &str) -> ListMeta {
        ListMeta { resource_version: version.to_owned(), continue_token: token.to_owned() }
    }

    #[test]
    fn items_are_found_wherever_the_chunks_end() {
        let list =
            br#" {"kind":"L","x":[[1],{"items":[2]}],"metadata":{"resourceVersion":"7","continue":"t"},
            "items" : [ {"a":"],[{\"\\"} , {}, 5,null ,"x"] } "#;
        let items = vec![json!({ "a": "],[{\"\\" }), json!({}), json!(5), json!(null), json!("x")];
        for piece in 1..list.len() {
            assert_eq!(read(list, &vec![piece; list.len()]), Ok((items.clone(), meta("7", "t"))), "{piece}");
        }
    }

    #[test]
    fn metadata_may_come_last_and_items_may_be_missing() {
        let check = |list: &str, items: Vec<Value>| {
            assert_eq!(read(list.as_bytes(), &[]), Ok((items, meta("7", ""))), "{list}");
        };
        check(r#"{"items":[],"metadata":{"resourceVersion":"7"}}"#, vec![]);
        check(r#"{"items":[{}],"metadata":{"resourceVersion":"7"}}"#, vec![json!({})]);
        for items in ["", r#","items":null"#, r#","items":{"items":[1]}"#, r#","\"items":[1]"#] {
            check(&format!(r#"{{"metadata":{{"resourceVersion":"7"}}{items}}}"#), vec![]);
        }
    }

    #[test]
    fn a_text_that_is_not_a_list_or_is_truncated_is_refused() {
        let check = |text: &str, expected: &str| {
            let found = read(text.as_bytes(), &[]).expect_err(text);
            assert!(found.starts_with(expected), "{text}: {found}");
        };
        for text in ["", "[]", "{}", "}}]]", "garbage", r#"{"metadata":{"resourceVersion":"7"},"items":[{}]"#]
        {
            check(text, "the response is not a list: ");
        }
        check(r#"{"items":[{}"#, "the list ends unexpectedly after 1 items");
        check(r#"{"items":[{},"#, "the list ends unexpectedly after 1 items");
        check(r#"{"items":[{},{"a":"#, "the list ends unexpectedly after 1 items");
        check(r#"{"items":["#, "the list ends unexpectedly after 0 items");
        check(r#"{"items":[{}{}]}"#, "the list is not valid JSON: '{' after 1 items");
        check(r#"{"items":[{},]}"#, "the list is not valid JSON: ']' after 1 items");
        check(r#"{"items":[}"#, "the list is not valid JSON: '}' after 0 items");
    }

    #[test]
    fn an_item_without_end_is_refused() {
        let mut items = ListDecoder::default();
        items.push(Bytes::from_static(br#"{"items":[""#));
        let mut results = (0..).map(|_| {
            items.push(Bytes::from(vec![b'x'; 20 << 20]));
            items.next().map_err(|error| error.to_string())
        });
        assert_eq!(results.next(), Some(Ok(None)));
        assert_eq!(results.next(), Some(Err("an item of the list is longer than 32 MiB".to_owned())));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[\"{}\\[\\],:\\\\a é]{0,90}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[\"{}\\[\\],:\\\\a]{0,6}|items", inner, 0..4)
                    .prop_map(|map| Value::from(serde_json::Map::from_iter(map))),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_list_yields_its_items_however_it_is_split(
            items in prop::collection::vec(value(), 0..5),
            other in value(),
            last in any::<bool>(),
            pretty in any::<bool>(),
            pieces in prop::collection::vec(1..200_usize, 0..40),
        ) {
            let metadata = r#""metadata":{"resourceVersion":"7","continue":"t"}"#;
            let write = if pretty { serde_json::to_string_pretty } else { serde_json::to_string };
            let all = write(&Value::from(items.clone())).expect("JSON");
            let other = write(&other).expect("JSON");
            let list = match last {
                true => format!(r#"{{"other":{other},"items":{all},{metadata}}}"#),
                false => format!(r#"{{{metadata},"items":{all},"other":{other}}}"#),
            };
            prop_assert_eq!(read(list.as_bytes(), &pieces), Ok((items.clone(), meta("7", "t"))));
            for end in [list.len() - 1, list.len() / 2] {
                let cut = list.as_bytes().get(..end).unwrap_or_default();
                prop_assert!(read(cut, &pieces).is_err());
            }
        }

        #[test]
        fn no_text_makes_it_panic_or_hang(text in "[\"{}\\[\\],:\\\\a1 é]{0,30}", pieces in prop::collection::vec(1..9_usize, 0..9)) {
            let text = text.replace('a', r#"{"items":["#);
            let mut items = ListDecoder::default();
            let mut rest = text.as_bytes();
            for piece in pieces.into_iter().chain([usize::MAX]) {
                let (first, after) = rest.split_at(piece.min(rest.len()));
                items.push(Bytes::copy_from_slice(first));
                rest = after;
                while let Ok(Some(item)) = items.next() {
                    prop_assert!(!item.is_empty());
                }
            }
            let _ = items.finish();
        }
    }
}
