//! Compiled rules of a schema and of the schemas below it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Program;
use super::value_schema::ValueSchema;
use crate::schema::{self, Brackets};

/// Rules of a schema and of the schemas below it.
#[derive(Debug)]
pub(super) struct RuleNode {
    pub(super) schema: Arc<ValueSchema>,
    pub(super) rules: Vec<CompiledRule>,
    pub(super) items: Option<Box<RuleNode>>,
    pub(super) properties: BTreeMap<String, RuleNode>,
    pub(super) additional: Option<Box<RuleNode>>,
}

/// A rule with its compiled expressions.
#[derive(Debug)]
pub(super) struct CompiledRule {
    pub(super) program: Result<Program, String>,
    /// The declared message, or else the text of the rule, by which errors of the evaluation name the rule.
    pub(super) shown: String,
    pub(super) message: String,
    /// Text and program of the expression that makes the message.
    pub(super) message_expression: Option<(String, Program)>,
    pub(super) reason: String,
    /// Path of the error below the value, such as `ports[http]`; may be empty.
    pub(super) field_path: String,
    /// Whether the rule compares with the old value. It then applies to updates only.
    pub(super) is_transition: bool,
    /// Whether `oldSelf` is an optional value, so that a rule with it applies to new values, too.
    pub(super) optional_old_self: bool,
}

/// Whether a schema has rules at the places where they are allowed. `allOf` and similar keywords must not have any.
pub(super) fn has_rules(schema: &Value) -> bool {
    !rules_of(schema).is_empty()
        || has_rules_in(&schema["items"])
        || has_rules_in(&schema["additionalProperties"])
        || schema["properties"].as_object().is_some_and(|properties| properties.values().any(has_rules))
}

fn has_rules_in(schema: &Value) -> bool {
    schema.is_object() && has_rules(schema)
}

/// Returns the rules that a schema declares for its own values.
pub(super) fn rules_of(schema: &Value) -> &[Value] {
    schema["x-kubernetes-validations"].as_array().map_or(&[], Vec::as_slice)
}

impl RuleNode {
    /// Reads the rules of a schema and of the schemas below it; `None` if there are none.
    pub(super) fn read(source: &Value, schema: Arc<ValueSchema>) -> Option<Self> {
        let rules: Vec<CompiledRule> =
            rules_of(source).iter().filter_map(|rule| CompiledRule::read(rule, source)).collect();
        let below = |name: &str, schema: Option<&Arc<ValueSchema>>| {
            let schema = schema.filter(|schema| schema.is_visible())?;
            Self::read(&source[name], Arc::clone(schema)).map(Box::new)
        };
        let mut properties = BTreeMap::new();
        for (name, property) in source["properties"].as_object().into_iter().flatten() {
            // Read from the definition: in `schema`, the declared schema of `metadata` may be replaced by the one that every object has.
            let schema = ValueSchema::read(property);
            if schema.is_visible()
                && let Some(node) = Self::read(property, Arc::new(schema))
            {
                properties.insert(name.clone(), node);
            }
        }
        let (items, additional) = (
            below("items", schema.items.as_ref()),
            below("additionalProperties", schema.additional.as_ref()),
        );
        let is_empty = rules.is_empty() && properties.is_empty() && items.is_none() && additional.is_none();
        (!is_empty).then_some(Self { schema, rules, items, properties, additional })
    }
}

impl CompiledRule {
    /// Reads a rule; `None` if its expression is empty.
    pub(super) fn read(source: &Value, schema: &Value) -> Option<Self> {
        let text = |name: &str| source[name].as_str().unwrap_or_default();
        let (rule, message) = (text("rule"), text("message"));
        if rule.trim().is_empty() {
            return None;
        }
        let program = Program::untyped(rule);
        let message_expression = text("messageExpression");
        let compiled = Some(message_expression).filter(|text| !text.is_empty());
        // A definition with an invalid expression is refused, so an invalid one counts as absent.
        let compiled = compiled.and_then(|text| Program::untyped(text).ok());
        let field_path = Some(text("fieldPath")).filter(|path| !path.is_empty());
        let found = field_path.and_then(|path| schema::find_field(path, schema, Brackets::Allowed).ok());
        Some(Self {
            is_transition: program.as_ref().is_ok_and(|program| program.mentions("oldSelf")),
            program,
            shown: if message.is_empty() { rule } else { message }.trim().to_owned(),
            message: message.trim().to_owned(),
            message_expression: compiled.map(|program| (message_expression.to_owned(), program)),
            reason: text("reason").to_owned(),
            field_path: found.map(|found| found.path).unwrap_or_default(),
            optional_old_self: source["optionalOldSelf"] == true,
        })
    }

    /// Returns the message of a failure if no expression makes it.
    pub(super) fn default_message(&self) -> String {
        if self.message.is_empty() { format!("failed rule: {}", self.shown) } else { self.message.clone() }
    }
}
