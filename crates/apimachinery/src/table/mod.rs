//! Tables: the form in which `kubectl get` requests lists. The server formats the cells.

pub mod age;
pub mod custom;
mod jsonpath;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::go;
use crate::status::ApiError;

pub use jsonpath::JsonPath;

/// A column of a table.
#[derive(Debug, Clone)]
pub struct Column {
    /// Heading; empty for a column that has cells but no definition.
    pub name: String,
    /// Type of the values: `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// Format of the values; `name` for the object's name, otherwise usually empty.
    pub format: String,
    /// Description of the column.
    pub description: String,
    /// Priority: columns with 0 are always shown, higher ones only by `kubectl get -o wide`.
    pub priority: i64,
    /// Source of the values.
    pub cell: Cell,
}

/// Source of a column's values.
#[derive(Debug, Clone)]
pub enum Cell {
    /// A function of the object and the current time.
    Builtin(fn(&Value, Timestamp) -> Value),
    /// A JSONPath; the type of the column determines how its value is formatted.
    Path(JsonPath),
}

/// Part of the object that a row contains in addition to its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The object as `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Parses the query parameter `includeObject`.
    ///
    /// # Errors
    /// 400 for anything but `None`, `Metadata`, `Object` and the empty string.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        match text {
            "None" => Ok(Self::None),
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            other => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be \
                 'Metadata', 'Object', 'None', or empty",
                go::quote(other)
            ))),
        }
    }
}

/// Presence of the column definitions in a table. In a watch, only the first event has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnDefinitions {
    /// The table has column definitions.
    Included,
    /// `columnDefinitions` is `null`.
    Omitted,
}

/// Options of a table.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Part of the object that each row contains in addition to its cells.
    pub include: IncludeObject,
    /// Current time, from which ages are computed.
    pub now: Timestamp,
    /// Presence of the column definitions.
    pub column_definitions: ColumnDefinitions,
    /// API version of the metadata in the rows: `meta.k8s.io/v1` or `v1beta1`.
    pub api_version: &'static str,
}

/// Builds the table of objects in their own version, each with `apiVersion` and `kind`. `metadata` is that of the list, or of a single
/// object; only the fields of list metadata are copied.
pub fn table<'a>(
    columns: &[Column],
    objects: impl IntoIterator<Item = &'a Value>,
    metadata: &Value,
    options: Options,
) -> Value {
    let rows: Vec<Value> = objects.into_iter().map(|object| row(columns, object, options)).collect();
    let columns = match options.column_definitions {
        ColumnDefinitions::Included => definitions(columns),
        ColumnDefinitions::Omitted => Value::Null,
    };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata(metadata), "columnDefinitions": columns, "rows": rows,
    })
}

/// Reduces an object to its metadata, with `kind` and `apiVersion` of `PartialObjectMetadata`.
#[must_use]
pub fn partial_object_metadata(object: &Value, api_version: &str) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({ "kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": metadata })
}

fn definitions(columns: &[Column]) -> Value {
    let definitions = columns.iter().filter(|column| !column.name.is_empty()).map(|column| {
        json!({
            "name": column.name, "type": column.kind, "format": column.format,
            "description": column.description, "priority": column.priority,
        })
    });
    definitions.collect()
}

/// Builds the row of an object.
#[must_use]
pub fn row(columns: &[Column], object: &Value, options: Options) -> Value {
    let cells = cells(columns, object, options.now);
    let included = match options.include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => partial_object_metadata(object, options.api_version),
        IncludeObject::Object => object.clone(),
    };
    let mut row = json!({ "cells": cells, "object": included });
    if let Some((reason, message)) = completion(object) {
        row["conditions"] =
            json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }]);
    }
    row
}

/// Returns the cells of an object.
#[must_use]
pub fn cells(columns: &[Column], object: &Value, now: Timestamp) -> Vec<Value> {
    let cell = |column: &Column| match &column.cell {
        Cell::Builtin(value) => value(object, now),
        Cell::Path(path) => custom::cell(&column.kind, path, object, now),
    };
    columns.iter().map(cell).collect()
}

/// Returns the reason and the message of the condition `Completed`, which marks the rows of pods that have ended.
fn completion(object: &Value) -> Option<(&'static str, &'static str)> {
    if object["kind"] != "Pod" || object["apiVersion"] != "v1" {
        return None;
    }
    match object["status"]["phase"].as_str()? {
        "Succeeded" => Some(("Succeeded", "The pod has completed successfully.")),
        "Failed" => Some(("Failed", "The pod failed.")),
        _ => None,
    }
}

fn list_metadata(metadata: &Value) -> Map<String, Value> {
    ["resourceVersion", "continue", "remainingItemCount"]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), metadata.get(key)?.clone())))
        .filter(|(_, value)| *value != "")
        .collect()
}

/// Description of the column `Name` for every kind.
pub const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may \
     allow a client to request the generation of an appropriate name automatically. Name is primarily intended for \
     creation idempotence and configuration definition. Cannot be updated. More info: \
     https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// Description of the columns `Age` and `Created At` for every kind.
pub const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not \
     guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is \
     represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Returns the first column of every table.
#[must_use]
pub fn name_column() -> Column {
    Column {
        name: "Name".to_owned(),
        kind: "string".to_owned(),
        format: "name".to_owned(),
        description: NAME_DESCRIPTION.to_owned(),
        priority: 0,
        cell: Cell::Builtin(|object, _| {
            object.pointer("/metadata/name").cloned().unwrap_or_else(|| json!(""))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn the_row_of_a_pod_that_has_ended_is_completed() {
        let options = Options {
            include: IncludeObject::None,
            now: Timestamp::UNIX_EPOCH,
            column_definitions: ColumnDefinitions::Omitted,
            api_version: "meta.k8s.io/v1",
        };
        let reason = |api_version: &str, phase: &str| {
            let pod = json!({"apiVersion": api_version, "kind": "Pod", "status": {"phase": phase}});
            row(&[], &pod, options).get("conditions").map(|conditions| conditions[0].clone())
        };
        let completed = |reason: &str, message: &str| {
            Some(json!({"type": "Completed", "status": "True", "reason": reason, "message": message}))
        };
        assert_eq!(reason("v1", "Succeeded"), completed("Succeeded", "The pod has completed successfully."));
        assert_eq!(reason("v1", "Failed"), completed("Failed", "The pod failed."));
        assert_eq!(reason("v1", "Running"), None);
        assert_eq!(reason("example.com/v1", "Failed"), None);
    }
}
