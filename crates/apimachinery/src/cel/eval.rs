//! Evaluation, with a budget of steps.

use std::fmt;
use std::rc::Rc;

use serde_json::Value;

use super::authorization::{AccessQuery, AuthorizerDecision};
use super::cost::Cost;
use super::evaluation_error::{EvaluationError, failed, no_overload};
use super::functions::{self, Evaluated};
use super::operators::no_such_key;
use super::parser::{Expr, Fold, FoldKind, SyntaxNode};
use super::patterns::{self, ConstantPatterns};
use super::value::{RcCow, Val};

/// Cost of a query to the authorizer, as in kube-apiserver. An expression can afford two.
const AUTHORIZER_CHECK: u64 = 350_000;

/// Values of the variables of an expression.
pub struct Activation<'a> {
    /// Values by name.
    pub variables: Vec<(&'static str, &'a Value)>,
    /// Answers the queries of the expression.
    pub authorizer: &'a dyn Fn(&AccessQuery) -> AuthorizerDecision,
    /// Query of `authorizer.requestResource`, without its verb.
    pub request_resource: AccessQuery,
}

impl fmt::Debug for Activation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variables, authorizer: _, request_resource } = self;
        f.debug_struct("Activation")
            .field("variables", variables)
            .field("request_resource", request_resource)
            .finish_non_exhaustive()
    }
}

/// Evaluates a condition.
pub(super) fn condition(
    root: &SyntaxNode,
    patterns: &ConstantPatterns,
    activation: &Activation<'_>,
    cost: &mut Cost,
) -> Result<bool, EvaluationError> {
    let mut evaluator = Evaluator { activation, patterns, locals: Vec::new(), cost };
    match evaluator.value(root)? {
        Val::Bool(value) => Ok(value),
        _ => Err(no_overload()),
    }
}

struct Evaluator<'a, 'b> {
    activation: &'a Activation<'a>,
    patterns: &'a ConstantPatterns,
    /// Variables of the surrounding macros, the innermost last.
    locals: Vec<(&'a str, Val<'a>)>,
    cost: &'b mut Cost,
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

    fn variable(&mut self, name: &'a str) -> Evaluated<'a> {
        // Names are compared with those of the variables, and a name may be as long as the expression.
        self.cost.text(name.len())?;
        // A dot at the beginning only says that the name is not relative to a container.
        let name = name.strip_prefix('.').unwrap_or(name);
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
        of.map(|of| Val::Type(of)).ok_or_else(|| failed(format!("no such attribute(s): {name}")))
    }

    fn select(&mut self, operand: &'a SyntaxNode, field: &'a str, test: bool) -> Evaluated<'a> {
        let operand = self.value(operand)?;
        if matches!(operand, Val::Query(_)) && field == "requestResource" {
            return Ok(Val::Query(Rc::new(self.activation.request_resource.clone())));
        }
        let key = Val::String(RcCow::Borrowed(field));
        let found = operand.get(&key, self.cost)?;
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
                Err(error @ EvaluationError::Failed(_)) => {
                    failed.get_or_insert(error);
                }
                // The error does not belong to the term: the whole expression has no value.
                Err(error) => return Err(error),
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
        match (target, arguments.as_slice()) {
            (Some(Val::Query(query)), _) => self.ask(&query, function, &arguments),
            (Some(Val::String(text)), [Val::String(pattern), rest @ ..])
                if patterns::is_function(function) =>
            {
                patterns::call(function, &text, pattern, rest, self.patterns, self.cost)
            }
            (None, [Val::String(text), Val::String(pattern)]) if function == "matches" => {
                patterns::call(function, text, pattern, &[], self.patterns, self.cost)
            }
            (Some(target), _) => functions::member(function, &target, &arguments, self.cost),
            (None, _) => functions::global(function, arguments, self.cost),
        }
    }

    /// Completes a query to the authorizer; `check` asks it.
    fn ask(&mut self, query: &AccessQuery, function: &str, arguments: &[Val<'a>]) -> Evaluated<'a> {
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
            "check" => query.verb = text(0)?,
            _ => return Err(no_overload()),
        }
        // The next function copies the query.
        self.cost.text(query.length())?;
        if function != "check" {
            return Ok(Val::Query(Rc::new(query)));
        }
        self.cost.spend(AUTHORIZER_CHECK)?;
        Ok(Val::Decision(Rc::new((self.activation.authorizer)(&query))))
    }

    fn fold(&mut self, fold: &'a Fold) -> Evaluated<'a> {
        let range = self.value(&fold.range)?;
        let elements = range.range().ok_or_else(no_overload)?;
        let mut found = Vec::new();
        let (mut count, mut failed) = (0_usize, None);
        for element in elements {
            self.cost.spend(1)?;
            self.locals.push((&fold.variable, element.clone()));
            let visited = self.visit(fold);
            self.locals.pop();
            match (fold.kind, visited) {
                (FoldKind::All, Ok(Some(Val::Bool(false)))) => return Ok(Val::Bool(false)),
                (FoldKind::Exists, Ok(Some(Val::Bool(true)))) => return Ok(Val::Bool(true)),
                (FoldKind::All | FoldKind::Exists, Ok(Some(Val::Bool(_)))) => {}
                // As in `&&` and `||`, another element may still decide the result.
                (FoldKind::All | FoldKind::Exists, Err(error @ EvaluationError::Failed(_))) => {
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
