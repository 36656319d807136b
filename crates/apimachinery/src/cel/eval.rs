//! Evaluation, with a budget of steps.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use serde_json::Value;

use super::authorization::{AccessQuery, AuthorizerDecision};
use super::composition::Composition;
use super::cost::Cost;
use super::evaluation_error::{EvaluationError, failed, no_overload};
use super::functions::{self, Evaluated};
use super::list_functions;
use super::message::{self, MessageNode};
use super::operators;
use super::patterns::{self, ConstantPatterns};
use super::syntax_tree::{Expr, Fold, FoldKind, OPTIONAL_PART, SyntaxNode};
use super::value::{Literal, RcCow, Val};

/// Cost of a query to the authorizer, as in kube-apiserver. An expression can afford two.
const AUTHORIZER_CHECK: u64 = 350_000;

/// Cost of an element of a list that a macro makes, as in cel-go, where each is a list that is added to the others.
const APPENDING: u64 = 11;

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

/// Evaluates an expression. `locals` are variables with values that are no plain JSON.
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

struct Evaluator<'a, 'b> {
    activation: &'b Activation<'a>,
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
        // Names are compared with those of the variables, and a name may be as long as the expression. Usual names cost nothing.
        self.cost.values(name.len() / 10)?;
        // A dot at the beginning only says that the name is not relative to a container.
        let name = name.strip_prefix('.').unwrap_or(name);
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
        let of = functions::TYPES.iter().find(|known| **known == name);
        of.map(|of| Val::Type(of)).ok_or_else(|| failed(format!("no such attribute(s): {name}")))
    }

    fn select(&mut self, operand: &'a SyntaxNode, field: &'a str, test: bool) -> Evaluated<'a> {
        if let Some(composition) = &self.activation.composition
            && self.is_variable(operand, "variables")
        {
            let value = composition.value(field, self.activation, self.cost)?;
            return Ok(if test { Val::Bool(true) } else { value });
        }
        let operand = self.value(operand)?;
        if matches!(operand, Val::Query(_)) && field == "requestResource" {
            return Ok(Val::Query(Rc::new(self.activation.request_resource.clone())));
        }
        let key = Val::String(RcCow::Borrowed(field));
        if test {
            let found = match &operand {
                Val::Optional(value) => value
                    .as_deref()
                    .map(|value| operators::find(value, &key, self.cost))
                    .transpose()?
                    .flatten(),
                operand => operators::find(operand, &key, self.cost)?,
            };
            return Ok(Val::Bool(found.is_some()));
        }
        operators::index(&operand, &key, self.cost)
    }

    /// Whether a node is a variable of the activation with this name, and not one of a macro.
    fn is_variable(&self, node: &SyntaxNode, wanted: &str) -> bool {
        let Expr::Ident(name) = &node.expr else { return false };
        name.strip_prefix('.').unwrap_or(name) == wanted
            && !self.locals.iter().any(|(known, _)| *known == wanted)
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
        if let ("_?._", [operand, key]) = (function, arguments)
            && let Some(composition) = &self.activation.composition
            && self.is_variable(operand, "variables")
            && let Expr::Literal(Literal::String(field)) = &key.expr
        {
            return composition.value(field, self.activation, self.cost).map(Val::some);
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
            // Role-based access control does not look at selectors.
            "fieldSelector" | "labelSelector" => drop(text(0)?),
            "check" => query.verb = text(0)?,
            _ => return Err(no_overload()),
        }
        // The next function copies the query.
        self.cost.text(query.length())?;
        if function != "check" {
            return Ok(Val::Query(Rc::new(query)));
        }
        self.cost.spend(AUTHORIZER_CHECK)?;
        let authorizer = self.activation.authorizer.ok_or_else(no_overload)?;
        Ok(Val::Decision(Rc::new(authorizer(&query))))
    }

    fn fold(&mut self, fold: &'a Fold) -> Evaluated<'a> {
        let range = self.value(&fold.range)?;
        match fold.kind {
            FoldKind::OptMap | FoldKind::OptFlatMap => return self.optional_fold(fold, range),
            FoldKind::SortBy => return self.sort(fold, &range),
            _ => {}
        }
        let Some(elements) = range.range() else {
            let given = go_type(&range);
            return Err(failed(match fold.second {
                Some(_) => format!("unsupported comprehension range type: {given}"),
                None => format!("got '{given}', expected iterable type"),
            }));
        };
        let mut found = Vec::new();
        let mut map = MapBuilder::default();
        let (mut count, mut failed) = (0_usize, None);
        for (place, element) in elements.enumerate() {
            self.cost.spend(1)?;
            // With two variables the first one is the index or the key.
            let first = match &fold.second {
                Some(second) => {
                    let (first, second_value) = if range.is_map() {
                        let value = range.get(&element, self.cost)?.unwrap_or(Val::Null);
                        (element.clone(), value)
                    } else {
                        (Val::Int(functions::integer(place)), element.clone())
                    };
                    self.locals.push((second, second_value));
                    first
                }
                None => element.clone(),
            };
            self.locals.push((&fold.variable, first.clone()));
            let visited = self.visit(fold);
            self.locals.truncate(self.locals.len() - 1 - usize::from(fold.second.is_some()));
            match (fold.kind, visited) {
                (FoldKind::All, Ok(Some(Val::Bool(false)))) => return Ok(Val::Bool(false)),
                (FoldKind::Exists, Ok(Some(Val::Bool(true)))) => return Ok(Val::Bool(true)),
                (FoldKind::All | FoldKind::Exists, Ok(Some(Val::Bool(_)))) => {}
                // As in `&&` and `||`, another element may still decide the result.
                (FoldKind::All | FoldKind::Exists, Ok(_)) => {
                    failed.get_or_insert_with(no_overload);
                }
                (FoldKind::All | FoldKind::Exists, Err(error @ EvaluationError::Failed(_))) => {
                    failed.get_or_insert(error);
                }
                (_, Err(error)) => return Err(error),
                (FoldKind::ExistsOne, Ok(Some(Val::Bool(value)))) => count += usize::from(value),
                (FoldKind::Filter, Ok(Some(Val::Bool(value)))) => {
                    if value {
                        self.cost.spend(APPENDING)?;
                        found.push(element);
                    }
                }
                (FoldKind::Map | FoldKind::TransformList, Ok(value)) => {
                    self.cost.spend(APPENDING)?;
                    found.extend(value);
                }
                (FoldKind::TransformMap, Ok(value)) => {
                    if let Some(value) = value {
                        map.insert(first, value)?;
                    }
                }
                (FoldKind::TransformMapEntry, Ok(None)) => {}
                (FoldKind::TransformMapEntry, Ok(Some(entries))) if entries.is_map() => {
                    for key in entries.range().into_iter().flatten() {
                        self.cost.spend(1)?;
                        let value = entries.get(&key, self.cost)?.unwrap_or(Val::Null);
                        map.insert(key, value)?;
                    }
                }
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
            FoldKind::TransformMap | FoldKind::TransformMapEntry => map.build(),
            _ => Val::list(found),
        })
    }

    /// Evaluates `optMap` and `optFlatMap`.
    fn optional_fold(&mut self, fold: &'a Fold, target: Val<'a>) -> Evaluated<'a> {
        let value = match target {
            Val::Optional(None) => return Ok(Val::NONE),
            Val::Optional(Some(value)) => (*value).clone(),
            other => return Err(functions::no_overload_of("hasValue", &[&other])),
        };
        self.locals.push((&fold.variable, value));
        let result = self.value(&fold.body);
        self.locals.pop();
        if fold.kind == FoldKind::OptMap { result.map(Val::some) } else { result }
    }

    /// Evaluates `sortBy`.
    fn sort(&mut self, fold: &'a Fold, list: &Val<'a>) -> Evaluated<'a> {
        let Some(elements) = list.range() else {
            return Err(failed(format!("got '{}', expected iterable type", go_type(list))));
        };
        let mut keys = Vec::new();
        for element in elements {
            self.cost.spend(1)?;
            self.locals.push((&fold.variable, element));
            let key = self.value(&fold.body);
            self.locals.pop();
            keys.push(key?);
        }
        list_functions::sort_by(list, &Val::list(keys), self.cost)
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

/// Returns the name of the Go type of a value, which some messages show.
fn go_type(value: &Val<'_>) -> String {
    match value {
        Val::Null => "types.Null".to_owned(),
        Val::Bool(_) => "types.Bool".to_owned(),
        Val::Int(_) => "types.Int".to_owned(),
        Val::Uint(_) => "types.Uint".to_owned(),
        Val::Double(_) => "types.Double".to_owned(),
        Val::String(_) => "types.String".to_owned(),
        Val::Bytes(_) => "types.Bytes".to_owned(),
        Val::Timestamp(_) => "types.Timestamp".to_owned(),
        Val::Duration(_) => "types.Duration".to_owned(),
        Val::Optional(_) => "*types.Optional".to_owned(),
        other => other.type_name().to_owned(),
    }
}

/// Entries of a map that is being built. Keys of different number types are equal.
#[derive(Default)]
struct MapBuilder<'a> {
    entries: Vec<(Val<'a>, Val<'a>)>,
    places: BTreeMap<MapKey, usize>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum MapKey {
    Bool(bool),
    Number(i128),
    Text(Rc<str>),
}

impl<'a> MapBuilder<'a> {
    /// Adds an entry. As in cel-go, a later entry of a literal replaces an earlier one.
    fn replace(&mut self, key: Val<'a>, value: Val<'a>) {
        match MapKey::of(&key).and_then(|key| self.places.get(&key)) {
            Some(place) => self.entries[*place].1 = value,
            None => self.push(key, value),
        }
    }

    /// Adds an entry, unless the map has one with this key.
    fn insert(&mut self, key: Val<'a>, value: Val<'a>) -> Result<(), EvaluationError> {
        if MapKey::of(&key).is_some_and(|key| self.places.contains_key(&key)) {
            let shown = operators::shown_key(&key);
            return Err(failed(format!("insert failed: key {shown} already exists")));
        }
        self.push(key, value);
        Ok(())
    }

    fn push(&mut self, key: Val<'a>, value: Val<'a>) {
        self.places.extend(MapKey::of(&key).map(|key| (key, self.entries.len())));
        self.entries.push((key, value));
    }

    fn build(self) -> Val<'a> {
        Val::Map(Rc::new(self.entries))
    }
}

impl MapKey {
    /// Returns the identity of a key; `None` for values that are no keys.
    fn of(key: &Val<'_>) -> Option<Self> {
        Some(match key {
            Val::Bool(value) => Self::Bool(*value),
            Val::Int(value) => Self::Number(i128::from(*value)),
            Val::Uint(value) => Self::Number(i128::from(*value)),
            Val::String(text) => Self::Text(text.shared()),
            _ => return None,
        })
    }
}
