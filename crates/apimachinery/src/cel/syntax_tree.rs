//! The tree of an expression.

use super::identifier::without_dot;
use super::message::MessageNode;
use super::value::Literal;

/// Function around an element or a value of a literal that is optional: `[?element]`, `{?key: value}`.
pub(super) const OPTIONAL_PART: &str = "?_";

/// An expression and its place in the text.
#[derive(Debug)]
pub(super) struct SyntaxNode {
    /// Offset that messages about the expression show: that of its operator, if it has one.
    pub(super) at: usize,
    pub(super) expr: Expr,
    /// Number of levels below and including this one.
    depth: usize,
}

/// Form of an expression. Macros other than `has` are [`Fold`]s.
#[derive(Debug)]
pub(super) enum Expr {
    Literal(Literal),
    Ident(String),
    /// `operand.field`.
    Select {
        operand: Box<SyntaxNode>,
        field: String,
    },
    /// `has(operand.field)`.
    Has {
        operand: Box<SyntaxNode>,
        field: String,
    },
    /// `target.function(arguments)`, `function(arguments)`, and operators under cel-go's names such as `_+_`.
    Call {
        function: String,
        target: Option<Box<SyntaxNode>>,
        arguments: Vec<SyntaxNode>,
    },
    And(Vec<SyntaxNode>),
    Or(Vec<SyntaxNode>),
    List(Vec<SyntaxNode>),
    Map(Vec<(SyntaxNode, SyntaxNode)>),
    Fold(Box<Fold>),
    /// `Type{field: value}`.
    Message(Box<MessageNode>),
}

/// A macro over the elements of a list or the keys of a map.
#[derive(Debug)]
pub(super) struct Fold {
    pub(super) kind: FoldKind,
    pub(super) range: SyntaxNode,
    pub(super) variable: String,
    /// Second variable: the macro visits indices and elements of a list, or keys and values of a map.
    pub(super) second: Option<String>,
    /// Condition of `map` with three arguments.
    pub(super) filter: Option<SyntaxNode>,
    pub(super) body: SyntaxNode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoldKind {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    /// `list.transformList(index, value, result)`.
    TransformList,
    /// `map.transformMap(key, value, result)`.
    TransformMap,
    /// `map.transformMapEntry(key, value, {key: result})`.
    TransformMapEntry,
    /// `list.sortBy(element, key)`.
    SortBy,
    /// `optional.optMap(value, result)`.
    OptMap,
    /// `optional.optFlatMap(value, optional)`.
    OptFlatMap,
}

impl SyntaxNode {
    pub(super) fn new(at: usize, expr: Expr) -> Self {
        let depth = 1 + match &expr {
            Expr::Literal(_) | Expr::Ident(_) => 0,
            Expr::Select { operand, .. } | Expr::Has { operand, .. } => operand.depth,
            Expr::Call { target, arguments, .. } => {
                target.iter().map(|node| node.depth).chain(depths(arguments)).max().unwrap_or(0)
            }
            Expr::And(terms) | Expr::Or(terms) | Expr::List(terms) => depths(terms).max().unwrap_or(0),
            Expr::Map(entries) => {
                entries.iter().map(|(key, value)| key.depth.max(value.depth)).max().unwrap_or(0)
            }
            Expr::Fold(fold) => {
                let filter = fold.filter.as_ref().map_or(0, |filter| filter.depth);
                fold.range.depth.max(fold.body.depth).max(filter)
            }
            Expr::Message(message) => message.fields.iter().map(|field| field.value.depth).max().unwrap_or(0),
        };
        Self { at, expr, depth }
    }

    /// Returns the number of levels below and including this one.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Whether the type of the expression is certain: that of a variable, of a field of one, or of a call of `dyn`.
    pub(super) fn has_declared_type(&self) -> bool {
        match &self.expr {
            Expr::Ident(_) => true,
            Expr::Select { operand, .. } => operand.has_declared_type(),
            Expr::Call { function, target: None, .. } => function == "dyn",
            _ => false,
        }
    }

    /// Calls a function with this node and all nodes below.
    pub(super) fn visit<'n>(&'n self, visitor: &mut impl FnMut(&'n SyntaxNode)) {
        visitor(self);
        match &self.expr {
            Expr::Literal(_) | Expr::Ident(_) => {}
            Expr::Select { operand, .. } | Expr::Has { operand, .. } => operand.visit(visitor),
            Expr::Call { target, arguments, .. } => {
                for node in target.iter().map(|target| &**target).chain(arguments) {
                    node.visit(visitor);
                }
            }
            Expr::And(nodes) | Expr::Or(nodes) | Expr::List(nodes) => {
                for node in nodes {
                    node.visit(visitor);
                }
            }
            Expr::Map(entries) => {
                for (key, value) in entries {
                    key.visit(visitor);
                    value.visit(visitor);
                }
            }
            Expr::Fold(fold) => {
                for node in [Some(&fold.range), fold.filter.as_ref(), Some(&fold.body)].into_iter().flatten()
                {
                    node.visit(visitor);
                }
            }
            Expr::Message(message) => {
                for field in &message.fields {
                    field.value.visit(visitor);
                }
            }
        }
    }
}

fn depths(nodes: &[SyntaxNode]) -> impl Iterator<Item = usize> {
    nodes.iter().map(|node| node.depth)
}

/// Returns the name that identifiers and dots write, such as `google.protobuf`; `None` for other expressions.
pub(super) fn qualified(node: &SyntaxNode) -> Option<String> {
    match &node.expr {
        Expr::Ident(name) => Some(without_dot(name).to_owned()),
        Expr::Select { operand, field } => Some(format!("{}.{field}", qualified(operand)?)),
        _ => None,
    }
}
