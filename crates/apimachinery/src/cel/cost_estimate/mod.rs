//! Estimates of the highest cost of an expression, from the sizes that a schema allows.
//!
//! kube-apiserver refuses rules of custom resources and selectors of devices whose estimate is above a limit, so an estimate has to be exactly
//! the one of cel-go, which can be far from the cost of an evaluation. It is computed in three steps: macros are expanded to loops
//! (`expanded_tree`), each node of the tree gets a cost and a size (`cost_estimator`), and a call gets the cost of its function (`call_costs`).
//! Sizes of values of the object come from their schema (`size_schema`), which is found by the path of a value (`value_path`).
//!
//! Only the upper end of cel-go's range of costs matters to a limit, so costs are numbers. Sizes are ranges, because the size of a replaced text
//! depends on the shortest replacement. Functions of the authorizer and of mutations have no cost here: no estimated expression has them.

mod call_costs;
mod cost_estimator;
mod definition_costs;
mod expanded_tree;
mod size_range;
mod size_schema;
mod value_path;

pub(super) use self::definition_costs::{Cardinality, DefinitionCosts};
pub(super) use self::size_schema::SchemaValues;
pub use self::size_schema::SizeSchema;

use self::cost_estimator::CostEstimator;
use self::expanded_tree::ExpandedTree;
use super::environment::Environment;
use super::program::parsed;
use super::syntax_tree::SyntaxNode;
use super::type_checker::{self, NodeTypes};

/// Returns the estimated cost of an expression about a variable with these sizes; `None` if the expression does not compile, or contains
/// functions that this implementation lacks.
#[must_use]
pub fn estimated_cost(
    text: &str,
    environment: &Environment,
    variable: &str,
    sizes: &SizeSchema,
) -> Option<u64> {
    let root = parsed(text).ok()?;
    let (_, types) = type_checker::check_nodes(&root, environment).ok()?;
    Some(cost(&root, &types, sizes, Some(variable)))
}

/// Returns the estimated cost of a rule about a value with these sizes. As in kube-apiserver, all variables have them.
pub(super) fn rule_cost(root: &SyntaxNode, types: &NodeTypes, sizes: &SizeSchema) -> u64 {
    cost(root, types, sizes, None)
}

/// Returns the largest cost if the expanded expression is too large.
fn cost(root: &SyntaxNode, types: &NodeTypes, sizes: &SizeSchema, variable: Option<&str>) -> u64 {
    let tree = ExpandedTree::new(root, types);
    tree.map_or(u64::MAX, |tree| CostEstimator::new(&tree, sizes, variable).total())
}
