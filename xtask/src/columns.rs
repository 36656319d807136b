//! Columns of `kubectl get` tables, extracted from recorded answers.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

/// Kinds with hand-written columns in the server, next to the functions that fill the cells.
const IN_CODE: [&str; 15] = [
    "ConfigMap",
    "ControllerRevision",
    "CronJob",
    "CustomResourceDefinition",
    "Deployment",
    "Event",
    "Job",
    "LimitRange",
    "Namespace",
    "PodDisruptionBudget",
    "ReplicaSet",
    "Role",
    "Secret",
    "ServiceAccount",
    "StatefulSet",
];

/// Returns the columns of each kind as `[[name, type, priority, description], …]`, without the first column, which is always the
/// name of the object. The description of an age column is omitted, because it is always that of `creationTimestamp`.
pub(crate) fn columns(transcripts: &[&Path], discovery: &Value) -> Result<BTreeMap<String, Value>, String> {
    let mut found = BTreeMap::new();
    let mut folders = Vec::new();
    for transcripts in transcripts {
        folders.extend(entries(transcripts)?);
    }
    for folder in folders {
        for file in entries(&folder)? {
            let at = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
            let text = std::fs::read_to_string(&file).map_err(|error| at(&error))?;
            let transcript: Value = serde_json::from_str(&text).map_err(|error| at(&error))?;
            steps(&transcript["steps"], discovery, &mut found).map_err(|error| at(&error))?;
        }
    }
    found.retain(|kind, _| !IN_CODE.contains(&kind.as_str()));
    Ok(found)
}

fn entries(folder: &Path) -> Result<Vec<std::path::PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

fn steps(steps: &Value, discovery: &Value, found: &mut BTreeMap<String, Value>) -> Result<(), String> {
    for step in steps.as_array().into_iter().flatten() {
        for exchange in [step, &step["watch"]] {
            let kind = exchange["request"]["path"].as_str().and_then(|path| kind_of(path, discovery));
            if let Some(kind) = kind {
                tables(&exchange["response"], kind, found)?;
            }
        }
        self::steps(&step["watch"]["during"], discovery, found)?;
    }
    Ok(())
}

/// Returns the kind that a path refers to; `None` for custom kinds.
fn kind_of<'a>(path: &str, discovery: &'a Value) -> Option<&'a str> {
    let path = path.split('?').next()?;
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let (group_version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] => (format!("/api/{version}"), rest),
        ["apis", group, version, rest @ ..] => (format!("/apis/{group}/{version}"), rest),
        _ => return None,
    };
    let plural = match rest {
        ["namespaces", _, plural, ..] if !["status", "finalize"].contains(plural) => plural,
        [plural, ..] => plural,
        [] => return None,
    };
    let resources = discovery[group_version]["resources"].as_array()?;
    resources.iter().find(|resource| resource["name"] == *plural)?["kind"].as_str()
}

/// Collects the columns of all tables in an answer. Tables of one kind have the same columns.
fn tables(answer: &Value, kind: &str, found: &mut BTreeMap<String, Value>) -> Result<(), String> {
    match answer {
        Value::Object(fields) => {
            let columns = fields.get("columnDefinitions").and_then(Value::as_array);
            if let Some([_, columns @ ..]) = columns.map(Vec::as_slice) {
                let columns: Value = columns.iter().map(column).collect();
                if found.get(kind).is_some_and(|known| *known != columns) {
                    return Err(format!("the columns of {kind} differ from those of another table"));
                }
                found.insert(kind.to_owned(), columns);
            }
            fields.values().try_for_each(|field| tables(field, kind, found))
        }
        Value::Array(list) => list.iter().try_for_each(|element| tables(element, kind, found)),
        _ => Ok(()),
    }
}

fn column(column: &Value) -> Value {
    let description = if column["name"] == "Age" { &json!("") } else { &column["description"] };
    json!([column["name"], column["type"], column["priority"], description])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discovery() -> Value {
        json!({
            "/api/v1": {"resources": [{"name": "namespaces", "kind": "Namespace"}, {"name": "nodes", "kind": "Node"}]},
            "/apis/apps/v1": {"resources": [{"name": "deployments", "kind": "Deployment"}]},
        })
    }

    #[test]
    fn a_path_leads_to_a_kind() {
        for (path, kind) in [
            ("/api/v1/nodes?limit=1", Some("Node")),
            ("/api/v1/namespaces/a", Some("Namespace")),
            ("/api/v1/namespaces/a/status", Some("Namespace")),
            ("/apis/apps/v1/namespaces/a/deployments/b", Some("Deployment")),
            ("/apis/example.com/v1/widgets", None),
            ("/version", None),
        ] {
            assert_eq!(kind_of(path, &discovery()), kind, "{path}");
        }
    }

    #[test]
    fn columns_are_taken_from_answers_and_events() {
        let table = json!({"kind": "Table", "columnDefinitions": [
            {"name": "Name", "type": "string", "priority": 0, "description": "its name"},
            {"name": "Roles", "type": "string", "priority": 1, "description": "what it does"},
            {"name": "Age", "type": "string", "priority": 0, "description": "since when"},
        ]});
        let step = json!([{"watch": {
            "request": {"path": "/api/v1/nodes"}, "response": {"events": [{"object": table}]}, "during": [],
        }}]);
        let mut found = BTreeMap::new();
        steps(&step, &discovery(), &mut found).unwrap();
        let expected = json!([["Roles", "string", 1, "what it does"], ["Age", "string", 0, ""]]);
        assert_eq!(found.get("Node"), Some(&expected));
    }
}
