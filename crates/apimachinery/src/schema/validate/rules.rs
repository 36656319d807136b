//! Validation rules of a node beyond its type.

use std::sync::Arc;

use serde_json::{Number, Value};

use super::super::node::{Child, JsonType, SchemaNode, ValueKind};
use super::super::pattern::{Match, Pattern};
use super::super::schema_parser::SchemaParser;
use super::{Errors, text};
use crate::field_path::FieldPath;
use crate::status::FieldError;

/// Largest float that counts as an integer.
const LARGEST_INTEGER: f64 = 9_007_199_254_740_991.0;

/// Value validations of a schema.
#[derive(Debug, Default)]
pub(in super::super) struct ValueRules {
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

impl ValueRules {
    /// Parses the rules of `source`; `None` if there are none.
    pub(in super::super) fn parse(source: &Value, parser: &SchemaParser<'_>) -> Option<Box<Self>> {
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
            // Invalid patterns were refused when the CustomResourceDefinition was written.
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
    pub(super) fn check_string(&self, text: &str, path: &FieldPath<'_>, errors: &mut Errors) {
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
            match pattern.matches(text, &errors.budget) {
                Match::Yes => {}
                Match::No => {
                    let rule = format!("match '{}'", pattern.source());
                    errors.push(text::should(path, &text::quoted(text), &rule));
                }
                Match::Unknown => {
                    let rule = format!("be shorter for this server to match '{}'", pattern.source());
                    errors.push(text::should(path, &format!("{} bytes", text.len()), &rule));
                }
            }
        }
    }

    /// Checks the bounds of a number. As in the library, integers are compared with truncated bounds.
    pub(super) fn check_number(
        &self,
        node: &SchemaNode,
        number: &Number,
        path: &FieldPath<'_>,
        errors: &mut Errors,
    ) {
        let Some(value) = number.as_f64() else {
            return;
        };
        let integer = number.as_i64();
        let shown = text::number(number);
        // A bound that is not an integer makes every integer invalid.
        let bound = |name: &str, limit: f64, errors: &mut Errors| {
            let misfit = matches!(node.kind, ValueKind::Of(JsonType::Integer)) && limit.fract() != 0.0;
            if misfit {
                errors.push(text::unplaced(&format!(
                    "{name} value must be of type {} in {path}",
                    described(node)
                )));
            }
            integer.is_some() && !misfit
        };
        if let Some(step) = self.multiple_of {
            let native = bound("MultipleOf", step, errors);
            let step = if native { step.trunc() } else { step };
            let fits = if native {
                integer.and_then(|value| value.checked_rem(truncated(step))) == Some(0)
            } else {
                // The library's arithmetic, with its rounding errors.
                let multiple = if step < 1.0 { 1.0 / step * value } else { value / step };
                multiple.fract() == 0.0 && multiple.abs() <= LARGEST_INTEGER
            };
            if step <= 0.0 {
                let why =
                    format!("factor MultipleOf declared for {path} must be positive: {}", text::float(step));
                errors.push(FieldError::invalid(path.to_string(), &text::float(step), &why));
            } else if !fits {
                errors.push(text::should(path, &shown, &format!("be a multiple of {}", text::float(step))));
            }
        }
        if let Some(Bound { value: limit, exclusive }) = self.minimum {
            let limit = if bound("Minimum boundary", limit, errors) { limit.trunc() } else { limit };
            if exclusive && value <= limit {
                errors.push(text::should(path, &shown, &format!("be greater than {}", text::float(limit))));
            } else if value < limit {
                let rule = format!("be greater than or equal to {}", text::float(limit));
                errors.push(text::should(path, &shown, &rule));
            }
        }
        if let Some(Bound { value: limit, exclusive }) = self.maximum {
            let limit = if bound("Maximum boundary", limit, errors) { limit.trunc() } else { limit };
            if exclusive && value >= limit {
                errors.push(text::should(path, &shown, &format!("be less than {}", text::float(limit))));
            } else if value > limit {
                let rule = format!("be less than or equal to {}", text::float(limit));
                errors.push(text::should(path, &shown, &rule));
            }
        }
    }

    pub(super) fn check_items(&self, count: usize, path: &FieldPath<'_>, errors: &mut Errors) {
        if let Some(limit) = self.min_items.filter(|limit| (count as u64) < *limit) {
            let rule = format!("have at least {limit} items");
            errors.push(text::should(path, &count.to_string(), &rule));
        }
        if let Some(limit) = self.max_items.filter(|limit| count as u64 > *limit) {
            errors.push(text::too_many(path, count, limit));
        }
    }

    pub(super) fn check_properties(&self, count: usize, path: &FieldPath<'_>, errors: &mut Errors) {
        if let Some(limit) = self.min_properties.filter(|limit| (count as u64) < *limit) {
            let rule = format!("have at least {limit} properties");
            errors.push(text::should(path, &count.to_string(), &rule));
        }
        if let Some(limit) = self.max_properties.filter(|limit| count as u64 > *limit) {
            errors.push(text::too_many(path, count, limit));
        }
    }

    pub(super) fn check_enum(&self, value: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
        // The library converts the number to the type of the choice, which drops its fraction.
        let is = |choice: &Value| match (choice, value) {
            (Value::Number(choice), Value::Number(value)) if choice.is_f64() != value.is_f64() => {
                choice.as_f64().map(f64::trunc) == value.as_f64().map(f64::trunc)
                    && (value.is_f64() || choice.as_f64().is_some_and(|choice| choice.fract() == 0.0))
            }
            _ => choice == value,
        };
        if !self.choices.is_empty() && !self.choices.iter().any(is) {
            errors.push(text::unsupported(path, value, &self.choices));
        }
    }
}

/// Checks that a number is in the range of its format. The library reports this error separately from the type.
pub(super) fn check_range(node: &SchemaNode, number: &Number, path: &FieldPath<'_>, errors: &mut Errors) {
    let format = node.format.as_deref();
    let fits = match (node.kind, format) {
        (ValueKind::Of(JsonType::Integer), Some("int32")) => {
            number.as_i64().is_some_and(|n| i32::try_from(n).is_ok())
        }
        (ValueKind::Of(JsonType::Integer), Some("uint32")) => {
            number.as_u64().is_some_and(|n| u32::try_from(n).is_ok())
        }
        (ValueKind::Of(JsonType::Integer), Some("uint64")) => number.is_u64(),
        (ValueKind::Of(JsonType::Integer), _) => number.is_i64(),
        (ValueKind::Of(JsonType::Number), Some("float" | "float32")) => {
            number.as_f64().is_some_and(|n| n.abs() <= f64::from(f32::MAX))
        }
        _ => true,
    };
    if !fits {
        errors.push(text::unplaced(&format!("Checked value must be of type {} in {path}", described(node))));
    }
}

/// Converts a step to an integer; a fraction is dropped.
#[expect(clippy::cast_possible_truncation, reason = "beyond the range of integers it is saturated")]
fn truncated(step: f64) -> i64 {
    step as i64
}

/// Returns the type and the format of numbers.
fn described(node: &SchemaNode) -> String {
    let kind = if let ValueKind::Of(kind) = node.kind { kind.name() } else { "" };
    match &node.format {
        Some(format) => format!("{kind} with format {format}"),
        None => format!("{kind} (default format)"),
    }
}
