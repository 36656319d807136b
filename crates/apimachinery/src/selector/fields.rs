//! Field selectors: `metadata.name=a,status.phase!=Running`.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use crate::go::quote;
use crate::status::ApiError;

/// A field that selectors support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectableField {
    /// Name in selectors: `involvedObject.kind`.
    pub label: String,
    /// Paths of the value. The first path that leads to anything but the empty string counts.
    pub paths: Vec<Vec<String>>,
    /// Value if no path has one: `""`, or Go's zero (`0`, `false`) for fields of other types.
    pub absent: &'static str,
}

/// Fields of a kind that selectors support, in addition to `metadata.name` and `metadata.namespace`.
#[derive(Debug, Clone, Copy)]
pub struct Selectable<'a> {
    /// Fields that the kind declares.
    pub fields: &'a [SelectableField],
    /// Whether the kind is namespaced.
    pub namespaced: bool,
    /// Whether a CustomResourceDefinition defines the kind, which changes the message for an unsupported field.
    pub custom: bool,
    /// Message for an unsupported field of a kind that declares fields.
    pub refusal: FieldRefusal,
}

/// Message for an unsupported field of a kind that declares fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldRefusal {
    /// `field label not supported: x`.
    #[default]
    Plain,
    /// `field label "x" not supported for Job`, with the name of the kind.
    OfKind(&'static str),
    /// `field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: x`, with version and kind.
    OfVersion(&'static str),
}

/// A conjunction of terms; an empty selector matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    label: String,
    /// Index into the kind's selectable fields; `None` for `metadata.name` and `metadata.namespace`.
    index: Option<usize>,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Parses the query parameter `fieldSelector` for objects with the given fields.
    ///
    /// # Errors
    /// 400 for a syntax error, and for fields that the kind does not support.
    pub fn parse(text: &str, selectable: Selectable<'_>) -> Result<Self, ApiError> {
        let mut terms = Vec::new();
        for term in field_terms(text) {
            let FieldTerm { label, value, equal } = term.map_err(ApiError::bad_request)?;
            let index = match &*label {
                "metadata.name" => None,
                "metadata.namespace" if !has_no_namespace(selectable) => None,
                _ => {
                    let place = selectable.fields.iter().position(|field| field.label == label);
                    Some(place.ok_or_else(|| unsupported(selectable, &label))?)
                }
            };
            terms.push(Term { label, index, equal, value });
        }
        Ok(Self { terms })
    }

    /// Whether the selector matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether the terms about `metadata.name` and `metadata.namespace` match, for which the key of an object suffices.
    #[must_use]
    pub fn matches_key(&self, namespace: &str, name: &str) -> bool {
        self.terms.iter().all(|term| match term.label.as_str() {
            "metadata.name" => (name == term.value) == term.equal,
            "metadata.namespace" => (namespace == term.value) == term.equal,
            _ => true,
        })
    }

    /// Whether all terms are about `metadata.name` and `metadata.namespace`.
    #[must_use]
    pub fn is_about_key(&self) -> bool {
        self.terms.iter().all(|term| term.index.is_none())
    }

    /// Returns the value that a field must equal, if the selector has such a term.
    #[must_use]
    pub fn required(&self, label: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.label == label).map(|term| &*term.value)
    }

    /// Whether the other terms match an object with these [`values`] of its selectable fields.
    #[must_use]
    pub fn matches_values(&self, values: &[String]) -> bool {
        self.terms.iter().all(|term| {
            let Some(index) = term.index else {
                return true;
            };
            values.get(index).is_some_and(|value| (*value == term.value) == term.equal)
        })
    }
}

/// Returns the values of the selectable fields `fields`, in their order. `object` must be in the version that declares them.
#[must_use]
pub fn values(fields: &[SelectableField], object: &Value) -> Vec<String> {
    fields.iter().map(|field| value_of(field, object).into_owned()).collect()
}

/// Whether selectors cannot use `metadata.namespace`: this applies to custom cluster-scoped kinds, and to cluster-scoped kinds that declare
/// fields of their own. Other cluster-scoped kinds accept the term and match nothing.
fn has_no_namespace(selectable: Selectable<'_>) -> bool {
    !selectable.namespaced && (selectable.custom || !selectable.fields.is_empty())
}

/// A condition on one field of any kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldTerm {
    /// Name of the field: `spec.nodeName`.
    pub label: String,
    /// Value with which the field is compared.
    pub value: String,
    /// Whether the field must equal the value (`=`), instead of differ from it (`!=`).
    pub equal: bool,
}

/// Returns the terms of a selector in Go's order, or the error of the first invalid one.
pub fn field_terms(text: &str) -> impl Iterator<Item = Result<FieldTerm, String>> {
    let mut parts = split(text);
    // Go sorts the terms, so it reports the error of the smallest one.
    parts.sort_unstable();
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    let terms = parts.map(move |part| {
        let Some((label, equal, value)) = term(part) else {
            return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
        };
        Ok(FieldTerm { label: label.to_owned(), value: unescape(value)?, equal })
    });
    // A lone `==` has no effect.
    terms.filter(|term| !term.as_ref().is_ok_and(|term| term.label.is_empty() && term.value.is_empty()))
}

/// Formats as `spec.nodeName=a`; characters with a meaning in selectors are escaped.
impl fmt::Display for FieldTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.label, if self.equal { "=" } else { "!=" })?;
        for character in self.value.chars() {
            if matches!(character, '\\' | ',' | '=') {
                f.write_str("\\")?;
            }
            write!(f, "{character}")?;
        }
        Ok(())
    }
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

/// Splits a term at its first operator into the field, whether the operator is `=` or `==`, and the value.
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
            // Go prints the character as a number. Commas do not occur here, because they end a term.
            '=' => return Err("invalid field selector: unescaped character in value: 61".to_owned()),
            other => plain.push(other),
        }
    }
    Ok(plain)
}

/// Builds the error for an unsupported field. Custom kinds and kinds with selectable fields have a
/// message of their own.
fn unsupported(selectable: Selectable<'_>, label: &str) -> ApiError {
    if !selectable.custom && selectable.fields.is_empty() {
        return ApiError::bad_request(format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            quote(label)
        ));
    }
    ApiError::bad_request(match selectable.refusal {
        FieldRefusal::Plain => format!("field label not supported: {label}"),
        FieldRefusal::OfKind(kind) => format!("field label {} not supported for {kind}", quote(label)),
        FieldRefusal::OfVersion(kind) => format!("field label not supported for {kind}: {label}"),
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

    /// Selectable fields of a kind, and whether it is namespaced.
    fn kind(plural: &str) -> (Vec<SelectableField>, bool) {
        let field = |label: &str, absent| SelectableField {
            label: label.to_owned(),
            paths: vec![label.split('.').map(str::to_owned).collect()],
            absent,
        };
        match plural {
            "configmaps" => (Vec::new(), true),
            "persistentvolumes" => (Vec::new(), false),
            "namespaces" => (vec![field("status.phase", "")], false),
            "nodes" => (vec![field("spec.unschedulable", "false")], false),
            other => panic!("{other} is no kind of these tests"),
        }
    }

    fn parse(plural: &str, selector: &str) -> Result<FieldSelector, ApiError> {
        let (fields, namespaced) = kind(plural);
        FieldSelector::parse(
            selector,
            Selectable { fields: &fields, namespaced, custom: false, refusal: FieldRefusal::Plain },
        )
    }

    fn selects(plural: &str, selector: &str, object: &Value) -> bool {
        let selector = parse(plural, selector).unwrap();
        let place = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or_default();
        selector.matches_key(place("/metadata/namespace"), place("/metadata/name"))
            && selector.matches_values(&values(&kind(plural).0, object))
    }

    fn error(plural: &str, selector: &str) -> String {
        let error = parse(plural, selector).unwrap_err();
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
    fn cluster_scoped_kinds_with_own_fields_have_no_namespace_field() {
        let why = "field label not supported: metadata.namespace";
        assert_eq!(error("nodes", "metadata.namespace=x"), why);
        assert!(!selects("persistentvolumes", "metadata.namespace=x", &json!({})));
    }

    #[test]
    fn name_and_namespace_are_matched_by_the_key() {
        let parsed = parse("configmaps", "metadata.name=a,metadata.namespace!=b").unwrap();
        assert!(parsed.is_about_key());
        assert!(parsed.matches_key("c", "a"));
        assert!(!parsed.matches_key("b", "a"));
        assert!(!parsed.matches_key("c", "d"));
        let parsed = parse("namespaces", "metadata.name=a,status.phase=Active").unwrap();
        assert!(!parsed.is_about_key());
    }

    #[test]
    fn invalid_selectors_are_refused_with_the_servers_message() {
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
        fn a_printed_term_parses_to_the_same(label in "[a-z.]{1,8}", value in "[a-z,=\\\\!é]{0,8}", equal in proptest::bool::ANY) {
            let term = FieldTerm { label, value, equal };
            proptest::prop_assert_eq!(field_terms(&term.to_string()).collect::<Vec<_>>(), [Ok(term)]);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[a-z.=!,\\\\é]{0,30}") {
            let _ = parse("configmaps", &text);
        }
    }
}
