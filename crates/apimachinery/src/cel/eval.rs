//! Evaluation, with a budget of steps.

use std::fmt;
use std::rc::Rc;

use serde_json::Value;

use super::authorization::{AccessQuery, AuthorizerDecision, REQUEST_RESOURCE};
use super::composition::Composition;
use super::cost::Cost;
use super::evaluation_error::{EvaluationError, failed, no_overload};
use super::functions::{self, Evaluated};
use super::identifier::without_dot;
use super::map_builder::MapBuilder;
use super::message::{self, MessageNode};
use super::operators;
use super::patterns::{self, ConstantPatterns};
use super::syntax_tree::{Expr, OPTIONAL_PART, SyntaxNode};
use super::value::{Literal, RcCow, Val};

/// Cost of a query to the authorizer, as in kube-apiserver. An expression can afford two.
const AUTHORIZER_CHECK: u64 = 350_000;

/// Values of the variables of an expression. By default there are none.
#[derive(Default)]
pub struct Activation<'a> {
    /// Values by name.
    pub variables: Vec<(&'static str, &'a Value)>,
    /// Values of `variables`, if the expression belongs to a policy.
    pub composition: Option<Composition<'a>>,
    /// Answers the queries of the expression; `None` if it may not use `authorizer`.
    pub authorizer: Option<&'a dyn Fn(&AccessQuery) -> AuthorizerDecision>,
    /// Query of `authorizer.requestResource`, without its verb.
    pub request_resource: AccessQuery,
}

impl fmt::Debug for Activation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variables, composition, authorizer: _, request_resource } = self;
        f.debug_struct("Activation")
            .field("variables", variables)
            .field("composition", composition)
            .field("request_resource", request_resource)
            .finish_non_exhaustive()
    }
}

/// Evaluates an expression. `locals` are variables with values other than plain JSON.
pub(super) fn evaluate<'a>(
    root: &'a SyntaxNode,
    patterns: &'a ConstantPatterns,
    activation: &Activation<'a>,
    locals: Vec<(&'a str, Val<'a>)>,
    cost: &mut Cost,
) -> Evaluated<'a> {
    let mut evaluator = Evaluator { activation, patterns, locals, cost };
    evaluator.value(root)
}

/// Operator between terms.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Connective {
    And,
    Or,
}

/// State of an evaluation.
pub(super) struct Evaluator<'a, 'b> {
    activation: &'b Activation<'a>,
    patterns: &'a ConstantPatterns,
    /// Variables with values other than plain JSON, such as those of the surrounding macros, the innermost last.
    pub(super) locals: Vec<(&'a str, Val<'a>)>,
    pub(super) cost: &'b mut Cost,
}

impl<'a> Evaluator<'a, '_> {
    /// Evaluates an expression. Recurses at most as deep as the parser allows.
    pub(super) fn value(&mut self, node: &'a SyntaxNode) -> Evaluated<'a> {
        self.cost.spend(1)?;
        match &node.expr {
            Expr::Literal(literal) => Ok(Val::literal(literal)),
            Expr::Ident(name) => self.variable(name),
            Expr::Select { operand, field } => self.select(operand, field),
            Expr::Has { operand, field } => self.has(operand, field),
            Expr::And(terms) => self.logical(terms, Connective::And),
            Expr::Or(terms) => self.logical(terms, Connective::Or),
            Expr::List(elements) => {
                let mut values = Vec::with_capacity(elements.len());
                for element in elements {
                    values.extend(self.part(element)?);
                }
                Ok(Val::list(values))
            }
            Expr::Map(entries) => {
                let mut map = MapBuilder::default();
                for (key, value) in entries {
                    let key = self.value(key)?;
                    if let Some(value) = self.part(value)? {
                        map.replace(key, value);
                    }
                }
                Ok(map.build())
            }
            Expr::Call { function, target, arguments } => self.call(function, target.as_deref(), arguments),
            Expr::Fold(fold) => self.fold(fold),
            Expr::Message(message) => self.message(message),
        }
    }

    /// Evaluates a part of a literal; `None` if it is optional and empty.
    fn part(&mut self, node: &'a SyntaxNode) -> Result<Option<Val<'a>>, EvaluationError> {
        match &node.expr {
            Expr::Call { function, arguments, .. } if function == OPTIONAL_PART => {
                self.cost.spend(1)?;
                match arguments.as_slice() {
                    [part] => match self.value(part)? {
                        Val::Optional(value) => Ok(value.map(|value| (*value).clone())),
                        _ => Err(no_overload()),
                    },
                    _ => Err(no_overload()),
                }
            }
            _ => self.value(node).map(Some),
        }
    }

    fn message(&mut self, node: &'a MessageNode) -> Evaluated<'a> {
        let mut fields = Vec::with_capacity(node.fields.len());
        for field in &node.fields {
            let name = field.name.as_str();
            match (field.is_optional, self.value(&field.value)?) {
                (false, value) => fields.push((name, value)),
                (true, Val::Optional(value)) => {
                    fields.extend(value.map(|value| (name, (*value).clone())));
                }
                (true, other) => {
                    let of = other.type_name();
                    return Err(failed(format!(
                        "cannot initialize optional entry '{name}' from non-optional value of type {of}"
                    )));
                }
            }
        }
        message::construct(node.type_name(), fields, self.cost)
    }

    fn variable(&mut self, name: &'a str) -> Evaluated<'a> {
        // The look-up compares the name with those of the variables, and a name may be as long as the expression. Usual names cost nothing.
        self.cost.values(name.len() / 10)?;
        let name = without_dot(name);
        if let Some((_, value)) = self.locals.iter().rev().find(|(known, _)| *known == name) {
            return value.clone().usable();
        }
        // The authorizer has no JSON value, so it is not among the variables.
        if name == "authorizer" && self.activation.authorizer.is_some() {
            return Ok(Val::Query(Rc::default()));
        }
        if let Some((_, value)) = self.activation.variables.iter().find(|(known, _)| *known == name) {
            return Ok(Val::json(value));
        }
        let of = functions::TYPES.iter().chain(&message::TYPES).find(|known| **known == name);
        of.map(|of| Val::Type(of)).ok_or_else(|| failed(format!("no such attribute(s): {name}")))
    }

    fn select(&mut self, operand: &'a SyntaxNode, field: &'a str) -> Evaluated<'a> {
        if let Some(value) = self.policy_variable(operand, field) {
            return value;
        }
        let operand = self.value(operand)?;
        if matches!(operand, Val::Query(_)) && field == REQUEST_RESOURCE {
            return Ok(Val::Query(Rc::new(self.activation.request_resource.clone())));
        }
        operators::index(&operand, &Val::String(RcCow::Borrowed(field)), self.cost)
    }

    /// Evaluates `has(operand.field)`.
    fn has(&mut self, operand: &'a SyntaxNode, field: &'a str) -> Evaluated<'a> {
        if let Some(value) = self.policy_variable(operand, field) {
            return value.map(|_| Val::Bool(true));
        }
        let operand = self.value(operand)?;
        if matches!(operand, Val::Query(_)) && field == REQUEST_RESOURCE {
            return Ok(Val::Bool(true));
        }
        let key = Val::String(RcCow::Borrowed(field));
        let found = match &operand {
            Val::Optional(None) => None,
            Val::Optional(Some(value)) => operators::find(value, &key, self.cost)?,
            operand => operators::find(operand, &key, self.cost)?,
        };
        Ok(Val::Bool(found.is_some()))
    }

    /// Returns the value of `variables.field`, a variable of a policy; `None` if the operand is another expression.
    fn policy_variable(&mut self, operand: &SyntaxNode, field: &str) -> Option<Evaluated<'a>> {
        let composition = self.activation.composition.as_ref()?;
        self.is_variable(operand, "variables").then(|| composition.value(field, self.activation, self.cost))
    }

    /// Whether a node is a variable of the activation with this name, and not one of a macro.
    fn is_variable(&self, node: &SyntaxNode, wanted: &str) -> bool {
        let Expr::Ident(name) = &node.expr else { return false };
        without_dot(name) == wanted && !self.locals.iter().any(|(known, _)| *known == wanted)
    }

    /// Evaluates `&&` or `||`: one term with the deciding value decides, even if others fail.
    fn logical(&mut self, terms: &'a [SyntaxNode], connective: Connective) -> Evaluated<'a> {
        let deciding = connective == Connective::Or;
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
        if let ("_?._", [operand, key]) = (function, arguments)
            && let Expr::Literal(Literal::String(field)) = &key.expr
            && let Some(value) = self.policy_variable(operand, field)
        {
            return value.map(Val::some);
        }
        let target = target.map(|target| self.value(target)).transpose()?;
        // The alternative is only evaluated if the optional value is empty. Other values are returned unchanged, as in cel-go.
        if let (Some(target), "or" | "orValue", [alternative]) = (&target, function, arguments) {
            return match target {
                Val::Optional(Some(value)) if function == "orValue" => Ok((**value).clone()),
                Val::Optional(None) => self.value(alternative),
                other => Ok(other.clone()),
            };
        }
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
            (None, _) => functions::global(function, &arguments, self.cost),
        }
    }

    /// Calls a function of a query to the authorizer; `check` asks it.
    fn ask(&mut self, query: &AccessQuery, function: &str, arguments: &[Val<'a>]) -> Evaluated<'a> {
        let query = query.after(function, arguments)?;
        // The next function copies the query.
        self.cost.text(query.length())?;
        if function != "check" {
            return Ok(Val::Query(Rc::new(query)));
        }
        self.cost.spend(AUTHORIZER_CHECK)?;
        let authorizer = self.activation.authorizer.ok_or_else(no_overload)?;
        Ok(Val::Decision(Rc::new(authorizer(&query))))
    }
}
