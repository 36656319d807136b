//! JSONPath of printer columns: the expressions that `k8s.io/client-go/util/jsonpath` accepts between braces.
//!
//! Steps are `.name`, `['name']`, `.*`, `[*]`, `[3]`, `[-1]`, `[1:5:2]`, `[0,2]`, `['a','b']`, `..name` and
//! `[?(@.type=="Ready")]`. A key in brackets is a path of its own: `['a.b']` equals `.a.b`. A missing key ends a branch silently; an index out
//! of range, a comparison of different types, or an index of a value that is not a list leave the whole path without a value.
//!
//! Paths come from clients, with their definitions. A path has at most [`LENGTH`] bytes and [`DEPTH`] nested filters. An evaluation visits
//! at most [`VISITS`] values; then it ends without a value. It recurses at most once per level of the object, whose depth the JSON parser
//! limits, and per filter.

mod path_parser;

use std::cell::Cell;
use std::cmp::Ordering;

use serde_json::Value;

/// Maximum size of a path, in bytes. The longest paths of well-known definitions have about 200.
const LENGTH: usize = 4 << 10;
/// Maximum number of nested filters and bracket expressions.
const DEPTH: usize = 16;
/// Maximum number of values that one evaluation visits. Each `..` multiplies the visits of the steps after it.
const VISITS: u32 = 10_000;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    /// Expressions in braces. A path has one, unless it contains braces. The first one has the value; the others count only if they fail.
    expressions: Vec<Vec<JsonPathStep>>,
}

#[derive(Debug, Clone, PartialEq)]
enum JsonPathStep {
    Field(String),
    /// `.*`: values of a map or list.
    Wildcard,
    /// `..`: the value and everything below it that has children.
    Recursive,
    /// Alternatives: `[0,2]`, `['a','b']`.
    Union(Vec<Vec<JsonPathStep>>),
    Slice(Slice),
    Filter(Filter),
    /// A literal, which replaces the values.
    Literal(Value),
    /// A text in quotes, which replaces all values by one.
    Text(Value),
    /// A word without a meaning; evaluating it fails.
    Word,
}

/// Elements of a list from `from` up to `to`; negative positions count from the end.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Slice {
    from: Option<i64>,
    to: SliceEnd,
    step: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum SliceEnd {
    /// The end of the list.
    Last,
    /// The element after the first one: the form `[3]`.
    AfterFirst,
    At(i64),
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Vec<JsonPathStep>,
    /// Operator and right side; `None` only tests whether the left side has a value.
    compare: Option<(Operator, Vec<JsonPathStep>)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Another sequence of the characters `=!<>`; evaluating it fails.
    Unknown,
}

/// Values at a step of a path.
type Values<'a> = Vec<&'a Value>;

/// A failed evaluation, with the values that it had until then: a filter that only tests for presence counts them.
struct Failed<'a>(Values<'a>);

impl JsonPath {
    /// Parses a path such as `.spec.size`. `$` and `@` denote the object.
    ///
    /// # Errors
    /// A path that client-go cannot parse, or one that exceeds a bound.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LENGTH {
            return Err(format!("{} bytes are more than the {LENGTH} that a path may have", text.len()));
        }
        Ok(Self { expressions: path_parser::template(&format!("{{{text}}}"), 0)? })
    }

    /// Returns the first value at the path. `None` if there is none, or if finding it needs more than [`VISITS`] visits.
    #[must_use]
    pub fn first<'a>(&'a self, object: &'a Value) -> Option<&'a Value> {
        let visits = Visits(Cell::new(VISITS));
        let mut values = None;
        for expression in &self.expressions {
            // client-go has no results if one of the expressions fails.
            let found = visits.walk(expression, vec![object]).ok()?;
            values.get_or_insert(found);
        }
        values?.first().copied()
    }
}

/// Remaining visits of an evaluation.
struct Visits(Cell<u32>);

impl Visits {
    /// Follows the steps from each of the values.
    fn walk<'a>(&self, steps: &'a [JsonPathStep], mut values: Values<'a>) -> Result<Values<'a>, Failed<'a>> {
        for step in steps {
            values = self.step(step, values)?;
        }
        Ok(values)
    }

    /// Counts a visit. Without remaining visits the evaluation fails.
    fn visit<'a>(&self) -> Result<(), Failed<'a>> {
        let rest = self.0.get().checked_sub(1).ok_or_else(|| Failed(Vec::new()))?;
        self.0.set(rest);
        Ok(())
    }

    fn step<'a>(&self, step: &'a JsonPathStep, values: Values<'a>) -> Result<Values<'a>, Failed<'a>> {
        self.visit()?;
        match step {
            JsonPathStep::Field(name) => {
                let mut found = Vec::new();
                for value in values {
                    self.visit()?;
                    found.extend(value.as_object().and_then(|map| map.get(name)));
                }
                Ok(found)
            }
            JsonPathStep::Wildcard => {
                let mut found = Vec::new();
                for value in values {
                    self.children(value, &mut found)?;
                }
                Ok(found)
            }
            JsonPathStep::Recursive => {
                let mut found = Vec::new();
                for value in values {
                    self.descend(value, &mut found)?;
                }
                Ok(found)
            }
            JsonPathStep::Union(parts) => {
                let mut found = Vec::new();
                for part in parts {
                    match self.walk(part, values.clone()) {
                        Ok(some) => found.extend(some),
                        Err(_) => return Err(Failed(values)),
                    }
                }
                Ok(found)
            }
            JsonPathStep::Slice(slice) => self.slice(*slice, values),
            JsonPathStep::Filter(filter) => self.filter(filter, values),
            JsonPathStep::Literal(literal) => {
                for _ in &values {
                    self.visit()?;
                }
                Ok(vec![literal; values.len()])
            }
            JsonPathStep::Text(text) => Ok(vec![text]),
            JsonPathStep::Word => Err(Failed(values)),
        }
    }

    /// Appends the values of a map, or the elements of a list.
    fn children<'a>(&self, value: &'a Value, found: &mut Values<'a>) -> Result<(), Failed<'a>> {
        let children: Box<dyn Iterator<Item = &Value>> = match value {
            Value::Array(list) => Box::new(list.iter()),
            Value::Object(map) => Box::new(map.values()),
            _ => Box::new(std::iter::empty()),
        };
        for child in children {
            self.visit()?;
            found.push(child);
        }
        Ok(())
    }

    /// Appends the value and everything below it, without values that have nothing below them. A text has its bytes below it.
    fn descend<'a>(&self, value: &'a Value, found: &mut Values<'a>) -> Result<(), Failed<'a>> {
        self.visit()?;
        if value.as_str().is_some_and(|text| !text.is_empty()) {
            found.push(value);
            return Ok(());
        }
        let mut below = Vec::new();
        self.children(value, &mut below)?;
        if !below.is_empty() {
            found.push(value);
            for child in below {
                self.descend(child, found)?;
            }
        }
        Ok(())
    }

    fn slice<'a>(&self, slice: Slice, values: Values<'a>) -> Result<Values<'a>, Failed<'a>> {
        let mut found = Vec::new();
        for value in &values {
            self.visit()?;
            let list = match value {
                Value::Null => continue,
                Value::Array(list) => list,
                _ => return Err(Failed(values)),
            };
            let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
            let from_end = |position: i64| if position < 0 { position + length } else { position };
            let first = slice.from.unwrap_or(0);
            let to = match slice.to {
                SliceEnd::Last => length,
                // The element after the last one, in `[-1]`.
                SliceEnd::AfterFirst if first == -1 => length,
                SliceEnd::AfterFirst => from_end(first.saturating_add(1)),
                SliceEnd::At(position) => from_end(position),
            };
            let from = from_end(first);
            // As in client-go, an empty selection also ends the step for the lists after this one.
            if from == to {
                return Ok(found);
            }
            let elements = usize::try_from(from)
                .ok()
                .zip(usize::try_from(to).ok())
                .filter(|(from, _)| *from < list.len())
                .and_then(|(from, to)| list.get(from..to));
            let step = usize::try_from(slice.step.unwrap_or(1)).unwrap_or(0);
            let Some(elements) = elements.filter(|_| step > 0) else {
                return Err(Failed(values));
            };
            for element in elements.iter().step_by(step) {
                self.visit()?;
                found.push(element);
            }
        }
        Ok(found)
    }

    fn filter<'a>(&self, filter: &'a Filter, values: Values<'a>) -> Result<Values<'a>, Failed<'a>> {
        let mut found = Vec::new();
        for value in &values {
            let Value::Array(list) = value else {
                return Err(Failed(values));
            };
            for element in list {
                self.visit()?;
                match self.holds(filter, element) {
                    Some(true) => found.push(element),
                    Some(false) => {}
                    None => return Err(Failed(values)),
                }
            }
        }
        Ok(found)
    }

    /// Evaluates a filter; `None` if it fails.
    fn holds<'a>(&self, filter: &'a Filter, element: &'a Value) -> Option<bool> {
        let left = self.walk(&filter.left, vec![element]);
        let Some((operator, right)) = &filter.compare else {
            return Some(!left.unwrap_or_else(|Failed(values)| values).is_empty());
        };
        // client-go compares single values only, and looks at the right side only if the left side has one.
        let left = match *left.ok()? {
            [] => return Some(false),
            [left] => left,
            _ => return None,
        };
        let right = match *self.walk(right, vec![element]).ok()? {
            [] => return Some(false),
            [right] => right,
            _ => return None,
        };
        compare(*operator, left, right)
    }
}

/// Compares two values of one type; `None` if they cannot be compared. Integers and floats are two types.
fn compare(operator: Operator, left: &Value, right: &Value) -> Option<bool> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?)?,
            _ => return None,
        },
        (Value::Bool(left), Value::Bool(right)) => match operator {
            Operator::Equal | Operator::NotEqual => left.cmp(right),
            // Go's templates do not order booleans, and `<=` and `>` need the order before the equality.
            _ => return None,
        },
        _ => return None,
    };
    match operator {
        Operator::Equal => Some(order == Ordering::Equal),
        Operator::NotEqual => Some(order != Ordering::Equal),
        Operator::Less => Some(order == Ordering::Less),
        Operator::LessOrEqual => Some(order != Ordering::Greater),
        Operator::Greater => Some(order == Ordering::Greater),
        Operator::GreaterOrEqual => Some(order != Ordering::Less),
        Operator::Unknown => None,
    }
}

#[cfg(test)]
mod tests;
