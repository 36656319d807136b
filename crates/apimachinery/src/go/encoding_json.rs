//! JSON as Go's `encoding/json` writes it, which differs from `serde_json` only in floats.

use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// Serializes a value.
#[must_use]
#[expect(clippy::missing_panics_doc, reason = "never happens: JSON is UTF-8, and its texts were")]
pub fn json(value: &Value) -> String {
    let mut out = Vec::with_capacity(128);
    write_json(&mut out, value);
    String::from_utf8(out).expect("JSON is UTF-8, and its texts were")
}

/// Appends the JSON text of a value.
pub fn write_json(out: &mut Vec<u8>, value: &Value) {
    // Writing a tree into a Vec cannot fail: its keys are strings.
    let _ = value.serialize(&mut Serializer::with_formatter(out, GoFloats));
}

struct GoFloats;

impl Formatter for GoFloats {
    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let size = value.abs();
        // Go writes an exponent only outside of this range.
        if size == 0.0 || (1e-6..1e21).contains(&size) {
            return write!(writer, "{value}");
        }
        let text = format!("{value:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => write!(writer, "{digits}e+{exponent}"),
            _ => writer.write_all(text.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn text(value: &Value) -> String {
        json(value)
    }

    #[test]
    fn floats_have_an_exponent_only_where_go_writes_one() {
        for (float, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (2.5, "2.5"),
            (-0.1, "-0.1"),
            (1e-5, "0.00001"),
            (1e-6, "0.000001"),
            (1.5e-6, "0.0000015"),
            (9.99e-7, "9.99e-7"),
            (1e-7, "1e-7"),
            (1e-10, "1e-10"),
            (1e16, "10000000000000000"),
            (1_152_921_504_606_846_976.0, "1152921504606847000"),
            (1.5e20, "150000000000000000000"),
            (1e21, "1e+21"),
            (-1.25e21, "-1.25e+21"),
            (1e300, "1e+300"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            assert_eq!(text(&json!(float)), expected);
        }
    }

    #[test]
    fn other_values_are_written_as_serde_json_writes_them() {
        let value = json!({"a": [1, -2, true, null, "\"\u{7f}<é\n"], "b": {}, "c": [], "d": u64::MAX});
        assert_eq!(text(&value), value.to_string());
    }

    proptest! {
        #[test]
        fn a_float_is_the_same_when_read_again(bits in any::<u64>()) {
            let float = f64::from_bits(bits);
            prop_assume!(float.is_finite());
            prop_assert_eq!(text(&json!(float)).parse::<f64>().unwrap().to_bits(), float.to_bits());
        }
    }
}
