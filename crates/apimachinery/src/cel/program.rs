//! Compiled expressions.

use super::composition::Composition;
use super::cost::Cost;
use super::cost_estimate::{self, SizeSchema};
use super::environment::Environment;
use super::eval::{self, Activation};
use super::evaluation_error::{EvaluationError, no_overload};
use super::expression_type::result_type_name;
use super::expression_value::ExpressionValue;
use super::functions::Evaluated;
use super::identifier::without_dot;
use super::issue::compilation_failure;
use super::patterns::{ConstantPatterns, PatternError};
use super::syntax_tree::{Expr, SyntaxNode};
use super::types::Type;
use super::value::Val;
use super::{EXPRESSION_LIMIT, LENGTH, parser, type_checker};

/// Beginning of the message about an expression with constant parts that have no value.
pub(super) const INSTANTIATION: &str = "program instantiation failed: ";

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
        let of =
            type_checker::check(&root, environment).map_err(|issues| compilation_failure(text, &issues))?;
        let mismatch =
            (of != Type::Bool).then(|| format!("must evaluate to bool but got {}", result_type_name(&of)));
        Self::with_patterns(text, root, mismatch)
    }

    /// Parses an expression without checking types: they are checked when it is evaluated.
    ///
    /// # Errors
    /// kube-apiserver's text for an invalid expression.
    pub fn untyped(text: &str) -> Result<Self, String> {
        Self::with_patterns(text, parsed(text)?, None)
    }

    /// Compiles an expression of the type `expected`, or of a type that is known only when it is evaluated, and returns its estimated cost for
    /// variables with these sizes too. `mismatch` is the error for another type.
    ///
    /// # Errors
    /// kube-apiserver's text for an invalid expression.
    pub(super) fn typed(
        text: &str,
        environment: &Environment,
        sizes: &SizeSchema,
        expected: &Type,
        mismatch: &str,
    ) -> Result<(Self, u64), String> {
        let root = parsed(text)?;
        let (of, types) = type_checker::check_nodes(&root, environment)
            .map_err(|issues| compilation_failure(text, &issues))?;
        let fits = of == *expected || (of == Type::Dyn && !root.has_declared_type());
        // The types belong to the addresses of the nodes, so the cost is estimated before the root is moved.
        let cost = cost_estimate::rule_cost(&root, &types, sizes);
        let program = Self::with_patterns(text, root, (!fits).then(|| mismatch.to_owned()))?;
        Ok((program, cost))
    }

    /// Compiles the patterns of an expression with checked types. `mismatch` is the error about the type of the result, if there is one.
    pub(super) fn with_patterns(
        text: &str,
        root: SyntaxNode,
        mismatch: Option<String>,
    ) -> Result<Self, String> {
        let patterns = ConstantPatterns::new(&root);
        // As in kube-apiserver, the type of the result is checked between the compilation and the instantiation of the program.
        match (patterns, mismatch) {
            (Err(PatternError::Issues(issues)), _) => Err(compilation_failure(text, &issues)),
            (_, Some(mismatch)) => Err(mismatch),
            (Err(PatternError::Program(why)), None) => Err(format!("{INSTANTIATION}{why}")),
            (Ok(patterns), None) => Ok(Self { root, patterns }),
        }
    }

    /// Whether the expression mentions a variable.
    pub(super) fn mentions(&self, variable: &str) -> bool {
        let mut found = false;
        self.root.visit(&mut |node| {
            found |= matches!(&node.expr, Expr::Ident(name) if without_dot(name) == variable);
        });
        found
    }

    pub(super) fn root(&self) -> &SyntaxNode {
        &self.root
    }

    pub(super) fn patterns(&self) -> &ConstantPatterns {
        &self.patterns
    }

    /// Returns the number of nested levels of the expression.
    pub(super) fn levels(&self) -> usize {
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
        self.evaluate(activation, Vec::new(), budget).map(ExpressionValue)
    }

    /// Like [`value`](Self::value), with variables that have other values than plain JSON.
    pub(super) fn evaluate<'a>(
        &'a self,
        activation: &Activation<'a>,
        locals: Vec<(&'a str, Val<'a>)>,
        budget: &mut u64,
    ) -> Evaluated<'a> {
        let limit = EXPRESSION_LIMIT.min(*budget);
        let mut cost = Cost::new(limit);
        let value = eval::evaluate(&self.root, &self.patterns, activation, locals, &mut cost);
        let is_limited_by_budget = limit == *budget;
        let of_variables = activation.composition.as_ref().map_or(0, Composition::take_cost);
        let spent = (limit - cost.left()).saturating_add(of_variables);
        let is_spent = spent > *budget;
        *budget = budget.saturating_sub(spent);
        match value {
            _ if is_spent => Err(EvaluationError::OutOfBudget),
            // Below the whole limit of one expression, the earlier expressions have used up the budget too.
            Err(EvaluationError::TooExpensive) if is_limited_by_budget => Err(EvaluationError::OutOfBudget),
            other => other,
        }
    }
}

/// Parses an expression.
pub(super) fn parsed(text: &str) -> Result<SyntaxNode, String> {
    let length = text.chars().count();
    if length > LENGTH {
        return Err(format!(
            "compilation failed: ERROR: <input>:-1:0: expression code point size exceeds limit: size: {length}, limit {LENGTH}"
        ));
    }
    parser::parse(text).map_err(|issues| compilation_failure(text, &issues))
}
