//! Evaluation of the rules of a custom kind for one object.

use serde_json::Value;

use super::RULES_BUDGET;
use super::eval::Activation;
use super::evaluation_error::EvaluationError;
use super::program::Program;
use super::ratcheting::{Correlated, OldElements};
use super::rule_tree::{CompiledRule, RuleNode};
use super::value::Val;
use crate::field_path::FieldPath;
use crate::go;
use crate::schema::{self, JsonType};
use crate::status::FieldError;

/// Maximum length of a message that an expression makes, in bytes, as in kube-apiserver.
const MAX_MESSAGE: usize = 5 * 1024;
/// Number of errors after which no further rule is evaluated.
pub(super) const MAX_ERRORS: usize = 1000;
/// Total size of errors, in bytes, after which no further rule is evaluated.
const MAX_BYTES: usize = 1 << 20;

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
pub(super) struct ComparedValue<'o, 'c> {
    pub(super) value: &'o Value,
    /// Old value with which transition rules compare.
    pub(super) old: Option<&'o Value>,
    /// Counterpart that decides whether the value is unchanged; `None` if it has none.
    pub(super) correlated: Option<&'c Correlated<'o>>,
    /// Counterpart of the nearest value above that has one.
    pub(super) parent: Option<&'c Correlated<'o>>,
}

impl<'o, 'c> ComparedValue<'o, 'c> {
    fn is_unchanged(&self) -> bool {
        self.correlated.or(self.parent).is_some_and(Correlated::is_unchanged)
    }

    /// Returns a value below this one. `correlated` is its counterpart.
    fn below<'d>(
        &self,
        value: &'o Value,
        old: Option<&'o Value>,
        correlated: Option<&'d Correlated<'o>>,
    ) -> ComparedValue<'o, 'd>
    where
        'c: 'd,
    {
        let parent = self.correlated.or(self.parent);
        ComparedValue { value, old: old.filter(|old| !old.is_null()), correlated, parent }
    }
}

/// A value with rules.
struct RuleSubject<'r, 'o> {
    node: &'r RuleNode,
    compared: ComparedValue<'o, 'r>,
    /// Path of the value; `None` for the whole object.
    path: Option<String>,
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
        compared: ComparedValue<'o, '_>,
        path: &FieldPath<'_>,
    ) -> Result<(), Stopped> {
        if compared.value.is_null() {
            return Ok(());
        }
        self.rules(node, compared, path)?;
        match compared.value {
            Value::Array(elements) => {
                let Some(items) = &node.items else { return Ok(()) };
                let known = compared.old.and_then(|old| OldElements::of(&node.schema, old));
                for (index, element) in elements.iter().enumerate() {
                    let old = known.as_ref().and_then(|known| known.find(element));
                    let correlated = compared.correlated.and_then(|list| list.element(index));
                    self.node(items, compared.below(element, old, correlated.as_ref()), &path.index(index))?;
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let old = compared.old.and_then(|old| old.get(name));
                    if let Some(additional) = &node.additional {
                        let correlated = compared.correlated.and_then(|map| map.field(name));
                        self.node(
                            additional,
                            compared.below(value, old, correlated.as_ref()),
                            &path.key(name),
                        )?;
                    }
                    if let Some(property) = node.properties.get(name) {
                        let correlated = compared.correlated.and_then(|object| object.field(name));
                        self.node(
                            property,
                            compared.below(value, old, correlated.as_ref()),
                            &path.field(name),
                        )?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Evaluates the rules of a value alone.
    fn rules(
        &mut self,
        node: &RuleNode,
        compared: ComparedValue<'_, '_>,
        path: &FieldPath<'_>,
    ) -> Result<(), Stopped> {
        if node.rules.is_empty() {
            return Ok(());
        }
        let subject = RuleSubject { node, compared, path: (!path.is_root()).then(|| path.to_string()) };
        if self.budget == 0 {
            self.push(subject.invalid(&EvaluationError::OutOfBudget.to_string()))?;
            return Err(Stopped);
        }
        node.rules.iter().try_for_each(|rule| self.rule(rule, &subject))
    }

    fn rule(&mut self, rule: &CompiledRule, subject: &RuleSubject<'_, '_>) -> Result<(), Stopped> {
        // A transition rule skips new values, unless its `oldSelf` is optional.
        if rule.is_transition && subject.compared.old.is_none() && !rule.optional_old_self {
            return Ok(());
        }
        let program = match &rule.program {
            Ok(program) => program,
            Err(why) => return self.push(subject.invalid(&format!("rule compile error: {why}"))),
        };
        match self.evaluate(program, subject.variables(rule), |value| matches!(value, Val::Bool(true))) {
            Ok(true) => Ok(()),
            Ok(false) => self.failed(rule, subject),
            Err(error) => {
                self.push(subject.invalid(&evaluation_failure(&error, &rule.shown)))?;
                // An error of the expression concerns this rule alone.
                if matches!(error, EvaluationError::Failed(_)) { Ok(()) } else { Err(Stopped) }
            }
        }
    }

    /// Reports a rule that does not hold.
    fn failed(&mut self, rule: &CompiledRule, subject: &RuleSubject<'_, '_>) -> Result<(), Stopped> {
        let field = subject.field(rule);
        let message = match &rule.message_expression {
            Some((source, program)) => match self.message(source, program, subject.variables(rule)) {
                Ok(message) => message,
                Err(why) => {
                    let error = FieldError::invalid(field, &subject.type_name(), &why);
                    self.report(error, rule, subject)?;
                    return Err(Stopped);
                }
            },
            None => None,
        };
        let message = message.unwrap_or_else(|| rule.default_message());
        self.report(failure(rule, field, subject.shown_scalar().as_deref(), &message), rule, subject)
    }

    /// Evaluates an expression, and subtracts its cost from the budget.
    fn evaluate<T>(
        &mut self,
        program: &Program,
        variables: Vec<(&'static str, Val<'_>)>,
        result: impl FnOnce(&Val<'_>) -> T,
    ) -> Result<T, EvaluationError> {
        program.evaluate(&Activation::default(), variables, &mut self.budget).map(|value| result(&value))
    }

    /// Returns the message that an expression makes; `None` if it makes no usable one.
    ///
    /// # Errors
    /// The reason to stop if the expression is too expensive.
    fn message(
        &mut self,
        source: &str,
        program: &Program,
        variables: Vec<(&'static str, Val<'_>)>,
    ) -> Result<Option<String>, String> {
        let text = |value: &Val<'_>| match value {
            Val::String(text) => Some(text.trim().to_owned()),
            _ => None,
        };
        match self.evaluate(program, variables, text) {
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
        subject: &RuleSubject<'_, '_>,
    ) -> Result<(), Stopped> {
        if rule.is_transition || !subject.compared.is_unchanged() {
            return self.push(error);
        }
        let warning = error.to_string();
        self.check_limits(warning.len(), self.outcome.warnings.len())?;
        self.outcome.warnings.push(warning);
        Ok(())
    }

    fn push(&mut self, error: FieldError) -> Result<(), Stopped> {
        self.check_limits(error.field.len() + error.message.len(), self.outcome.errors.len())?;
        self.outcome.errors.push(error);
        Ok(())
    }

    /// Stops the run if there are too many results.
    fn check_limits(&mut self, bytes: usize, results: usize) -> Result<(), Stopped> {
        self.bytes += bytes;
        if results >= MAX_ERRORS || self.bytes > MAX_BYTES { Err(Stopped) } else { Ok(()) }
    }
}

impl RuleSubject<'_, '_> {
    /// Returns the variables of a rule and of its message.
    fn variables(&self, rule: &CompiledRule) -> Vec<(&'static str, Val<'_>)> {
        let schema = &*self.node.schema;
        let old = self.compared.old.map(|old| schema.value(old));
        let old = match (old, rule.optional_old_self) {
            (Some(old), true) => Some(Val::some(old)),
            (None, true) => Some(Val::NONE),
            (old, false) => old,
        };
        let own = ("self", schema.value(self.compared.value));
        [own].into_iter().chain(old.map(|old| ("oldSelf", old))).collect()
    }

    /// Returns the name of the value's type as messages show it instead of a value.
    fn type_name(&self) -> String {
        format!("\"{}\"", self.node.schema.kind.map_or("", JsonType::name))
    }

    fn shown_path(&self) -> &str {
        self.path.as_deref().unwrap_or("<nil>")
    }

    /// Returns the path that the error of a rule names.
    fn field(&self, rule: &CompiledRule) -> String {
        match (&self.path, rule.field_path.as_str()) {
            (_, "") => self.shown_path().to_owned(),
            (None, below) => below.to_owned(),
            (Some(path), below) => format!("{path}.{below}"),
        }
    }

    /// Returns the value as messages show it; `None` for an object or a list.
    fn shown_scalar(&self) -> Option<String> {
        let has_parts = matches!(self.node.schema.kind, Some(JsonType::Object | JsonType::Array));
        (!has_parts).then(|| schema::shown(self.compared.value))
    }

    /// Builds an error about the value that is not the failure of a rule.
    fn invalid(&self, why: &str) -> FieldError {
        FieldError::invalid(self.shown_path(), &self.type_name(), why)
    }
}

/// Returns kube-apiserver's text for a rule whose evaluation failed.
fn evaluation_failure(error: &EvaluationError, rule: &str) -> String {
    match error {
        EvaluationError::Failed(why) if why.starts_with("no such overload") => format!(
            "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
        ),
        EvaluationError::Failed(why) => format!("{why} evaluating rule: {rule}"),
        EvaluationError::TooExpensive => format!(
            "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
        ),
        EvaluationError::OutOfBudget => error.to_string(),
    }
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
