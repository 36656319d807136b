//! Text of a webhook's response. Its objects are read one at a time and only once.

use kube_apimachinery::go;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::converted_text::{BorrowedText, ConvertedText};
use crate::state::Turns;

/// Reads a response. `read` receives the position, the text and the fields of each converted object; the fields are missing if the object has
/// no metadata, or an `apiVersion` or `kind` that is not a string. Yields between the objects. Returns the review without objects, and the
/// results of `read`.
///
/// Returns `None` if the response is not a JSON object of the expected structure; then it must be parsed as a whole.
pub(super) async fn read<'a, T>(
    answer: &'a [u8],
    turns: &mut Turns,
    read: impl FnMut(usize, &'a str, Option<ConvertedText<'a>>) -> T,
) -> Option<(Vec<u8>, Vec<T>)> {
    let mut response = ResponseText::begin(answer)?;
    let objects = response.objects(turns, read).await?;
    Some((response.end()?, objects))
}

/// A response that is read up to one of its objects, or up to its end.
///
/// Every method returns `None` if the text has another structure.
struct ResponseText<'a> {
    cursor: Cursor<'a>,
    /// Fields of the review except for the response.
    review: Map<String, Value>,
    /// Fields of the response except for the objects.
    response: Map<String, Value>,
}

impl<'a> ResponseText<'a> {
    /// Reads a response up to its first object.
    fn begin(answer: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor { text: std::str::from_utf8(answer).ok()?, at: 0 };
        let (mut review, mut response) = (Map::new(), Map::new());
        cursor.fields_before("response", &mut review)?;
        cursor.fields_before("convertedObjects", &mut response)?;
        cursor.take(b'[').then_some(Self { cursor, review, response })
    }

    /// Reads all objects.
    async fn objects<T>(
        &mut self,
        turns: &mut Turns,
        mut read: impl FnMut(usize, &'a str, Option<ConvertedText<'a>>) -> T,
    ) -> Option<Vec<T>> {
        let mut objects = Vec::new();
        if self.cursor.take(b']') {
            return Some(objects);
        }
        loop {
            let (text, fields) = self.cursor.object()?;
            objects.push(read(objects.len(), text, fields));
            turns.pass().await;
            if self.cursor.take(b']') {
                return Some(objects);
            }
            if !self.cursor.take(b',') {
                return None;
            }
        }
    }

    /// Reads the rest of the response. Returns the review without objects.
    fn end(mut self) -> Option<Vec<u8>> {
        self.cursor.last_fields(&mut self.response)?;
        self.cursor.last_fields(&mut self.review)?;
        // A repeated field replaces the earlier one.
        let is_repeated =
            self.response.contains_key("convertedObjects") || self.review.contains_key("response");
        if is_repeated || !self.cursor.is_at_end() {
            return None;
        }
        self.review.insert("response".to_owned(), Value::Object(self.response));
        Some(go::json(&Value::Object(self.review)).into_bytes())
    }
}

/// Position in a JSON text.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Skips white space, then this byte. Returns whether it was there.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_next = self.text.as_bytes().get(self.at) == Some(&byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.at == self.text.len()
    }

    fn skip_space(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
    }

    fn value<T: Deserialize<'a>>(&mut self) -> Option<T> {
        let mut values = serde_json::Deserializer::from_str(self.text.get(self.at..)?).into_iter();
        let value = values.next()?.ok()?;
        self.at += values.byte_offset();
        Some(value)
    }

    /// Reads a converted object. Returns its text, and its fields if they have the types of an object's fields.
    fn object(&mut self) -> Option<(&'a str, Option<ConvertedText<'a>>)> {
        self.skip_space();
        let begin = self.at;
        let fields = self.value();
        // The object is only skipped. The caller parses its text to find the error.
        if fields.is_none() {
            self.value::<&RawValue>()?;
        }
        Some((&self.text[begin..self.at], fields))
    }

    /// Reads an object up to the value of the field `name`.
    fn fields_before(&mut self, name: &str, fields: &mut Map<String, Value>) -> Option<()> {
        if !self.take(b'{') {
            return None;
        }
        loop {
            let key = self.key()?;
            if key == name {
                return Some(());
            }
            let value = self.value()?;
            fields.insert(key, value);
            if !self.take(b',') {
                return None;
            }
        }
    }

    /// Reads the rest of an object after its last field.
    fn last_fields(&mut self, fields: &mut Map<String, Value>) -> Option<()> {
        while self.take(b',') {
            let key = self.key()?;
            let value = self.value()?;
            fields.insert(key, value);
        }
        self.take(b'}').then_some(())
    }

    fn key(&mut self) -> Option<String> {
        let BorrowedText(key) = self.value()?;
        self.take(b':').then(|| key.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use serde_json::json;

    use super::*;

    /// Reads a response. Returns its objects, each with whether it has fields, and the rest.
    fn read(answer: &str) -> Option<(Vec<(String, bool)>, Value)> {
        let mut turns = Turns::default();
        let read =
            |at, text: &str, fields: Option<ConvertedText<'_>>| (at, (text.to_owned(), fields.is_some()));
        let (rest, objects) =
            super::read(answer.as_bytes(), &mut turns, read).now_or_never().expect("nothing waits")?;
        assert!(objects.iter().enumerate().all(|(at, (position, _))| at == *position));
        Some((
            objects.into_iter().map(|(_, object)| object).collect(),
            serde_json::from_slice(&rest).unwrap(),
        ))
    }

    #[test]
    fn objects_are_read_wherever_they_are() {
        let rest = json!({"kind": "K", "response": {"uid": "u"}});
        for (answer, objects) in [
            (r#"{"kind":"K","response":{"uid":"u","convertedObjects":[]}}"#, vec![]),
            (
                r#"{"response":{"convertedObjects":[{"a":[1]},7],"uid":"u"},"kind":"K"}"#,
                vec![r#"{"a":[1]}"#, "7"],
            ),
            (
                " { \"kind\" : \"K\" , \"response\" :\t{\"uid\":\"u\",\"convertedObjects\":[ null , \"x]\" ]\n} } \r\n",
                vec!["null", "\"x]\""],
            ),
        ] {
            let objects = objects.into_iter().map(|text: &str| (text.to_owned(), false)).collect();
            assert_eq!(read(answer), Some((objects, rest.clone())), "{answer}");
        }
    }

    #[test]
    fn an_object_is_split_into_its_fields_if_it_has_them() {
        let objects = r#"{"kind":"K","metadata":{}},{"kind":7,"metadata":{}},{"kind":"K"}"#;
        let (objects, _) = read(&format!(r#"{{"response":{{"convertedObjects":[{objects}]}}}}"#)).unwrap();
        assert_eq!(
            objects.into_iter().map(|(_, has_fields)| has_fields).collect::<Vec<_>>(),
            [true, false, false]
        );
    }

    #[test]
    fn a_text_of_another_structure_is_not_read() {
        let whole = r#"{"kind":"K","response":{"uid":"u","convertedObjects":[{},{}],"result":{}}}"#;
        assert!(read(whole).is_some());
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]), None, "{}", &whole[..end]);
        }
        for answer in [
            "[]",
            "kind: K",
            r#"{"response":null}"#,
            r#"{"response":[{"convertedObjects":[]}]}"#,
            r#"{"response":{"convertedObjects":null}}"#,
            r#"{"response":{"convertedObjects":{}}}"#,
            r#"{"response":{"convertedObjects":[{},]}}"#,
            r#"{"response":{"convertedObjects":[{}{}]}}"#,
            r#"{"response":{"convertedObjects":[{}]},}"#,
            r#"{"response":{"convertedObjects":[{}]}}{}"#,
            r#"{"response":{"convertedObjects":[{}],"convertedObjects":[]}}"#,
            r#"{"response":{"convertedObjects":[{}]},"response":null}"#,
            r#"{kind:"K","response":{"convertedObjects":[{}]}}"#,
        ] {
            assert_eq!(read(answer), None, "{answer}");
        }
        assert!(ResponseText::begin(b"{\"response\":{\"convertedObjects\":[\"\xff\"]}}").is_none());
    }
}
