//! Rules of custom resources (`x-kubernetes-validations`).
//!
//! The rules are parsed once, with their schema. Objects of a schema without rules cost nothing. The types of an expression are checked
//! when its definition is written, and again when it is evaluated.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::cost::Cost;
use super::eval::{self, Activation};
use super::evaluation_error::EvaluationError;
use super::functions::Evaluated;
use super::ratcheting::{Correlated, OldElements};
use super::types::Type;
use super::value::Val;
use super::value_schema::ValueSchema;
use super::{EXPRESSION_LIMIT, Environment, Program, RULES_BUDGET};
use crate::field_path::FieldPath;
use crate::go;
use crate::schema::{self, Brackets};
use crate::status::FieldError;

/// Maximum length of a message that an expression makes, in bytes, as in kube-apiserver.
const MESSAGE: usize = 5 * 1024;
/// Number of errors after which no further rule is evaluated.
const ERRORS: usize = 1000;
/// Total size of errors, in bytes, after which no further rule is evaluated.
const TEXT: usize = 1 << 20;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Name of the type of `self`. kube-apiserver adds a number that differs each time, so that no rule can use the name.
const SELF_TYPE: &str = "selfType1";
const NO_BOOL: &str = "cel expression must evaluate to a bool";
const NO_STRING: &str = "must evaluate to a string";

/// The rules of a custom kind's schema.
#[derive(Debug)]
pub struct ObjectRules {
    root: RuleNode,
    /// The schema as it was written, without the fields that each object has.
    declared: Arc<ValueSchema>,
}

/// Results of the rules for an object.
#[derive(Debug, Default)]
pub struct RuleOutcome {
    /// Errors, in the order of the schema.
    pub errors: Vec<FieldError>,
    /// Errors of rules about values that the update leaves unchanged, as texts of warnings.
    pub warnings: Vec<String>,
}

/// Rules of a schema and of the schemas below it.
#[derive(Debug)]
struct RuleNode {
    schema: Arc<ValueSchema>,
    rules: Vec<CompiledRule>,
    items: Option<Box<RuleNode>>,
    properties: BTreeMap<String, RuleNode>,
    additional: Option<Box<RuleNode>>,
}

#[derive(Debug)]
struct CompiledRule {
    program: Result<Program, String>,
    /// The message, or the rule itself, for messages.
    shown: String,
    message: String,
    message_expression: Option<(String, Program)>,
    reason: String,
    /// Path of the error below the value, such as `ports[http]`; may be empty.
    field_path: String,
    /// Whether the rule compares with the old value: it only applies to updates.
    is_transition: bool,
    optional_old_self: bool,
}

impl ObjectRules {
    /// Parses the rules of a custom kind's schema; `None` if it has none.
    #[must_use]
    pub fn read(open_api_v3_schema: &Value) -> Option<Self> {
        if !has_rules(open_api_v3_schema) {
            return None;
        }
        let declared = Arc::new(ValueSchema::read(open_api_v3_schema));
        let root = Arc::new(ValueSchema::clone(&declared).with_object_fields());
        RuleNode::read(open_api_v3_schema, root).map(|root| Self { root, declared })
    }

    /// Returns the errors of the rules of a custom kind's schema, which is valid otherwise. Their fields begin with `place`.
    #[must_use]
    pub fn check(open_api_v3_schema: &Value, place: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        check_defaults(open_api_v3_schema, place, &mut errors);
        // As in kube-apiserver, rules are only compiled if the defaults are valid.
        if errors.is_empty() {
            let root = |source: &Value| ValueSchema::read(source).with_object_fields();
            check(open_api_v3_schema, place, root, None, &mut errors);
        }
        errors
    }

    /// Returns the note that the rules are not evaluated because of these errors of the object; `None` if the errors do not prevent it.
    #[must_use]
    pub fn unchecked(errors: &[FieldError]) -> Option<FieldError> {
        let prevents = |error: &FieldError| {
            matches!(
                error.reason,
                "FieldValueNotSupported"
                    | "FieldValueRequired"
                    | "FieldValueTooLong"
                    | "FieldValueTooMany"
                    | "FieldValueTypeInvalid"
            )
        };
        let why = "some validation rules were not checked because the object was invalid; correct the existing errors to \
                   complete validation";
        errors.iter().any(prevents).then(|| FieldError::invalid("<nil>", "null", why))
    }

    /// Evaluates the rules for a new object, or for the new state of an object.
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> RuleOutcome {
        let mut run = RuleRun::new();
        let correlated = old.map(|old| Correlated::new(old, object, &self.declared));
        let place = Place { value: object, old, correlated: correlated.as_ref(), parent: None };
        // The end of the run is no error of its own: its reason is among the errors.
        let _ = run.node(&self.root, place, &FieldPath::root());
        run.outcome
    }
}

/// Whether a schema has rules at the places where they are allowed. `allOf` and similar keywords must not have any.
fn has_rules(schema: &Value) -> bool {
    !rules_of(schema).is_empty()
        || has_rules_in(&schema["items"])
        || has_rules_in(&schema["additionalProperties"])
        || schema["properties"].as_object().is_some_and(|properties| properties.values().any(has_rules))
}

fn has_rules_in(schema: &Value) -> bool {
    schema.is_object() && has_rules(schema)
}

fn rules_of(schema: &Value) -> &[Value] {
    schema["x-kubernetes-validations"].as_array().map_or(&[], Vec::as_slice)
}

/// Adds the errors of defaults that do not fit the rules. Defaults below `additionalProperties` are not checked.
fn check_defaults(source: &Value, place: &str, errors: &mut Vec<FieldError>) {
    if errors.len() >= ERRORS || !has_rules(source) {
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
fn check(
    source: &Value,
    place: &str,
    read: fn(&Value) -> ValueSchema,
    uncorrelated: Option<&str>,
    errors: &mut Vec<FieldError>,
) {
    if errors.len() >= ERRORS || !has_rules(source) {
        return;
    }
    if source["additionalProperties"].is_object() {
        check(
            &source["additionalProperties"],
            &format!("{place}.additionalProperties"),
            ValueSchema::read,
            uncorrelated,
            errors,
        );
    }
    for (name, property) in source["properties"].as_object().into_iter().flatten() {
        check(property, &format!("{place}.properties[{name}]"), ValueSchema::read, uncorrelated, errors);
    }
    if source["items"].is_object() {
        let is_keyed = source["x-kubernetes-list-type"] == "map";
        let uncorrelated = uncorrelated.or((!is_keyed).then_some(place));
        check(&source["items"], &format!("{place}.items"), ValueSchema::read, uncorrelated, errors);
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

impl RuleNode {
    /// Reads the rules of a schema and of the schemas below it; `None` if there are none.
    fn read(source: &Value, schema: Arc<ValueSchema>) -> Option<Self> {
        let rules: Vec<CompiledRule> =
            rules_of(source).iter().filter_map(|rule| CompiledRule::read(rule, source)).collect();
        let below = |name: &str, schema: Option<&Arc<ValueSchema>>| {
            let schema = schema.filter(|schema| schema.is_visible())?;
            Self::read(&source[name], Arc::clone(schema)).map(Box::new)
        };
        let mut properties = BTreeMap::new();
        for (name, property) in source["properties"].as_object().into_iter().flatten() {
            // Not the schema that the value above sees of the field: each object has `metadata` with a name, and a definition may declare
            // rules about it.
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
    fn read(source: &Value, schema: &Value) -> Option<Self> {
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
    fn default_message(&self) -> String {
        if self.message.is_empty() { format!("failed rule: {}", self.shown) } else { self.message.clone() }
    }
}

/// A value of the object, and its counterpart.
#[derive(Clone, Copy)]
struct Place<'o, 'c> {
    value: &'o Value,
    /// Old value with which transition rules compare.
    old: Option<&'o Value>,
    /// Counterpart that decides whether the value is unchanged; `None` if it has none.
    correlated: Option<&'c Correlated<'o>>,
    /// Nearest value above that has a counterpart.
    parent: Option<&'c Correlated<'o>>,
}

impl<'o, 'c> Place<'o, 'c> {
    fn is_unchanged(&self) -> bool {
        self.correlated.or(self.parent).is_some_and(Correlated::is_unchanged)
    }

    /// Returns a value below this one. `correlated` is its counterpart.
    fn below<'d>(
        &self,
        value: &'o Value,
        old: Option<&'o Value>,
        correlated: Option<&'d Correlated<'o>>,
    ) -> Place<'o, 'd>
    where
        'c: 'd,
    {
        let parent = self.correlated.or(self.parent);
        Place { value, old: old.filter(|old| !old.is_null()), correlated, parent }
    }
}

/// Reason to evaluate no further rules.
struct Stopped;

/// Evaluation of the rules for one object.
struct RuleRun {
    budget: u64,
    /// Size of the errors so far.
    bytes: usize,
    outcome: RuleOutcome,
}

impl RuleRun {
    fn new() -> Self {
        Self { budget: RULES_BUDGET, bytes: 0, outcome: RuleOutcome::default() }
    }

    /// Evaluates the rules of a value and of the values below it. Recurses at most as deep as the schema is nested.
    fn node<'o>(
        &mut self,
        node: &'o RuleNode,
        place: Place<'o, '_>,
        path: &FieldPath<'_>,
    ) -> Result<(), Stopped> {
        if place.value.is_null() {
            return Ok(());
        }
        self.rules(node, place, path)?;
        match place.value {
            Value::Array(elements) => {
                let Some(items) = &node.items else { return Ok(()) };
                let known = place.old.and_then(|old| OldElements::of(&node.schema, old));
                for (index, element) in elements.iter().enumerate() {
                    let old = known.as_ref().and_then(|known| known.find(element));
                    let correlated = place.correlated.and_then(|list| list.element(index));
                    self.node(items, place.below(element, old, correlated.as_ref()), &path.index(index))?;
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let old = place.old.and_then(|old| old.get(name));
                    if let Some(additional) = &node.additional {
                        let correlated = place.correlated.and_then(|map| map.field(name));
                        self.node(additional, place.below(value, old, correlated.as_ref()), &path.key(name))?;
                    }
                    if let Some(property) = node.properties.get(name) {
                        let correlated = place.correlated.and_then(|object| object.field(name));
                        self.node(property, place.below(value, old, correlated.as_ref()), &path.field(name))?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rules(&mut self, node: &RuleNode, place: Place<'_, '_>, path: &FieldPath<'_>) -> Result<(), Stopped> {
        if node.rules.is_empty() {
            return Ok(());
        }
        let of = format!("\"{}\"", node.schema.kind.map_or("", schema::JsonType::name));
        let shown_path = if path.is_root() { "<nil>".to_owned() } else { path.to_string() };
        let invalid = |why: &str| FieldError::invalid(shown_path.clone(), &of, why);
        if self.budget == 0 {
            self.push(invalid(OUT_OF_BUDGET))?;
            return Err(Stopped);
        }
        for rule in &node.rules {
            if rule.is_transition && place.old.is_none() && !rule.optional_old_self {
                continue;
            }
            let program = match &rule.program {
                Ok(program) => program,
                Err(why) => {
                    self.push(invalid(&format!("rule compile error: {why}")))?;
                    continue;
                }
            };
            let locals = || variables(&node.schema, place.value, place.old, rule.optional_old_self);
            let held = self.evaluate(program, locals(), |value| matches!(value, Val::Bool(true)));
            let shown = &rule.shown;
            match held {
                Ok(true) => continue,
                Ok(false) => {}
                Err(EvaluationError::Failed(why)) => {
                    let why = if why.starts_with("no such overload") {
                        format!(
                            "'{why}': call arguments did not match a supported operator, function or macro signature for \
                             rule: {shown}"
                        )
                    } else {
                        format!("{why} evaluating rule: {shown}")
                    };
                    self.push(invalid(&why))?;
                    continue;
                }
                Err(why @ EvaluationError::TooExpensive) => {
                    let why = format!(
                        "'{why}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
                    );
                    self.push(invalid(&why))?;
                    return Err(Stopped);
                }
                Err(EvaluationError::OutOfBudget) => {
                    self.push(invalid(OUT_OF_BUDGET))?;
                    return Err(Stopped);
                }
            }
            let field = match (path.is_root(), rule.field_path.as_str()) {
                (_, "") => shown_path.clone(),
                (true, below) => below.to_owned(),
                (false, below) => format!("{shown_path}.{below}"),
            };
            let message = match &rule.message_expression {
                Some((source, program)) => match self.message(source, program, locals()) {
                    Ok(message) => message,
                    Err(why) => {
                        let error = FieldError::invalid(field, &of, &why);
                        self.report(error, rule, place)?;
                        return Err(Stopped);
                    }
                },
                None => None,
            };
            let message = message.unwrap_or_else(|| rule.default_message());
            let is_plain =
                !matches!(node.schema.kind, Some(schema::JsonType::Object | schema::JsonType::Array));
            let value = is_plain.then(|| schema::shown(place.value));
            self.report(failure(rule, field, value.as_deref(), &message), rule, place)?;
        }
        Ok(())
    }

    /// Evaluates an expression, and pays for it.
    fn evaluate<T>(
        &mut self,
        program: &Program,
        locals: Vec<(&'static str, Val<'_>)>,
        result: impl FnOnce(&Val<'_>) -> T,
    ) -> Result<T, EvaluationError> {
        let limit = EXPRESSION_LIMIT.min(self.budget);
        let mut cost = Cost::new(limit);
        let activation = Activation::default();
        let value: Evaluated<'_> =
            eval::evaluate(&program.root, &program.patterns, &activation, locals, &mut cost);
        let is_last = limit == self.budget;
        let result = match value {
            Ok(value) => Ok(result(&value)),
            Err(EvaluationError::TooExpensive) if is_last => Err(EvaluationError::OutOfBudget),
            Err(error) => Err(error),
        };
        self.budget -= limit - cost.left();
        result
    }

    /// Returns the message that an expression makes; `None` if it makes no usable one.
    ///
    /// # Errors
    /// The reason to stop if the expression is too expensive.
    fn message(
        &mut self,
        source: &str,
        program: &Program,
        locals: Vec<(&'static str, Val<'_>)>,
    ) -> Result<Option<String>, String> {
        let text = |value: &Val<'_>| match value {
            Val::String(text) => Some(text.trim().to_owned()),
            _ => None,
        };
        match self.evaluate(program, locals, text) {
            Ok(Some(text)) => {
                let is_usable = !text.is_empty() && text.len() <= MESSAGE && !text.contains('\n');
                Ok(is_usable.then_some(text))
            }
            Ok(None) | Err(EvaluationError::Failed(_)) => Ok(None),
            Err(EvaluationError::TooExpensive) => Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                go::quote(source)
            )),
            Err(EvaluationError::OutOfBudget) => Err(
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be \
                 run"
                    .to_owned(),
            ),
        }
    }

    /// Reports that a rule does not hold: as a warning, if the value is unchanged.
    fn report(
        &mut self,
        error: FieldError,
        rule: &CompiledRule,
        place: Place<'_, '_>,
    ) -> Result<(), Stopped> {
        if rule.is_transition || !place.is_unchanged() {
            return self.push(error);
        }
        let warning = error.to_string();
        self.count(warning.len(), self.outcome.warnings.len())?;
        self.outcome.warnings.push(warning);
        Ok(())
    }

    fn push(&mut self, error: FieldError) -> Result<(), Stopped> {
        self.count(error.field.len() + error.message.len(), self.outcome.errors.len())?;
        self.outcome.errors.push(error);
        Ok(())
    }

    /// Stops the run if there are too many results.
    fn count(&mut self, bytes: usize, results: usize) -> Result<(), Stopped> {
        self.bytes += bytes;
        if results >= ERRORS || self.bytes > TEXT { Err(Stopped) } else { Ok(()) }
    }
}

/// Returns the variables of a rule.
fn variables<'a>(
    schema: &'a ValueSchema,
    value: &'a Value,
    old: Option<&'a Value>,
    optional_old_self: bool,
) -> Vec<(&'static str, Val<'a>)> {
    let mut variables = vec![("self", schema.value(value))];
    let old = old.map(|old| schema.value(old));
    match (old, optional_old_self) {
        (Some(old), false) => variables.push(("oldSelf", old)),
        (Some(old), true) => variables.push(("oldSelf", Val::some(old))),
        (None, true) => variables.push(("oldSelf", Val::NONE)),
        (None, false) => {}
    }
    variables
}

/// Builds the error of a rule that does not hold. `value` is the shown value of a scalar.
fn failure(rule: &CompiledRule, field: String, value: Option<&str>, message: &str) -> FieldError {
    let with_value = |title: &str| match value {
        Some(value) => format!("{title}: {value}"),
        None => title.to_owned(),
    };
    match rule.reason.as_str() {
        "FieldValueForbidden" => FieldError::forbidden(field, message),
        "FieldValueRequired" => FieldError::required(field, message),
        "FieldValueDuplicate" => {
            FieldError { reason: "FieldValueDuplicate", field, message: with_value("Duplicate value") }
        }
        _ => {
            let message = format!("{}: {message}", with_value("Invalid value"));
            FieldError { reason: "FieldValueInvalid", field, message }
        }
    }
}
