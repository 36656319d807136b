//! The Common Expression Language with Kubernetes' libraries: parsing, type checking and evaluation, for match conditions of
//! webhooks, for admission policies and for the rules of custom resources.
//!
//! Messages are those of Go's `cel-go`, with the place in the text. The evaluation has a budget, so that no expression of a client
//! runs for long: each step costs at least 1, and more if it compares values or reads a text. `cost` has the rules.
//!
//! The evaluation has all operators, macros and functions that kube-apiserver has for custom resources and policies, including optional
//! values. The type checker has a table of their types (`function_table`), and takes the types of an object's fields from its schema
//! (`value_schema`). A value of unknown type has the type `dyn`, which fits everywhere.

mod authorization;
mod composition;
mod cost;
mod cost_estimate;
mod environment;
mod eval;
mod evaluation_error;
mod expression_type;
mod expression_value;
mod fold_evaluation;
mod function_table;
mod functions;
mod identifier;
mod issue;
mod list_functions;
mod macros;
mod map_builder;
mod message;
mod named_format;
mod network;
mod object_fields;
mod object_rules;
mod operators;
mod optionals;
mod parser;
mod patterns;
mod program;
mod property_name;
mod quantities;
mod ratcheting;
mod rule_check;
mod rule_run;
mod rule_tree;
mod semantic_version;
mod signatures;
mod syntax_recovery;
mod syntax_tree;
mod text_format;
mod text_functions;
mod times;
mod token;
mod type_checker;
mod types;
mod value;
mod value_comparison;
mod value_schema;

#[cfg(test)]
mod tests;

pub use self::authorization::{AUTHORIZER, AccessQuery, AuthorizerDecision};
pub use self::composition::{Composition, Variables};
pub use self::cost_estimate::{SizeSchema, estimated_cost};
pub use self::environment::Environment;
pub use self::eval::Activation;
pub use self::evaluation_error::EvaluationError;
pub use self::expression_type::{expression_type, result_type_name};
pub use self::expression_value::ExpressionValue;
pub use self::identifier::is_identifier;
pub use self::object_rules::ObjectRules;
pub use self::program::Program;
pub use self::property_name::{escape as escape_property, unescape as unescape_property};
pub use self::rule_run::RuleOutcome;
pub use self::types::{ObjectType, Type};

/// Maximum length of an expression in characters, as in cel-go.
const LENGTH: usize = 100_000;
/// Maximum nesting of an expression. cel-go allows 250 levels.
const DEPTH: usize = 100;
/// Maximum cost of one evaluation of an expression, as in kube-apiserver.
pub const EXPRESSION_LIMIT: u64 = 1_000_000;
/// Budget of all rules of a custom object together, as in kube-apiserver.
const RULES_BUDGET: u64 = 10_000_000;
/// Budget of all match conditions of one webhook together, as in kube-apiserver.
pub const MATCH_CONDITIONS_BUDGET: u64 = 2_500_000;
/// Budget of all expressions of one kind of an admission policy together, such as its validations, as in kube-apiserver.
pub const POLICY_BUDGET: u64 = 10_000_000;
