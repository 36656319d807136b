//! Grammar of label selectors in text.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = key | "!" key | key operator value | key ( "in" | "notin" ) "(" [ value { "," value } ] ")"
//! operator    = "=" | "==" | "!=" | ">" | "<"
//! ```

use std::collections::BTreeSet;

use super::labels::{Condition, Requirement};
use crate::{go, names};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SelectorToken<'a> {
    End,
    Word(&'a str),
    In,
    NotIn,
    Symbol(&'a str),
}

impl<'a> SelectorToken<'a> {
    /// Returns the token's text.
    fn text(self) -> &'a str {
        match self {
            Self::End => "",
            Self::Word(text) | Self::Symbol(text) => text,
            Self::In => "in",
            Self::NotIn => "notin",
        }
    }

    /// Returns `in` and `notin` as words, for places where they are keys or values.
    fn as_word(self) -> Self {
        match self {
            Self::In | Self::NotIn => Self::Word(self.text()),
            other => other,
        }
    }
}

type Parsed<T> = Result<T, String>;

/// Parses a selector. The error messages are part of the API.
pub(super) fn requirements(text: &str) -> Parsed<Vec<Requirement>> {
    let tokens = scan(text);
    let mut parser = SelectorParser { tokens: &tokens, at: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            SelectorToken::Word(_) | SelectorToken::Symbol("!") => {
                let requirement =
                    parser.requirement().map_err(|error| format!("unable to parse requirement: {error}"))?;
                requirements.push(requirement);
                match parser.next() {
                    SelectorToken::End => return Ok(requirements),
                    SelectorToken::Symbol(",") => match parser.peek() {
                        SelectorToken::Word(_) | SelectorToken::Symbol("!") => {}
                        other => {
                            return Err(format!("found '{}', expected: identifier after ','", other.text()));
                        }
                    },
                    other => {
                        return Err(format!("found '{}', expected: ',' or 'end of string'", other.text()));
                    }
                }
            }
            SelectorToken::End => return Ok(requirements),
            other => {
                return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text()));
            }
        }
    }
}

fn scan(text: &str) -> Vec<SelectorToken<'_>> {
    let is_symbol = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    // Go's scanner ends at a zero byte.
    let mut rest = text.split('\0').next().unwrap_or_default();
    let mut tokens = Vec::new();
    loop {
        rest = rest.trim_start_matches(is_space);
        let Some(first) = rest.chars().next() else {
            tokens.push(SelectorToken::End);
            return tokens;
        };
        let length = if is_symbol(first) {
            if rest.starts_with("==") || rest.starts_with("!=") { 2 } else { 1 }
        } else {
            rest.find(|c| is_symbol(c) || is_space(c)).unwrap_or(rest.len())
        };
        let (word, after) = rest.split_at(length);
        rest = after;
        tokens.push(match word {
            "in" => SelectorToken::In,
            "notin" => SelectorToken::NotIn,
            word if is_symbol(first) => SelectorToken::Symbol(word),
            word => SelectorToken::Word(word),
        });
    }
}

struct SelectorParser<'a> {
    tokens: &'a [SelectorToken<'a>],
    at: usize,
}

impl<'a> SelectorParser<'a> {
    fn peek(&self) -> SelectorToken<'a> {
        self.tokens.get(self.at).map_or(SelectorToken::End, |token| token.as_word())
    }

    fn next(&mut self) -> SelectorToken<'a> {
        self.next_operator().as_word()
    }

    /// Returns the next token; `in` and `notin` are operators here.
    fn next_operator(&mut self) -> SelectorToken<'a> {
        let token = self.tokens.get(self.at).copied().unwrap_or(SelectorToken::End);
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Parsed<Requirement> {
        let negated = self.peek() == SelectorToken::Symbol("!");
        if negated {
            self.next();
        }
        let key = match self.next() {
            SelectorToken::Word(key) => key.to_owned(),
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        check_key(&key)?;
        let condition = if negated {
            Condition::Absent
        } else if matches!(self.peek(), SelectorToken::End | SelectorToken::Symbol(",")) {
            Condition::Exists
        } else {
            self.condition(&key)?
        };
        Ok(Requirement { key, condition })
    }

    fn condition(&mut self, key: &str) -> Parsed<Condition> {
        let operator = self.next_operator();
        let condition = match operator {
            SelectorToken::In => Condition::In(self.values()?.into_iter().collect()),
            SelectorToken::NotIn => Condition::NotIn(self.values()?.into_iter().collect()),
            SelectorToken::Symbol("=" | "==") => Condition::Equals(self.value()?),
            SelectorToken::Symbol("!=") => Condition::NotEquals(self.value()?),
            SelectorToken::Symbol(">") => Condition::Greater(integer(&self.value()?)?),
            SelectorToken::Symbol("<") => Condition::Less(integer(&self.value()?)?),
            other => {
                return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text()));
            }
        };
        match &condition {
            Condition::Equals(value) | Condition::NotEquals(value) => check_values(key, [value])?,
            Condition::In(values) | Condition::NotIn(values) => check_values(key, values)?,
            _ => {}
        }
        Ok(condition)
    }

    /// Parses the value after an operator; a missing value is the empty string.
    fn value(&mut self) -> Parsed<String> {
        if matches!(self.peek(), SelectorToken::End | SelectorToken::Symbol(",")) {
            return Ok(String::new());
        }
        match self.next() {
            SelectorToken::Word(value) => Ok(value.to_owned()),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    /// Parses `(a,b)`; a missing value between commas is the empty string.
    fn values(&mut self) -> Parsed<BTreeSet<String>> {
        match self.next() {
            SelectorToken::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = BTreeSet::new();
        match self.peek() {
            // In Go, `()` has one value: the empty one.
            SelectorToken::Symbol(")") => {
                values.insert(String::new());
            }
            SelectorToken::Word(_) | SelectorToken::Symbol(",") => self.list(&mut values)?,
            other => {
                return Err(format!("found '{}', expected: ',', ')' or identifier", other.text()));
            }
        }
        match self.next() {
            SelectorToken::Symbol(")") => Ok(values),
            other => Err(format!("found '{}', expected: ')'", other.text())),
        }
    }

    fn list(&mut self, values: &mut BTreeSet<String>) -> Parsed<()> {
        loop {
            match self.next() {
                SelectorToken::Word(value) => {
                    values.insert(value.to_owned());
                    match self.peek() {
                        SelectorToken::Symbol(",") => {}
                        SelectorToken::Symbol(")") => return Ok(()),
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                SelectorToken::Symbol(",") => {
                    // `(,a)` begins with an empty value, `(a,)` ends with one, and `(a,,b)` has one in the middle.
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek() {
                        SelectorToken::Symbol(")") => {
                            values.insert(String::new());
                            return Ok(());
                        }
                        SelectorToken::Symbol(",") => {
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            }
        }
    }
}

fn integer(value: &str) -> Parsed<i64> {
    value.parse().map_err(|_| {
        let value = go::quote(value);
        format!("values[0]: Invalid value: {value}: for 'Gt', 'Lt' operators, the value must be an integer")
    })
}

fn check_key(key: &str) -> Parsed<()> {
    let errors = names::qualified(key);
    if errors.is_empty() {
        return Ok(());
    }
    Err(format!("<nil>: Invalid value: {}: {}", go::quote(key), errors.join("; ")))
}

fn check_values<'a>(key: &str, values: impl IntoIterator<Item = &'a String>) -> Parsed<()> {
    let errors: Vec<String> = values
        .into_iter()
        .enumerate()
        .filter_map(|(index, value)| {
            let errors = names::label_value(value);
            let why = errors.join("; ");
            let value = go::quote(value);
            (!errors.is_empty()).then(|| format!("values[{index}][{key}]: Invalid value: {value}: {why}"))
        })
        .collect();
    match errors.as_slice() {
        [] => Ok(()),
        [error] => Err(error.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_selectors_are_refused_with_the_servers_message() {
        for (text, error) in [
            ("app in web", "unable to parse requirement: found 'web' expected: '('"),
            ("=web", "found '=', expected: !, identifier, or 'end of string'"),
            ("app=bad value", "found 'value', expected: ',' or 'end of string'"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a,", "found '', expected: identifier after ','"),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("a=(b)", "unable to parse requirement: found '(', expected: identifier"),
            ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
            ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
            ("a in (b,=)", "unable to parse requirement: found '=', expected: ',', or identifier"),
            (
                "a>b",
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must \
                 be an integer",
            ),
            (
                "-x=y",
                "unable to parse requirement: <nil>: Invalid value: \"-x\": name part must consist of alphanumeric \
                 characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or \
                 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
        ] {
            assert_eq!(requirements(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn missing_values_between_commas_are_empty() {
        for (text, expected) in [
            ("a in (b,,)", &["", "b"][..]),
            ("a in (,,b)", &["", "b"]),
            ("a in (b,,c)", &["", "b", "c"]),
            ("a in (,,,)", &[""]),
            ("a in ()", &[""]),
        ] {
            let found = requirements(text).unwrap();
            let expected = expected.iter().map(|value| (*value).to_owned()).collect();
            assert_eq!(found[0].condition, Condition::In(expected), "{text}");
        }
    }

    #[test]
    fn a_wrong_value_is_named_with_its_key() {
        let error = requirements("a=-b").unwrap_err();
        assert!(
            error.starts_with(
                "unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label must be"
            ),
            "{error}"
        );
    }
}
