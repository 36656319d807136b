//! Checks of the rules in the schema of a custom kind, when its definition is written.

use std::sync::Arc;

use serde_json::Value;

use super::rule_run::{MAX_ERRORS, Place, RuleRun};
use super::rule_tree::{RuleNode, has_rules, rules_of};
use super::types::Type;
use super::value_schema::ValueSchema;
use super::{Environment, Program};
use crate::field_path::FieldPath;
use crate::go;
use crate::status::FieldError;

/// Name of the type of `self`. kube-apiserver adds a number that differs each time, so that no rule can use the name.
const SELF_TYPE: &str = "selfType1";
const NO_BOOL: &str = "cel expression must evaluate to a bool";
const NO_STRING: &str = "must evaluate to a string";

/// Adds the errors of defaults that do not fit the rules. Defaults below `additionalProperties` are not checked.
pub(super) fn check_defaults(source: &Value, place: &str, errors: &mut Vec<FieldError>) {
    if errors.len() >= MAX_ERRORS || !has_rules(source) {
        return;
    }
    let default = source.get("default").filter(|default| !default.is_null());
    if let Some(default) = default
        && let Some(node) = RuleNode::read(source, Arc::new(ValueSchema::read(source)))
    {
        let mut run = RuleRun::new();
        // Transition rules compare a default with itself.
        let value = Place { value: default, old: Some(default), correlated: None, parent: None };
        let _ = run.node(&node, value, &FieldPath::root());
        for mut error in run.outcome.errors {
            error.field = match error.field.as_str() {
                "<nil>" => format!("{place}.default"),
                field if field.starts_with('[') => format!("{place}.default{field}"),
                field => format!("{place}.default.{field}"),
            };
            errors.push(error);
        }
    }
    if source["items"].is_object() {
        check_defaults(&source["items"], &format!("{place}.items"), errors);
    }
    for (name, property) in source["properties"].as_object().into_iter().flatten() {
        check_defaults(property, &format!("{place}.properties[{name}]"), errors);
    }
}

/// Adds the errors of the rules of a schema and of the schemas below it. `uncorrelated` is the place of a list around the schema whose
/// elements have no counterparts in an old list.
pub(super) fn check_rules(
    source: &Value,
    place: &str,
    read: fn(&Value) -> ValueSchema,
    uncorrelated: Option<&str>,
    errors: &mut Vec<FieldError>,
) {
    if errors.len() >= MAX_ERRORS || !has_rules(source) {
        return;
    }
    if source["additionalProperties"].is_object() {
        check_rules(
            &source["additionalProperties"],
            &format!("{place}.additionalProperties"),
            ValueSchema::read,
            uncorrelated,
            errors,
        );
    }
    for (name, property) in source["properties"].as_object().into_iter().flatten() {
        check_rules(
            property,
            &format!("{place}.properties[{name}]"),
            ValueSchema::read,
            uncorrelated,
            errors,
        );
    }
    if source["items"].is_object() {
        let is_keyed = source["x-kubernetes-list-type"] == "map";
        let uncorrelated = uncorrelated.or((!is_keyed).then_some(place));
        check_rules(&source["items"], &format!("{place}.items"), ValueSchema::read, uncorrelated, errors);
    }
    let rules = rules_of(source);
    if rules.is_empty() {
        return;
    }
    let Some(of) = read(source).declared_type(SELF_TYPE) else {
        let message = "Internal error: internal error: failed to construct type information for x-kubernetes-validations \
                       rules: unable to convert structural schema to CEL declarations";
        let field = format!("{place}.x-kubernetes-validations");
        errors.push(FieldError { reason: "InternalError", field, message: message.to_owned() });
        return;
    };
    for (index, rule) in rules.iter().enumerate() {
        let text = |name: &str| rule[name].as_str().unwrap_or_default();
        let place = format!("{place}.x-kubernetes-validations[{index}]");
        if text("rule").trim().is_empty() {
            continue;
        }
        let old = match rule["optionalOldSelf"] == true {
            true => Type::Optional(Box::new(of.clone())),
            false => of.clone(),
        };
        let environment = Environment::new(vec![("self", of.clone()), ("oldSelf", old)]);
        let program = Program::typed(text("rule"), &environment, &Type::Bool, NO_BOOL);
        let is_transition = program.as_ref().is_ok_and(|program| program.mentions("oldSelf"));
        let expression = text("messageExpression");
        if let Err(why) = program {
            errors.push(FieldError::invalid(format!("{place}.rule"), &shown_rule(rule), &why));
        } else if !expression.is_empty()
            && let Err(why) = Program::typed(expression, &environment, &Type::String, NO_STRING)
        {
            let place = format!("{place}.messageExpression");
            let why = format!("messageExpression {}", why.strip_prefix("program ").unwrap_or(&why));
            errors.push(FieldError::invalid(place, &shown_rule(rule), &why));
        }
        if is_transition && let Some(list) = uncorrelated {
            let why =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
            errors.push(FieldError::invalid(format!("{place}.rule"), &go::quote(text("rule")), &why));
        }
        if !is_transition && let Some(flag) = rule["optionalOldSelf"].as_bool() {
            let why = "may not be set if oldSelf is not used in rule";
            errors.push(FieldError::invalid(format!("{place}.optionalOldSelf"), &flag.to_string(), why));
        }
    }
}

/// Returns a rule as kube-apiserver shows it in messages: the JSON of a Go struct.
fn shown_rule(rule: &Value) -> String {
    // Go escapes characters with a meaning in HTML.
    let text = |name: &str| {
        let json = go::json(&Value::from(rule[name].as_str().unwrap_or_default()));
        json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    };
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        go::json(&rule["reason"]),
        text("fieldPath"),
        go::json(&rule["optionalOldSelf"])
    )
}
