//! Field paths in definitions, as selectable fields and CEL rules use them: `.spec.color`, `.spec.labels['a.b']`.

use serde_json::Value;

use super::source::{Additional, additional, has_entries, property};

/// Whether a path may contain `['key']`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brackets {
    /// A path may contain them.
    Allowed,
    /// A path that contains them is an error.
    Forbidden,
}

/// The field at a path.
#[derive(Debug)]
pub struct Found<'a> {
    /// Path in messages: `spec.labels[a.b]`.
    pub path: String,
    /// First name of the path.
    pub root: String,
    /// Schema of the field; `None` if any value is allowed there.
    pub schema: Option<&'a Value>,
}

/// Finds the field of `schema` at `path`.
///
/// # Errors
/// kube-apiserver's reason why the path is invalid.
pub fn find<'a>(path: &str, schema: &'a Value, brackets: Brackets) -> Result<Found<'a>, String> {
    let mut found = Found { path: String::new(), root: String::new(), schema: Some(schema) };
    let mut rest = path;
    let end = || "unexpected end of JSON path".to_owned();
    while let Some((token, after)) = token(rest) {
        rest = after;
        let name = match token {
            "[" if brackets == Brackets::Forbidden => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let (quoted, after) = self::token(rest).ok_or_else(end)?;
                rest = after;
                let name = quoted.strip_prefix('\'').and_then(|name| name.strip_suffix('\''));
                unescape(name.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?)
            }
            "." => {
                let (name, after) = self::token(rest).ok_or_else(end)?;
                rest = after;
                name.to_owned()
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        found.step(&name)?;
        // The closing bracket is checked after the name, so that an unknown field is reported first.
        if token == "[" {
            let (closing, after) = self::token(rest).ok_or_else(end)?;
            rest = after;
            if closing != "]" {
                return Err(format!("expected ] but got {closing}"));
            }
        }
    }
    Ok(found)
}

impl Found<'_> {
    fn step(&mut self, name: &str) -> Result<(), String> {
        let missing = || "does not refer to a valid field".to_owned();
        let schema = self.schema.ok_or_else(missing)?;
        let declared = has_entries(schema, "properties");
        self.schema = match additional(schema) {
            // `additionalProperties` counts only for a schema without properties.
            _ if declared => Some(property(schema, name).ok_or_else(missing)?),
            Additional::Schema(schema) => Some(schema),
            Additional::Any | Additional::Nothing => None,
            Additional::Absent => return Err(missing()),
        };
        // Messages show fields as `.name` and keys of maps as `[name]`, whatever the notation of the path.
        if self.path.is_empty() {
            name.clone_into(&mut self.root);
            name.clone_into(&mut self.path);
        } else if declared {
            self.path.push('.');
            self.path.push_str(name);
        } else {
            self.path.push_str(&format!("[{name}]"));
        }
        Ok(())
    }
}

/// Splits a delimiter, a quoted text or a name from the start of a path.
fn token(path: &str) -> Option<(&str, &str)> {
    let first = path.chars().next()?;
    let end = match first {
        '.' | '[' | ']' => 1,
        '\'' => {
            let bytes = path.as_bytes();
            // The text ends at the first quote without a backslash before it.
            let closing = (1..bytes.len()).find(|at| bytes[*at] == b'\'' && bytes[at - 1] != b'\\');
            closing.map_or(path.len(), |at| at + 1)
        }
        _ => path.find(['.', '[', ']']).unwrap_or(path.len()),
    };
    Some(path.split_at(end))
}

/// Replaces the escape sequences of a quoted text.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let letter = if letter == '\\' {
            letters.next()
        } else {
            plain.push(letter);
            continue;
        };
        match letter {
            Some('a') => plain.push('\x07'),
            Some('b') => plain.push('\x08'),
            Some('f') => plain.push('\x0c'),
            Some('n') => plain.push('\n'),
            Some('r') => plain.push('\r'),
            Some('t') => plain.push('\t'),
            Some('v') => plain.push('\x0b'),
            Some(other) => plain.push(other),
            None => plain.push('\\'),
        }
    }
    plain
}
