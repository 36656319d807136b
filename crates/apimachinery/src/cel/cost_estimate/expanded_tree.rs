//! The tree of an expression as cel-go sees it: macros are loops over a range, with a variable for the result.

use super::super::identifier::without_dot;
use super::super::signatures;
use super::super::syntax_tree::{Expr, Fold, FoldKind, OPTIONAL_PART, SyntaxNode};
use super::super::type_checker::NodeTypes;
use super::super::types::Type;
use super::super::value::Literal;

/// Maximum number of nodes. Only a chain of `optMap` needs more: each call doubles the nodes of the calls before it.
const NODES: usize = 1 << 18;
/// Variable with the result of a loop so far.
const ACCUMULATOR: &str = "__result__";
/// Variable with the list that `sortBy` sorts.
const SORTED: &str = "@__sortBy_input__";

static FALSE: Literal = Literal::Bool(false);
static TRUE: Literal = Literal::Bool(true);
static ZERO: Literal = Literal::Int(0);
static ONE: Literal = Literal::Int(1);

/// Index of a node.
pub(super) type ExpandedId = usize;

/// An expression with expanded macros.
#[derive(Debug)]
pub(super) struct ExpandedTree<'t> {
    nodes: Vec<ExpandedNode<'t>>,
    root: ExpandedId,
}

#[derive(Debug)]
pub(super) struct ExpandedNode<'t> {
    pub(super) of: Type,
    pub(super) expr: ExpandedExpr<'t>,
}

#[derive(Debug)]
pub(super) enum ExpandedExpr<'t> {
    Literal(&'t Literal),
    Ident(&'t str),
    /// `operand.field`.
    Select {
        operand: ExpandedId,
        field: &'t str,
    },
    /// `has(operand.field)`.
    Has {
        operand: ExpandedId,
    },
    Call(Box<ExpandedCall<'t>>),
    List(Vec<ExpandedId>),
    Map(Vec<(ExpandedId, ExpandedId)>),
    /// Values of the fields.
    Message(Vec<ExpandedId>),
    Loop(Box<Loop<'t>>),
    /// A variable with a value, and an expression with this variable.
    Binding {
        range: ExpandedId,
        variable: &'t str,
        value: ExpandedId,
        result: ExpandedId,
    },
}

#[derive(Debug)]
pub(super) struct ExpandedCall<'t> {
    pub(super) function: &'t str,
    pub(super) target: Option<ExpandedId>,
    /// A chain of `&&` or `||` is one call with all terms.
    pub(super) arguments: Vec<ExpandedId>,
    /// Overloads that accept the arguments, with the names of `signatures`. An empty name stands for one that needs no name.
    pub(super) overloads: Vec<&'static str>,
}

#[derive(Debug)]
pub(super) struct Loop<'t> {
    pub(super) range: ExpandedId,
    pub(super) variable: &'t str,
    pub(super) second: Option<&'t str>,
    pub(super) accumulator: &'t str,
    pub(super) start: ExpandedId,
    pub(super) condition: ExpandedId,
    pub(super) step: ExpandedId,
    pub(super) result: ExpandedId,
}

impl<'t> ExpandedTree<'t> {
    /// Expands the macros of an expression; `None` if the result has too many nodes.
    pub(super) fn new(root: &'t SyntaxNode, types: &'t NodeTypes) -> Option<Self> {
        let mut expansion = Expansion { types, nodes: Vec::new() };
        let root = expansion.node(root);
        (!expansion.is_full()).then_some(Self { nodes: expansion.nodes, root })
    }

    pub(super) fn root(&self) -> ExpandedId {
        self.root
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn node(&self, id: ExpandedId) -> &ExpandedNode<'t> {
        &self.nodes[id]
    }
}

struct Expansion<'t> {
    types: &'t NodeTypes,
    nodes: Vec<ExpandedNode<'t>>,
}

impl<'t> Expansion<'t> {
    /// Whether the limit is reached. The tree is then discarded, so new nodes may share the last index.
    fn is_full(&self) -> bool {
        self.nodes.len() >= NODES
    }

    fn add(&mut self, of: Type, expr: ExpandedExpr<'t>) -> ExpandedId {
        if !self.is_full() {
            self.nodes.push(ExpandedNode { of, expr });
        }
        self.nodes.len() - 1
    }

    fn all(&mut self, nodes: impl IntoIterator<Item = &'t SyntaxNode>) -> Vec<ExpandedId> {
        nodes.into_iter().map(|node| self.node(node)).collect()
    }

    /// Adds a node with the nodes below it.
    fn node(&mut self, node: &'t SyntaxNode) -> ExpandedId {
        if self.is_full() {
            return self.nodes.len() - 1;
        }
        let of = self.types.of(node);
        let expr = match &node.expr {
            Expr::Literal(literal) => ExpandedExpr::Literal(literal),
            Expr::Ident(name) => ExpandedExpr::Ident(without_dot(name)),
            Expr::Select { operand, field } => ExpandedExpr::Select { operand: self.node(operand), field },
            Expr::Has { operand, .. } => ExpandedExpr::Has { operand: self.node(operand) },
            // cel-go has no node for the `?` of `[?e]`.
            Expr::Call { function, target: None, arguments }
                if function == OPTIONAL_PART && arguments.len() == 1 =>
            {
                return self.node(&arguments[0]);
            }
            Expr::Call { function, target, arguments } => {
                self.source_call(function, target.as_deref(), arguments)
            }
            Expr::And(terms) => self.chain("_&&_", terms),
            Expr::Or(terms) => self.chain("_||_", terms),
            Expr::List(elements) => ExpandedExpr::List(self.all(elements)),
            Expr::Map(entries) => ExpandedExpr::Map(
                entries.iter().map(|(key, value)| (self.node(key), self.node(value))).collect(),
            ),
            Expr::Message(message) => {
                ExpandedExpr::Message(self.all(message.fields.iter().map(|field| &field.value)))
            }
            Expr::Fold(fold) => return self.fold(fold, of),
        };
        self.add(of, expr)
    }

    fn chain(&mut self, function: &'static str, terms: &'t [SyntaxNode]) -> ExpandedExpr<'t> {
        let arguments = self.all(terms);
        ExpandedExpr::Call(Box::new(ExpandedCall { function, target: None, arguments, overloads: vec![""] }))
    }

    fn source_call(
        &mut self,
        function: &'t str,
        target: Option<&'t SyntaxNode>,
        arguments: &'t [SyntaxNode],
    ) -> ExpandedExpr<'t> {
        let target = target.map(|target| self.node(target));
        let arguments = self.all(arguments);
        self.call_expr(function, target, arguments)
    }

    fn call_expr(
        &self,
        function: &'t str,
        target: Option<ExpandedId>,
        arguments: Vec<ExpandedId>,
    ) -> ExpandedExpr<'t> {
        let of = |id: &ExpandedId| self.nodes[*id].of.clone();
        let types: Vec<Type> = arguments.iter().map(of).collect();
        let mut overloads = signatures::accepting(function, target.as_ref().map(of).as_ref(), &types);
        if overloads.is_empty() {
            overloads.push("");
        }
        ExpandedExpr::Call(Box::new(ExpandedCall { function, target, arguments, overloads }))
    }

    /// Adds a call that a macro makes.
    fn call(&mut self, of: &Type, function: &'static str, arguments: Vec<ExpandedId>) -> ExpandedId {
        let expr = self.call_expr(function, None, arguments);
        self.add(of.clone(), expr)
    }

    fn member_call(
        &mut self,
        of: Type,
        function: &'static str,
        target: ExpandedId,
        arguments: Vec<ExpandedId>,
    ) -> ExpandedId {
        let expr = self.call_expr(function, Some(target), arguments);
        self.add(of, expr)
    }

    fn literal(&mut self, literal: &'static Literal) -> ExpandedId {
        let of = if matches!(literal, Literal::Int(_)) { Type::Int } else { Type::Bool };
        self.add(of, ExpandedExpr::Literal(literal))
    }

    fn accumulator(&mut self, of: &Type) -> ExpandedId {
        self.add(of.clone(), ExpandedExpr::Ident(ACCUMULATOR))
    }

    /// Adds the loop of a macro with a result of type `of`.
    fn fold(&mut self, fold: &'t Fold, of: Type) -> ExpandedId {
        match fold.kind {
            FoldKind::OptMap | FoldKind::OptFlatMap => return self.optional_map(fold, &of),
            FoldKind::SortBy => return self.sort_by(fold, of),
            _ => {}
        }
        let range = self.node(&fold.range);
        let result_type = if fold.kind == FoldKind::ExistsOne { Type::Int } else { of.clone() };
        let start = match fold.kind {
            FoldKind::All => self.literal(&TRUE),
            FoldKind::Exists => self.literal(&FALSE),
            FoldKind::ExistsOne => self.literal(&ZERO),
            FoldKind::TransformMap | FoldKind::TransformMapEntry => {
                self.add(of.clone(), ExpandedExpr::Map(Vec::new()))
            }
            _ => self.add(of.clone(), ExpandedExpr::List(Vec::new())),
        };
        let condition = self.condition(fold.kind);
        let variable_type = variable_type(fold, &self.nodes[range].of);
        let step = self.step(fold, &result_type, variable_type);
        let mut result = self.accumulator(&result_type);
        if fold.kind == FoldKind::ExistsOne {
            let one = self.literal(&ONE);
            result = self.call(&Type::Bool, "_==_", vec![result, one]);
        }
        self.add_loop(of, fold, range, [start, condition, step, result])
    }

    fn add_loop(
        &mut self,
        of: Type,
        fold: &'t Fold,
        range: ExpandedId,
        [start, condition, step, result]: [ExpandedId; 4],
    ) -> ExpandedId {
        let of_loop = Loop {
            range,
            variable: without_dot(&fold.variable),
            second: fold.second.as_deref().map(without_dot),
            accumulator: ACCUMULATOR,
            start,
            condition,
            step,
            result,
        };
        self.add(of, ExpandedExpr::Loop(Box::new(of_loop)))
    }

    /// Adds the condition under which a loop goes on. `all` and `exists` stop at the element that decides them; an error does not stop them.
    fn condition(&mut self, kind: FoldKind) -> ExpandedId {
        match kind {
            FoldKind::All | FoldKind::Exists => {
                let mut result = self.accumulator(&Type::Bool);
                if kind == FoldKind::Exists {
                    result = self.call(&Type::Bool, "!_", vec![result]);
                }
                self.call(&Type::Bool, "@not_strictly_false", vec![result])
            }
            _ => self.literal(&TRUE),
        }
    }

    /// Adds the step of a loop: the expression that computes the next result from the last result and an element.
    fn step(&mut self, fold: &'t Fold, of: &Type, variable_type: Type) -> ExpandedId {
        let (condition, step) = match fold.kind {
            FoldKind::All | FoldKind::Exists => {
                let function = if fold.kind == FoldKind::All { "_&&_" } else { "_||_" };
                let arguments = vec![self.accumulator(of), self.node(&fold.body)];
                let overloads = vec![""];
                let call = ExpandedCall { function, target: None, arguments, overloads };
                return self.add(Type::Bool, ExpandedExpr::Call(Box::new(call)));
            }
            FoldKind::ExistsOne => {
                let condition = self.node(&fold.body);
                let (count, one) = (self.accumulator(of), self.literal(&ONE));
                (Some(condition), self.call(of, "_+_", vec![count, one]))
            }
            FoldKind::TransformMap | FoldKind::TransformMapEntry => {
                let condition = fold.filter.as_ref().map(|filter| self.node(filter));
                let mut arguments = vec![self.accumulator(of)];
                if fold.kind == FoldKind::TransformMap {
                    arguments.push(self.add(variable_type, ExpandedExpr::Ident(without_dot(&fold.variable))));
                }
                arguments.push(self.node(&fold.body));
                (condition, self.call(of, "cel.@mapInsert", arguments))
            }
            FoldKind::Filter => {
                let condition = self.node(&fold.body);
                let element = self.add(variable_type, ExpandedExpr::Ident(without_dot(&fold.variable)));
                (Some(condition), self.appended(of, element))
            }
            _ => {
                let condition = fold.filter.as_ref().map(|filter| self.node(filter));
                let element = self.node(&fold.body);
                (condition, self.appended(of, element))
            }
        };
        let Some(condition) = condition else { return step };
        let unchanged = self.accumulator(of);
        self.call(of, "_?_:_", vec![condition, step, unchanged])
    }

    /// Adds the concatenation of the results so far and one more element.
    fn appended(&mut self, of: &Type, element: ExpandedId) -> ExpandedId {
        let results = self.accumulator(of);
        let one = self.add(of.clone(), ExpandedExpr::List(vec![element]));
        self.call(of, "_+_", vec![results, one])
    }

    /// Adds `range.hasValue() ? optional.of(body with the value as a variable) : optional.none()`.
    fn optional_map(&mut self, fold: &'t Fold, of: &Type) -> ExpandedId {
        // The range is expanded twice, as in cel-go, whose estimate counts it twice.
        let tested = self.node(&fold.range);
        let condition = self.member_call(Type::Bool, "hasValue", tested, Vec::new());
        // In cel-go a variable is a loop over an empty list, whose cost counts.
        let range = self.add(list_of(Type::Dyn), ExpandedExpr::List(Vec::new()));
        let optional = self.node(&fold.range);
        let value_type = match &self.nodes[optional].of {
            Type::Optional(value) => (**value).clone(),
            _ => Type::Dyn,
        };
        let value = self.member_call(value_type, "value", optional, Vec::new());
        let result = self.node(&fold.body);
        let variable = without_dot(&fold.variable);
        let body_type = self.nodes[result].of.clone();
        let mut mapped = self.add(body_type, ExpandedExpr::Binding { range, variable, value, result });
        if fold.kind == FoldKind::OptMap {
            mapped = self.call(of, "optional.of", vec![mapped]);
        }
        let none = self.call(of, "optional.none", Vec::new());
        self.call(of, "_?_:_", vec![condition, mapped, none])
    }

    /// Adds a variable with the list, and a call with it and the list of its keys.
    fn sort_by(&mut self, fold: &'t Fold, of: Type) -> ExpandedId {
        let range = self.add(list_of(Type::Dyn), ExpandedExpr::List(Vec::new()));
        let value = self.node(&fold.range);
        let list_type = self.nodes[value].of.clone();
        let sorted = self.add(list_type.clone(), ExpandedExpr::Ident(SORTED));
        let mapped = self.add(list_type, ExpandedExpr::Ident(SORTED));
        let key = self.node(&fold.body);
        let keys_type = list_of(self.nodes[key].of.clone());
        let start = self.add(keys_type.clone(), ExpandedExpr::List(Vec::new()));
        let condition = self.literal(&TRUE);
        let step = self.appended(&keys_type, key);
        let result = self.accumulator(&keys_type);
        let keys = self.add_loop(keys_type, fold, mapped, [start, condition, step, result]);
        let result = self.member_call(of.clone(), "@sortByAssociatedKeys", sorted, vec![keys]);
        self.add(of, ExpandedExpr::Binding { range, variable: SORTED, value, result })
    }
}

fn list_of(of: Type) -> Type {
    Type::List(Box::new(of))
}

/// Returns the type of the first variable of a loop.
fn variable_type(fold: &Fold, range: &Type) -> Type {
    match range {
        Type::List(_) if fold.second.is_some() => Type::Int,
        Type::List(element) => (**element).clone(),
        Type::Map(key, _) => (**key).clone(),
        _ => Type::Dyn,
    }
}
