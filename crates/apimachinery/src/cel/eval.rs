//! Evaluation, with a budget of steps.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::authorization::{AccessQuery, AuthorizerDecision};
use super::functions::{self, Evaluated};
use super::operators::no_such_key;
use super::parser::{Expr, Fold, FoldKind, SyntaxNode};
use super::value::Val;

/// Values of the variables of an expression.
#[derive(Debug, Clone, Default)]
pub struct Activation<'a> {
    /// Values by name.
    pub variables: Vec<(&'static str, &'a Value)>,
    /// Answers of the authorizer that are known. An expression that needs another one ends with [`EvaluationError::Unanswered`]; the caller
    /// asks the authorizer and evaluates again with the answer.
    pub decisions: BTreeMap<AccessQuery, AuthorizerDecision>,
    /// Query of `authorizer.requestResource`, without its verb.
    pub request_resource: AccessQuery,
}

/// Reason why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvaluationError {
    /// cel-go's text for an error of the expression.
    Failed(String),
    /// The expression costs more than its budget.
    Budget,
    /// The value depends on the answer of the authorizer to a query.
    Unanswered(Box<AccessQuery>),
}

impl std::fmt::Display for EvaluationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed(why) => f.write_str(why),
            Self::Budget => f.write_str("operation cancelled: actual cost limit exceeded"),
            Self::Unanswered(_) => f.write_str("the authorizer was not asked"),
        }
    }
}

/// Returns the error for operands whose types no overload of the operation accepts.
pub(super) fn no_overload() -> EvaluationError {
    EvaluationError::Failed("no such overload".to_owned())
}

/// Cost that is left.
pub(super) struct Cost<'b>(&'b mut u64);

impl Cost<'_> {
    pub(super) fn spend(&mut self, cost: u64) -> Result<(), EvaluationError> {
        match self.0.checked_sub(cost) {
            Some(rest) => {
                *self.0 = rest;
                Ok(())
            }
            None => {
                // The conditions of a webhook share a budget, so the next of them ends at once.
                *self.0 = 0;
                Err(EvaluationError::Budget)
            }
        }
    }
}

/// Evaluates a condition.
pub(super) fn condition(
    root: &SyntaxNode,
    activation: &Activation<'_>,
    budget: &mut u64,
) -> Result<bool, EvaluationError> {
    let mut evaluator = Evaluator { activation, locals: Vec::new(), cost: Cost(budget) };
    match evaluator.value(root)? {
        Val::Bool(value) => Ok(value),
        _ => Err(no_overload()),
    }
}

struct Evaluator<'a, 'b> {
    activation: &'a Activation<'a>,
    /// Variables of the surrounding macros, the innermost last.
    locals: Vec<(&'a str, Val<'a>)>,
    cost: Cost<'b>,
}

impl<'a> Evaluator<'a, '_> {
    /// Recurses at most as deep as the parser allows.
    fn value(&mut self, node: &'a SyntaxNode) -> Evaluated<'a> {
        self.cost.spend(1)?;
        match &node.expr {
            Expr::Literal(literal) => Ok(Val::literal(literal)),
            Expr::Ident(name) => self.variable(name),
            Expr::Select { operand, field, test } => self.select(operand, field, *test),
            Expr::And(terms) => self.logical(terms, false),
            Expr::Or(terms) => self.logical(terms, true),
            Expr::List(elements) => {
                let values: Result<Vec<_>, _> = elements.iter().map(|element| self.value(element)).collect();
                Ok(Val::List(Rc::new(values?)))
            }
            Expr::Map(entries) => {
                let entries: Result<Vec<_>, _> =
                    entries.iter().map(|(key, value)| Ok((self.value(key)?, self.value(value)?))).collect();
                Ok(Val::Map(Rc::new(entries?)))
            }
            Expr::Call { function, target, arguments } => self.call(function, target.as_deref(), arguments),
            Expr::Fold(fold) => self.fold(fold),
        }
    }

    fn variable(&self, name: &'a str) -> Evaluated<'a> {
        if let Some((_, value)) = self.locals.iter().rev().find(|(known, _)| *known == name) {
            return Ok(value.clone());
        }
        // The authorizer has no JSON value, so it is not among the variables.
        if name == "authorizer" {
            return Ok(Val::Query(Rc::default()));
        }
        if let Some((_, value)) = self.activation.variables.iter().find(|(known, _)| *known == name) {
            return Ok(Val::json(value));
        }
        let of = functions::TYPES.iter().find(|known| **known == name);
        of.map(|of| Val::Type(of))
            .ok_or_else(|| EvaluationError::Failed(format!("no such attribute(s): {name}")))
    }

    fn select(&mut self, operand: &'a SyntaxNode, field: &'a str, test: bool) -> Evaluated<'a> {
        let operand = self.value(operand)?;
        if matches!(operand, Val::Query(_)) && field == "requestResource" {
            return Ok(Val::Query(Rc::new(self.activation.request_resource.clone())));
        }
        let key = Val::String(Cow::Borrowed(field));
        let found = operand.get(&key);
        if test {
            return Ok(Val::Bool(found.is_some()));
        }
        found.ok_or_else(|| no_such_key(&key))
    }

    /// Evaluates `&&` or `||`: one term with the deciding value decides, even if others fail.
    fn logical(&mut self, terms: &'a [SyntaxNode], deciding: bool) -> Evaluated<'a> {
        let mut failed = None;
        for term in terms {
            match self.value(term) {
                Ok(Val::Bool(value)) if value == deciding => return Ok(Val::Bool(deciding)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => {
                    failed.get_or_insert_with(no_overload);
                }
                // Neither error belongs to the term: without a budget or an answer, the whole expression has no value.
                Err(error @ (EvaluationError::Budget | EvaluationError::Unanswered(_))) => return Err(error),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(Val::Bool(!deciding)), Err)
    }

    fn call(
        &mut self,
        function: &'a str,
        target: Option<&'a SyntaxNode>,
        arguments: &'a [SyntaxNode],
    ) -> Evaluated<'a> {
        // Only one branch is evaluated, so an error in the other has no effect.
        if function == "_?_:_" {
            let [condition, then, otherwise] = arguments else { return Err(no_overload()) };
            return match self.value(condition)? {
                Val::Bool(true) => self.value(then),
                Val::Bool(false) => self.value(otherwise),
                _ => Err(no_overload()),
            };
        }
        let target = target.map(|target| self.value(target)).transpose()?;
        let arguments: Result<Vec<_>, _> = arguments.iter().map(|argument| self.value(argument)).collect();
        let arguments = arguments?;
        match target {
            Some(Val::Query(query)) => self.ask(&query, function, &arguments),
            Some(target) => functions::member(function, &target, &arguments, &mut self.cost),
            None => functions::global(function, arguments, &mut self.cost),
        }
    }

    /// Completes a query to the authorizer; `check` asks it.
    fn ask(&self, query: &AccessQuery, function: &str, arguments: &[Val<'a>]) -> Evaluated<'a> {
        let mut query = query.clone();
        let text = |at: usize| match arguments.get(at) {
            Some(Val::String(text)) => Ok(text.to_string()),
            _ => Err(no_overload()),
        };
        match function {
            "path" => query.path = Some(text(0)?),
            "group" => query.group = text(0)?,
            "resource" => query.resource = text(0)?,
            "subresource" => query.subresource = text(0)?,
            "namespace" => query.namespace = text(0)?,
            "name" => query.name = text(0)?,
            "serviceAccount" => query.service_account = Some((text(0)?, text(1)?)),
            "check" => {
                query.verb = text(0)?;
                return match self.activation.decisions.get(&query) {
                    Some(decision) => Ok(Val::Decision(Rc::new(decision.clone()))),
                    None => Err(EvaluationError::Unanswered(Box::new(query))),
                };
            }
            _ => return Err(no_overload()),
        }
        Ok(Val::Query(Rc::new(query)))
    }

    fn fold(&mut self, fold: &'a Fold) -> Evaluated<'a> {
        let range = self.value(&fold.range)?;
        let elements = range.range().ok_or_else(no_overload)?;
        self.cost.spend(u64::try_from(elements.len()).unwrap_or(u64::MAX))?;
        let mut found = Vec::new();
        let (mut count, mut failed) = (0_usize, None);
        for element in elements {
            self.locals.push((&fold.variable, element.clone()));
            let visited = self.visit(fold);
            self.locals.pop();
            match (fold.kind, visited) {
                (_, Err(error @ (EvaluationError::Budget | EvaluationError::Unanswered(_)))) => {
                    return Err(error);
                }
                (FoldKind::All, Ok(Some(Val::Bool(false)))) => return Ok(Val::Bool(false)),
                (FoldKind::Exists, Ok(Some(Val::Bool(true)))) => return Ok(Val::Bool(true)),
                (FoldKind::All | FoldKind::Exists, Ok(Some(Val::Bool(_)))) => {}
                // As in `&&` and `||`, another element may still decide the result.
                (FoldKind::All | FoldKind::Exists, Err(error)) => {
                    failed.get_or_insert(error);
                }
                (_, Err(error)) => return Err(error),
                (FoldKind::ExistsOne, Ok(Some(Val::Bool(value)))) => count += usize::from(value),
                (FoldKind::Filter, Ok(Some(Val::Bool(value)))) => {
                    if value {
                        found.push(element);
                    }
                }
                (FoldKind::Map, Ok(value)) => found.extend(value),
                (_, Ok(_)) => return Err(no_overload()),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        Ok(match fold.kind {
            FoldKind::All => Val::Bool(true),
            FoldKind::Exists => Val::Bool(false),
            FoldKind::ExistsOne => Val::Bool(count == 1),
            FoldKind::Map | FoldKind::Filter => Val::List(Rc::new(found)),
        })
    }

    /// Evaluates the body of a macro; `None` if the filter of `map` excludes the element.
    fn visit(&mut self, fold: &'a Fold) -> Result<Option<Val<'a>>, EvaluationError> {
        if let Some(filter) = &fold.filter {
            match self.value(filter)? {
                Val::Bool(true) => {}
                Val::Bool(false) => return Ok(None),
                _ => return Err(no_overload()),
            }
        }
        self.value(&fold.body).map(Some)
    }
}
