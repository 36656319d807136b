//! Tables: what kubectl prints, made by the server.

pub(crate) mod age;
pub(crate) mod custom;
mod jsonpath;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::resource::{Cell, Column, Resource};
use crate::status::ApiError;

pub(crate) use jsonpath::JsonPath;

/// What a row holds besides its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IncludeObject {
    None,
    /// `PartialObjectMetadata`
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// Reads the query parameter `includeObject`.
    ///
    /// # Errors
    /// 400 for anything but `None`, `Metadata`, `Object` and the empty string.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        match text {
            "None" => Ok(Self::None),
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            other => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be \
                 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// How a Table is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) include: IncludeObject,
    /// The present, for ages.
    pub(crate) now: Timestamp,
    /// Of the events of a watch only the first has columns.
    pub(crate) with_columns: bool,
}

/// The Table of objects in their own version, each with `apiVersion` and `kind`. `metadata` is the list's, or the
/// object's for a single object; only what a list has is taken from it.
pub(crate) fn table<'a>(
    resource: &Resource,
    objects: impl IntoIterator<Item = &'a Value>,
    metadata: &Value,
    options: Options,
) -> Value {
    let rows: Vec<Value> = objects.into_iter().map(|object| row(resource, object, options)).collect();
    let columns = options.with_columns.then(|| definitions(&resource.columns));
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata(metadata), "columnDefinitions": columns, "rows": rows,
    })
}

/// An object without all but its metadata. `kind` and `apiVersion` are those of `PartialObjectMetadata`.
pub(crate) fn partial_object_metadata(object: &Value) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
}

fn definitions(columns: &[Column]) -> Value {
    let definitions = columns.iter().map(|column| {
        json!({
            "name": column.name, "type": column.kind, "format": column.format,
            "description": column.description, "priority": column.priority,
        })
    });
    definitions.collect()
}

/// The row of one object.
pub(crate) fn row(resource: &Resource, object: &Value, options: Options) -> Value {
    let cells: Vec<Value> = resource
        .columns
        .iter()
        .map(|column| match &column.cell {
            Cell::Builtin(value) => value(object, options.now),
            Cell::Path(path) => custom::cell(&column.kind, path, object, options.now),
        })
        .collect();
    let included = match options.include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => partial_object_metadata(object),
        IncludeObject::Object => object.clone(),
    };
    json!({ "cells": cells, "object": included })
}

fn list_metadata(metadata: &Value) -> Map<String, Value> {
    ["resourceVersion", "continue", "remainingItemCount"]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), metadata.get(key)?.clone())))
        .filter(|(_, value)| *value != "")
        .collect()
}

/// What the columns `Name` and `Age` say about themselves, for every kind.
pub(crate) const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may \
     allow a client to request the generation of an appropriate name automatically. Name is primarily intended for \
     creation idempotence and configuration definition. Cannot be updated. More info: \
     https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// See [`NAME_DESCRIPTION`].
pub(crate) const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not \
     guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is \
     represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The first column of every Table.
pub(crate) fn name_column() -> Column {
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
