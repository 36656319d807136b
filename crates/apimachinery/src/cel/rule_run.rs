//! Evaluation of the rules of a custom kind for one object.

use serde_json::Value;

use super::cost::Cost;
use super::eval::{self, Activation};
use super::evaluation_error::EvaluationError;
use super::functions::Evaluated;
use super::ratcheting::{Correlated, OldElements};
use super::rule_tree::{CompiledRule, RuleNode};
use super::value::Val;
use super::value_schema::ValueSchema;
use super::{EXPRESSION_LIMIT, Program, RULES_BUDGET};
use crate::field_path::FieldPath;
use crate::go;
use crate::schema;
use crate::status::FieldError;

/// Maximum length of a message that an expression makes, in bytes, as in kube-apiserver.
const MAX_MESSAGE: usize = 5 * 1024;
/// Number of errors after which no further rule is evaluated.
pub(super) const MAX_ERRORS: usize = 1000;
/// Total size of errors, in bytes, after which no further rule is evaluated.
const MAX_BYTES: usize = 1 << 20;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Results of the rules for an object.
#[derive(Debug, Default)]
pub struct RuleOutcome {
    /// Errors, in the order of the schema.
    pub errors: Vec<FieldError>,
    /// Errors of rules about values that the update leaves unchanged, as texts of warnings.
    pub warnings: Vec<String>,
}

/// A value of the object, and its counterpart in the old object.
#[derive(Clone, Copy)]
pub(super) struct Place<'o, 'c> {
    pub(super) value: &'o Value,
    /// Old value with which transition rules compare.
    pub(super) old: Option<&'o Value>,
    /// Counterpart that decides whether the value is unchanged; `None` if it has none.
    pub(super) correlated: Option<&'c Correlated<'o>>,
    /// Nearest value above that has a counterpart.
    pub(super) parent: Option<&'c Correlated<'o>>,
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
pub(super) struct Stopped;

/// Evaluation of the rules for one object.
pub(super) struct RuleRun {
    budget: u64,
    /// Size of the errors so far, in bytes.
    bytes: usize,
    pub(super) outcome: RuleOutcome,
}

impl RuleRun {
    pub(super) fn new() -> Self {
        Self { budget: RULES_BUDGET, bytes: 0, outcome: RuleOutcome::default() }
    }

    /// Evaluates the rules of a value and of the values below it. Recurses at most as deep as the schema is nested.
    pub(super) fn node<'o>(
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

    /// Evaluates the rules of a value alone.
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

    /// Evaluates an expression, and subtracts its cost from the budget.
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
                let is_usable = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
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
        if results >= MAX_ERRORS || self.bytes > MAX_BYTES { Err(Stopped) } else { Ok(()) }
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
