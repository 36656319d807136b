//! Data of builtin kinds for the API server, in a format that can be loaded lazily.
//!
//! The recorded documents of a kube-apiserver are 2.2 MB of JSON that repeats most schemas many times. This task converts them to
//! text files with one entry per line, `name SPACE value`, so that the server can look up one entry without parsing the
//! others, and a reviewer can read the differences between two versions of Kubernetes.
//!
//! | file | entry |
//! |---|---|
//! | `definitions.txt` | name and schema of OpenAPI v3, as recorded |
//! | `resources.txt` | group version and resource, in the order of discovery |
//! | `messages.txt` | protobuf message: field number → [JSON name, type, flags]; `!` always written, `*` a pointer |
//! | `message-kinds.txt` | kind and its protobuf message |
//! | `columns.txt` | kind and its table columns: `[[name, type, priority, description], …]` |

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

type Result<T> = std::result::Result<T, String>;

/// Folder of the generated files.
pub(crate) fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/apiserver/data")
}

/// Reads the recorded documents in `from` (`data/` and `transcripts/`) and the Go modules in `modules`, and writes the files into
/// `to`. Returns a report of their sizes.
pub(crate) fn write(from: &Path, modules: &Path, to: &Path) -> Result<String> {
    let transcripts = from.join("transcripts");
    let from = &from.join("data");
    let discovery = read(&from.join("discovery-legacy.json"))?;
    let columns = crate::columns::columns(&transcripts, &discovery)?;
    let pointers = crate::go::pointers(modules)?;
    let definitions = definitions(&from.join("openapi-v3"))?;
    let protobuf = read(&from.join("protobuf.json"))?;
    let kinds = strings(&protobuf, "kinds")?;
    let files = [
        ("columns.txt", lines(columns.iter())),
        ("resources.txt", resources(&discovery, &definitions, &kinds)?),
        ("messages.txt", messages(&protobuf, &pointers)?),
        ("message-kinds.txt", lines(kinds.iter())),
        ("definitions.txt", lines(definitions.iter())),
    ];
    std::fs::create_dir_all(to).map_err(|error| format!("{}: {error}", to.display()))?;
    let mut report = Vec::new();
    for (name, text) in files {
        let path = to.join(name);
        std::fs::write(&path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
        report.push(format!("{name}: {} entries, {} bytes", text.lines().count(), text.len()));
    }
    Ok(report.join("\n"))
}

/// Collects all schemas by name. `DeleteOptions` and `WatchEvent` list the group versions of their document; only the core
/// group's are kept, and the server adds the others.
fn definitions(folder: &Path) -> Result<BTreeMap<String, Value>> {
    const PER_DOCUMENT: [&str; 2] = [
        "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
        "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
    ];
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        let document = read(&path)?;
        let Some(schemas) = document["components"]["schemas"].as_object() else {
            return Err(format!("{}: no components.schemas", path.display()));
        };
        for (name, schema) in schemas {
            let mut schema = schema.clone();
            if PER_DOCUMENT.contains(&name.as_str())
                && let Some(kinds) = schema["x-kubernetes-group-version-kind"].as_array_mut()
            {
                kinds.retain(|kind| kind["group"] == "" && kind["version"] == "v1");
            }
            if let Some(other) = all.get(name)
                && *other != schema
            {
                return Err(format!("{}: {name} differs from another document", path.display()));
            }
            all.insert(name.clone(), schema);
        }
    }
    Ok(all)
}

/// Formats the rows of legacy discovery: subresources are folded into their parents, and the names of schema and message added.
fn resources(
    discovery: &Value,
    definitions: &BTreeMap<String, Value>,
    messages: &BTreeMap<String, String>,
) -> Result<String> {
    let mut group_versions = vec![("/api/v1".to_owned(), "v1".to_owned())];
    for group in array(&discovery["/apis"]["groups"], "/apis: groups")? {
        for version in array(&group["versions"], "/apis: versions")? {
            let name = text(&version["groupVersion"], "groupVersion")?;
            group_versions.push((format!("/apis/{name}"), name));
        }
    }
    let mut rows = Vec::new();
    for (path, group_version) in group_versions {
        let list = array(&discovery[&path]["resources"], &path)?;
        for resource in list {
            let name = text(&resource["name"], &path)?;
            if name.contains('/') {
                continue;
            }
            let mut row = resource.as_object().cloned().unwrap_or_default();
            let kind = text(&resource["kind"], &name)?;
            let subresources: Vec<Value> = list
                .iter()
                .filter_map(|other| Some((other["name"].as_str()?.strip_prefix(&format!("{name}/"))?, other)))
                .map(|(short, other)| {
                    let mut sub = other.as_object().cloned().unwrap_or_default();
                    sub.insert("name".to_owned(), json!(short));
                    sub.remove("singularName");
                    sub.remove("namespaced");
                    Value::Object(sub)
                })
                .collect();
            if !subresources.is_empty() {
                row.insert("subresources".to_owned(), Value::Array(subresources));
            }
            if let Some(definition) = definition_of(definitions, &group_version, &kind) {
                row.insert("definition".to_owned(), json!(definition));
            }
            if let Some(message) = messages.get(&format!("{group_version}/{kind}")) {
                row.insert("message".to_owned(), json!(message));
            }
            rows.push((group_version.clone(), Value::Object(row)));
        }
    }
    Ok(lines(rows.iter().map(|(group_version, row)| (group_version, row))))
}

/// Finds the schema that declares itself as the schema of this kind.
fn definition_of<'a>(
    definitions: &'a BTreeMap<String, Value>,
    group_version: &str,
    kind: &str,
) -> Option<&'a String> {
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let wanted = json!({ "group": group, "version": version, "kind": kind });
    definitions
        .iter()
        .find(|(_, schema)| {
            schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|kinds| kinds.contains(&wanted))
        })
        .map(|(name, _)| name)
}

fn messages(protobuf: &Value, pointers: &BTreeSet<(String, String)>) -> Result<String> {
    let mut messages = Vec::new();
    for (name, fields) in object(&protobuf["messages"], "protobuf.json: messages")? {
        let mut compact = Map::new();
        for (number, field) in object(fields, name)? {
            let mut entry = vec![field["json"].clone(), field["type"].clone()];
            let mut flags = String::new();
            if field["always"] == true {
                flags.push('!');
            }
            if pointers.contains(&(name.clone(), number.clone())) {
                flags.push('*');
            }
            if !flags.is_empty() {
                entry.push(json!(flags));
            }
            compact.insert(number.clone(), Value::Array(entry));
        }
        messages.push((name.clone(), Value::Object(compact)));
    }
    Ok(lines(messages.iter().map(|(name, fields)| (name, fields))))
}

fn lines<K: std::fmt::Display, V: std::fmt::Display>(entries: impl Iterator<Item = (K, V)>) -> String {
    entries.map(|(key, value)| format!("{key} {value}\n")).collect()
}

fn read(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn strings(value: &Value, key: &str) -> Result<BTreeMap<String, String>> {
    object(&value[key], key)?.iter().map(|(name, value)| Ok((name.clone(), text(value, name)?))).collect()
}

fn object<'a>(value: &'a Value, what: &str) -> Result<&'a Map<String, Value>> {
    value.as_object().ok_or_else(|| format!("{what}: not an object"))
}

fn array<'a>(value: &'a Value, what: &str) -> Result<&'a Vec<Value>> {
    value.as_array().ok_or_else(|| format!("{what}: not an array"))
}

fn text(value: &Value, what: &str) -> Result<String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("{what}: not a string"))
}
