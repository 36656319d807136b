//! JSONPath of printer columns: the expressions that `k8s.io/client-go/util/jsonpath` accepts between braces.
//!
//! Steps are `.name`, `['name']`, `.*`, `[*]`, `[3]`, `[-1]`, `[1:5:2]`, `[0,2]`, `['a','b']`, `..name` and
//! `[?(@.type=="Ready")]`. A missing key silently ends a branch. Only the first value is used, so evaluation stops
//! there.
//!
//! Paths come from clients, with their definitions. A path has at most [`LENGTH`] bytes and [`DEPTH`] nested filters. An evaluation visits
//! at most [`VISITS`] values; then it ends without a value. It recurses at most twice per level of the object, whose depth the JSON parser
//! limits.

use std::cell::Cell;
use std::cmp::Ordering;

use serde_json::Value;

/// Maximum size of a path, in bytes. The longest paths of well-known definitions have about 200.
const LENGTH: usize = 4 << 10;
/// Maximum number of nested filters.
const DEPTH: usize = 16;
/// Maximum number of values that one evaluation visits. Each `..` multiplies the visits of the steps after it.
const VISITS: u32 = 10_000;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<JsonPathStep>,
}

#[derive(Debug, Clone, PartialEq)]
enum JsonPathStep {
    Field(String),
    /// `.*` and `[*]`.
    Wildcard,
    /// `..`: the value and everything below it.
    Recursive,
    /// Alternatives: `[0,2]`, `['a','b']`.
    Union(Vec<JsonPathStep>),
    Slice {
        from: Option<i64>,
        to: Option<i64>,
        step: i64,
    },
    Filter(Filter),
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Operand,
    /// Operator and right side; `None` only tests whether the left side exists.
    compare: Option<(Operator, Operand)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    /// `@.type`.
    Path(JsonPath),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Parses `.spec.size`; a leading `$` or `@` denotes the object.
    ///
    /// # Errors
    /// The position of the first character that does not parse, or the bound that the path exceeds.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LENGTH {
            return Err(format!("{} bytes are more than the {LENGTH} that a path may have", text.len()));
        }
        let mut parser = JsonPathParser { text, rest: text.trim(), depth: 0 };
        let steps = parser.steps()?;
        if !parser.rest.is_empty() {
            return Err(parser.error());
        }
        Ok(Self { steps })
    }

    /// Returns the first value at the path. `None` if there is none, or if finding it needs more than [`VISITS`] visits.
    #[must_use]
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        Visits(Cell::new(VISITS)).first(&self.steps, object)
    }
}

/// Remaining visits of an evaluation.
struct Visits(Cell<u32>);

impl Visits {
    /// Searches depth first, in the order in which the values of a list are printed.
    fn first<'a>(&self, steps: &[JsonPathStep], value: &'a Value) -> Option<&'a Value> {
        match steps.split_first() {
            Some((step, rest)) => self.first_behind(step, rest, value),
            None => self.visit().map(|()| value),
        }
    }

    /// Counts a visit; `None` if none is left.
    fn visit(&self) -> Option<()> {
        self.0.set(self.0.get().checked_sub(1)?);
        Some(())
    }

    /// Returns the first value behind `step` and the steps after it.
    fn first_behind<'a>(
        &self,
        step: &JsonPathStep,
        rest: &[JsonPathStep],
        value: &'a Value,
    ) -> Option<&'a Value> {
        self.visit()?;
        // The rest of a long list is not tried once the visits are used up.
        let any = |mut values: Box<dyn Iterator<Item = &'a Value> + '_>| {
            values.by_ref().take_while(|_| self.0.get() > 0).find_map(|value| self.first(rest, value))
        };
        match step {
            JsonPathStep::Field(name) => self.first(rest, value.get(name)?),
            JsonPathStep::Wildcard => any(children(value)),
            JsonPathStep::Recursive => self.first(rest, value).or_else(|| {
                let mut children = children(value).take_while(|_| self.0.get() > 0);
                children.find_map(|child| self.first_behind(step, rest, child))
            }),
            JsonPathStep::Union(parts) => parts.iter().find_map(|part| self.first_behind(part, rest, value)),
            JsonPathStep::Slice { from, to, step } => {
                any(Box::new(slice(value.as_array()?, *from, *to, *step)))
            }
            JsonPathStep::Filter(filter) => {
                any(Box::new(value.as_array()?.iter().filter(|element| self.holds(filter, element))))
            }
        }
    }

    fn holds(&self, filter: &Filter, element: &Value) -> bool {
        let Some(left) = self.operand(&filter.left, element) else {
            return false;
        };
        let Some((operator, right)) = &filter.compare else {
            return true;
        };
        let Some(right) = self.operand(right, element) else {
            return false;
        };
        let order = compare(left, right);
        match operator {
            Operator::Equal => order == Some(Ordering::Equal),
            Operator::NotEqual => order != Some(Ordering::Equal),
            Operator::Less => order == Some(Ordering::Less),
            Operator::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Operator::Greater => order == Some(Ordering::Greater),
            Operator::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }

    fn operand<'a>(&self, operand: &'a Operand, element: &'a Value) -> Option<&'a Value> {
        // A literal counts as a visit too, because it may be compared with each element of a long list.
        match operand {
            Operand::Path(path) => self.first(&path.steps, element),
            Operand::Literal(value) => self.first(&[], value),
        }
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(list) => Box::new(list.iter()),
        Value::Object(map) => Box::new(map.values()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Returns the elements `from..to` in steps; negative positions count from the end.
fn slice(
    list: &[Value],
    from: Option<i64>,
    to: Option<i64>,
    step: i64,
) -> impl Iterator<Item = &Value> + use<'_> {
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let position = |place: i64| if place < 0 { place.saturating_add(length) } else { place };
    let from = position(from.unwrap_or(0)).clamp(0, length);
    let to = to.map_or(length, position).clamp(from, length);
    let part = |at: i64| usize::try_from(at).unwrap_or(usize::MAX);
    list[part(from)..part(to)].iter().step_by(part(step).max(1))
}

/// Orders values of one type; values of different types have no order.
fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

struct JsonPathParser<'a> {
    text: &'a str,
    rest: &'a str,
    /// Number of open filters.
    depth: usize,
}

impl<'a> JsonPathParser<'a> {
    /// Parses steps up to the first character that begins none.
    fn steps(&mut self) -> Result<Vec<JsonPathStep>, String> {
        let mut steps = Vec::new();
        if !self.eat("$") {
            self.eat("@");
        }
        loop {
            if self.eat("..") {
                steps.push(JsonPathStep::Recursive);
                if !self.rest.starts_with('[') {
                    steps.push(self.name_or_star()?);
                }
            } else if self.eat(".") {
                // A lone dot stands for the object itself, and `.['a']` equals `['a']`.
                if !self.rest.is_empty() && !self.rest.starts_with('[') {
                    steps.push(self.name_or_star()?);
                }
            } else if self.eat("[") {
                steps.push(self.bracket()?);
            } else {
                return Ok(steps);
            }
        }
    }

    fn name_or_star(&mut self) -> Result<JsonPathStep, String> {
        if self.eat("*") {
            return Ok(JsonPathStep::Wildcard);
        }
        let mut name = String::new();
        let mut characters = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, character)) = characters.next() {
            match character {
                // `example\.com/app` is one name.
                '\\' => match characters.next() {
                    Some((_, escaped)) => name.push(escaped),
                    None => return Err(self.error()),
                },
                '.' | '[' | ']' | ')' | '(' | '{' | '}' | '=' | '!' | '<' | '>' | ',' | ' ' | '&' | '|' => {
                    end = at;
                    break;
                }
                other => name.push(other),
            }
        }
        if name.is_empty() {
            return Err(self.error());
        }
        self.rest = &self.rest[end..];
        Ok(JsonPathStep::Field(name))
    }

    /// Parses the rest of a bracket expression, including the `]`.
    fn bracket(&mut self) -> Result<JsonPathStep, String> {
        if self.eat("*]") {
            return Ok(JsonPathStep::Wildcard);
        }
        if self.eat("?(") {
            self.depth += 1;
            if self.depth > DEPTH {
                return Err(format!("more than {DEPTH} filters inside one another"));
            }
            let filter = self.filter()?;
            self.depth -= 1;
            return Ok(JsonPathStep::Filter(filter));
        }
        let mut parts = Vec::new();
        loop {
            self.eat_spaces();
            let part = if self.rest.starts_with(['\'', '"']) {
                JsonPathStep::Field(self.quoted()?)
            } else {
                self.slice()?
            };
            parts.push(part);
            self.eat_spaces();
            if self.eat("]") {
                break;
            }
            if !self.eat(",") {
                return Err(self.error());
            }
        }
        Ok(match parts.len() {
            1 => parts.swap_remove(0),
            _ => JsonPathStep::Union(parts),
        })
    }

    /// Parses `3`, `-1`, `1:5` or `::2`.
    fn slice(&mut self) -> Result<JsonPathStep, String> {
        let from = self.integer();
        if !self.eat(":") {
            let from = from.ok_or_else(|| self.error())?;
            // -1 is the last element. Its end, 0, would be read as the first position.
            let to = (from != -1).then(|| from.saturating_add(1));
            return Ok(JsonPathStep::Slice { from: Some(from), to, step: 1 });
        }
        let to = self.integer();
        let step = if self.eat(":") { self.integer().unwrap_or(1) } else { 1 };
        if step < 1 {
            return Err(self.error());
        }
        Ok(JsonPathStep::Slice { from, to, step })
    }

    fn integer(&mut self) -> Option<i64> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(self.rest.len());
        let number = self.rest[..end].parse().ok()?;
        self.rest = &self.rest[end..];
        Some(number)
    }

    /// Parses the rest of a filter, including the `)]`.
    fn filter(&mut self) -> Result<Filter, String> {
        let left = self.operand()?;
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        self.eat_spaces();
        let operator = operators.into_iter().find(|(text, _)| self.eat(text));
        let compare = match operator {
            Some((_, operator)) => Some((operator, self.operand()?)),
            None => None,
        };
        self.eat_spaces();
        if !self.eat(")]") {
            return Err(self.error());
        }
        Ok(Filter { left, compare })
    }

    fn operand(&mut self) -> Result<Operand, String> {
        self.eat_spaces();
        if self.rest.starts_with(['@', '$', '.']) {
            let steps = self.steps()?;
            return Ok(Operand::Path(JsonPath { steps }));
        }
        if self.rest.starts_with(['\'', '"']) {
            return Ok(Operand::Literal(Value::from(self.quoted()?)));
        }
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-' | '+'))
            .unwrap_or(self.rest.len());
        let literal = serde_json::from_str(&self.rest[..end]).map_err(|_| self.error())?;
        self.rest = &self.rest[end..];
        Ok(Operand::Literal(literal))
    }

    fn quoted(&mut self) -> Result<String, String> {
        let mut characters = self.rest.char_indices();
        let quote = characters.next().map(|(_, quote)| quote);
        let mut text = String::new();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
                end if Some(end) == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                other => text.push(other),
            }
        }
        Err(self.error())
    }

    fn eat(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn eat_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn error(&self) -> String {
        let at = self.text.len() - self.rest.len();
        format!("unexpected {:?} at position {at} of {:?}", self.rest, self.text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_values_of_a_part_of_a_union_are_tried() {
        let object = json!({"list": [{"a": 1}, {"b": 2}, {"c": 3}]});
        for (path, expected) in [
            (".list[0:2,2].b", json!(2)),
            (".list[0:2,2].c", json!(3)),
            (".list[2,0:2].a", json!(1)),
            (".list[0,1].c", Value::Null),
        ] {
            let found = JsonPath::parse(path).unwrap().first(&object).cloned().unwrap_or_default();
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn paths_lead_to_the_first_value() {
        let object = json!({
            "metadata": {"labels": {"app": "web", "example.com/app": "api"}},
            "spec": {"size": 3, "list": ["x", "y", "z"], "none": null},
            "status": {"conditions": [
                {"type": "Live", "status": "False", "n": 1},
                {"type": "Ready", "status": "True", "n": 2},
            ]},
        });
        for (path, expected) in [
            (".spec.size", json!(3)),
            ("$.spec.size", json!(3)),
            (".spec.none", json!(null)),
            (".metadata.labels.app", json!("web")),
            (r".metadata.labels.example\.com/app", json!("api")),
            (".metadata.labels['example.com/app']", json!("api")),
            (r#".metadata.labels["example.com/app"]"#, json!("api")),
            (".spec.list[0]", json!("x")),
            (".spec.list[-1]", json!("z")),
            (".spec.list[-2]", json!("y")),
            (".spec.list[*]", json!("x")),
            (".spec.list[1:]", json!("y")),
            (".spec.list[7,1]", json!("y")),
            (".spec.list", json!(["x", "y", "z"])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
            (".status.conditions[?(@.type == 'Ready')].status", json!("True")),
            (".status.conditions[?(@.n>1)].type", json!("Ready")),
            (".status.conditions[?(@.type!='Live')].n", json!(2)),
            (".status.conditions[?(@.n)].type", json!("Live")),
            ("..status", json!({"conditions": object["status"]["conditions"]})),
            ("..type", json!("Live")),
            (".spec.*", json!(["x", "y", "z"])),
        ] {
            let parsed = JsonPath::parse(path).unwrap();
            assert_eq!(parsed.first(&object), Some(&expected), "{path}");
        }
    }

    #[test]
    fn a_missing_key_has_no_value() {
        let object = json!({"spec": {"list": []}});
        for path in
            [".spec.size", ".a.b.c", ".spec.list[0]", ".spec.list[*]", ".spec.list[?(@.a==1)].b", ".spec[0]"]
        {
            assert_eq!(JsonPath::parse(path).unwrap().first(&object), None, "{path}");
        }
    }

    #[test]
    fn an_invalid_path_is_refused_with_its_position() {
        for (path, error) in [
            (".spec.list[", r#"unexpected "" at position 11 of ".spec.list[""#),
            (".spec.list[a]", r#"unexpected "a]" at position 11 of ".spec.list[a]""#),
            (".spec..", r#"unexpected "" at position 7 of ".spec..""#),
            ("spec", r#"unexpected "spec" at position 0 of "spec""#),
            (".a[?(@.b=)]", r#"unexpected "=)]" at position 8 of ".a[?(@.b=)]""#),
        ] {
            assert_eq!(JsonPath::parse(path).unwrap_err(), error, "{path}");
        }
    }

    #[test]
    fn paths_beyond_the_bounds_are_refused() {
        let nested = |depth: usize| format!(".a{}{}", "[?(@.a".repeat(depth), ")]".repeat(depth));
        JsonPath::parse(&nested(DEPTH)).unwrap();
        let error = JsonPath::parse(&nested(DEPTH + 1)).unwrap_err();
        assert_eq!(error, "more than 16 filters inside one another");
        // These paths are as long as a request body allows. Without the bound the parser would overflow the stack.
        for text in [nested(100_000), format!(".a{}", "[?(@.a".repeat(100_000)), ".a".repeat(100_000)] {
            JsonPath::parse(&text).unwrap_err();
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
            ("..*..*..*..*..*..*..*..*..*..*..*..*.none".to_owned(), &deep),
            ("..a".repeat(60) + ".none", &deep),
            (".list[*].none".to_owned(), &wide),
            (format!(".list[{}].none", "0,".repeat(2000) + "0"), &wide),
            (".list[?(@.a[?(@..b==1)])].none".to_owned(), &wide),
            (".list[?('x'=='y')].none".to_owned(), &wide),
        ] {
            let path = JsonPath::parse(&path).unwrap();
            let visits = Visits(Cell::new(VISITS));
            assert_eq!(visits.first(&path.steps, object), None);
        }
        let last = JsonPath::parse(".list[-1].a[2]").unwrap();
        assert_eq!(last.first(&wide), Some(&json!(3)), "what leads straight there is not far");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(path in "[\\[\\].*?()@$'\"\\\\:,=<>!a-z0-9é -]{0,30}") {
            let value = json!({"a": [{"b": 1}, [2]], "é": {"c": "d"}});
            if let Ok(path) = JsonPath::parse(&path) {
                let _ = path.first(&value);
            }
        }
    }
}
