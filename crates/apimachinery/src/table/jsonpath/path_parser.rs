//! Parser of paths, with the grammar of client-go, which differs from other JSONPath in rare cases: a bracket ends at the first `]`, even
//! inside of quotes, and a filter at the first `)` outside of quotes; keys in brackets and the sides of a comparison are expressions of
//! their own.

use serde_json::Value;

use super::{DEPTH, Filter, JsonPathStep, Operator, Slice, SliceEnd};

/// Parses a text with expressions in braces, and returns the expressions. Text outside of them has no effect on a column.
pub(super) fn template(text: &str, depth: usize) -> Result<Vec<Vec<JsonPathStep>>, String> {
    if depth > DEPTH {
        return Err(format!("more than {DEPTH} expressions inside one another"));
    }
    let mut expressions = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let mut expression = ExpressionParser { rest: &rest[start + 1..], steps: Vec::new(), depth };
        expression.parse()?;
        rest = expression.rest;
        expressions.push(expression.steps);
    }
    Ok(expressions)
}

/// Parses a part of an expression: the first expression of its text in braces.
fn part(text: &str, depth: usize) -> Result<Vec<JsonPathStep>, String> {
    Ok(template(&format!("{{{text}}}"), depth + 1)?.swap_remove(0))
}

struct ExpressionParser<'a> {
    rest: &'a str,
    steps: Vec<JsonPathStep>,
    /// Number of expressions around this one.
    depth: usize,
}

impl<'a> ExpressionParser<'a> {
    /// Parses up to the closing brace, and removes it.
    fn parse(&mut self) -> Result<(), String> {
        loop {
            if self.eat("}") {
                return Ok(());
            }
            if self.eat("[?(") {
                self.filter()?;
            } else if self.eat("..") {
                self.recursive()?;
            } else {
                match self.rest.chars().next() {
                    None | Some('\r' | '\n') => return Err("an expression does not end".to_owned()),
                    // client-go ignores these wherever a step may begin.
                    Some(' ' | '@' | '$') => self.rest = &self.rest[1..],
                    Some('[') => self.bracket()?,
                    Some(quote @ ('"' | '\'')) => self.quoted(quote)?,
                    Some('.') => {
                        self.rest = &self.rest[1..];
                        self.field();
                    }
                    Some(sign) if sign == '+' || sign == '-' || sign.is_numeric() => self.number()?,
                    Some(letter) if is_letter(letter) => self.word(),
                    Some(other) => return Err(format!("an unexpected {other:?}")),
                }
            }
        }
    }

    fn recursive(&mut self) -> Result<(), String> {
        if self.steps.last() == Some(&JsonPathStep::Recursive) {
            return Err("`..` after `..`".to_owned());
        }
        self.steps.push(JsonPathStep::Recursive);
        if self.rest.chars().next().is_some_and(|next| is_letter(next) || next.is_numeric()) {
            self.field();
        }
        Ok(())
    }

    /// Parses a name, which may be empty, up to a character that ends it.
    fn field(&mut self) {
        let mut characters = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, character)) = characters.next() {
            match character {
                // `example\.com/app` is one name.
                '\\' => _ = characters.next(),
                character if ends_name(character) => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        let name = self.take(end);
        self.steps.push(match name {
            "*" => JsonPathStep::Wildcard,
            name => JsonPathStep::Field(name.replace('\\', "")),
        });
    }

    fn word(&mut self) {
        let end = self.rest.find(ends_name).unwrap_or(self.rest.len());
        let step = match self.take(end) {
            "true" => JsonPathStep::Literal(Value::Bool(true)),
            "false" => JsonPathStep::Literal(Value::Bool(false)),
            _ => JsonPathStep::Word,
        };
        self.steps.push(step);
    }

    fn number(&mut self) -> Result<(), String> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = &self.rest[sign..];
        let end = digits.find(|c: char| c != '.' && !c.is_numeric()).unwrap_or(digits.len());
        let text = self.take(sign + end);
        let float = || text.parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Value::Number);
        let number = text.parse::<i64>().ok().map(Value::from).or_else(float);
        self.steps.push(JsonPathStep::Literal(number.ok_or_else(|| format!("{text} is no number"))?));
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Result<(), String> {
        let mut before = quote;
        let mut end = None;
        for (at, character) in self.rest.char_indices().skip(1) {
            if character == '\n' {
                break;
            }
            if character == quote && before != '\\' {
                end = Some(at);
                break;
            }
            before = character;
        }
        let end = end.ok_or("a text does not end")?;
        let text = unescaped(&self.rest[1..end], quote).ok_or("a text has an invalid escape")?;
        self.rest = &self.rest[end + 1..];
        self.steps.push(JsonPathStep::Text(Value::from(text)));
        Ok(())
    }

    /// Parses `[0]`, `['a']`, `[1:5:2]` or a union of them.
    fn bracket(&mut self) -> Result<(), String> {
        let end = self.rest.find([']', '\n']).filter(|end| self.rest.as_bytes()[*end] == b']');
        let text = self.take(end.ok_or("a bracket does not end")? + 1);
        let text = &text[1..text.len() - 1];
        // A comma in quotes divides the union, too.
        if text.contains(',') {
            let parts =
                text.split(',').map(|text| part(&format!("[{}]", text.trim_matches(' ')), self.depth));
            self.steps.push(JsonPathStep::Union(parts.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let key = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        match key.filter(|key| !key.contains('\'')) {
            Some(key) => self.steps.extend(part(&format!(".{key}"), self.depth)?),
            None => {
                let slice = slice(if text == "*" { ":" } else { text });
                self.steps.push(JsonPathStep::Slice(slice.ok_or_else(|| format!("{text:?} is no index"))?));
            }
        }
        Ok(())
    }

    /// Parses the rest of a filter, including the `)]`.
    fn filter(&mut self) -> Result<(), String> {
        let end = self.end_of_filter().ok_or("a filter does not end")?;
        let text = self.take(end);
        if !self.eat(")]") {
            return Err("a filter does not end with )]".to_owned());
        }
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let start = text.find(is_operator).filter(|start| *start > 0);
        let comparison = start.and_then(|start| {
            let (left, rest) = text.split_at(start);
            let operators = rest.find(|c| !is_operator(c)).unwrap_or(rest.len());
            // Something must follow; if only operators are left, their last one counts as the right side.
            let length = operators.min(rest.len() - 1);
            (length > 0).then(|| (left, &rest[..length], &rest[length..]))
        });
        let filter = match comparison {
            None => Filter { left: part(text, self.depth)?, compare: None },
            Some((left, operator, right)) => Filter {
                left: part(left, self.depth)?,
                compare: Some((self::operator(operator), part(right, self.depth)?)),
            },
        };
        self.steps.push(JsonPathStep::Filter(filter));
        Ok(())
    }

    /// Returns the position of the first `)` outside of quotes. As in client-go, only the first text in quotes counts: a `)` in a second one
    /// ends the filter.
    fn end_of_filter(&self) -> Option<usize> {
        let mut quote = None;
        let mut closed = false;
        let mut before = '(';
        for (at, character) in self.rest.char_indices() {
            match character {
                '\n' => return None,
                '"' | '\'' => match quote {
                    None => quote = Some(character),
                    Some(quote) => closed |= quote == character && before != '\\',
                },
                ')' if quote.is_some() == closed => return Some(at),
                _ => {}
            }
            before = character;
        }
        None
    }

    /// Removes and returns the first bytes.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn eat(&mut self, token: &str) -> bool {
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }
}

fn operator(text: &str) -> Operator {
    match text {
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        _ => Operator::Unknown,
    }
}

/// Parses `3`, `-1`, `1:5`, `::2` or nothing, which is the first element.
fn slice(text: &str) -> Option<Slice> {
    let mut parts = text.split(':');
    let number = |text: &str| match text {
        "" => Some(None),
        text if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => text.parse().ok().map(Some),
        _ => None,
    };
    let from: Option<i64> = number(parts.next()?)?;
    let to = match parts.next() {
        None => SliceEnd::AfterFirst,
        Some(text) => number(text)?.map_or(SliceEnd::Last, SliceEnd::At),
    };
    let step = match parts.next() {
        None => None,
        Some(text) => number(text)?,
    };
    parts.next().is_none().then_some(Slice { from, to, step })
}

/// Replaces the escapes of a text in Go's quotes; `None` if one is invalid. The other kind of quote must not be escaped.
fn unescaped(text: &str, quote: char) -> Option<String> {
    let mut characters = text.chars();
    let mut out = String::new();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        let escape = characters.next()?;
        let mut code = |digits: usize, radix: u32| {
            let text: String = characters.by_ref().take(digits).collect();
            let number = (text.len() == digits).then(|| u32::from_str_radix(&text, radix).ok())??;
            char::from_u32(number)
        };
        out.push(match escape {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '\\' => '\\',
            escaped if escaped == quote => quote,
            'x' => code(2, 16)?,
            'u' => code(4, 16)?,
            'U' => code(8, 16)?,
            first @ '0'..='7' => {
                let rest = u32::from(code(2, 8)?);
                char::from_u32(first.to_digit(8)? * 64 + rest).filter(|code| u32::from(*code) < 256)?
            }
            _ => return None,
        });
    }
    Some(out)
}

fn is_letter(character: char) -> bool {
    character == '_' || character.is_alphabetic()
}

fn ends_name(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_those_of_go() {
        for (text, quote, expected) in [
            (r"a\tb", '"', Some("a\tb")),
            (r"a\'b", '\'', Some("a'b")),
            (r"a\'b", '"', None),
            (r"\x41\u00e9\101", '"', Some("AéA")),
            (r"\400", '"', None),
            (r"\q", '"', None),
            (r"\x4", '"', None),
        ] {
            assert_eq!(unescaped(text, quote).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn slices_have_up_to_three_numbers() {
        let at = |from, to, step| Some(Slice { from, to, step });
        for (text, expected) in [
            ("", at(None, SliceEnd::AfterFirst, None)),
            ("3", at(Some(3), SliceEnd::AfterFirst, None)),
            (":", at(None, SliceEnd::Last, None)),
            ("1:-1:2", at(Some(1), SliceEnd::At(-1), Some(2))),
            ("1:2:3:4", None),
            ("+1", None),
            ("-", None),
            (" 1", None),
        ] {
            assert_eq!(slice(text), expected, "{text}");
        }
    }
}
