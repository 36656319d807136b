//! Facts about a written object, from the answer of the API server, found in one pass.

use std::borrow::Cow;

use crate::json::scan::{Malformed, Reader};

/// An object in an answer, or in an event of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrittenObject<'a> {
    pub(crate) json: &'a [u8],
    pub(crate) uid: Cow<'a, str>,
    pub(crate) version: Cow<'a, str>,
    /// `metadata.managedFields`, empty if there are none.
    pub(crate) managed_fields: &'a [u8],
}

impl<'a> WrittenObject<'a> {
    /// The object of a text; `None` if it is not an object with a version.
    pub(crate) fn of(json: &'a [u8]) -> Option<Self> {
        let mut object = Self { json, uid: Cow::default(), version: Cow::default(), managed_fields: b"" };
        object.read().ok()?;
        (!object.version.is_empty()).then_some(object)
    }

    fn read(&mut self) -> Result<(), Malformed> {
        Reader::new(self.json).object(|key, reader| match (&*key, reader.peek()) {
            ("metadata", Some(b'{')) => reader.object(|key, reader| {
                match (&*key, reader.peek()) {
                    ("uid", Some(b'"')) => self.uid = reader.string()?,
                    ("resourceVersion", Some(b'"')) => self.version = reader.string()?,
                    ("managedFields", _) => self.managed_fields = reader.value()?,
                    _ => drop(reader.value()?),
                }
                Ok(())
            }),
            _ => reader.value().map(drop),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_from_the_object_itself() {
        let json =
            br#"{"metadata":{"name":"a","uid":"u","resourceVersion":"7","managedFields":[{"manager":"m"}]},
            "spec":{"metadata":{"resourceVersion":"1"}}}"#;
        let object = WrittenObject::of(json).expect("an object");
        assert_eq!((&*object.uid, &*object.version), ("u", "7"));
        assert_eq!(object.managed_fields, br#"[{"manager":"m"}]"#);
        for other in [
            r#"{"kind":"Status","metadata":{}}"#,
            r#"{"metadata":{"resourceVersion":7}}"#,
            "[]",
            "",
            "{",
            "null",
        ] {
            assert_eq!(WrittenObject::of(other.as_bytes()), None, "{other}");
        }
    }
}
