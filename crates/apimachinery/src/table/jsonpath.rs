//! JSONPath of printer columns: the expressions that `k8s.io/client-go/util/jsonpath` accepts between braces.
//!
//! Steps are `.name`, `['name']`, `.*`, `[*]`, `[3]`, `[-1]`, `[1:5:2]`, `[0,2]`, `['a','b']`, `..name` and
//! `[?(@.type=="Ready")]`. A key in brackets is a path of its own: `['a.b']` equals `.a.b`. A missing key ends a branch silently; an index out
//! of range, a comparison of different types, or an index of a value that is no list leave the whole path without a value.
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
    /// Expressions in braces. A path has one, unless it contains braces. The first one has the value; the others only fail or not.
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
            // An empty selection also ends the step for the lists after this one.
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
            // `<=` and `>` look for equality only after the order, which fails.
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
mod tests {
    use serde_json::json;

    use super::*;

    /// First value at a path; null if there is none, the text `refused` if the path does not parse.
    fn first(path: &str, object: &Value) -> Value {
        match JsonPath::parse(path) {
            Ok(path) => path.first(object).cloned().unwrap_or_default(),
            Err(_) => json!("refused"),
        }
    }

    /// Recorded from kube-apiserver v1.36.3, as cells of columns of type string.
    #[test]
    fn paths_have_the_values_and_failures_of_client_go() {
        let object = json!({"spec": {
            "s": "str", "map": {"k.x": "dot", "b": 1, "k": {"x": "kx"}},
            "objs": [
                {"name": "a", "v": 1, "f": 1.5, "b": true, "nul": null, "sub": [{"x": 1}]},
                {"name": "b", "v": 2, "sub": [{"x": 2}]},
                {"name": "a)b", "v": 3},
            ],
            "list": ["x", "y", "z"], "a b": "sp", "nul": null, "obj": {"x": {"y": "<&>"}}, "empty": [], "é": "acc",
        }});
        let refused = json!("refused");
        for (path, expected) in [
            (r".spec.map.k\.x", json!("dot")),
            (".spec.map['k.x']", json!("kx")),
            (r".spec.map['k\.x']", json!("dot")),
            (".spec..name", json!("a")),
            (".spec.objs[0,1].name", json!("a")),
            (".spec.list[0:2]", json!("x")),
            (".spec.objs[?(@.v>1)].name", json!("b")),
            (".spec.a b", json!(null)),
            (".spec.list[-1:]", json!("z")),
            (r#".spec["s"]"#, refused.clone()),
            (".spec.objs[?(@.name)].v", json!(1)),
            (r#".spec.objs[?(@.v==1 && @.name=="a")].v"#, refused.clone()),
            (".spec.s ", json!("str")),
            (".spec.list.x", json!(null)),
            (".spec.map[*]", json!(null)),
            (".spec.list[*]", json!("x")),
            (".spec.objs[?(@.v!=1)].name", json!("b")),
            (".spec.list[:-1]", json!("x")),
            (".spec.list[::2]", json!("x")),
            (".spec.list[3]", json!(null)),
            (".spec.list[-4]", json!(null)),
            (".spec.list[2:9]", json!(null)),
            (".spec.list[2:1]", json!(null)),
            (".spec.list[1:1]", json!(null)),
            (".spec.list[0,5]", json!(null)),
            (".spec.objs[].name", json!("a")),
            (".", json!(null)),
            (r#".spec.objs[?(@.none=="a")].v"#, json!(null)),
            (".spec.objs[?(@.f==1.5)].f", json!(1.5)),
            (".spec.objs[?(@.f==1)].f", json!(null)),
            (".spec.objs[?(@.name!=1)].name", json!(null)),
            (".spec.objs[?(@.v==1.0)].name", json!(null)),
            (".spec.objs[?(1==@.v)].name", json!("a")),
            (".spec.objs[?(@.name==@.name)].name", json!("a")),
            (".spec.objs[?(@.b==true)].name", json!("a")),
            (".spec.objs[?(@.b>false)].name", json!(null)),
            (".spec.objs[?(foo)].name", json!("a")),
            (".spec.objs[?(@.v[5])].name", json!("a")),
            (".spec.objs[?(@.v===1)].name", json!(null)),
            (".spec.objs[?(@.v==)].name", refused.clone()),
            (".spec.objs[?(==1)].name", refused.clone()),
            (".spec.objs[?(@.v<=1)].name", json!("a")),
            (".spec.objs[?( @.name == 'b' )].v", json!(2)),
            (r#".spec.objs[?(@.name=="a)b")].v"#, json!(3)),
            (".spec.objs[?(@.sub[?(@.x==1)])].name", refused.clone()),
            (".spec.list[a]", refused.clone()),
            (".spec.list[ 0 ]", refused.clone()),
            (".spec.list[0, 2]", json!("x")),
            (".spec.list[-]", refused.clone()),
            (".spec.list[1", refused.clone()),
            (".spec['']", json!(null)),
            (".spec['s','f']", json!("str")),
            (".spec['map'].b", json!(1)),
            (".['spec'].s", json!(null)),
            ("..['s']", json!("str")),
            ("..*", refused.clone()),
            ("..s", json!("str")),
            ("....s", refused.clone()),
            (".spec..", object["spec"].clone()),
            (".spec.s.t", json!(null)),
            (".spec.s[0]", json!(null)),
            (".spec.s}", json!("str")),
            (".spec.s}{.spec.map.b", json!("str")),
            (".spec.s}x{.spec.list[9]", json!(null)),
            (".spec.s,x", refused.clone()),
            (".spec.nul.x", json!(null)),
            (".spec.nul[0]", json!(null)),
            (".spec.empty[*]", json!(null)),
            (".spec.objs[?(@.nul==1)].name", json!(null)),
            (".spec.objs[?(@.nul)].name", json!("a")),
            (".spec.list[::0]", json!(null)),
            (".spec.list[0]:", refused.clone()),
            (".spec.(s)", json!(null)),
            (r".spec.x\", refused.clone()),
            (r#".spec.list[?(@=="y")]"#, json!("y")),
            (r#".spec.list[?(@>"x")]"#, json!("y")),
            (".spec.map[?(@.a)]", json!(null)),
            (".spec.é", json!("acc")),
            (".spec.objs[0:2].sub[*].x", json!(1)),
            (".spec.obj['x']['y']", json!("<&>")),
            (".spec.list[?(@.length-1)]", json!(null)),
            (".spec.list[(@.length-1)]", refused),
        ] {
            assert_eq!(first(path, &object), expected, "{path}");
        }
    }

    #[test]
    fn paths_lead_to_the_first_value() {
        let object = json!({
            "metadata": {"labels": {"app": "web", "example.com/app": "api"}},
            "spec": {"size": 3, "list": ["x", "y", "z"]},
            "status": {"conditions": [
                {"type": "Live", "status": "False", "n": 1},
                {"type": "Ready", "status": "True", "n": 2},
            ]},
        });
        for (path, expected) in [
            (".spec.size", json!(3)),
            ("$.spec.size", json!(3)),
            (r".metadata.labels.example\.com/app", json!("api")),
            (r".metadata.labels['example\.com/app']", json!("api")),
            (".spec.list[0]", json!("x")),
            (".spec.list[-1]", json!("z")),
            (".spec.list[-2]", json!("y")),
            (".spec.list[1:]", json!("y")),
            (".spec.list", json!(["x", "y", "z"])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
            (".status.conditions[?(@.n>1)].type", json!("Ready")),
            (".status.conditions[?(@.type!='Live')].n", json!(2)),
            ("..status", json!({"conditions": object["status"]["conditions"]})),
            ("..type", json!("Live")),
            (".spec.*", json!(["x", "y", "z"])),
        ] {
            assert_eq!(first(path, &object), expected, "{path}");
        }
    }

    #[test]
    fn paths_beyond_the_bounds_are_refused() {
        // These paths are as long as a request body allows.
        for text in [
            format!(".a{}", "[?(@.a)]".repeat(100_000)),
            format!(".a{}", "[?(@.a".repeat(100_000)),
            ".a".repeat(100_000),
        ] {
            let error = JsonPath::parse(&text).unwrap_err();
            assert!(error.contains("bytes are more than the 4096"), "{error}");
        }
    }

    #[test]
    fn an_evaluation_ends_after_its_visits() {
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!({"a": deep});
        }
        let wide = json!({"list": vec![json!({"a": [1, 2, 3]}); 50_000]});
        for (path, object) in [
            ("..a".repeat(60) + ".none", &deep),
            (".list[*].none".to_owned(), &wide),
            (format!(".list[{}].none", "0,".repeat(2000) + "0"), &wide),
            (".list[?(@..b==1)].none".to_owned(), &wide),
            (".list[?('x'=='y')].none".to_owned(), &wide),
        ] {
            let path = JsonPath::parse(&path).unwrap();
            assert_eq!(path.first(object), None);
        }
        assert_eq!(first(".list[-1].a[2]", &wide), json!(3), "what leads straight there is not far");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(path in "[\\[\\].*?()@$'\"\\\\:,=<>!{}a-z0-9é -]{0,30}") {
            let value = json!({"a": [{"b": 1}, [2]], "é": {"c": "d"}});
            if let Ok(path) = JsonPath::parse(&path) {
                let _ = path.first(&value);
            }
        }
    }
}
