//! Columns of custom kinds: `additionalPrinterColumns`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{AGE_DESCRIPTION, Cell, Column, JsonPath, age, name_column};

/// Returns the columns of a version (an element of `spec.versions`): `Name`, then the declared columns, or `Age` if there are none.
pub fn columns(version: &Value) -> Vec<Column> {
    let mut columns = vec![name_column()];
    match version.get("additionalPrinterColumns").and_then(Value::as_array) {
        Some(own) if !own.is_empty() => columns.extend(own.iter().map(column)),
        _ => columns.push(Column {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: AGE_DESCRIPTION.to_owned(),
            priority: 0,
            cell: path(".metadata.creationTimestamp"),
        }),
    }
    columns
}

fn column(definition: &Value) -> Column {
    let text = |key: &str| definition[key].as_str().unwrap_or_default().to_owned();
    let json_path = text("jsonPath");
    let description = match text("description") {
        none if none.is_empty() => {
            format!("Custom resource definition column (in JSONPath format): {json_path}")
        }
        description => description,
    };
    Column {
        name: text("name"),
        kind: text("type"),
        format: text("format"),
        description,
        priority: definition["priority"].as_i64().unwrap_or_default(),
        cell: path(&json_path),
    }
}

/// Parses a path. Definitions with invalid paths are accepted; the cells are then empty.
fn path(text: &str) -> Cell {
    JsonPath::parse(text).map_or(Cell::Builtin(|_, _| Value::Null), Cell::Path)
}

/// Returns the cell of a column of the given type; null if the value is missing or has another type.
pub(super) fn cell(kind: &str, path: &JsonPath, object: &Value, now: Timestamp) -> Value {
    let Some(value) = path.first(object) else {
        return Value::Null;
    };
    match (kind, value) {
        (_, Value::Null) => Value::Null,
        ("string", value) => json!(printed(value)),
        ("integer", Value::Number(number)) => number.as_i64().map_or_else(
            || number.as_f64().map_or(Value::Null, |float| json!(truncated(float))),
            Value::from,
        ),
        ("number", Value::Number(number)) => json!(number),
        ("boolean", Value::Bool(on)) => json!(on),
        ("date", Value::String(time)) => json!(age::since_text(Some(time), now)),
        _ => Value::Null,
    }
}

/// Truncates a number to an integer of 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "casts saturate, and so does the cell")]
fn truncated(float: f64) -> i64 {
    float as i64
}

/// Formats a value as Go does: strings unchanged, lists and maps as JSON with HTML characters escaped.
fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => {
            value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
        }
        scalar => scalar.to_string(),
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
