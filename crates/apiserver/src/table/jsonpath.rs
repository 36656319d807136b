//! The JSONPath of printer columns: what `k8s.io/client-go/util/jsonpath` reads between braces.
//!
//! Steps are `.name`, `['name']`, `.*`, `[*]`, `[3]`, `[-1]`, `[1:5:2]`, `[0,2]`, `['a','b']`, `..name` and
//! `[?(@.type=="Ready")]`. A missing key ends a branch silently. Only the first value found counts, so evaluation stops
//! there.

use std::cmp::Ordering;

use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// `.*` and `[*]`.
    Wildcard,
    /// `..`: the value and everything below it.
    Recursive,
    /// One or more of several: `[0,2]`, `['a','b']`.
    Union(Vec<Step>),
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
    /// `None` asks only whether the left side exists.
    compare: Option<(Operator, Operand)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    /// `@.type`
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
    /// Parses `.spec.size`; a leading `$` or `@` stands for the object.
    ///
    /// # Errors
    /// Says at which character the path cannot be understood.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text, rest: text.trim() };
        let steps = parser.steps()?;
        if !parser.rest.is_empty() {
            return Err(parser.error());
        }
        Ok(Self { steps })
    }

    /// The first value the path leads to.
    pub(crate) fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        first(&self.steps, object)
    }
}

/// Depth first, as the values of a list are printed in order.
fn first<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else {
        return Some(value);
    };
    match step {
        Step::Field(name) => first(rest, value.get(name)?),
        Step::Wildcard => children(value).find_map(|child| first(rest, child)),
        Step::Recursive => {
            first(rest, value).or_else(|| children(value).find_map(|child| first(steps, child)))
        }
        Step::Union(parts) => parts
            .iter()
            .find_map(|part| first(std::slice::from_ref(part), value).and_then(|found| first(rest, found))),
        Step::Slice { from, to, step } => {
            slice(value.as_array()?, *from, *to, *step).into_iter().find_map(|element| first(rest, element))
        }
        Step::Filter(filter) => value
            .as_array()?
            .iter()
            .filter(|element| filter.holds(element))
            .find_map(|element| first(rest, element)),
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(list) => Box::new(list.iter()),
        Value::Object(map) => Box::new(map.values()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Elements `from..to` in steps; negative positions count from the end.
fn slice(list: &[Value], from: Option<i64>, to: Option<i64>, step: i64) -> Vec<&Value> {
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let position = |place: i64| if place < 0 { place + length } else { place };
    let from = position(from.unwrap_or(0)).max(0);
    let to = to.map_or(length, position).min(length);
    let mut found = Vec::new();
    let mut at = from;
    while at < to {
        if let Some(element) = usize::try_from(at).ok().and_then(|at| list.get(at)) {
            found.push(element);
        }
        at = at.saturating_add(step);
    }
    found
}

impl Filter {
    fn holds(&self, element: &Value) -> bool {
        let Some(left) = self.left.value(element) else {
            return false;
        };
        let Some((operator, right)) = &self.compare else {
            return true;
        };
        let Some(right) = right.value(element) else {
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
}

impl Operand {
    fn value<'a>(&'a self, element: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Path(path) => path.first(element),
            Self::Literal(value) => Some(value),
        }
    }
}

/// Values of one type have an order, others have none.
fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    /// As many steps as there are; stops at the first character that begins none.
    fn steps(&mut self) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        if !self.eat("$") {
            self.eat("@");
        }
        loop {
            if self.eat("..") {
                steps.push(Step::Recursive);
                if !self.rest.starts_with('[') {
                    steps.push(self.name_or_star()?);
                }
            } else if self.eat(".") {
                // A lone dot is the object itself, and `.['a']` is `['a']`.
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

    fn name_or_star(&mut self) -> Result<Step, String> {
        if self.eat("*") {
            return Ok(Step::Wildcard);
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
        Ok(Step::Field(name))
    }

    /// What follows a `[`, including the `]`.
    fn bracket(&mut self) -> Result<Step, String> {
        if self.eat("*]") {
            return Ok(Step::Wildcard);
        }
        if self.eat("?(") {
            let filter = self.filter()?;
            return Ok(Step::Filter(filter));
        }
        let mut parts = Vec::new();
        loop {
            self.eat_spaces();
            let part =
                if self.rest.starts_with(['\'', '"']) { Step::Field(self.quoted()?) } else { self.slice()? };
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
            _ => Step::Union(parts),
        })
    }

    /// `3`, `-1`, `1:5`, `::2`
    fn slice(&mut self) -> Result<Step, String> {
        let from = self.integer();
        if !self.eat(":") {
            let from = from.ok_or_else(|| self.error())?;
            // -1 is the last element, whose end has no number of its own.
            let to = (from != -1).then(|| from.saturating_add(1));
            return Ok(Step::Slice { from: Some(from), to, step: 1 });
        }
        let to = self.integer();
        let step = if self.eat(":") { self.integer().unwrap_or(1) } else { 1 };
        if step < 1 {
            return Err(self.error());
        }
        Ok(Step::Slice { from, to, step })
    }

    fn integer(&mut self) -> Option<i64> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(self.rest.len());
        let number = self.rest[..end].parse().ok()?;
        self.rest = &self.rest[end..];
        Some(number)
    }

    /// What follows a `?(`, including the `)]`.
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
    fn what_is_missing_is_nothing() {
        let object = json!({"spec": {"list": []}});
        for path in
            [".spec.size", ".a.b.c", ".spec.list[0]", ".spec.list[*]", ".spec.list[?(@.a==1)].b", ".spec[0]"]
        {
            assert_eq!(JsonPath::parse(path).unwrap().first(&object), None, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_says_where() {
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
