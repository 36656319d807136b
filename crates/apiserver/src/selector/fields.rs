//! Field selectors: `metadata.name=a,status.phase!=Running`.

use std::borrow::Cow;

use serde_json::Value;

use crate::resource::{Resource, SelectableField};
use crate::status::ApiError;

/// A conjunction of terms; an empty selector matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    label: String,
    /// Index into the kind's selectable fields; `None` for name and namespace.
    index: Option<usize>,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Parses the query parameter `fieldSelector` for objects of `resource`.
    ///
    /// # Errors
    /// 400 for a syntax error, and for fields that the kind does not support.
    pub(crate) fn parse(text: &str, resource: &Resource) -> Result<Self, ApiError> {
        let mut parts = split(text);
        // Go sorts the terms, so it reports the error of the smallest one.
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((label, equal, value)) = term(part) else {
                return Err(ApiError::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                )));
            };
            let value = unescape(value).map_err(ApiError::bad_request)?;
            // A lone `==` has no effect.
            if label.is_empty() && value.is_empty() {
                continue;
            }
            let index = match label {
                "metadata.name" => None,
                "metadata.namespace" if !has_no_namespace(resource) => None,
                _ => {
                    let place = resource.selectable.iter().position(|field| field.label == label);
                    Some(place.ok_or_else(|| unsupported(resource, label))?)
                }
            };
            terms.push(Term { label: label.to_owned(), index, equal, value });
        }
        Ok(Self { terms })
    }

    /// Whether the selector matches everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether the terms about name and namespace match, which are known from the object's key.
    pub(crate) fn matches_place(&self, namespace: &str, name: &str) -> bool {
        self.terms.iter().all(|term| match term.label.as_str() {
            "metadata.name" => (name == term.value) == term.equal,
            "metadata.namespace" => (namespace == term.value) == term.equal,
            _ => true,
        })
    }

    /// Whether all terms are about name and namespace.
    pub(crate) fn is_about_place(&self) -> bool {
        self.terms.iter().all(|term| term.index.is_none())
    }

    /// Whether the other terms match an object with these [`values`].
    pub(crate) fn matches_values(&self, values: &[String]) -> bool {
        self.terms.iter().all(|term| {
            let Some(index) = term.index else {
                return true;
            };
            values.get(index).is_some_and(|value| (*value == term.value) == term.equal)
        })
    }
}

/// Returns the values of the kind's selectable fields. `object` must be in the version of `resource`.
pub(crate) fn values(resource: &Resource, object: &Value) -> Vec<String> {
    resource.selectable.iter().map(|field| value_of(field, object).into_owned()).collect()
}

/// Whether selectors cannot use `metadata.namespace`: cluster-scoped kinds that declare fields of their own, and custom ones.
/// Other cluster-scoped kinds accept it and match nothing.
fn has_no_namespace(resource: &Resource) -> bool {
    !resource.namespaced && (resource.rules.custom || !resource.selectable.is_empty())
}

/// Splits at commas that are not escaped by a backslash.
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

/// Splits a term at its first operator into field, whether it means equality, and value.
fn term(part: &str) -> Option<(&str, bool, &str)> {
    part.char_indices().find_map(|(at, _)| {
        let (label, rest) = part.split_at(at);
        [("!=", false), ("==", true), ("=", true)]
            .into_iter()
            .find_map(|(operator, equal)| Some((label, equal, rest.strip_prefix(operator)?)))
    })
}

/// Unescapes a value. Backslash, comma and equals sign are the only characters that can be escaped.
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
            // Go prints the character as a number. Commas cannot occur here: they end a term.
            '=' => return Err("invalid field selector: unescaped character in value: 61".to_owned()),
            other => plain.push(other),
        }
    }
    Ok(plain)
}

/// Builds the error for an unsupported field. Custom kinds and kinds with selectable fields have a
/// message of their own.
fn unsupported(resource: &Resource, label: &str) -> ApiError {
    ApiError::bad_request(if resource.rules.custom || !resource.selectable.is_empty() {
        format!("field label not supported: {label}")
    } else {
        format!("{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    })
}

/// Returns the field's value as text.
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
            (r"metadata.name=a\,b\=c,status.phase=Active", true),
            (r"metadata.name=a\,b\=c,status.phase=Other", false),
        ] {
            assert_eq!(selects("namespaces", selector, &object), expected, "{selector}");
        }
    }

    #[test]
    fn the_namespace_is_no_field_of_cluster_scoped_kinds_with_fields_of_their_own() {
        let why = "field label not supported: metadata.namespace";
        assert_eq!(error("nodes", "metadata.namespace=x"), why);
        assert!(!selects("persistentvolumes", "metadata.namespace=x", &json!({})));
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
