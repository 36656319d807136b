//! Costs of an evaluation.
//!
//! One unit of cost stands for a bounded amount of work: a visited value, ten bytes of a text, or some thirty steps of a regular
//! expression. Each operation pays for its work before it begins, or while it goes on, so that the limit of an expression bounds its
//! CPU time. An operation may cost more than in cel-go, which charges one unit for some operations of any size, such as the comparison
//! of two objects.

use serde_json::Value;

use super::evaluation_error::EvaluationError;
use super::value::Val;

/// Bytes of a text that cost one unit, as in cel-go.
const BYTES: usize = 10;

/// Bytes of a pattern that cost one unit for each unit of its text, as in cel-go.
const PATTERN_BYTES: usize = 4;

/// Cost that an expression may still incur.
#[derive(Debug)]
pub(super) struct Cost {
    left: u64,
}

impl Cost {
    pub(super) fn new(limit: u64) -> Self {
        Self { left: limit }
    }

    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Pays for `units` of work.
    pub(super) fn spend(&mut self, units: u64) -> Result<(), EvaluationError> {
        let left = self.left.checked_sub(units);
        self.left = left.unwrap_or(0);
        left.map(|_| ()).ok_or(EvaluationError::TooExpensive)
    }

    /// Pays for `count` values.
    pub(super) fn values(&mut self, count: usize) -> Result<(), EvaluationError> {
        self.spend(u64::try_from(count).unwrap_or(u64::MAX))
    }

    /// Pays for a search with a pattern, as cel-go and kube-apiserver estimate it from the lengths of the text and of the pattern.
    pub(super) fn pattern(&mut self, text: usize, pattern: usize) -> Result<(), EvaluationError> {
        // As in cel-go, an empty text counts as one character.
        let text = text.saturating_add(1).div_ceil(BYTES);
        self.values(text.saturating_mul(pattern.div_ceil(PATTERN_BYTES)))
    }

    /// Pays for visiting all values of a document.
    pub(super) fn json(&mut self, value: &Value) -> Result<(), EvaluationError> {
        self.spend(1)?;
        match value {
            Value::String(text) => self.text(text.len()),
            Value::Array(elements) => elements.iter().try_for_each(|element| self.json(element)),
            Value::Object(fields) => fields.values().try_for_each(|field| self.json(field)),
            _ => Ok(()),
        }
    }

    /// Pays for reading those of some values that are texts.
    pub(super) fn texts(&mut self, values: &[Val<'_>]) -> Result<(), EvaluationError> {
        values.iter().try_for_each(|value| match value {
            Val::String(text) => self.text(text.len()),
            _ => Ok(()),
        })
    }

    /// Pays for reading or copying a text.
    pub(super) fn text(&mut self, bytes: usize) -> Result<(), EvaluationError> {
        self.values(bytes.div_ceil(BYTES))
    }
}
