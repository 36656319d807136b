//! Fields of an object that its Rust type does not know. Pure.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::object_text::FieldText;

/// Returns whether `known`, the object as its type encodes it, has all these fields of the object except empty ones. If so,
/// [`carry_over`] moves nothing.
pub(super) fn is_complete<'a>(
    fields: impl Iterator<Item = &'a FieldText<'a>>,
    known: &Map<String, Value>,
) -> bool {
    let is_known = |FieldText { key, value }: &FieldText<'_>| {
        let mut reader = serde_json::Deserializer::from_str(value);
        // A text that cannot be parsed is left to `carry_over`: its caller reports the error.
        IsKnown(known.get(&**key)).deserialize(&mut reader).unwrap_or(false)
    };
    { fields }.all(is_known)
}

/// Reads a value without storing it. With a known value, returns whether that has all fields of the value except empty ones;
/// without one, whether the value is empty.
struct IsKnown<'a>(Option<&'a Value>);

impl<'de> DeserializeSeed<'de> for IsKnown<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        match self.0 {
            // Only the fields of objects and lists can be unknown.
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                deserializer.deserialize_ignored_any(IgnoredAny).map(|_| true)
            }
            None | Some(Value::Array(_) | Value::Object(_)) => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for IsKnown<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        Ok(true)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        Ok(self.0.is_some() || !value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
        Ok(self.0.is_some() || value == 0)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
        Ok(self.0.is_some() || value == 0)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<bool, E> {
        Ok(self.0.is_some() || value == 0.0)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<bool, E> {
        Ok(self.0.is_some() || value.is_empty())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<bool, A::Error> {
        let known = self.0.and_then(Value::as_array);
        let (mut length, mut is_known) = (0, true);
        while let Some(is_element_known) =
            elements.next_element_seed(IsKnown(known.and_then(|known| known.get(length))))?
        {
            is_known &= is_element_known;
            length += 1;
        }
        Ok(match self.0 {
            None => length == 0,
            // Elements correspond only if there are equally many.
            Some(_) => is_known || known.is_none_or(|known| known.len() != length),
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<bool, A::Error> {
        let known = self.0.map(|known| known.as_object());
        let mut is_known = true;
        while let Some(key) = fields.next_key::<String>()? {
            is_known &= match known {
                // Another value than an object has no fields to move to.
                Some(None) => fields.next_value::<IgnoredAny>().map(|_| true)?,
                Some(Some(known)) => fields.next_value_seed(IsKnown(known.get(&key)))?,
                None => fields.next_value_seed(IsKnown(None))?,
            };
        }
        Ok(is_known)
    }
}

/// Moves fields of `raw` that are missing in `known`, the same object as its type encodes it, to the same path of `converted`, if
/// that has an object there without such a field. Empty values are not moved: types leave them out, although they know the field.
pub(super) fn carry_over(raw: Value, known: &Value, converted: &mut Value) {
    match (raw, known, converted) {
        (Value::Object(raw), Value::Object(known), Value::Object(converted)) => {
            for (key, value) in raw {
                match (known.get(&key), converted.get_mut(&key)) {
                    (Some(known), Some(converted)) => carry_over(value, known, converted),
                    (None, None) if !is_empty(&value) => {
                        converted.insert(key, value);
                    }
                    _ => {}
                }
            }
        }
        // Elements correspond only if there are equally many.
        (Value::Array(raw), Value::Array(known), Value::Array(converted))
            if raw.len() == known.len() && raw.len() == converted.len() =>
        {
            for ((raw, known), converted) in raw.into_iter().zip(known).zip(converted) {
                carry_over(raw, known, converted);
            }
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::object_text::fields_of, *};

    /// Checks whether a type that encodes the object as `known` knows all its fields, and that this agrees with `carry_over`.
    #[track_caller]
    fn check(raw: &str, known: &str, expected: bool) {
        let parse = |text: &str| serde_saphyr::from_str::<Value>(text).expect("YAML");
        let (raw, known) = (parse(raw), parse(known));
        let text = raw.to_string();
        let (given, fields) = (fields_of(&text).expect("an object"), known.as_object().expect("an object"));
        assert_eq!(is_complete(given.iter(), fields), expected, "raw {raw}, known {known}");
        // A converted object of the same structure, with new fields only.
        let mut converted = known.clone();
        carry_over(raw.clone(), &known, &mut converted);
        assert_eq!(converted == known, expected, "raw {raw}, known {known}");
    }

    #[test]
    fn a_type_that_encodes_all_fields_knows_the_object() {
        for (raw, known) in [
            ("{}", "{a: 1}"),
            ("{s: {a: 1, b: [x]}}", "{s: {a: 1, b: [x], c: null}}"),
            ("{a: 1.5, b: true, c: text, d: null, e: -1}", "{a: 2, b: false, c: other, d: {}, e: 0}"),
            // Empty values.
            ("{a: null, b: '', c: 0, d: {}, e: [], f: false, g: 0.0, h: {i: '', j: {}}}", "{}"),
            // No correspondence.
            ("{l: [{x: 1}]}", "{l: []}"),
            ("{l: [{x: 1}, {x: 2}]}", "{l: [{}]}"),
            ("{o: {x: 1}}", "{o: [1]}"),
            ("{o: [{x: 1}]}", "{o: {y: 1}}"),
            ("{o: {x: 1}}", "{o: text}"),
        ] {
            check(raw, known, true);
        }
    }

    #[test]
    fn a_field_that_is_not_encoded_is_unknown() {
        for (raw, known) in [
            ("{a: 1}", "{}"),
            ("{a: -1}", "{}"),
            ("{a: 0.5}", "{}"),
            ("{a: true}", "{}"),
            ("{a: x}", "{}"),
            ("{a: [0]}", "{}"),
            ("{a: {b: {c: 1}}}", "{}"),
            ("{s: {a: 1, b: 2}}", "{s: {b: 2}}"),
            ("{l: [{a: 1}, {a: 2, x: 3}]}", "{l: [{a: 1}, {a: 2}]}"),
        ] {
            check(raw, known, false);
        }
    }

    #[test]
    fn a_text_that_is_not_json_is_left_to_the_caller() {
        let field = FieldText { key: "a".into(), value: "{1}" };
        let known = json!({"a": {}});
        assert!(!is_complete([field].iter(), known.as_object().expect("an object")));
    }
}
