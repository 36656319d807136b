//! YAML in the layout of `sigs.k8s.io/yaml`, which kube-apiserver uses: block style, lists without indentation, keys in natural order, lines
//! folded at 80 columns. A second form is for files that people edit.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::key_order;
use super::scalar_style::{self, Rules, ScalarPlace};
use super::text_cursor::is_break;
use crate::go;

/// Formats a value as kube-apiserver does, with a newline at the end.
///
/// Go's library writes a few values that YAML readers read differently: the key `<<`, and texts with line breaks of Unicode.
#[must_use]
pub fn write(value: &Value) -> String {
    DocumentWriter { rules: Rules::Go, width: 0 }.document(value)
}

/// Formats a value without folded lines, in the order of its keys. A list or map of scalars stands in brackets on one line if that line has at
/// most `width` bytes. The result resembles files that are written by hand.
#[must_use]
pub fn write_compact(value: &Value, width: usize) -> String {
    DocumentWriter { rules: Rules::Handwritten, width }.document(value)
}

/// Checks that kube-apiserver can write a value as YAML.
///
/// kube-apiserver converts JSON to YAML, and its YAML reader refuses control characters that JSON does not escape.
///
/// # Errors
/// The library's message.
pub fn check_writable(value: &Value) -> Result<(), &'static str> {
    if has_control_character(value) { Err(CONTROL_CHARACTERS) } else { Ok(()) }
}

const CONTROL_CHARACTERS: &str = "yaml: control characters are not allowed";

fn has_control_character(value: &Value) -> bool {
    let is_refused =
        |c: char| matches!(c, '\u{7f}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}');
    match value {
        Value::String(text) => text.contains(is_refused),
        Value::Array(items) => items.iter().any(has_control_character),
        Value::Object(fields) => {
            fields.iter().any(|(key, value)| key.contains(is_refused) || has_control_character(value))
        }
        _ => false,
    }
}

/// Rules of a document, and the space for brackets.
#[derive(Clone, Copy)]
struct DocumentWriter {
    rules: Rules,
    width: usize,
}

/// Place at which a list or map begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// On a line of its own.
    Line,
    /// On the current line, after `- ` or `: `.
    Inline,
}

impl DocumentWriter {
    fn document(self, value: &Value) -> String {
        let mut out = String::new();
        match value {
            Value::Object(fields) if !fields.is_empty() => self.fields(&mut out, fields, 0, Begin::Inline),
            Value::Array(items) if !items.is_empty() => self.items(&mut out, items, 0, Begin::Inline),
            other => {
                self.scalar(&mut out, other, 2);
                end_line(&mut out);
            }
        }
        out
    }

    fn fields(self, out: &mut String, fields: &Map<String, Value>, indent: usize, mut begin: Begin) {
        let sorted = match self.rules {
            Rules::Go => key_order::sorted(fields),
            Rules::Handwritten => fields.iter().collect(),
        };
        for (key, value) in sorted {
            if begin == Begin::Line {
                push_indent(out, indent);
            }
            begin = Begin::Line;
            // A long key, or one of several lines, cannot stand before its colon on one line.
            if self.rules == Rules::Go && !scalar_style::is_simple_key(key) {
                out.push_str("? ");
                self.string(out, key, ScalarPlace { indent: indent + 2, is_simple_key: false });
                end_line(out);
                push_indent(out, indent);
                out.push_str(": ");
                self.nested(out, value, indent + 2);
                continue;
            }
            self.string(out, key, ScalarPlace { indent, is_simple_key: true });
            out.push(':');
            match value {
                _ if let Some(line) = self.on_one_line(value, indent + key.len() + 2) => {
                    out.push(' ');
                    out.push_str(&line);
                    out.push('\n');
                }
                Value::Object(fields) if !fields.is_empty() => {
                    out.push('\n');
                    self.fields(out, fields, indent + 2, Begin::Line);
                }
                // A list stands in the column of its key.
                Value::Array(items) if !items.is_empty() => {
                    out.push('\n');
                    self.items(out, items, indent, Begin::Line);
                }
                other => {
                    out.push(' ');
                    self.scalar(out, other, indent + 2);
                    end_line(out);
                }
            }
        }
    }

    fn items(self, out: &mut String, items: &[Value], indent: usize, mut begin: Begin) {
        for item in items {
            if begin == Begin::Line {
                push_indent(out, indent);
            }
            begin = Begin::Line;
            out.push_str("- ");
            match self.on_one_line(item, indent + 2) {
                Some(line) => {
                    out.push_str(&line);
                    out.push('\n');
                }
                None => self.nested(out, item, indent + 2),
            }
        }
    }

    /// Writes a value after `- ` or `: `.
    fn nested(self, out: &mut String, value: &Value, indent: usize) {
        match value {
            Value::Object(fields) if !fields.is_empty() => self.fields(out, fields, indent, Begin::Inline),
            Value::Array(items) if !items.is_empty() => self.items(out, items, indent, Begin::Inline),
            other => {
                self.scalar(out, other, indent);
                end_line(out);
            }
        }
    }

    /// Formats a list or map of scalars in brackets, if it fits into the line after `used` bytes.
    fn on_one_line(self, value: &Value, used: usize) -> Option<String> {
        // Kubernetes' form has the width zero, so nothing stands in brackets.
        let room = self.width.saturating_sub(used);
        let is_flat = |value: &Value| match value {
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::String(text) => text.len() <= room && !text.contains('\n'),
            _ => true,
        };
        let mut line = String::new();
        match value {
            Value::Array(items) if room > 0 && !items.is_empty() && items.iter().all(is_flat) => {
                for (index, item) in items.iter().enumerate() {
                    line.push_str(if index == 0 { "[" } else { ", " });
                    self.in_brackets(&mut line, item);
                }
                line.push(']');
            }
            Value::Object(fields) if room > 0 && !fields.is_empty() && fields.values().all(is_flat) => {
                for (index, (key, value)) in fields.iter().enumerate() {
                    line.push_str(if index == 0 { "{" } else { ", " });
                    self.in_brackets(&mut line, &Value::from(&**key));
                    line.push_str(": ");
                    self.in_brackets(&mut line, value);
                }
                line.push('}');
            }
            _ => return None,
        }
        (line.len() <= room).then_some(line)
    }

    /// Writes a scalar inside brackets. A text that contains characters with a meaning there is quoted.
    fn in_brackets(self, out: &mut String, value: &Value) {
        match value {
            Value::String(text)
                if (text.contains([',', '[', ']', '{', '}', '?']) || text.starts_with(':'))
                    && scalar_style::is_plain(text, self.rules) =>
            {
                out.push('\'');
                out.push_str(&text.replace('\'', "''"));
                out.push('\'');
            }
            Value::String(text) => self.string(out, text, ScalarPlace { indent: 0, is_simple_key: true }),
            other => self.scalar(out, other, 0),
        }
    }

    fn scalar(self, out: &mut String, value: &Value, indent: usize) {
        match value {
            Value::String(text) => self.string(out, text, ScalarPlace { indent, is_simple_key: false }),
            Value::Object(_) => out.push_str("{}"),
            Value::Array(_) => out.push_str("[]"),
            Value::Number(number) => out.push_str(&number_text(number.as_f64(), value)),
            Value::Bool(true) => out.push_str("true"),
            Value::Bool(false) => out.push_str("false"),
            Value::Null => out.push_str("null"),
        }
    }

    fn string(self, out: &mut String, text: &str, place: ScalarPlace) {
        let text = match self.rules {
            Rules::Go => with_folded_breaks(text),
            Rules::Handwritten => Cow::Borrowed(text),
        };
        scalar_style::write(out, &text, place, self.rules);
    }
}

fn push_indent(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// Ends the line of a scalar, unless a block ended it.
fn end_line(out: &mut String) {
    if !out.ends_with(is_break) {
        out.push('\n');
    }
}

/// Formats a number as Go's YAML library writes it after it has read its JSON text: as an integer if 64 bits can hold it, signed or unsigned;
/// otherwise as a float.
fn number_text(number: Option<f64>, value: &Value) -> String {
    let text = go::json(value);
    if text == "-0" {
        return "0".to_owned();
    }
    let is_integer = text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
    number.filter(|_| !is_integer).map_or(text, go::float)
}

/// Folds the line breaks U+0085 of a text. kube-apiserver converts its own JSON to YAML: the JSON contains these breaks unescaped, and the YAML
/// reader folds lines in quotes. A single break becomes a space, each further one a newline, and spaces around them are dropped.
fn with_folded_breaks(text: &str) -> Cow<'_, str> {
    const BREAK: char = '\u{85}';
    if !text.contains(BREAK) {
        return Cow::Borrowed(text);
    }
    let mut folded = String::with_capacity(text.len());
    let mut parts = text.split(BREAK).peekable();
    let mut breaks = 0;
    let mut is_first = true;
    while let Some(part) = parts.next() {
        let part = if is_first { part } else { part.trim_start_matches(' ') };
        let part = if parts.peek().is_some() { part.trim_end_matches(' ') } else { part };
        if !part.is_empty() || parts.peek().is_none() {
            match breaks {
                0 => {}
                1 => folded.push(' '),
                more => folded.extend(std::iter::repeat_n('\n', more - 1)),
            }
            breaks = 0;
        }
        folded.push_str(part);
        breaks += 1;
        is_first = false;
    }
    Cow::Owned(folded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn large_numbers_have_an_exponent_where_go_reads_floats() {
        let value = json!([9_223_372_036_854_775_808.0, -9_223_372_036_854_775_808.0, 1e16, 1.5, 3]);
        assert_eq!(
            write(&value),
            "- 9223372036854776000\n- -9.223372036854776e+18\n- 10000000000000000\n- 1.5\n- 3\n"
        );
        assert_eq!(
            write(&json!([1e21, 1_234_567.5, 1e-5, 123_456.5, -0.0])),
            "- 1e+21\n- 1.2345675e+06\n- 1e-05\n- 123456.5\n- 0\n"
        );
    }

    #[test]
    fn the_layout_is_that_of_go() {
        let value = json!({
            "a": {}, "b": [], "c": [{"x": 1, "y": [1, [2]]}, "z"], "d": "true", "e": "1.5", "f": "a: b",
            "g": "two\nlines\n", "h": "2024-01-01T00:00:00Z", "i": "", "j": null, "k": "plain text", "l": ".",
        });
        expect_test::expect![[r#"
            a: {}
            b: []
            c:
            - x: 1
              "y":
              - 1
              - - 2
            - z
            d: "true"
            e: "1.5"
            f: 'a: b'
            g: |
              two
              lines
            h: "2024-01-01T00:00:00Z"
            i: ""
            j: null
            k: plain text
            l: .
        "#]]
        .assert_eq(&write(&value));
    }

    #[track_caller]
    fn check_read_back(text: &str) {
        let value = json!({"k": [text, {text: text}], text: {"l": text, "m": [[text]]}});
        for written in [write(&value), write_compact(&value, 60)] {
            let read = super::super::read(written.as_bytes());
            assert_eq!(read.map(|decoded| decoded.value).as_ref(), Ok(&value), "{text:?}: {written}");
        }
    }

    #[test]
    fn long_lines_are_folded_at_spaces() {
        let words = "0123456789 ".repeat(9);
        let value = json!({
            "a": words.trim_end(), "b": [format!("{}: x", words.trim_end())], "c": format!("\t{words}  y  z"),
            "d": {"e": format!("{words} it's: {words}")}, "f": format!("{}\n", words.trim_end()),
            words.trim_end(): 1, format!("{words}{words}"): {"x": [1]},
        });
        expect_test::expect![[r#"
            0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789: 1
            ? '0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789
              0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789
              0123456789 0123456789 '
            : x:
              - 1
            a: 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789
              0123456789
            b:
            - '0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789
              0123456789: x'
            c: "\t0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789
              0123456789 0123456789   y  z"
            d:
              e: '0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789
                0123456789 0123456789  it''s: 0123456789 0123456789 0123456789 0123456789 0123456789
                0123456789 0123456789 0123456789 0123456789 '
            f: |
              0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789
        "#]]
        .assert_eq(&write(&value));
    }

    #[test]
    fn strings_have_the_styles_of_go() {
        for (text, expected) in [
            ("\n", "|2+\n\n"),
            (" a\nb", "|2-\n   a\n  b\n"),
            ("\na\n", "|2\n\n  a\n"),
            ("a\n\n", "|+\n  a\n\n"),
            ("a \nb", "\"a \\nb\"\n"),
            ("a\n b", "|-\n  a\n   b\n"),
            ("a\nb ", "\"a\\nb \"\n"),
            ("a\tb", "\"a\\tb\"\n"),
            ("\u{1f600} b", "\"\\U0001F600 b\"\n"),
            ("\u{feff}a", "\"\\uFEFF\\x61\"\n"),
            ("a\u{feff}b", "\"a\\uFEFFb\"\n"),
            ("a\u{2028}b", "'a\u{2028}  b'\n"),
            ("a \u{2028}b", "\"a \\Lb\"\n"),
            ("\u{1b}\u{7}\0\r\u{1}\"", "\"\\e\\a\\0\\r\\x01\\\"\"\n"),
            ("a\u{85}b", "a b\n"),
            ("a \u{85} \u{85} b\u{85}", "\"a\\nb \"\n"),
            ("=", "=\n"),
            ("<<", "<<\n"),
            ("0x", "0x\n"),
            ("0x1", "\"0x1\"\n"),
            ("\u{a0}x", "\u{a0}x\n"),
            ("a:\tb", "\"a:\\tb\"\n"),
            ("it's: b", "'it''s: b'\n"),
        ] {
            assert_eq!(write(&json!(text)), expected, "{text:?}");
        }
    }

    #[test]
    fn control_characters_are_refused() {
        for refused in ["\u{7f}", "a\u{80}", "\u{fffe}", "\u{9f}"] {
            assert_eq!(
                check_writable(&json!({"a": [{"b": refused}]})),
                Err(CONTROL_CHARACTERS),
                "{refused:?}"
            );
            assert!(check_writable(&json!({"a": [{refused: 1}]})).is_err(), "{refused:?}");
        }
        assert_eq!(check_writable(&json!({"a": ["\u{1}\u{85}\n", "\u{feff}\u{1f600}"]})), Ok(()));
    }

    #[test]
    fn short_collections_stand_on_one_line() {
        let value = json!({
            "a": {}, "b": [], "c": [{"x": 1, "y": "true"}, "z", [1, 2], {"deep": [1]}], "d": ["a, b", "c: d", "e]", ""],
            "e": ["a long text that fills a line", "with another one"], "f": ["two\nlines"],
        });
        expect_test::expect![[r#"
            a: {}
            b: []
            c:
            - {x: 1, "y": "true"}
            - z
            - [1, 2]
            - deep: [1]
            d: ['a, b', 'c: d', 'e]', ""]
            e:
            - a long text that fills a line
            - with another one
            f:
            - |-
              two
              lines
        "#]]
        .assert_eq(&write_compact(&value, 40));
    }

    #[test]
    fn written_values_are_read_back() {
        for text in [
            "a",
            "=",
            "0o8",
            "- b",
            "1e3",
            "0x1f",
            "12:30:45",
            "yes",
            " pad ",
            "#c",
            "q'q",
            "t\tt",
            "x\n\n",
            "\n",
            "a\nb",
            "\u{91}",
            "\u{feff}",
            "\u{fffe}",
            "\u{ffff}x",
            "\u{7f}",
            "\u{1fffe}",
            ":a",
        ] {
            check_read_back(text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_written_value_is_read_back(
            text in proptest::prelude::any::<String>(),
            odd in "[-a:#'\"\n \t,?&*!|>%@`{}\\[\\]~\u{86}-\u{a0}\u{2020}-\u{2027}\u{fef0}-\u{ffff}]{0,8}",
            long in "[-a:#'\" \\\\]{70,200}",
        ) {
            // YAML 1.1 breaks lines at these characters, and YAML 1.2 does not.
            if !text.contains(['\u{85}', '\u{2028}', '\u{2029}']) {
                check_read_back(&text);
            }
            check_read_back(&odd);
            check_read_back(&long);
        }
    }
}
