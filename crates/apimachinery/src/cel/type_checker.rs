//! Type checking, with the messages of cel-go.

use super::message::{self, MessageNode};
use super::parser::{Expr, Fold, FoldKind, SyntaxNode};
use super::types::Type;
use super::value::Literal;
use super::{Environment, Issue, authorization, functions};

/// Returns the type of an expression.
///
/// # Errors
/// All errors, ordered by their place in the text.
pub(super) fn check(root: &SyntaxNode, environment: &Environment) -> Result<Type, Vec<Issue>> {
    let mut checker = TypeChecker { environment, locals: Vec::new(), issues: Vec::new() };
    let of = checker.type_of(root);
    if checker.issues.is_empty() {
        return Ok(of);
    }
    checker.issues.sort_by_key(|issue| issue.at);
    Err(checker.issues)
}

struct TypeChecker<'a> {
    environment: &'a Environment,
    /// Variables of the surrounding macros, the innermost last.
    locals: Vec<(String, Type)>,
    issues: Vec<Issue>,
}

impl TypeChecker<'_> {
    /// Returns the type of a node; `Dyn` after an error, so that one mistake is reported once.
    fn type_of(&mut self, node: &SyntaxNode) -> Type {
        match &node.expr {
            Expr::Literal(literal) => of_literal(literal),
            Expr::Ident(name) => self.of_ident(node.at, name),
            Expr::Select { operand, field, test } => {
                let of = self.of_field(node.at, operand, field);
                if *test { Type::Bool } else { of }
            }
            Expr::And(terms) => self.of_terms(node.at, "_&&_", terms),
            Expr::Or(terms) => self.of_terms(node.at, "_||_", terms),
            Expr::List(elements) => {
                let types: Vec<_> =
                    elements.iter().map(|element| (element.at, self.type_of(element))).collect();
                Type::List(Box::new(self.joined(types)))
            }
            Expr::Map(entries) => {
                let typed = |checker: &mut Self, node: &SyntaxNode| (node.at, checker.type_of(node));
                let (keys, values): (Vec<_>, Vec<_>) =
                    entries.iter().map(|(key, value)| (typed(self, key), typed(self, value))).unzip();
                Type::Map(Box::new(self.joined(keys)), Box::new(self.joined(values)))
            }
            Expr::Call { function, target: None, arguments }
                if self.environment.constructs_patches && function == "jsonpatch.escapeKey" =>
            {
                let arguments: Vec<Type> = arguments.iter().map(|argument| self.type_of(argument)).collect();
                match arguments.as_slice() {
                    [key] if key.fits(&Type::String) => Type::String,
                    _ => self.no_overload(node.at, function, None, &arguments),
                }
            }
            Expr::Call { function, target, arguments } => {
                let target = target.as_ref().map(|target| self.type_of(target));
                let arguments: Vec<Type> = arguments.iter().map(|argument| self.type_of(argument)).collect();
                self.of_call(node.at, function, target.as_ref(), &arguments)
            }
            Expr::Fold(fold) => self.of_fold(node.at, fold),
            Expr::Message(message) => self.of_message(node.at, message),
        }
    }

    fn issue(&mut self, at: usize, message: String) -> Type {
        self.issues.push(Issue::new(at, message));
        Type::Dyn
    }

    /// Returns the type that all elements of a literal have. An element of another type is an error at its place.
    fn joined(&mut self, types: Vec<(usize, Type)>) -> Type {
        let mut types = types.into_iter();
        let Some((_, mut joined)) = types.next() else { return Type::Dyn };
        for (at, of) in types {
            joined = match joined.unified(&of) {
                Some(both) => both,
                None => return self.issue(at, format!("expected type '{joined}' but found '{of}'")),
            };
        }
        joined
    }

    fn of_ident(&mut self, at: usize, name: &str) -> Type {
        // A dot at the beginning only says that the name is not relative to a container.
        let plain = name.strip_prefix('.').unwrap_or(name);
        let local = self.locals.iter().rev().find(|(known, _)| known == plain).map(|(_, of)| of);
        if let Some(of) = local.or_else(|| self.environment.type_of(plain)) {
            return of.clone();
        }
        if functions::TYPES.contains(&plain) {
            return Type::Type;
        }
        self.issue(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn of_message(&mut self, at: usize, node: &MessageNode) -> Type {
        let name = node.type_name();
        let Some(of) = message::type_named(name).filter(|_| self.environment.constructs_patches) else {
            return self.issue(at, format!("undeclared reference to '{}' (in container '')", node.name));
        };
        for field in &node.fields {
            let value = self.type_of(&field.value);
            match message::field_type(name, &field.name) {
                Some(expected) if value.fits(&expected) => {}
                expected => {
                    let expected = expected.map_or(String::new(), |expected| expected.to_string());
                    let why = format!(
                        "expected type of field '{}' is '{expected}' but provided type is '{value}'",
                        field.name
                    );
                    self.issue(field.at, why);
                }
            }
        }
        of
    }

    fn of_field(&mut self, at: usize, operand: &SyntaxNode, field: &str) -> Type {
        match self.type_of(operand) {
            Type::Dyn => Type::Dyn,
            Type::Map(_, value) => *value,
            Type::Message(name) => message::field_type(&name, field).unwrap_or(Type::Dyn),
            Type::Object(object) => match (object.field)(field) {
                Some(of) => of,
                // Types of the authorizer have no fields.
                None if authorization::is_opaque(object) => {
                    self.issue(at, format!("unexpected failed resolution of '{}'", object.name))
                }
                None => self.issue(at, format!("undefined field '{field}'")),
            },
            Type::Composed(_, fields) => match fields.get(field) {
                Some(of) => of.clone(),
                None => self.issue(at, format!("undefined field '{field}'")),
            },
            other => self.issue(at, format!("type '{other}' does not support field selection")),
        }
    }

    fn of_terms(&mut self, at: usize, function: &str, terms: &[SyntaxNode]) -> Type {
        let types: Vec<Type> = terms.iter().map(|term| self.type_of(term)).collect();
        if types.iter().all(|of| of.fits(&Type::Bool)) {
            return Type::Bool;
        }
        // Messages name two operands, as cel-go's operators have.
        let pair = &types[..types.len().min(2)];
        self.no_overload(at, function, None, pair);
        Type::Bool
    }

    fn of_call(&mut self, at: usize, function: &str, target: Option<&Type>, arguments: &[Type]) -> Type {
        if let Some(target) = target
            && let Some(of) = authorization::signature(function, target, arguments)
        {
            return of;
        }
        if !functions::is_known(function, target.is_some()) {
            if functions::UNSUPPORTED.contains(&function) {
                return self.issue(at, format!("the function {function} is not supported by this server"));
            }
            return self.issue(at, format!("undeclared reference to '{function}' (in container '')"));
        }
        match functions::signature(function, target, arguments) {
            Some(of) => of,
            None => self.no_overload(at, function, target, arguments),
        }
    }

    fn no_overload(&mut self, at: usize, function: &str, target: Option<&Type>, arguments: &[Type]) -> Type {
        let shown: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let target = target.map_or(String::new(), |target| format!("{target}."));
        let shown = shown.join(", ");
        self.issue(at, format!("found no matching overload for '{function}' applied to '{target}({shown})'"))
    }

    fn of_fold(&mut self, at: usize, fold: &Fold) -> Type {
        let range = self.type_of(&fold.range);
        let element = match range {
            Type::Dyn => Type::Dyn,
            Type::List(element) => *element,
            Type::Map(key, _) => *key,
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.issue(fold.range.at, message)
            }
        };
        // Macros with two variables and those of optional values are checked when they are evaluated.
        let names = fold.second.iter().map(|second| (second.clone(), Type::Dyn));
        let count = self.locals.len();
        self.locals.extend(names);
        self.locals.push((fold.variable.clone(), element.clone()));
        let condition = fold.filter.as_ref().map(|filter| self.type_of(filter));
        let body = self.type_of(&fold.body);
        self.locals.truncate(count);
        // cel-go expands a macro to these operators, which appear in its messages.
        let conditions = match fold.kind {
            FoldKind::Map
            | FoldKind::TransformList
            | FoldKind::TransformMap
            | FoldKind::TransformMapEntry
            | FoldKind::SortBy
            | FoldKind::OptMap
            | FoldKind::OptFlatMap => condition.map(|of| ("_?_:_", of)),
            FoldKind::All => Some(("_&&_", body.clone())),
            FoldKind::Exists => Some(("_||_", body.clone())),
            FoldKind::ExistsOne | FoldKind::Filter => Some(("_?_:_", body.clone())),
        };
        if let Some((function, of)) = conditions.filter(|(_, of)| !of.fits(&Type::Bool)) {
            let arguments = match function {
                "_?_:_" if fold.kind == FoldKind::ExistsOne => vec![of, Type::Int, Type::Int],
                "_?_:_" => {
                    let list = Type::List(Box::new(if fold.kind == FoldKind::Map {
                        body.clone()
                    } else {
                        element.clone()
                    }));
                    vec![of, list.clone(), list]
                }
                _ => vec![Type::Bool, of],
            };
            self.no_overload(at, function, None, &arguments);
        }
        match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => Type::Bool,
            FoldKind::Map | FoldKind::TransformList => Type::List(Box::new(body)),
            FoldKind::TransformMap
            | FoldKind::TransformMapEntry
            | FoldKind::SortBy
            | FoldKind::OptMap
            | FoldKind::OptFlatMap => Type::Dyn,
            FoldKind::Filter => Type::List(Box::new(element)),
        }
    }
}

fn of_literal(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) | Literal::IntMinimum => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
