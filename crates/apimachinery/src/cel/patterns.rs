//! Regular expressions (the functions `matches`, `find` and `findAll`), and other literals that are evaluated with the expression's compilation.
//!
//! As in kube-apiserver, a pattern that is a literal is compiled once, with the expression. Another pattern is compiled at each call, which
//! is paid for. The automata count their steps, so a match costs as much as it takes.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::cost::Cost;
use super::evaluation_error::{EvaluationError, failed, no_overload};
use super::functions::Evaluated;
use super::issue::Issue;
use super::syntax_tree::{Expr, SyntaxNode};
use super::text_functions::unless_negative;
use super::value::{Literal, Val};
use super::{EXPRESSION_LIMIT, functions};
use crate::schema::pattern::{Budget, Exhausted, Pattern, Patterns};

/// Functions that convert a value to another type.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];
/// Steps of an automaton that cost one unit.
const STEPS: u64 = 30;
/// Units for parsing one byte of a pattern.
const PARSING: usize = 2;
/// Units for compiling any pattern.
const COMPILATION: usize = 100;
/// Bytes of a compiled automaton that cost one unit.
const COMPILED: usize = 4;

/// Compiled patterns by their source, for patterns that are literals of an expression.
#[derive(Debug, Default)]
pub(super) struct ConstantPatterns {
    known: BTreeMap<String, Arc<Pattern>>,
}

/// Reason why the patterns of an expression do not compile.
pub(super) enum PatternError {
    /// Errors of the compilation, with their places in the expression.
    Issues(Vec<Issue>),
    /// Error of the program's instantiation, which has no place.
    Program(String),
}

impl ConstantPatterns {
    /// Parses the patterns of an expression with correct types.
    pub(super) fn new(root: &SyntaxNode) -> Result<Self, PatternError> {
        let mut parsed = Patterns::default();
        let mut known = BTreeMap::new();
        let mut issues = Vec::new();
        let mut failure = None;
        root.visit(&mut |node| {
            let Expr::Call { function, target, arguments } = &node.expr else { return };
            if let Some(Err(why)) = constant(node) {
                failure.get_or_insert(why.to_string());
            }
            let text = |at: usize| match arguments.get(at).map(|argument| &argument.expr) {
                Some(Expr::Literal(Literal::String(text))) => Some(text.as_str()),
                _ => None,
            };
            // As in cel-go, the validator checks the first argument, which is not the pattern of `matches(text, pattern)`.
            if function == "matches" && text(0).is_some_and(|first| parsed.get(first).is_err()) {
                issues.push(Issue::new(arguments[0].at, "invalid matches argument"));
            }
            let place = usize::from(target.is_none());
            let Some(source) = text(place).filter(|_| is_function(function)) else { return };
            match compiled(&mut parsed, source) {
                Ok(pattern) => {
                    known.insert(source.to_owned(), pattern);
                }
                Err(why) => {
                    failure.get_or_insert(why);
                }
            }
        });
        if !issues.is_empty() {
            issues.sort_by_key(|issue| issue.at);
            return Err(PatternError::Issues(issues));
        }
        failure.map_or(Ok(Self { known }), |why| Err(PatternError::Program(why)))
    }
}

/// Returns the value of a literal, or of a conversion of one, which cel-go evaluates once.
fn constant(node: &SyntaxNode) -> Option<Evaluated<'_>> {
    match &node.expr {
        Expr::Literal(literal) => Some(Ok(Val::literal(literal))),
        Expr::Call { function, target: None, arguments } if CONVERSIONS.contains(&&**function) => {
            let [argument] = &arguments[..] else { return None };
            let value = constant(argument)?;
            Some(
                value.and_then(|value| {
                    functions::global(function, &[value], &mut Cost::new(EXPRESSION_LIMIT))
                }),
            )
        }
        _ => None,
    }
}

/// Whether a function takes a pattern.
pub(super) fn is_function(function: &str) -> bool {
    ["matches", "find", "findAll"].contains(&function)
}

/// Compiles a pattern. One whose automaton would be too large is an error.
fn compiled(parsed: &mut Patterns, source: &str) -> Result<Arc<Pattern>, String> {
    let pattern = parsed.get(source)?;
    pattern.ok_or_else(|| "the regular expression is too large for this server".to_owned())
}

/// Calls a function with a text and a pattern.
pub(super) fn call<'a>(
    function: &str,
    text: &str,
    source: &str,
    rest: &[Val<'a>],
    constants: &ConstantPatterns,
    cost: &mut Cost,
) -> Evaluated<'a> {
    // Finding the pattern among the constants compares its source.
    cost.text(source.len())?;
    let pattern = match constants.known.get(source) {
        Some(pattern) => Arc::clone(pattern),
        None => {
            cost.values(source.len().saturating_mul(PARSING))?;
            let prefix = if function == "matches" { "" } else { "Illegal regex: " };
            let pattern = compiled(&mut Patterns::default(), source);
            let pattern = pattern.map_err(|why| failed(format!("{prefix}{why}")))?;
            // The other functions need a second automaton, which reads backwards.
            let automata = if function == "matches" { 1 } else { 2 };
            cost.values(automata * (COMPILATION + pattern.size() / COMPILED))?;
            pattern
        }
    };
    // cel-go's estimate, which does not know the automaton.
    cost.pattern(text.len(), source.len())?;
    match (function, rest) {
        ("matches", []) => Ok(Val::Bool(counted(cost, |budget| pattern.is_match(text, budget))?)),
        ("find", []) => {
            let found = counted(cost, |budget| pattern.find_at(text, 0, budget))?;
            Ok(Val::text(found.map_or("", |found| &text[found])))
        }
        ("findAll", []) => find_all(text, &pattern, usize::MAX, cost),
        ("findAll", [Val::Int(limit)]) => find_all(text, &pattern, unless_negative(*limit), cost),
        _ => Err(no_overload()),
    }
}

/// Runs an automaton with the steps that the cost allows, and pays for those that it took.
fn counted<T>(
    cost: &mut Cost,
    search: impl FnOnce(&Budget) -> Result<T, Exhausted>,
) -> Result<T, EvaluationError> {
    let steps = usize::try_from(cost.left().saturating_mul(STEPS)).unwrap_or(usize::MAX);
    let budget = Budget::new(steps);
    let found = search(&budget);
    let taken = u64::try_from(steps - budget.left()).unwrap_or(u64::MAX);
    cost.spend(taken.div_ceil(STEPS))?;
    found.map_err(|Exhausted| EvaluationError::TooExpensive)
}

/// Returns all matches that do not overlap. As in Go, an empty match right after another match does not count.
fn find_all<'a>(text: &str, pattern: &Pattern, limit: usize, cost: &mut Cost) -> Evaluated<'a> {
    let mut found = Vec::new();
    let (mut next, mut previous_end) = (0, None);
    while found.len() < limit && next <= text.len() {
        let Some(range) = counted(cost, |budget| pattern.find_at(text, next, budget))? else { break };
        cost.spend(1)?;
        let accepted = !(range.is_empty() && previous_end == Some(range.start));
        previous_end = Some(range.end);
        // After an empty match the search continues with the next character.
        let skipped =
            if range.is_empty() { text[range.end..].chars().next().map_or(1, char::len_utf8) } else { 0 };
        next = range.end + skipped;
        if accepted {
            cost.text(range.len())?;
            found.push(Val::text(&text[range]));
        }
    }
    Ok(Val::List(Rc::new(found)))
}
