//! YAML in the layout of `sigs.k8s.io/yaml`: block style, lists without indentation, sorted keys. Optionally, short collections stand on
//! one line.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::go;

/// Formats a value, with a newline at the end.
#[must_use]
pub fn write(value: &Value) -> String {
    // No brackets fit into a line of this width.
    write_with(value, 0)
}

/// Like [`write()`], but a list or map of scalars stands in brackets on one line if that line has at most `width` bytes. The result
/// resembles files that are written by hand.
#[must_use]
pub fn write_compact(value: &Value, width: usize) -> String {
    write_with(value, width)
}

fn write_with(value: &Value, width: usize) -> String {
    let mut out = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => write_fields(&mut out, fields, 0, false, width),
        Value::Array(items) if !items.is_empty() => write_items(&mut out, items, 0, width),
        other => {
            write_scalar(&mut out, other, 0);
            out.push('\n');
        }
    }
    out
}

/// Writes the fields of an object. `inline` is whether the first key continues a line after `- `.
fn write_fields(
    out: &mut String,
    fields: &Map<String, Value>,
    indent: usize,
    mut inline: bool,
    width: usize,
) {
    for (key, value) in fields {
        if !inline {
            push_indent(out, indent);
        }
        inline = false;
        write_string(out, key, indent, true);
        out.push(':');
        match value {
            _ if let Some(line) = on_one_line(value, width.saturating_sub(indent + key.len() + 2)) => {
                out.push(' ');
                out.push_str(&line);
                out.push('\n');
            }
            Value::Object(fields) if !fields.is_empty() => {
                out.push('\n');
                write_fields(out, fields, indent + 2, false, width);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                write_items(out, items, indent, width);
            }
            other => {
                out.push(' ');
                write_scalar(out, other, indent + 2);
                out.push('\n');
            }
        }
    }
}

fn write_items(out: &mut String, items: &[Value], indent: usize, width: usize) {
    for item in items {
        push_indent(out, indent);
        out.push_str("- ");
        match item {
            _ if let Some(line) = on_one_line(item, width.saturating_sub(indent + 2)) => {
                out.push_str(&line);
                out.push('\n');
            }
            Value::Object(fields) if !fields.is_empty() => write_fields(out, fields, indent + 2, true, width),
            Value::Array(items) if !items.is_empty() => {
                // A nested list begins on the line of its dash.
                let mut nested = String::new();
                write_items(&mut nested, items, indent + 2, width);
                out.push_str(nested.trim_start());
            }
            other => {
                write_scalar(out, other, indent + 2);
                out.push('\n');
            }
        }
    }
}

/// Formats a list or map of scalars in brackets, if it has at most `room` bytes.
fn on_one_line(value: &Value, room: usize) -> Option<String> {
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
                write_in_brackets(&mut line, item);
            }
            line.push(']');
        }
        Value::Object(fields) if room > 0 && !fields.is_empty() && fields.values().all(is_flat) => {
            for (index, (key, value)) in fields.iter().enumerate() {
                line.push_str(if index == 0 { "{" } else { ", " });
                write_in_brackets(&mut line, &Value::from(&**key));
                line.push_str(": ");
                write_in_brackets(&mut line, value);
            }
            line.push('}');
        }
        _ => return None,
    }
    (line.len() <= room).then_some(line)
}

/// Writes a scalar inside brackets. A text that contains characters with a meaning there is quoted.
fn write_in_brackets(out: &mut String, value: &Value) {
    match value {
        Value::String(text) if is_plain(text) && text.contains([',', '[', ']', '{', '}', '?']) => {
            out.push('\'');
            out.push_str(&text.replace('\'', "''"));
            out.push('\'');
        }
        Value::String(text) => write_string(out, text, 0, true),
        other => write_scalar(out, other, 0),
    }
}

fn push_indent(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn write_scalar(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(text) => write_string(out, text, indent, false),
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        Value::Number(number) if number.as_f64().is_some_and(is_whole) => out.push_str(&go::json(value)),
        other => {
            // Writing into a String cannot fail.
            let _ = write!(out, "{other}");
        }
    }
}

/// Whether a number is written without an exponent, because Go reads its JSON text as an integer of 64 bits, with or without a sign.
fn is_whole(number: f64) -> bool {
    number.fract() == 0.0 && (-9_223_372_036_854_775_808.0..18_446_744_073_709_551_616.0).contains(&number)
}

fn write_string(out: &mut String, text: &str, indent: usize, key: bool) {
    let block = text.contains('\n') && !text.starts_with(['\n', ' ']);
    if block && !key && !text.chars().any(|c| is_special(c) && c != '\n') {
        write_block(out, text, indent);
    } else if is_plain(text) {
        out.push_str(text);
    } else if needs_escapes(text) || resolves_to_other_type(text) {
        // A JSON string is valid in YAML if the special characters that JSON leaves unescaped are escaped.
        for c in Value::from(text).to_string().chars() {
            if is_special(c) {
                // Writing into a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            } else {
                out.push(c);
            }
        }
    } else {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    }
}

fn write_block(out: &mut String, text: &str, indent: usize) {
    out.push('|');
    let body = text.trim_end_matches('\n');
    match text.len() - body.len() {
        0 => out.push('-'),
        1 => {}
        _ => out.push('+'),
    }
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            push_indent(out, indent);
            out.push_str(line);
        }
    }
}

fn needs_escapes(text: &str) -> bool {
    text.chars().any(is_special)
}

/// Whether YAML forbids a character or gives it a special meaning. Each of these characters has four hex digits.
fn is_special(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether a plain text would be read as a type other than string.
fn resolves_to_other_type(text: &str) -> bool {
    const WORDS: [&str; 22] = [
        "", "~", "null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE", "yes", "Yes",
        "YES", "no", "No", "NO", "on", "On", "ON", "off", "Off",
    ];
    if WORDS.contains(&text) || ["OFF", "y", "Y", "n", "N", "<<", "="].contains(&text) {
        return true;
    }
    let digits = text.trim_start_matches(['+', '-', '.']);
    let numeric = digits.starts_with(|c: char| c.is_ascii_digit())
        && (text.parse::<f64>().is_ok()
            || text.replace('_', "").parse::<f64>().is_ok()
            || digits.starts_with("0x")
            || digits.starts_with("0b")
            || digits.starts_with("0o"));
    let special = [".nan", ".inf", "+.inf", "-.inf"].contains(&text.to_ascii_lowercase().as_str());
    numeric || special || is_timestamp(text) || is_sexagesimal(text)
}

/// Whether the text begins with a date such as `2006-01-02`, which has a type of its own in YAML 1.1.
fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let date = (0..4).all(digit)
        && bytes.get(4) == Some(&b'-')
        && digit(5)
        && digit(6)
        && bytes.get(7) == Some(&b'-')
        && digit(8)
        && digit(9);
    date && bytes.get(10).is_none_or(|c| matches!(c, b'T' | b't' | b' '))
}

/// Whether the text is a number to base 60 in YAML 1.1, such as `1:30`.
fn is_sexagesimal(text: &str) -> bool {
    let unsigned = text.trim_start_matches(['+', '-']);
    let mut parts = unsigned.split(':');
    let first = parts.next().unwrap_or_default();
    unsigned.contains(':')
        && !first.is_empty()
        && first.bytes().all(|c| c.is_ascii_digit())
        && parts.all(|part| !part.is_empty() && part.len() <= 2 && part.bytes().all(|c| c.is_ascii_digit()))
}

fn is_plain(text: &str) -> bool {
    let Some(first) = text.chars().next() else {
        return false;
    };
    let last = text.chars().last().unwrap_or(first);
    let starts_badly = match first {
        // These have a meaning only before a space, or alone.
        '-' | '?' | ':' => text.len() == 1 || text[1..].starts_with(' '),
        ',' | '[' | ']' | '{' | '}' | '#' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`'
        | ' ' => true,
        _ => false,
    };
    !starts_badly
        && last != ' '
        && last != ':'
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.starts_with("---")
        && !text.starts_with("...")
        && !needs_escapes(text)
        && !resolves_to_other_type(text)
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
            "- 9223372036854776000\n- -9223372036854776000\n- 10000000000000000\n- 1.5\n- 3\n"
        );
        assert!(write(&json!(1e21)).contains('e'));
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
    fn check(text: &str) {
        let value = json!({"k": [text, {text: text}], text: {"l": text}});
        for written in [write(&value), write_compact(&value, 60)] {
            let read = super::super::read(written.as_bytes());
            assert_eq!(read.map(|decoded| decoded.value).as_ref(), Ok(&value), "{text:?}: {written}");
        }
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
            "a\u{85}b",
            "\u{2028}\n",
            "\u{feff}",
            "\u{fffe}",
            "\u{ffff}x",
            "\u{7f}",
            "\u{1fffe}",
        ] {
            check(text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_written_value_is_read_back(
            text in proptest::prelude::any::<String>(),
            odd in "[-a:#'\"\n \t,?&*!|>%@`{}\\[\\]~\u{80}-\u{a0}\u{2020}-\u{2030}\u{fef0}-\u{ffff}]{0,8}",
        ) {
            check(&text);
            check(&odd);
        }
    }
}
