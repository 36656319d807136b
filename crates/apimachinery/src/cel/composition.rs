//! Variables of admission policies: named expressions that are evaluated at their first use.

use std::cell::{Cell, RefCell};

use super::EXPRESSION_LIMIT;
use super::cost::Cost;
use super::eval::{self, Activation};
use super::evaluation_error::{EvaluationError, failed};
use super::functions::Evaluated;
use super::program::Program;

use crate::go::quote;

/// Maximum levels of expressions that are evaluated at the same time: of a variable, the variables that it uses, and so on. It bounds the
/// stack; cel-go has no limit.
const NESTING: usize = 200;

/// Parsed variables of a policy.
#[derive(Debug, Default)]
pub struct Variables {
    /// Names and expressions. Of several variables with one name, the last one counts.
    variables: Vec<(String, Result<Program, String>)>,
}

impl Variables {
    /// Parses pairs of name and expression. A variable that cannot be parsed fails when it is used. Types are checked during the evaluation.
    #[must_use]
    pub fn new<'a>(variables: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let parse = |(name, text): (&str, &str)| (name.to_owned(), Program::untyped(text));
        Self { variables: variables.map(parse).collect() }
    }
}

/// Values of variables during the evaluation of expressions that share them.
#[derive(Debug)]
pub struct Composition<'a> {
    variables: &'a Variables,
    values: RefCell<Vec<VariableState<'a>>>,
    /// Cost of variables that is not subtracted from the budget of the expressions yet.
    cost: Cell<u64>,
    /// Levels of the variables that are being evaluated.
    nesting: Cell<usize>,
}

#[derive(Debug, Clone)]
enum VariableState<'a> {
    Unknown,
    /// Being evaluated. A use in this state means that the variable depends on itself, through variables of the same name.
    Underway,
    Known(Evaluated<'a>),
}

impl<'a> Composition<'a> {
    /// Creates the state before any variable is used.
    #[must_use]
    pub fn new(variables: &'a Variables) -> Self {
        Self {
            variables,
            values: RefCell::new(vec![VariableState::Unknown; variables.variables.len()]),
            cost: Cell::new(0),
            nesting: Cell::new(0),
        }
    }

    /// Returns the cost of the variables since the last call.
    pub(super) fn take_cost(&self) -> u64 {
        self.cost.take()
    }

    /// Returns the value of a variable, after its evaluation if this is its first use.
    pub(super) fn value(&self, name: &str, activation: &Activation<'a>, own: &mut Cost) -> Evaluated<'a> {
        let named = |(known, _): &(String, Result<Program, String>)| known == name;
        let Some(place) = self.variables.variables.iter().rposition(named) else {
            return Err(failed(format!("no such key: {name}")));
        };
        // Each use looks at the names of all variables.
        own.values(self.variables.variables.len())?;
        let state = std::mem::replace(&mut self.values.borrow_mut()[place], VariableState::Underway);
        let value = match state {
            VariableState::Known(value) => value,
            VariableState::Underway => Err(failed(format!("variable {} uses itself", quote(name)))),
            VariableState::Unknown => self.evaluated(&self.variables.variables[place].1, name, activation),
        };
        self.values.borrow_mut()[place] = VariableState::Known(value.clone());
        value
    }

    fn evaluated(
        &self,
        program: &'a Result<Program, String>,
        name: &str,
        activation: &Activation<'a>,
    ) -> Evaluated<'a> {
        let program = match program {
            Ok(program) => program,
            Err(why) => {
                return Err(failed(format!("composited variable {} fails to compile: {why}", quote(name))));
            }
        };
        let levels = self.nesting.get() + program.levels();
        if levels > NESTING {
            return Err(failed("the expressions of variables are nested too deep"));
        }
        let outer = self.nesting.replace(levels);
        let mut cost = Cost::new(EXPRESSION_LIMIT);
        let value = eval::evaluate(program.root(), program.patterns(), activation, Vec::new(), &mut cost);
        self.nesting.set(outer);
        self.cost.set(self.cost.get().saturating_add(EXPRESSION_LIMIT - cost.left()));
        value.map_err(|why| match why {
            EvaluationError::OutOfBudget => why,
            why => failed(format!("composited variable {} fails to evaluate: {why}", quote(name))),
        })
    }
}
