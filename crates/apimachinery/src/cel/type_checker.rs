//! Type checking, with the messages of cel-go.

use std::collections::BTreeMap;

use super::environment::Environment;
use super::function_table::ESCAPE_KEY;
use super::identifier::without_dot;
use super::issue::Issue;
use super::message::{self, MessageNode};
use super::signatures::{self, Resolution};
use super::syntax_tree::{Expr, Fold, FoldKind, OPTIONAL_PART, SyntaxNode};
use super::types::Type;
use super::value::{Literal, Val};
use super::{functions, property_name, text_format, times};

/// Returns the type of an expression.
///
/// # Errors
/// All errors, ordered by their place in the text.
pub(super) fn check(root: &SyntaxNode, environment: &Environment) -> Result<Type, Vec<Issue>> {
    TypeChecker::new(environment).result(root).map(|(of, _)| of)
}

/// Returns the types of an expression and of all its nodes.
///
/// # Errors
/// All errors, ordered by their place in the text.
pub(super) fn check_nodes(
    root: &SyntaxNode,
    environment: &Environment,
) -> Result<(Type, NodeTypes), Vec<Issue>> {
    let mut checker = TypeChecker::new(environment);
    checker.types = Some(NodeTypes::default());
    checker.result(root)
}

/// Types of the nodes of a tree, which must not be moved.
#[derive(Debug, Default)]
pub(super) struct NodeTypes {
    /// By the address of the node: two nodes of a tree may have one place in the text.
    types: BTreeMap<usize, Type>,
}

impl NodeTypes {
    fn record(&mut self, node: &SyntaxNode, of: &Type) {
        self.types.insert(std::ptr::from_ref(node).addr(), of.clone().closed());
    }

    /// Returns the type of a node; `Dyn` if it has none.
    pub(super) fn of(&self, node: &SyntaxNode) -> Type {
        self.types.get(&std::ptr::from_ref(node).addr()).cloned().unwrap_or(Type::Dyn)
    }
}

struct TypeChecker<'a> {
    environment: &'a Environment,
    /// Variables of the surrounding macros, the innermost last.
    locals: Vec<(String, Type)>,
    issues: Vec<Issue>,
    /// Issues about literals, which count only if there are no others.
    literals: Vec<Issue>,
    /// Number of surrounding calls of `format`: their arguments may be lists of several types.
    formats: usize,
    /// Types of the nodes, if they are wanted.
    types: Option<NodeTypes>,
}

impl<'a> TypeChecker<'a> {
    fn new(environment: &'a Environment) -> Self {
        Self {
            environment,
            locals: Vec::new(),
            issues: Vec::new(),
            literals: Vec::new(),
            formats: 0,
            types: None,
        }
    }

    fn result(mut self, root: &SyntaxNode) -> Result<(Type, NodeTypes), Vec<Issue>> {
        let of = self.type_of(root);
        // As in cel-go, literals are only checked if the types fit.
        let mut issues = if self.issues.is_empty() { self.literals } else { self.issues };
        if issues.is_empty() {
            return Ok((of.closed(), self.types.unwrap_or_default()));
        }
        issues.sort_by_key(|issue| issue.at);
        Err(issues)
    }

    /// Returns the type of a node; `Dyn` after an error, so that one mistake is reported once.
    fn type_of(&mut self, node: &SyntaxNode) -> Type {
        let of = self.type_of_expr(node);
        if let Some(types) = &mut self.types {
            types.record(node, &of);
        }
        of
    }

    fn type_of_expr(&mut self, node: &SyntaxNode) -> Type {
        match &node.expr {
            Expr::Literal(literal) => of_literal(literal),
            Expr::Ident(name) => self.of_ident(node.at, name),
            Expr::Select { operand, field } => {
                let operand = self.type_of(operand);
                self.of_field(node.at, &operand, field)
            }
            Expr::Has { operand, field } => {
                match self.type_of(operand) {
                    // The only such field is `authorizer.requestResource`. In kube-apiserver it is a variable with a dot in its name, and
                    // `has` cannot test a variable.
                    Type::Object(object) if signatures::is_of_library(object) => {
                        self.issue(node.at, format!("unexpected failed resolution of '{}'", object.name));
                    }
                    operand => {
                        self.of_field(node.at, &operand, field);
                    }
                }
                Type::Bool
            }
            Expr::And(terms) | Expr::Or(terms) => self.of_terms(terms),
            Expr::List(elements) => self.of_list(elements),
            Expr::Map(entries) => self.of_map(entries),
            Expr::Call { function, target: None, arguments } if function == "_?._" => {
                self.of_optional_field(node.at, arguments)
            }
            Expr::Call { function, target, arguments } => {
                self.of_call(node.at, function, target.as_deref(), arguments)
            }
            Expr::Fold(fold) => self.of_fold(node.at, fold),
            Expr::Message(message) => self.of_message(node.at, message),
        }
    }

    fn of_list(&mut self, elements: &[SyntaxNode]) -> Type {
        let types = elements.iter().map(|element| (element.at, self.of_part(element))).collect();
        Type::List(Box::new(self.joined(types)))
    }

    fn of_map(&mut self, entries: &[(SyntaxNode, SyntaxNode)]) -> Type {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (key, value) in entries {
            keys.push((key.at, self.of_part(key)));
            values.push((value.at, self.of_part(value)));
        }
        Type::Map(Box::new(self.joined(keys)), Box::new(self.joined(values)))
    }

    /// Returns the type of `operand.?field`.
    fn of_optional_field(&mut self, at: usize, arguments: &[SyntaxNode]) -> Type {
        let [operand, SyntaxNode { expr: Expr::Literal(Literal::String(field)), .. }] = arguments else {
            return Type::Dyn;
        };
        let operand = self.type_of(operand);
        match self.of_field(at, &operand, field) {
            of @ Type::Optional(_) if matches!(operand, Type::Optional(_)) => of,
            of => Type::Optional(Box::new(of)),
        }
    }

    fn issue(&mut self, at: usize, message: String) -> Type {
        self.issues.push(Issue::new(at, message));
        Type::Dyn
    }

    /// Returns the type that all elements of a literal have. An element of another type is an error at its place.
    fn joined(&mut self, types: Vec<(usize, Type)>) -> Type {
        let mut types = types.into_iter();
        let Some((_, mut joined)) = types.next() else { return Type::Open };
        for (at, of) in types {
            // `null` is a value of some types, and still a literal must not mix it with theirs.
            let mixes_null = (joined == Type::Null) != (of == Type::Null)
                && ![&joined, &of].into_iter().any(|of| matches!(of, Type::Dyn | Type::Open));
            joined = match joined.unified(&of).filter(|_| !mixes_null) {
                Some(both) => both,
                None => {
                    if self.formats == 0 {
                        let why = format!("expected type '{joined}' but found '{of}'");
                        self.literals.push(Issue::new(at, why));
                    }
                    return Type::Dyn;
                }
            };
        }
        joined
    }

    /// Checks the text of a time or of a duration.
    fn check_time(&mut self, function: &str, arguments: &[SyntaxNode]) {
        let [SyntaxNode { at, expr: Expr::Literal(Literal::String(text)), .. }] = arguments else { return };
        let value = Val::text(&**text);
        let is_valid = match function {
            "duration" => times::duration(&value).is_ok(),
            "timestamp" => times::timestamp(&value).is_ok(),
            _ => return,
        };
        if !is_valid {
            self.literals.push(Issue::new(*at, format!("invalid {function} argument")));
        }
    }

    fn of_ident(&mut self, at: usize, name: &str) -> Type {
        let plain = without_dot(name);
        let local = self.locals.iter().rev().find(|(known, _)| known == plain).map(|(_, of)| of);
        if let Some(of) = local.or_else(|| self.environment.type_of(plain)) {
            return of.clone();
        }
        let is_message = self.environment.constructs_patches && message::type_named(plain).is_some();
        if functions::TYPES.contains(&plain) || is_message {
            return Type::Type;
        }
        // The types of protocol buffers, which cel-go knows.
        if plain == "google" {
            return Type::Dyn;
        }
        self.issue(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn of_message(&mut self, at: usize, node: &MessageNode) -> Type {
        let name = node.type_name();
        if name.starts_with("google.") {
            return Type::Dyn;
        }
        let Some(of) = message::type_named(name).filter(|_| self.environment.constructs_patches) else {
            return self.issue(at, format!("undeclared reference to '{}' (in container '')", node.name));
        };
        for field in &node.fields {
            let mut value = self.type_of(&field.value);
            if field.is_optional {
                value = self.unwrapped(field.value.at, value);
            }
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

    /// Returns the type of an element or entry of a literal, which may be optional.
    fn of_part(&mut self, node: &SyntaxNode) -> Type {
        match &node.expr {
            Expr::Call { function, target: None, arguments } if function == OPTIONAL_PART => {
                let [part] = &arguments[..] else { return Type::Dyn };
                let of = self.type_of(part);
                self.unwrapped(part.at, of)
            }
            _ => self.type_of(node),
        }
    }

    /// Returns the type of the value that an optional may have.
    fn unwrapped(&mut self, at: usize, of: Type) -> Type {
        match of {
            Type::Optional(value) => *value,
            Type::Dyn | Type::Open => Type::Dyn,
            of => self.issue(at, format!("expected type 'optional_type({of})' but found '{of}'")),
        }
    }

    /// Returns the type of a field. A field of an optional is an optional.
    fn of_field(&mut self, at: usize, operand: &Type, field: &str) -> Type {
        match operand {
            Type::Optional(value) => match self.of_field(at, value, field) {
                of @ Type::Optional(_) => of,
                of => Type::Optional(Box::new(of)),
            },
            Type::Dyn | Type::Open => Type::Dyn,
            Type::Map(_, value) => (**value).clone(),
            Type::Message(name) => message::field_type(name, field).unwrap_or(Type::Dyn),
            Type::Object(object) => match (object.field)(field) {
                Some(of) => of,
                None if signatures::refuses_selection(object) => {
                    self.issue(at, format!("type '{}' does not support field selection", object.name))
                }
                // Types of libraries have functions only.
                None if signatures::is_of_library(object) => {
                    self.issue(at, format!("unexpected failed resolution of '{}'", object.name))
                }
                None => self.issue(at, format!("undefined field '{field}'")),
            },
            // A reserved word needs no escaping after a dot.
            Type::Composed(_, fields) => match fields
                .get(field)
                .or_else(|| property_name::escaped_word(field).and_then(|escaped| fields.get(&escaped)))
            {
                Some(of) => of.clone(),
                None => self.issue(at, format!("undefined field '{field}'")),
            },
            other => self.issue(at, format!("type '{other}' does not support field selection")),
        }
    }

    fn of_terms(&mut self, terms: &[SyntaxNode]) -> Type {
        for term in terms {
            let of = self.type_of(term);
            self.expect_bool(term.at, &of);
        }
        Type::Bool
    }

    fn expect_bool(&mut self, at: usize, of: &Type) {
        if !of.fits(&Type::Bool) {
            self.issue(at, format!("expected type 'bool' but found '{of}'"));
        }
    }

    fn of_call(
        &mut self,
        at: usize,
        function: &str,
        target: Option<&SyntaxNode>,
        arguments: &[SyntaxNode],
    ) -> Type {
        let is_format = function == "format";
        self.formats += usize::from(is_format);
        let target_type = target.map(|target| self.type_of(target));
        let types = match (target.map(|target| &target.expr), arguments) {
            (
                Some(Expr::Literal(Literal::String(template))),
                [SyntaxNode { expr: Expr::List(elements), .. }],
            ) if is_format => vec![self.of_formatted(at, template, elements)],
            _ => arguments.iter().map(|argument| self.type_of(argument)).collect(),
        };
        self.formats -= usize::from(is_format);
        if target.is_none() {
            self.check_time(function, arguments);
        }
        let target = target_type.as_ref();
        if function == ESCAPE_KEY && self.environment.constructs_patches {
            return match types.as_slice() {
                [key] if key.fits(&Type::String) => Type::String,
                _ => self.no_overload(at, function, None, &types),
            };
        }
        match signatures::resolve(function, target, &types) {
            Resolution::Of(of) => of,
            Resolution::NoOverload => self.no_overload(at, function, target, &types),
            Resolution::Undeclared => {
                // The environment lacks the namespace, so its name is looked up as a variable.
                let function = match function.split_once('.') {
                    Some((namespace, function)) if !namespace.is_empty() => {
                        let place = at.saturating_sub(namespace.len() + 1 + function.len());
                        self.of_ident(place, namespace);
                        function
                    }
                    _ => function,
                };
                self.issue(at, format!("undeclared reference to '{function}' (in container '')"))
            }
        }
    }

    /// Returns the type of the values of `"…".format([…])`, and checks them.
    fn of_formatted(&mut self, at: usize, template: &str, elements: &[SyntaxNode]) -> Type {
        let types: Vec<Type> = elements.iter().map(|element| self.of_part(element)).collect();
        if let Some((index, why)) = text_format::misuse(template, &types) {
            let at = index.and_then(|index| elements.get(index)).map_or(at, |element| element.at);
            self.literals.push(Issue::new(at, why));
        }
        let types = elements.iter().map(|element| element.at).zip(types).collect();
        Type::List(Box::new(self.joined(types)))
    }

    fn no_overload(&mut self, at: usize, function: &str, target: Option<&Type>, arguments: &[Type]) -> Type {
        let shown: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let target = target.map_or(String::new(), |target| format!("{target}."));
        let shown = shown.join(", ");
        self.issue(at, format!("found no matching overload for '{function}' applied to '{target}({shown})'"))
    }

    fn of_fold(&mut self, at: usize, fold: &Fold) -> Type {
        let range = self.type_of(&fold.range);
        let (element, second) = self.of_fold_variables(at, fold, range);
        let count = self.locals.len();
        self.locals.extend(fold.second.iter().map(|name| (name.clone(), second.clone())));
        self.locals.push((fold.variable.clone(), element.clone()));
        let condition = fold.filter.as_ref().map(|filter| self.type_of(filter));
        let body = self.type_of(&fold.body);
        self.locals.truncate(count);
        self.check_fold(at, fold.kind, &element, condition, (fold.body.at, &body));
        match fold.kind {
            FoldKind::All | FoldKind::Exists | FoldKind::ExistsOne => Type::Bool,
            FoldKind::Map | FoldKind::TransformList => Type::List(Box::new(body)),
            FoldKind::TransformMap => Type::Map(Box::new(element), Box::new(body)),
            FoldKind::OptMap => Type::Optional(Box::new(body)),
            FoldKind::TransformMapEntry => match body {
                Type::Map(..) => body,
                _ => Type::Dyn,
            },
            FoldKind::OptFlatMap => body,
            FoldKind::Filter | FoldKind::SortBy => Type::List(Box::new(element)),
        }
    }

    /// Returns the types of the first and the second variable of a macro over a range of this type.
    fn of_fold_variables(&mut self, at: usize, fold: &Fold, range: Type) -> (Type, Type) {
        let is_optional = matches!(fold.kind, FoldKind::OptMap | FoldKind::OptFlatMap);
        match range {
            Type::Dyn | Type::Open => (Type::Dyn, Type::Dyn),
            Type::Optional(value) if is_optional => (*value, Type::Dyn),
            other if is_optional => {
                self.no_overload(at, "hasValue", Some(&other), &[]);
                (self.no_overload(at, "value", Some(&other), &[]), Type::Dyn)
            }
            Type::List(element) if fold.second.is_some() => (Type::Int, *element),
            Type::List(element) => (*element, Type::Dyn),
            Type::Map(key, value) => (*key, *value),
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                (self.issue(fold.range.at, message), Type::Dyn)
            }
        }
    }

    /// Checks the types of a macro's parts. cel-go expands a macro to operators and functions, which appear in its messages.
    fn check_fold(
        &mut self,
        at: usize,
        kind: FoldKind,
        element: &Type,
        condition: Option<Type>,
        (place, body): (usize, &Type),
    ) {
        let list = |of: &Type| Type::List(Box::new(of.clone()));
        let (condition, result) = match kind {
            FoldKind::All | FoldKind::Exists => {
                self.expect_bool(place, body);
                return;
            }
            FoldKind::ExistsOne => (Some(body.clone()), Type::Int),
            FoldKind::Filter => (Some(body.clone()), list(element)),
            FoldKind::SortBy if !signatures::is_ordered(body) => {
                self.no_overload(at, "@sortByAssociatedKeys", Some(&list(element)), &[list(body)]);
                return;
            }
            FoldKind::TransformMapEntry if !matches!(body, Type::Map(..) | Type::Dyn | Type::Open) => {
                let map = Type::Map(Box::new(Type::Dyn), Box::new(Type::Dyn));
                self.no_overload(at, "cel.@mapInsert", None, &[map, body.clone()]);
                return;
            }
            FoldKind::TransformMap => {
                (condition, Type::Map(Box::new(element.clone()), Box::new(body.clone())))
            }
            FoldKind::TransformMapEntry => (condition, body.clone()),
            _ => (condition, list(body)),
        };
        if let Some(condition) = condition.filter(|of| !of.fits(&Type::Bool)) {
            self.no_overload(at, "_?_:_", None, &[condition, result.clone(), result]);
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
