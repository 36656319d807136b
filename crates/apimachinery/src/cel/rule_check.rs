//! Checks of the rules of a definition: they compile, mention only allowed variables and stay below the limits of cost, and defaults fit them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::cost_estimate::{Cardinality, DefinitionCosts, SchemaValues, SizeSchema};
use super::rule_run::{ComparedValue, MAX_ERRORS, RuleRun};
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
        let compared = ComparedValue { value: default, old: Some(default), correlated: None, parent: None };
        let _ = run.node(&node, compared, &FieldPath::root());
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

/// Returns the errors of the rules of a schema and of the schemas below it. Their fields begin with `place`, and so do those of `keywords`,
/// the errors of other keywords.
pub(super) fn check_rules(schema: &Value, place: &str, keywords: &[FieldError]) -> Vec<FieldError> {
    let mut check = RuleCheck {
        errors: Vec::new(),
        costs: DefinitionCosts::default(),
        invalid_keywords: keywords.iter().map(|error| error.field.as_str()).collect(),
    };
    let part = SchemaPart {
        schema,
        place: place.to_owned(),
        is_root: true,
        uncorrelated: None,
        cardinality: Cardinality::ROOT,
        sizes: None,
    };
    check.part(&part);
    let RuleCheck { mut errors, costs, .. } = check;
    errors.extend(costs.errors(place));
    errors
}

/// A part of the schema of a definition.
struct SchemaPart<'a> {
    schema: &'a Value,
    place: String,
    is_root: bool,
    /// Place of a list around the part, if the elements of the list have no counterparts in an old list.
    uncorrelated: Option<&'a str>,
    cardinality: Cardinality,
    /// Sizes that the rules of a schema around the part see.
    sizes: Option<Arc<SizeSchema>>,
}

struct RuleCheck<'a> {
    errors: Vec<FieldError>,
    costs: DefinitionCosts,
    /// Places of keywords with wrong values.
    invalid_keywords: BTreeSet<&'a str>,
}

impl<'a> SchemaPart<'a> {
    /// Returns a part directly below this one. `sizes` are those of this part.
    fn below(&'a self, schema: &'a Value, name: &str, sizes: Option<&Arc<SizeSchema>>) -> Self {
        Self {
            schema,
            place: format!("{}.{name}", self.place),
            is_root: false,
            uncorrelated: self.uncorrelated,
            cardinality: self.cardinality.below(self.schema),
            sizes: sizes.map(Arc::clone),
        }
    }

    /// Returns the sizes that rules of this part see; `None` if there are no rules here or around it.
    fn sizes(&self) -> Option<Arc<SizeSchema>> {
        if self.sizes.is_some() || rules_of(self.schema).is_empty() {
            return self.sizes.clone();
        }
        let values =
            if self.is_root { SchemaValues::KubernetesObjects } else { SchemaValues::of_part(self.schema) };
        SizeSchema::read(self.schema, values).map(Arc::new)
    }
}

impl RuleCheck<'_> {
    fn part(&mut self, part: &SchemaPart<'_>) {
        let schema = part.schema;
        if self.errors.len() >= MAX_ERRORS || !has_rules(schema) {
            return;
        }
        // Errors of the schemas below precede those of the schema itself, as in kube-apiserver.
        let sizes = part.sizes();
        let values = sizes.as_ref().and_then(|sizes| sizes.values());
        if schema["additionalProperties"].is_object() {
            self.part(&part.below(&schema["additionalProperties"], "additionalProperties", values));
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let sizes = sizes.as_ref().and_then(|sizes| sizes.property(name));
            self.part(&part.below(property, &format!("properties[{name}]"), sizes));
        }
        if schema["items"].is_object() {
            let mut items = part.below(&schema["items"], "items", values);
            let is_keyed = schema["x-kubernetes-list-type"] == "map";
            items.uncorrelated = items.uncorrelated.or((!is_keyed).then_some(part.place.as_str()));
            self.part(&items);
        }
        self.rules(part, sizes.as_deref());
    }

    fn rules(&mut self, part: &SchemaPart<'_>, sizes: Option<&SizeSchema>) {
        let rules = rules_of(part.schema);
        // An invalid schema may have no type in CEL, and its author corrects the schema before its rules.
        if rules.is_empty() || self.is_invalid(&part.place) {
            return;
        }
        let mut seen = ValueSchema::read(part.schema);
        if part.is_root {
            seen = seen.with_object_fields(part.schema);
        }
        let place = format!("{}.x-kubernetes-validations", part.place);
        let (Some(of), Some(sizes)) = (seen.declared_type(SELF_TYPE), sizes) else {
            let message = "Internal error: internal error: failed to construct type information for \
                           x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            self.errors.push(FieldError {
                reason: "InternalError",
                field: place,
                message: message.to_owned(),
            });
            return;
        };
        for (index, rule) in rules.iter().enumerate() {
            self.rule(rule, &format!("{place}[{index}]"), &of, sizes, part);
        }
    }

    /// Whether the schema at `place` or one below it has a keyword with a wrong value.
    fn is_invalid(&self, place: &str) -> bool {
        self.invalid_keywords.range(place..).next().is_some_and(|first| first.starts_with(place))
    }

    fn rule(&mut self, rule: &Value, place: &str, of: &Type, sizes: &SizeSchema, part: &SchemaPart<'_>) {
        let text = |name: &str| rule[name].as_str().unwrap_or_default();
        if text("rule").trim().is_empty() {
            return;
        }
        let old = match rule["optionalOldSelf"] == true {
            true => Type::Optional(Box::new(of.clone())),
            false => of.clone(),
        };
        let environment = Environment::new(vec![("self", of.clone()), ("oldSelf", old)]);
        let program = Program::typed(text("rule"), &environment, sizes, &Type::Bool, NO_BOOL);
        let is_transition = program.as_ref().is_ok_and(|(program, _)| program.mentions("oldSelf"));
        let field = format!("{place}.rule");
        match program {
            Ok((_, cost)) => {
                let error = self.costs.add_rule(field.clone(), cost, part.cardinality, sizes);
                self.errors.extend(error);
                self.message(rule, place, &environment, sizes);
            }
            Err(why) => self.errors.push(FieldError::invalid(field.clone(), &shown_rule(rule), &why)),
        }
        if is_transition && let Some(list) = part.uncorrelated {
            let why =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
            self.errors.push(FieldError::invalid(field, &go::quote(text("rule")), &why));
        }
        if !is_transition && let Some(flag) = rule["optionalOldSelf"].as_bool() {
            let why = "may not be set if oldSelf is not used in rule";
            let field = format!("{place}.optionalOldSelf");
            self.errors.push(FieldError::invalid(field, &flag.to_string(), why));
        }
    }

    fn message(&mut self, rule: &Value, place: &str, environment: &Environment, sizes: &SizeSchema) {
        let expression = rule["messageExpression"].as_str().unwrap_or_default();
        if expression.is_empty() {
            return;
        }
        let field = format!("{place}.messageExpression");
        match Program::typed(expression, environment, sizes, &Type::String, NO_STRING) {
            Ok((_, cost)) => self.errors.extend(self.costs.add_message(field, cost)),
            Err(why) => {
                let why = format!("messageExpression {}", why.strip_prefix("program ").unwrap_or(&why));
                self.errors.push(FieldError::invalid(field, &shown_rule(rule), &why));
            }
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
