//! Errors of an evaluation.

use std::fmt;

/// Reason why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvaluationError {
    /// cel-go's text for an error of the expression.
    Failed(String),
    /// The expression costs more than [`EXPRESSION_LIMIT`](super::EXPRESSION_LIMIT).
    TooExpensive,
    /// The expressions that share a budget cost more than the budget.
    OutOfBudget,
}

impl fmt::Display for EvaluationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failed(why) => why,
            Self::TooExpensive => "operation cancelled: actual cost limit exceeded",
            Self::OutOfBudget => {
                "validation failed due to running out of cost budget, no further validation rules will be run"
            }
        })
    }
}

pub(super) fn failed(why: impl Into<String>) -> EvaluationError {
    EvaluationError::Failed(why.into())
}

/// Returns the error for operands whose types no overload of the operation accepts.
pub(super) fn no_overload() -> EvaluationError {
    failed("no such overload")
}
