//! Columns of custom kinds: `additionalPrinterColumns`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{AGE_DESCRIPTION, Cell, Column, JsonPath, age, name_column};
use crate::go;

/// Returns the columns of a version (an element of `spec.versions`): `Name`, then the declared columns, or `Age` if there are none. A
/// path that client-go cannot parse ends the columns: its column and the following ones are left out, as in kube-apiserver.
pub fn columns(version: &Value) -> Vec<Column> {
    let mut columns = vec![name_column()];
    match version.get("additionalPrinterColumns").and_then(Value::as_array) {
        Some(own) if !own.is_empty() => columns.extend(own.iter().map_while(column)),
        _ => columns.extend(column(&json!({
            "name": "Age", "type": "date", "description": AGE_DESCRIPTION, "jsonPath": ".metadata.creationTimestamp",
        }))),
    }
    columns
}

/// Returns a declared column; `None` if its path does not parse.
fn column(definition: &Value) -> Option<Column> {
    let text = |key: &str| definition[key].as_str().unwrap_or_default().to_owned();
    let json_path = text("jsonPath");
    let description = match text("description") {
        none if none.is_empty() => {
            format!("Custom resource definition column (in JSONPath format): {json_path}")
        }
        description => description,
    };
    Some(Column {
        name: text("name"),
        kind: text("type"),
        format: text("format"),
        description,
        priority: definition["priority"].as_i64().unwrap_or_default(),
        cell: Cell::Path(JsonPath::parse(&json_path).ok()?),
    })
}

/// Largest integer up to which each integer is also a float. kube-apiserver converts each `number` to a float, so larger ones lose digits.
const EXACT: u64 = 1 << 53;

/// Returns the cell of a column of the given type; null if the value is missing or has another type.
pub(super) fn cell(kind: &str, path: &JsonPath, object: &Value, now: Timestamp) -> Value {
    let Some(value) = path.first(object) else {
        return Value::Null;
    };
    match (kind, value) {
        ("string", value) => json!(printed(value)),
        ("integer", Value::Number(number)) => number.as_i64().map_or_else(
            || number.as_f64().map_or(Value::Null, |float| json!(truncated(float))),
            Value::from,
        ),
        ("number", Value::Number(number)) => match number.as_i64() {
            Some(integer) if integer.unsigned_abs() <= EXACT => json!(integer),
            _ => json!(number.as_f64()),
        },
        ("boolean", Value::Bool(on)) => json!(on),
        ("date", Value::String(time)) => json!(age::since_text(Some(time), now)),
        _ => Value::Null,
    }
}

/// Truncates a number to an integer of 64 bits. For a number out of range, Go's result depends on the processor; on amd64, it is the smallest
/// integer.
#[expect(clippy::cast_possible_truncation, reason = "the number is in range")]
fn truncated(float: f64) -> i64 {
    if float.abs() < 9_223_372_036_854_775_808.0 { float as i64 } else { i64::MIN }
}

/// Formats a value as Go does: strings unchanged, lists and maps as JSON with HTML characters escaped.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Array(_) | Value::Object(_) => go::json(value)
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026")
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029"),
        scalar => go::value(scalar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(columns: &[(&str, &str)], object: &Value) -> Vec<Value> {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let cell = |(kind, path): &(&str, &str)| cell(kind, &JsonPath::parse(path).unwrap(), object, now);
        columns.iter().map(cell).collect()
    }

    #[test]
    fn cells_have_the_type_of_their_column_or_are_null() {
        let object = json!({
            "metadata": {"labels": {"example.com/app": "api"}},
            "spec": {"color": "red", "list": ["x"], "size": 1, "ratio": 1.5, "on": false, "since": "2025-12-31T23:59:50Z"},
        });
        let columns = [
            ("integer", ".spec.color"),
            ("integer", ".spec.size"),
            ("integer", ".spec.ratio"),
            ("number", ".spec.ratio"),
            ("boolean", ".spec.on"),
            ("boolean", ".spec.size"),
            ("string", ".spec.size"),
            ("string", ".spec.list"),
            ("string", r".metadata.labels.example\.com/app"),
            ("date", ".spec.since"),
            ("date", ".spec.size"),
            ("date", ".spec.color"),
            ("string", ".spec.nope"),
        ];
        assert_eq!(
            cells(&columns, &object),
            [
                json!(null),
                json!(1),
                json!(1),
                json!(1.5),
                json!(false),
                json!(null),
                json!("1"),
                json!("[\"x\"]"),
                json!("api"),
                json!("10s"),
                json!(null),
                json!("<invalid>"),
                json!(null),
            ]
        );
    }

    #[test]
    fn a_version_without_columns_shows_the_age() {
        let shown = |version: Value| -> Vec<String> {
            columns(&version)
                .into_iter()
                .map(|column| format!("{} {} {}", column.name, column.kind, column.priority))
                .collect()
        };
        assert_eq!(shown(json!({})), ["Name string 0", "Age date 0"]);
        let own = json!({"additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
        ]});
        assert_eq!(shown(own), ["Name string 0", "Size integer 1"]);
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn cells_of_unusual_values_are_those_of_go() {
        let object = json!({
            "nul": null, "flo": 2.75, "big": 1e21, "low": -1e300, "tiny": 1e-7, "neg": -2.9, "max": 9_007_199_254_740_993_i64,
            "obj": {"f": 1e21, "n": null, "y": "<&>"}, "html": "<a>&", "es": "", "day": "2020-01-01", "null": "null",
        });
        let columns = [
            ("string", ".nul"),
            ("string", ".flo"),
            ("string", ".big"),
            ("string", ".tiny"),
            ("string", ".obj"),
            ("string", ".html"),
            ("string", ".es"),
            ("integer", ".flo"),
            ("integer", ".big"),
            ("integer", ".low"),
            ("integer", ".neg"),
            ("number", ".big"),
            ("number", ".max"),
            ("date", ".es"),
            ("date", ".null"),
            ("date", ".day"),
            ("date", ".nul"),
        ];
        assert_eq!(
            cells(&columns, &object),
            [
                json!("<no value>"),
                json!("2.75"),
                json!("1e+21"),
                json!("1e-07"),
                json!(r#"{"f":1e+21,"n":null,"y":"\u003c\u0026\u003e"}"#),
                json!("<a>&"),
                json!(""),
                json!(2),
                json!(i64::MIN),
                json!(i64::MIN),
                json!(-2),
                json!(1e21),
                json!(9_007_199_254_740_992.0),
                json!("<unknown>"),
                json!("<unknown>"),
                json!("<invalid>"),
                json!(null),
            ]
        );
    }

    #[test]
    fn a_path_that_does_not_parse_ends_the_columns() {
        let own = json!({"additionalPrinterColumns": [
            {"name": "A", "type": "string", "jsonPath": ".spec.a"},
            {"name": "B", "type": "string", "jsonPath": ".spec[\"b\"]"},
            {"name": "C", "type": "string", "jsonPath": ".spec.c"},
        ]});
        let names: Vec<String> = columns(&own).into_iter().map(|column| column.name).collect();
        assert_eq!(names, ["Name", "A"]);
    }

    #[test]
    fn a_column_says_where_its_value_is() {
        let own = json!({"additionalPrinterColumns": [
            {"name": "A", "type": "string", "jsonPath": ".spec.a"},
            {"name": "B", "type": "string", "jsonPath": ".spec.b", "description": "what b is"},
        ]});
        let descriptions: Vec<String> =
            columns(&own).into_iter().skip(1).map(|column| column.description).collect();
        assert_eq!(
            descriptions,
            ["Custom resource definition column (in JSONPath format): .spec.a", "what b is"]
        );
    }
}
