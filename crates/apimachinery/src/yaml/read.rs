//! YAML documents, parsed as the Go library of kube-apiserver parses them.
//!
//! Only the first of several documents is read. The last of several equal keys wins, and each repetition is recorded.

use serde_json::Value;

use super::{node_parser, text_cursor, typed_value};
use crate::decode::{self, Decoded, normalize_numbers};

/// Context of an error of [`read()`], which kube-apiserver omits where its decoder of objects reports the error.
pub const CONVERSION: &str = "error converting YAML to JSON: ";

/// Parses YAML, of which JSON is a subset. Numbers are converted as Go does when it goes through JSON: `3.0` is 3.
///
/// # Errors
/// Go's message.
pub fn read(bytes: &[u8]) -> Result<Decoded, String> {
    let text = text_cursor::decode(bytes).map_err(|why| format!("{CONVERSION}yaml: {why}"))?;
    // Most clients send JSON, which parses several times faster. A body with duplicate keys is parsed as YAML, because its parser reports
    // their lines.
    if reads_alike(text)
        && let Ok(mut body) = decode::json(bytes)
        && body.value.is_object()
        && body.strict.is_empty()
    {
        normalize_numbers(&mut body.value);
        return Ok(body);
    }
    let document = node_parser::parse(text).map_err(|why| format!("{CONVERSION}yaml: {why}"))?;
    let Some(document) = document else { return Ok(Decoded { value: Value::Null, strict: Vec::new() }) };
    let (mut value, strict) = typed_value::convert(&document).map_err(|why| format!("{CONVERSION}{why}"))?;
    normalize_numbers(&mut value);
    Ok(Decoded { value, strict })
}

/// Whether a text that is valid JSON has the same value as YAML. Go's YAML library knows neither the escape `\/` nor pairs of surrogates,
/// refuses some tabs, and folds lines at the separators of Unicode.
fn reads_alike(text: &str) -> bool {
    let has_other_escapes = text.as_bytes().windows(2).any(|pair| matches!(pair, [b'\\', b'/' | b'u']));
    !has_other_escapes && !text.contains(['\t', '\u{85}', '\u{2028}', '\u{2029}'])
}

/// Formats the errors of strict decoding: repeated YAML keys, duplicate fields and unknown fields.
pub fn strict_error(complaints: &[String]) -> String {
    let (lines, others): (Vec<&str>, Vec<&str>) =
        complaints.iter().map(String::as_str).partition(|text| text.starts_with("line "));
    let heading = (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:\n  {}", lines.join("\n  ")));
    heading.iter().map(String::as_str).chain(others).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, value: &Value, repeated: &[&str]) {
        let body = read(text.as_bytes()).unwrap();
        assert_eq!(body.value, *value, "{text}");
        assert_eq!(body.strict, repeated, "{text}");
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn numbers_that_start_with_zero_are_octal() {
        check(
            "mode: 0644\nshort: 010\nprefix: 0o10\nzero: 0\ntext: '0644'\nfraction: 0.5\n",
            &json!({"mode": 420, "short": 8, "prefix": 8, "zero": 0, "text": "0644", "fraction": 0.5}),
            &[],
        );
    }

    #[test]
    fn repeated_keys_are_reported_with_their_lines_and_the_last_one_counts() {
        check(
            "a: 1\nb:\n  c: 1\n  c: 2\na: 3\n",
            &json!({"a": 3, "b": {"c": 2}}),
            &[r#"line 4: key "c" already set in map"#, r#"line 5: key "a" already set in map"#],
        );
        check(r#"{"a": 1, "a": 2}"#, &json!({"a": 2}), &[r#"line 1: key "a" already set in map"#]);
    }

    #[test]
    fn the_first_document_counts() {
        check("a: 1\n---\n{broken", &json!({"a": 1}), &[]);
        check("---\n# comment\na: 1\n", &json!({"a": 1}), &[]);
        for nothing in ["", "null", "# comment\n", "~"] {
            check(nothing, &Value::Null, &[]);
        }
    }

    #[test]
    fn values_are_read() {
        check(
            "a: 1\nb: [x, 'y', 1.5, true, null]\n",
            &json!({"a": 1, "b": ["x", "y", 1.5, true, null]}),
            &[],
        );
        check("a: &l {x: 'y'}\nb: *l\n", &json!({"a": {"x": "y"}, "b": {"x": "y"}}), &[]);
        check("just text", &json!("just text"), &[]);
    }

    #[test]
    fn broken_texts_are_explained_as_go_explains_them() {
        for (text, why) in [
            ("a: b: c", "mapping values are not allowed in this context"),
            ("a: 1\nb: c: d\n", "line 2: mapping values are not allowed in this context"),
            ("{not json", "line 1: did not find expected ',' or '}'"),
            ("a:\n- [1,\n", "line 2: did not find expected node content"),
            ("a: 1\n b: 2\n- c\n", "line 2: mapping values are not allowed in this context"),
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert_eq!(error, format!("error converting YAML to JSON: yaml: {why}"), "{text:?}");
        }
    }

    /// Observed with `sigs.k8s.io/yaml` v1.6.0, which kube-apiserver v1.36.3 uses.
    #[test]
    fn plain_texts_have_the_types_of_yaml_1_1() {
        for (text, value) in [
            (
                "[y, Yes, ON, TRUE, n, no, off, False]",
                json!([true, true, true, true, false, false, false, false]),
            ),
            ("[tRue, nUll, yEs]", json!(["tRue", "nUll", "yEs"])),
            ("[01, 08, 0o10, 0x1F, 0b101, -0b1, 1_000, +1]", json!([1, 8, 8, 31, 5, -1, 1000, 1])),
            (
                "[.5, 1., 1e3, 1e400, 0xg, 12:30, 2020-01-01]",
                json!([0.5, 1, 1000, "1e400", "0xg", "12:30", "2020-01-01"]),
            ),
            (
                "[!!str 5, !!int \"5\", !!float 5, !!bool yes, !!null '', !c x, ! 12]",
                json!(["5", 5, 5, true, null, "x", "12"]),
            ),
            ("[!!binary aGk=, !!timestamp 2020-01-01]", json!(["hi", "2020-01-01"])),
            ("[9223372036854775807, 18446744073709551616]", json!([i64::MAX, 18_446_744_073_709_551_616.0])),
            ("a: |2-\n    x\n\nb: >\n  c\n  d\n\n  e\n", json!({"a": "  x", "b": "c d\ne\n"})),
            ("\"a\\\n  b\\x41\\u00e9\\L\"", json!("abAé\u{2028}")),
            ("[a: b, ? c : d, e]", json!([{"a": "b"}, {"c": "d"}, "e"])),
        ] {
            check(text, &value, &[]);
        }
    }

    /// Observed with `sigs.k8s.io/yaml` v1.6.0, which kube-apiserver v1.36.3 uses.
    #[test]
    fn keys_of_other_types_become_texts() {
        check("{y: 1, off: 2, 01: 3, 0x10: 4}", &json!({"true": 1, "false": 2, "1": 3, "16": 4}), &[]);
        check(
            "{1.0: 1, .5: 2, 1e20: 3, 1234567.5: 4, .inf: 5}",
            &json!({"1": 1, "0.5": 2, "1e+20": 3, "1.2345675e+06": 4, ".inf": 5}),
            &[],
        );
        check("{!!int \"3\": 1, 'y': 2}", &json!({"3": 1, "y": 2}), &[]);
        check(
            "a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\n",
            &json!({"a": {"x": 1, "true": 2}, "b": {"x": 3, "true": 2}}),
            &[r#"line 2: key "x" already set in map"#],
        );
    }

    /// Observed with `sigs.k8s.io/yaml` v1.6.0, which kube-apiserver v1.36.3 uses.
    #[test]
    fn values_that_json_cannot_hold_are_refused() {
        for (text, why) in [
            ("a: .inf", "json: unsupported value: +Inf"),
            ("null: v", r#"unsupported map key of type: %!s(<nil>), key: <nil>, value: "v""#),
            (
                "9223372036854775808: v",
                r#"unsupported map key of type: uint64, key: 0x8000000000000000, value: "v""#,
            ),
            ("[a]: b", r#"yaml: invalid map key: []interface {}{"a"}"#),
            ("a: *nope", "yaml: unknown anchor 'nope' referenced"),
            ("a: &a [*a]", "yaml: anchor 'a' value contains itself"),
            ("a: !!int abc", "yaml: cannot decode !!str `abc` as a !!int"),
            ("a: !!binary '%'", "yaml: !!binary value contains invalid base64 data"),
            ("<<: v", "yaml: map merge requires map or sequence of maps as the value"),
            ("a: 1\nb: @x", "yaml: line 2: found character that cannot start any token"),
            ("\ta: 1", "yaml: found character that cannot start any token"),
            ("a: [\nb: c\n", "yaml: line 2: did not find expected ',' or ']'"),
            ("a: \"x\n\n", "yaml: line 3: found unexpected end of stream"),
            ("a: 'x\\/'\nb: \"\\/\"", "yaml: line 2: found unknown escape character"),
            ("a: 1\nb\nc: 1\n", "yaml: line 3: could not find expected ':'"),
            ("a: !x!y z", "yaml: found undefined tag handle"),
            ("%YAML 1.2\n---\na: 1", "yaml: found incompatible YAML document"),
            ("a: \u{1}", "yaml: control characters are not allowed"),
        ] {
            assert_eq!(read(text.as_bytes()).unwrap_err(), format!("{CONVERSION}{why}"), "{text:?}");
        }
        assert_eq!(read(b"a: \xff").unwrap_err(), format!("{CONVERSION}yaml: invalid leading UTF-8 octet"));
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn json_is_read_as_yaml() {
        check(r#"{"a":"\u00e9\n","b":[1.0,true,null]}"#, &json!({"a": "é\n", "b": [1, true, null]}), &[]);
        check("{\"a\":\t1}", &json!({"a": 1}), &[]);
        check("{\"a\":\"x \u{2028} y\"}", &json!({"a": "x\u{2028}y"}), &[]);
        for (text, why) in [
            (r#"{"a":"\/"}"#, "found unknown escape character"),
            (r#"{"a":"\ud83d\ude00"}"#, "found invalid Unicode character escape code"),
            ("\t{\"a\":1}", "found character that cannot start any token"),
            ("{\"a\":\"\u{7f}\"}", "control characters are not allowed"),
        ] {
            assert_eq!(read(text.as_bytes()).unwrap_err(), format!("{CONVERSION}yaml: {why}"), "{text:?}");
        }
    }

    #[test]
    fn repeated_aliases_and_deep_documents_are_refused() {
        let many: String = (1..9)
            .map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(",")))
            .collect();
        let excessive = read(format!("a0: &a0 x\n{many}").as_bytes()).unwrap_err();
        assert_eq!(excessive, format!("{CONVERSION}yaml: document contains excessive aliasing"));
        let long = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 300].join(","));
        assert_eq!(read(long.as_bytes()).unwrap_err(), excessive);
        assert!(read(format!("{}{}", "[".repeat(127), "]".repeat(127)).as_bytes()).is_ok());
        let wide = read(format!("[{}]", "a,".repeat(1_000_001)).as_bytes()).unwrap_err();
        assert_eq!(wide, format!("{CONVERSION}yaml: exceeded 1000000 values"));
        let deep = read("[".repeat(100_000).as_bytes()).unwrap_err();
        assert_eq!(deep, format!("{CONVERSION}yaml: exceeded max depth of 127"));
    }
}
