//! The Common Expression Language with Kubernetes' libraries: parsing, type checking and evaluation, for match conditions of
//! webhooks, for admission policies and for the rules of custom resources.
//!
//! Messages are those of Go's `cel-go`, with the place in the text. The evaluation has a budget, so that no expression of a client
//! runs for long: each step costs at least 1, and more if it compares values or reads a text. `cost` has the rules.
//!
//! The evaluation has all operators, macros and functions that kube-apiserver has for custom resources and policies, including optional
//! values. The type checker has a table of their types (`signatures`), and takes the types of an object's fields from its schema
//! (`value_schema`). A value of unknown type has the type `dyn`, which fits everywhere.

mod authorization;
mod composition;
mod cost;
mod cost_estimate;
mod eval;
mod evaluation_error;
mod expression_type;
mod functions;
mod list_functions;
mod message;
mod named_format;
mod network;
mod object_rules;
mod operators;
mod optionals;
mod parser;
mod patterns;
mod property_name;
mod quantities;
mod ratcheting;
mod rule_check;
mod rule_run;
mod rule_tree;
mod semantic_version;
mod signatures;
mod syntax_tree;
mod text_format;
mod text_functions;
mod times;
mod token;
mod type_checker;
mod types;
mod value;
mod value_schema;

#[cfg(test)]
mod tests;

pub use self::authorization::{AUTHORIZER, AccessQuery, AuthorizerDecision};
pub use self::composition::{Composition, ExpressionValue, Variables};
pub use self::cost_estimate::{SizeSchema, estimated_cost};
pub use self::eval::Activation;
pub use self::evaluation_error::EvaluationError;
pub use self::expression_type::{expression_type, result_type_name};
pub use self::object_rules::ObjectRules;
pub use self::parser::is_identifier;
pub use self::property_name::{escape as escape_property, unescape as unescape_property};
pub use self::rule_run::RuleOutcome;
pub use self::types::{ObjectType, Type};

use self::cost::Cost;
use self::evaluation_error::no_overload;
use self::patterns::{ConstantPatterns, PatternError};
use self::syntax_tree::{Expr, SyntaxNode};
use self::value::Val;

/// Beginning of the message about an expression whose constant parts have no value.
const INSTANTIATION: &str = "program instantiation failed: ";
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

/// Variables of an expression and their types.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: Vec<(&'static str, Type)>,
    /// Whether expressions can construct an `Object` or a `JSONPatch`.
    constructs_patches: bool,
    /// Whether expressions have the functions of the namespace `cel`, such as `cel.bind`.
    has_bindings: bool,
}

impl Environment {
    /// Creates an environment with these variables.
    #[must_use]
    pub fn new(variables: Vec<(&'static str, Type)>) -> Self {
        Self { variables, constructs_patches: false, has_bindings: false }
    }

    /// Lets expressions construct an `Object` or a `JSONPatch`, as those of mutations do.
    #[must_use]
    pub fn with_patches(mut self) -> Self {
        self.constructs_patches = true;
        self
    }

    /// Lets expressions use the functions of the namespace `cel`, as those that select devices do.
    #[must_use]
    pub fn with_bindings(mut self) -> Self {
        self.has_bindings = true;
        self
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &'static str, of: Type) -> Self {
        self.variables.push((name, of));
        self
    }

    fn type_of(&self, name: &str) -> Option<&Type> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, of)| of)
    }
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    root: SyntaxNode,
    patterns: ConstantPatterns,
}

impl Program {
    /// Compiles a condition, which is an expression of type `bool`.
    ///
    /// # Errors
    /// kube-apiserver's text for an invalid expression: `compilation failed: …`, or `must evaluate to bool but got …`.
    pub fn condition(text: &str, environment: &Environment) -> Result<Self, String> {
        let root = parsed(text)?;
        let of = type_checker::check(&root, environment).map_err(|issues| failed(text, &issues))?;
        match ConstantPatterns::new(&root) {
            Err(PatternError::Issues(issues)) => Err(failed(text, &issues)),
            _ if of != Type::Bool => Err(format!("must evaluate to bool but got {}", result_type_name(&of))),
            Err(PatternError::Program(why)) => Err(format!("{INSTANTIATION}{why}")),
            Ok(patterns) => Ok(Self { root, patterns }),
        }
    }

    /// Parses an expression without checking types: they are checked when it is evaluated.
    ///
    /// # Errors
    /// kube-apiserver's text for an invalid expression.
    pub fn untyped(text: &str) -> Result<Self, String> {
        let root = parsed(text)?;
        match ConstantPatterns::new(&root) {
            Ok(patterns) => Ok(Self { root, patterns }),
            Err(PatternError::Issues(issues)) => Err(failed(text, &issues)),
            Err(PatternError::Program(why)) => Err(format!("{INSTANTIATION}{why}")),
        }
    }

    /// Compiles an expression of the type `expected`, or of a type that is known only when it is evaluated, and returns its estimated cost for
    /// variables with these sizes too. `mismatch` is the error for another type.
    ///
    /// # Errors
    /// kube-apiserver's text for an invalid expression.
    fn typed(
        text: &str,
        environment: &Environment,
        sizes: &SizeSchema,
        expected: &Type,
        mismatch: &str,
    ) -> Result<(Self, u64), String> {
        let root = parsed(text)?;
        let (of, types) =
            type_checker::check_nodes(&root, environment).map_err(|issues| failed(text, &issues))?;
        match ConstantPatterns::new(&root) {
            Err(PatternError::Issues(issues)) => Err(failed(text, &issues)),
            _ if of != *expected && (of != Type::Dyn || root.has_declared_type()) => Err(mismatch.to_owned()),
            Err(PatternError::Program(why)) => Err(format!("{INSTANTIATION}{why}")),
            Ok(patterns) => {
                let cost = cost_estimate::rule_cost(&root, &types, sizes);
                Ok((Self { root, patterns }, cost))
            }
        }
    }

    /// Whether the expression mentions a variable.
    fn mentions(&self, variable: &str) -> bool {
        let mut found = false;
        self.root.visit(&mut |node| {
            found |= matches!(&node.expr, Expr::Ident(name) if name.strip_prefix('.').unwrap_or(name) == variable);
        });
        found
    }

    fn root(&self) -> &SyntaxNode {
        &self.root
    }

    fn patterns(&self) -> &ConstantPatterns {
        &self.patterns
    }

    /// Returns the number of nested levels of the expression.
    fn levels(&self) -> usize {
        self.root.depth()
    }

    /// Evaluates the condition. The cost, at most [`EXPRESSION_LIMIT`], is subtracted from `budget`.
    ///
    /// # Errors
    /// [`EvaluationError`] with kube-apiserver's text.
    pub fn holds<'a>(
        &'a self,
        activation: &Activation<'a>,
        budget: &mut u64,
    ) -> Result<bool, EvaluationError> {
        match self.value(activation, budget)?.0 {
            Val::Bool(value) => Ok(value),
            _ => Err(no_overload()),
        }
    }

    /// Evaluates the expression. Its cost, and the cost of the variables that it is the first to use, are subtracted from `budget`. Each
    /// costs at most [`EXPRESSION_LIMIT`].
    ///
    /// # Errors
    /// [`EvaluationError`] with kube-apiserver's text.
    pub fn value<'a>(
        &'a self,
        activation: &Activation<'a>,
        budget: &mut u64,
    ) -> Result<ExpressionValue<'a>, EvaluationError> {
        let limit = EXPRESSION_LIMIT.min(*budget);
        let mut cost = Cost::new(limit);
        let value = eval::evaluate(&self.root, &self.patterns, activation, Vec::new(), &mut cost);
        let is_last = limit == *budget;
        let of_variables = activation.composition.as_ref().map_or(0, Composition::take_cost);
        let spent = (limit - cost.left()).saturating_add(of_variables);
        let is_spent = spent > *budget;
        *budget = budget.saturating_sub(spent);
        match value {
            _ if is_spent => Err(EvaluationError::OutOfBudget),
            // An expression that may cost as much as one alone is too expensive itself; otherwise the expressions before it are a cause too.
            Err(EvaluationError::TooExpensive) if is_last => Err(EvaluationError::OutOfBudget),
            other => other.map(ExpressionValue),
        }
    }
}

/// Parses an expression.
fn parsed(text: &str) -> Result<SyntaxNode, String> {
    let length = text.chars().count();
    if length > LENGTH {
        return Err(format!(
            "compilation failed: ERROR: <input>:-1:0: expression code point size exceeds limit: size: {length}, limit {LENGTH}"
        ));
    }
    parser::parse(text).map_err(|issues| failed(text, &issues))
}

/// Returns kube-apiserver's text for an expression with errors.
fn failed(text: &str, issues: &[Issue]) -> String {
    let issues: Vec<String> = issues.iter().map(|issue| issue.shown(text)).collect();
    format!("compilation failed: {}", issues.join("\n"))
}

/// An error at a place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Issue {
    /// Offset in bytes.
    at: usize,
    message: String,
}

impl Issue {
    fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }

    /// Returns the message with its place and the line.
    fn shown(&self, text: &str) -> String {
        if text.is_empty() {
            return format!("ERROR: <input>:1:0: {}", self.message);
        }
        let before = &text[..self.at.min(text.len())];
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        let shown = text.split('\n').nth(line).unwrap_or_default().replace('\t', " ");
        // As in Go's library, marks below characters outside of ASCII have full width.
        let mut marks: String =
            shown.chars().take(column).map(|c| if c.is_ascii() { '.' } else { '\u{ff0e}' }).collect();
        let is_wide = shown.chars().nth(column).is_some_and(|c| !c.is_ascii());
        marks.push(if is_wide { '\u{ff3e}' } else { '^' });
        format!("ERROR: <input>:{}:{}: {}\n | {shown}\n | {marks}", line + 1, column + 1, self.message)
    }
}
