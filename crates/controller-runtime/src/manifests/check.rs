//! Differences between rendered objects and those of files.

mod role_rules;

use std::collections::BTreeMap;

use kube_apimachinery::yaml;
use serde_json::Value;

use super::{ManifestObject, Manifests};

/// Largest number of differences of one object.
const DIFFERENCES: usize = 20;

/// A difference between a rendered object and the object in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Path of the field, such as `.spec.replicas`; empty for the whole object.
    pub path: String,
    /// The difference.
    pub change: FileChange,
}

/// Kind of a [`Difference`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileChange {
    /// The file lacks a value.
    Lacks(Value),
    /// The file has a value that is not rendered.
    Has(Value),
    /// The file has another value.
    Other {
        /// Value in the file.
        file: Value,
        /// Rendered value.
        rendered: Value,
    },
    /// The object has more differences.
    More(usize),
}

/// Objects of a YAML text with several documents.
///
/// # Errors
///
/// A document is not YAML; the error names its first line.
pub fn objects_of(text: &str) -> Result<Vec<Value>, String> {
    let mut objects = Vec::new();
    let (mut document, mut first) = (String::new(), 1);
    let mut finish = |document: &mut String, first: usize| -> Result<(), String> {
        let read = yaml::read(document.as_bytes())
            .map_err(|error| format!("the document at line {first}: {error}"))?;
        // A document without content, such as the one before the first marker, is null.
        if !read.value.is_null() {
            objects.push(read.value);
        }
        document.clear();
        Ok(())
    };
    for (index, line) in text.lines().enumerate() {
        if let Some(content) =
            line.strip_prefix("---").filter(|rest| rest.is_empty() || rest.starts_with(' '))
        {
            finish(&mut document, first)?;
            first = index + 2;
            // A document may begin on the line of its marker. Spaces in place of the marker preserve columns.
            if !content.trim().is_empty() {
                document.push_str("   ");
                document.push_str(content);
                document.push('\n');
                first = index + 1;
            }
        } else {
            document.push_str(line);
            document.push('\n');
        }
    }
    finish(&mut document, first)?;
    Ok(objects)
}

impl Manifests {
    /// Differences from the objects in files: see [`differences`].
    #[must_use]
    pub fn differences(&self, files: &[Value]) -> Vec<Difference> {
        differences(self.objects().iter().map(ManifestObject::value), files)
    }
}

/// Differences between rendered objects and those of files. The annotation [`RENDERED_BY`](super::RENDERED_BY) does not count. The
/// order of fields and comments do not count, and rules of roles are compared by resource and verb.
pub(crate) fn differences<'v>(
    rendered: impl IntoIterator<Item = &'v Value>,
    files: &[Value],
) -> Vec<Difference> {
    let mut by_name: BTreeMap<_, &Value> = files.iter().map(|object| (identity(object), object)).collect();
    let mut differences = Vec::new();
    for object in rendered {
        match by_name.remove(&identity(object)) {
            Some(file) => compare_object(&mut differences, file, object),
            None => add(&mut differences, object, "", FileChange::Lacks(Value::Null)),
        }
    }
    for object in by_name.values() {
        add(&mut differences, object, "", FileChange::Has(Value::Null));
    }
    differences
}

/// Group, kind, namespace and name of an object.
fn identity(object: &Value) -> (String, String, String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let group = version.split_once('/').map_or("", |(group, _)| group).to_owned();
    let metadata = &object["metadata"];
    (group, text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
}

fn compare_object(differences: &mut Vec<Difference>, file: &Value, object: &Value) {
    let (mut file, mut rendered) = (without_annotation(file), without_annotation(object));
    let mut found = Vec::new();
    if object["kind"] == "ClusterRole" || object["kind"] == "Role" {
        // Take the rules out of the objects, so that `compare` does not compare them again.
        role_rules::compare(&mut found, &file["rules"].take(), &rendered["rules"].take());
    }
    compare(&mut found, &file, &rendered, "");
    let more = found.len().saturating_sub(DIFFERENCES);
    for (path, change) in found.into_iter().take(DIFFERENCES) {
        add(differences, object, &path, change);
    }
    if more > 0 {
        add(differences, object, "", FileChange::More(more));
    }
}

fn add(differences: &mut Vec<Difference>, object: &Value, path: &str, change: FileChange) {
    let (_, kind, _, name) = identity(object);
    differences.push(Difference { kind, name, path: path.to_owned(), change });
}

/// The object without the digest annotation, and without `annotations` if that was the only one.
fn without_annotation(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
    {
        annotations.remove(super::RENDERED_BY);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    object
}

/// Collects differences with their paths.
fn compare(found: &mut Vec<(String, FileChange)>, file: &Value, rendered: &Value, path: &str) {
    match (file, rendered) {
        (Value::Object(was), Value::Object(is)) => {
            for (name, rendered) in is {
                let path = format!("{path}.{name}");
                match was.get(name) {
                    Some(file) => compare(found, file, rendered, &path),
                    None => found.push((path, FileChange::Lacks(rendered.clone()))),
                }
            }
            for (name, file) in was.iter().filter(|(name, _)| !is.contains_key(*name)) {
                found.push((format!("{path}.{name}"), FileChange::Has(file.clone())));
            }
        }
        (Value::Array(was), Value::Array(is)) => compare_lists(found, was, is, path),
        _ if file == rendered => {}
        _ => found
            .push((path.to_owned(), FileChange::Other { file: file.clone(), rendered: rendered.clone() })),
    }
}

/// Compares items with the same `name` field by field. An item without a name must have an equal item in the other list.
fn compare_lists(found: &mut Vec<(String, FileChange)>, was: &[Value], is: &[Value], path: &str) {
    let before = found.len();
    let mut left: Vec<&Value> = was.iter().collect();
    for (index, rendered) in is.iter().enumerate() {
        let same = |file: &&Value| match rendered["name"].as_str() {
            Some(name) => file["name"] == name,
            None => *file == rendered,
        };
        match left.iter().position(same) {
            Some(at) => {
                let file = left.remove(at);
                let key = rendered["name"].as_str().map_or_else(|| index.to_string(), str::to_owned);
                compare(found, file, rendered, &format!("{path}[{key}]"));
            }
            None => found.push((format!("{path}[]"), FileChange::Lacks(rendered.clone()))),
        }
    }
    found.extend(left.into_iter().map(|file| (format!("{path}[]"), FileChange::Has(file.clone()))));
    // The lists have the same items in another order, and the order may matter.
    if found.len() == before && was != is {
        found.push((
            path.to_owned(),
            FileChange::Other { file: Value::from(was.to_vec()), rendered: Value::from(is.to_vec()) },
        ));
    }
}

/// `lacks`, `has` or `… instead of …`, with the object and the path.
impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, name, path, change } = self;
        write!(f, "{kind} {name}")?;
        let path = path.trim_end_matches("[]");
        match change {
            FileChange::Lacks(_) if path.is_empty() => f.write_str(" is missing"),
            FileChange::Has(_) if path.is_empty() => f.write_str(" is not rendered"),
            FileChange::Lacks(value) => write!(f, " lacks {path}: {}", flow(value)),
            FileChange::Has(value) => write!(f, " has {path}: {}", flow(value)),
            FileChange::Other { file, rendered } => {
                write!(f, " has {path}: {} instead of {}", flow(file), flow(rendered))
            }
            FileChange::More(count) => write!(f, " has {count} more differences"),
        }
    }
}

/// A value on one line, in YAML's flow style, of at most 160 characters.
fn flow(value: &Value) -> String {
    const LONGEST: usize = 160;
    let mut text = String::new();
    write_flow(&mut text, value);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn write_flow(text: &mut String, value: &Value) {
    match value {
        Value::Object(fields) => {
            text.push('{');
            for (index, (name, value)) in fields.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { ", " });
                text.push_str(name);
                text.push_str(": ");
                write_flow(text, value);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (index, value) in items.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { ", " });
                write_flow(text, value);
            }
            text.push(']');
        }
        other => text.push_str(yaml::write(other).trim_end()),
    }
}
