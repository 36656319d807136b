//! Field selectors: `metadata.name=a,status.phase!=Running`.

use std::borrow::Cow;

use serde_json::Value;

use crate::resource::{Resource, SelectableField};
use crate::status::ApiError;

/// All of its terms must hold; without any it selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    label: String,
    /// Which of the kind's fields; `None` for name and namespace.
    index: Option<usize>,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Reads the query parameter `fieldSelector` for objects of `resource`.
    ///
    /// # Errors
    /// 400 for text that is no selector, and for fields that the kind does not select by.
    pub(crate) fn parse(text: &str, resource: &Resource) -> Result<Self, ApiError> {
        let mut parts = split(text);
        // Go sorts them, and so the first error is that of the smallest.
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((label, equal, value)) = term(part) else {
                return Err(ApiError::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                )));
            };
            let value = unescape(value).map_err(ApiError::bad_request)?;
            // `==` alone says nothing about anything.
            if label.is_empty() && value.is_empty() {
                continue;
            }
            let index = match label {
                "metadata.name" | "metadata.namespace" => None,
                _ => {
                    let place = resource.selectable.iter().position(|field| field.label == label);
                    Some(place.ok_or_else(|| unsupported(resource, label))?)
                }
            };
            terms.push(Term { label: label.to_owned(), index, equal, value });
        }
        Ok(Self { terms })
    }

    /// Whether it selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether the terms about name and namespace hold, which the place of an object tells.
    pub(crate) fn matches_place(&self, namespace: &str, name: &str) -> bool {
        self.terms.iter().all(|term| match term.label.as_str() {
            "metadata.name" => (name == term.value) == term.equal,
            "metadata.namespace" => (namespace == term.value) == term.equal,
            _ => true,
        })
    }

    /// Whether the place of an object tells all.
    pub(crate) fn is_about_place(&self) -> bool {
        self.terms.iter().all(|term| term.index.is_none())
    }

    /// Whether the other terms hold for an object with these [`values`].
    pub(crate) fn matches_values(&self, values: &[String]) -> bool {
        self.terms.iter().all(|term| {
            let Some(index) = term.index else {
                return true;
            };
            values.get(index).is_some_and(|value| (*value == term.value) == term.equal)
        })
    }
}

/// What `object` has in the fields that its kind is selected by. It is in the version of `resource`.
pub(crate) fn values(resource: &Resource, object: &Value) -> Vec<String> {
    resource.selectable.iter().map(|field| value_of(field, object).into_owned()).collect()
}

/// Commas that no backslash escapes end a term.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// (field, whether equal, value), cut at the first operator.
fn term(part: &str) -> Option<(&str, bool, &str)> {
    part.char_indices().find_map(|(at, _)| {
        let (label, rest) = part.split_at(at);
        [("!=", false), ("==", true), ("=", true)]
            .into_iter()
            .find_map(|(operator, equal)| Some((label, equal, rest.strip_prefix(operator)?)))
    })
}

/// Backslash, comma and equals sign are escaped in values; nothing else can be.
fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::new();
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                Some(other) => {
                    return Err(format!("invalid field selector: invalid escape sequence: \\{other}"));
                }
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            // Go prints the character as a number. Commas cannot be here: they end a term.
            '=' => return Err("invalid field selector: unescaped character in value: 61".to_owned()),
            other => plain.push(other),
        }
    }
    Ok(plain)
}

/// Kinds with selectable fields of their own, and custom kinds, say it otherwise than the rest.
fn unsupported(resource: &Resource, label: &str) -> ApiError {
    ApiError::bad_request(if resource.rules.custom || !resource.selectable.is_empty() {
        format!("field label not supported: {label}")
    } else {
        format!("{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    })
}

/// The field's value as text.
fn value_of<'a>(field: &SelectableField, object: &'a Value) -> Cow<'a, str> {
    let values = field.paths.iter().filter_map(|path| {
        let value = path.iter().try_fold(object, |value, key| value.get(key))?;
        match value {
            Value::Null => None,
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(Cow::Borrowed(text.as_str())),
            other => Some(Cow::Owned(other.to_string())),
        }
    });
    values.into_iter().next().unwrap_or(Cow::Borrowed(field.absent))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource(plural: &str) -> Resource {
        let served = crate::builtin::served();
        let found = served.into_iter().find(|(resource, _)| resource.plural == plural);
        (*found.unwrap().0).clone()
    }

    fn selects(plural: &str, selector: &str, object: &Value) -> bool {
        let resource = resource(plural);
        let selector = FieldSelector::parse(selector, &resource).unwrap();
        let place = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or_default();
        selector.matches_place(place("/metadata/namespace"), place("/metadata/name"))
            && selector.matches_values(&values(&resource, object))
    }

    fn error(plural: &str, selector: &str) -> String {
        let error = FieldSelector::parse(selector, &resource(plural)).unwrap_err();
        assert_eq!((error.code(), error.reason()), (400, "BadRequest"));
        error.message().to_owned()
    }

    #[test]
    fn terms_compare_fields_with_values() {
        let object = json!({"metadata": {"name": "a,b=c"}, "status": {"phase": "Active"}});
        for (selector, expected) in [
            ("", true),
            ("==", true),
            (",", true),
            ("status.phase=Active", true),
            ("status.phase==Active", true),
            ("status.phase!=Active", false),
            ("status.phase=", false),
            ("status.phase!=", true),
            ("metadata.namespace=", true),
            (r"metadata.name=a\,b\=c,status.phase=Active", true),
            (r"metadata.name=a\,b\=c,status.phase=Other", false),
        ] {
            assert_eq!(selects("namespaces", selector, &object), expected, "{selector}");
        }
    }

    #[test]
    fn name_and_namespace_are_told_by_the_place() {
        let parsed =
            FieldSelector::parse("metadata.name=a,metadata.namespace!=b", &resource("configmaps")).unwrap();
        assert!(parsed.is_about_place());
        assert!(parsed.matches_place("c", "a"));
        assert!(!parsed.matches_place("b", "a"));
        assert!(!parsed.matches_place("c", "d"));
        let parsed =
            FieldSelector::parse("metadata.name=a,status.phase=Active", &resource("namespaces")).unwrap();
        assert!(!parsed.is_about_place());
    }

    #[test]
    fn the_source_of_an_event_is_its_component_or_its_reporter() {
        let selects = |object: Value| selects("events", "source=kubelet", &object);
        assert!(selects(json!({"source": {"component": "kubelet"}, "reportingComponent": "x"})));
        assert!(selects(json!({"source": {}, "reportingComponent": "kubelet"})));
        assert!(!selects(json!({"source": {"component": "x"}, "reportingComponent": "kubelet"})));
    }

    #[test]
    fn what_cannot_be_understood_says_so_in_the_servers_words() {
        assert_eq!(error("configmaps", "bogus"), "invalid selector: 'bogus'; can't understand 'bogus'");
        assert_eq!(
            error("configmaps", "data.k=v"),
            "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
        assert_eq!(error("namespaces", "spec.x=v"), "field label not supported: spec.x");
        assert_eq!(
            error("configmaps", r"metadata.name=\x"),
            r"invalid field selector: invalid escape sequence: \x"
        );
        assert_eq!(
            error("configmaps", "metadata.name=a=b"),
            "invalid field selector: unescaped character in value: 61"
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[a-z.=!,\\\\é]{0,30}") {
            let _ = FieldSelector::parse(&text, &resource("configmaps"));
        }
    }
}
