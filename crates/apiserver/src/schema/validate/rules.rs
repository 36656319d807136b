//! Validation rules of a node beyond its type.

use std::sync::Arc;

use serde_json::{Number, Value};

use super::super::node::{Child, Kind, Node, Type};
use super::super::parse::Parser;
use super::super::pattern::{Match, Pattern};
use super::{Errors, text};
use crate::path::Path;

/// Value validations of a schema.
#[derive(Debug, Default)]
pub(in super::super) struct Rules {
    maximum: Option<Bound>,
    minimum: Option<Bound>,
    multiple_of: Option<f64>,
    max_length: Option<u64>,
    min_length: Option<u64>,
    pattern: Option<Arc<Pattern>>,
    max_items: Option<u64>,
    min_items: Option<u64>,
    max_properties: Option<u64>,
    min_properties: Option<u64>,
    choices: Vec<Value>,
    pub(super) all_of: Vec<Child>,
    pub(super) any_of: Vec<Child>,
    pub(super) one_of: Vec<Child>,
    pub(super) not: Option<Child>,
}

#[derive(Debug, Clone, Copy)]
struct Bound {
    value: f64,
    exclusive: bool,
}

impl Rules {
    /// Parses the rules of `source`; `None` if there are none.
    pub(in super::super) fn parse(source: &Value, parser: &Parser<'_>) -> Option<Box<Self>> {
        const NAMES: [&str; 15] = [
            "maximum",
            "minimum",
            "multipleOf",
            "maxLength",
            "minLength",
            "pattern",
            "maxItems",
            "minItems",
            "maxProperties",
            "minProperties",
            "enum",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
        ];
        if !NAMES.iter().any(|name| source.get(*name).is_some()) {
            return None;
        }
        let count = |name: &str| source[name].as_u64();
        let bound = |name: &str, exclusive: &str| {
            Some(Bound { value: source[name].as_f64()?, exclusive: source[exclusive] == true })
        };
        let child = |source: &Value| parser.child(source);
        let children = |name: &str| source[name].as_array().into_iter().flatten().map(child).collect();
        Some(Box::new(Self {
            maximum: bound("maximum", "exclusiveMaximum"),
            minimum: bound("minimum", "exclusiveMinimum"),
            multiple_of: source["multipleOf"].as_f64(),
            max_length: count("maxLength"),
            min_length: count("minLength"),
            // Invalid patterns were refused with the CustomResourceDefinition.
            pattern: source["pattern"].as_str().and_then(|pattern| parser.pattern(pattern).ok().flatten()),
            max_items: count("maxItems"),
            min_items: count("minItems"),
            max_properties: count("maxProperties"),
            min_properties: count("minProperties"),
            choices: source["enum"].as_array().cloned().unwrap_or_default(),
            all_of: children("allOf"),
            any_of: children("anyOf"),
            one_of: children("oneOf"),
            not: source.get("not").filter(|not| not.is_object()).map(child),
        }))
    }

    /// Checks length, in characters, and pattern. Only the first violation is reported.
    pub(super) fn check_string(&self, text: &str, path: &Path<'_>, errors: &mut Errors) {
        let length = if self.max_length.is_some() || self.min_length.is_some() {
            text.chars().count() as u64
        } else {
            0
        };
        if let Some(limit) = self.max_length.filter(|limit| length > *limit) {
            errors.push(text::too_long(path, limit));
        } else if let Some(limit) = self.min_length.filter(|limit| length < *limit) {
            let rule = format!("be at least {limit} chars long");
            errors.push(text::should(path, &text::quoted(text), &rule));
        } else if let Some(pattern) = &self.pattern {
            match pattern.matches(text) {
                Match::Yes => {}
                Match::No => {
                    let rule = format!("match '{}'", pattern.source());
                    errors.push(text::should(path, &text::quoted(text), &rule));
                }
                Match::TooLong => {
                    let rule = format!("be shorter for this server to match '{}'", pattern.source());
                    errors.push(text::should(path, &format!("{} bytes", text.len()), &rule));
                }
            }
        }
    }

    pub(super) fn check_number(&self, number: &Number, path: &Path<'_>, errors: &mut Errors) {
        let Some(value) = number.as_f64() else {
            return;
        };
        let mut refuse = |rule: String| errors.push(text::should(path, &text::number(number), &rule));
        if let Some(step) = self.multiple_of
            && (step <= 0.0 || (value / step).fract() != 0.0)
        {
            refuse(format!("be a multiple of {}", text::float(step)));
        }
        if let Some(Bound { value: limit, exclusive }) = self.minimum {
            if exclusive && value <= limit {
                refuse(format!("be greater than {}", text::float(limit)));
            } else if value < limit {
                refuse(format!("be greater than or equal to {}", text::float(limit)));
            }
        }
        if let Some(Bound { value: limit, exclusive }) = self.maximum {
            if exclusive && value >= limit {
                refuse(format!("be less than {}", text::float(limit)));
            } else if value > limit {
                refuse(format!("be less than or equal to {}", text::float(limit)));
            }
        }
    }

    pub(super) fn check_items(&self, count: usize, path: &Path<'_>, errors: &mut Errors) {
        if let Some(limit) = self.min_items.filter(|limit| (count as u64) < *limit) {
            let rule = format!("have at least {limit} items");
            errors.push(text::should(path, &count.to_string(), &rule));
        }
        if let Some(limit) = self.max_items.filter(|limit| count as u64 > *limit) {
            errors.push(text::too_many(path, count, limit));
        }
    }

    /// Whether the number of fields is valid; otherwise the fields are not validated.
    pub(super) fn check_properties(&self, count: usize, path: &Path<'_>, errors: &mut Errors) -> bool {
        let before = errors.len();
        if let Some(limit) = self.min_properties.filter(|limit| (count as u64) < *limit) {
            let rule = format!("have at least {limit} properties");
            errors.push(text::should(path, &count.to_string(), &rule));
        } else if let Some(limit) = self.max_properties.filter(|limit| count as u64 > *limit) {
            errors.push(text::too_many(path, count, limit));
        }
        errors.len() == before
    }

    pub(super) fn check_enum(&self, value: &Value, path: &Path<'_>, errors: &mut Errors) {
        if !self.choices.is_empty() && !self.choices.contains(value) {
            errors.push(text::unsupported(path, value, &self.choices));
        }
    }
}

/// Checks that a number is in the range of its format, which the library reports separately from the
/// type.
pub(super) fn check_range(node: &Node, number: &Number, path: &Path<'_>, errors: &mut Errors) {
    let format = node.format.as_deref();
    let fits = match (node.kind, format) {
        (Kind::Of(Type::Integer), Some("int32")) => number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
        (Kind::Of(Type::Integer), Some("uint32")) => {
            number.as_u64().is_some_and(|n| u32::try_from(n).is_ok())
        }
        (Kind::Of(Type::Integer), Some("uint64")) => number.is_u64(),
        (Kind::Of(Type::Integer), _) => number.is_i64(),
        (Kind::Of(Type::Number), Some("float" | "float32")) => {
            number.as_f64().is_some_and(|n| n.abs() <= f64::from(f32::MAX))
        }
        _ => true,
    };
    if !fits && let Kind::Of(expected) = node.kind {
        let expected = expected.name();
        let format = format.map_or("(default format)".to_owned(), |format| format!("with format {format}"));
        errors.push(text::unplaced(&format!("Checked value must be of type {expected} {format} in {path}")));
    }
}
