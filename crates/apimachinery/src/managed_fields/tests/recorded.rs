//! Replays the writes of the recorded scenarios: each is computed from the objects that a real server had before and
//! after, and must give the entries that the server gave.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use percent_encoding::percent_decode_str;
use regex::Regex;
use serde_json::{Value, json};

use super::super::{OnConflict, Writer, apply, track_update};
use crate::decode::normalize_numbers;
use crate::patch;
use crate::schema::definitions;
use crate::schema::{Definitions, Schema};

static DEFINITIONS: LazyLock<Arc<Definitions>> = LazyLock::new(|| Arc::new(Definitions::new(definitions())));

/// Returns the builtin schema of a kind.
pub(super) fn builtin(api_version: &str, kind: &str) -> Option<Arc<Schema>> {
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    let package = match group {
        "apiextensions.k8s.io" => "apiextensions-apiserver.pkg.apis.apiextensions",
        group => &format!("api.{}", group.split('.').next()?),
    };
    Schema::builtin(&DEFINITIONS, &format!("io.k8s.{package}.{version}.{kind}"))
}

/// Replays scenarios and keeps the state that a server would.
#[derive(Default)]
struct Player {
    scenario: String,
    /// Objects by path.
    objects: BTreeMap<String, Value>,
    /// Schema, and whether there is a status subresource, by apiVersion and kind.
    custom: BTreeMap<(String, String), (Arc<Schema>, bool)>,
    seconds: u32,
    failures: Vec<String>,
    checked: usize,
}

struct Write<'a> {
    index: usize,
    method: &'a str,
    path: &'a str,
    query: &'a str,
    content_type: &'a str,
    body: &'a Value,
}

impl Player {
    fn play(&mut self, file: &Path) {
        self.scenario = file.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(file).unwrap();
        let times = Regex::new(r"\{\{(time|created|microTime)(:\d+)?\}\}").unwrap();
        let text = times.replace_all(&text, "2024-01-01T00:00:00Z");
        let scenario: Value = serde_json::from_str(&text).unwrap();
        for (index, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
            let (request, response) = (&step["request"], &step["response"]);
            let Some((path, query)) =
                request["path"].as_str().map(|path| path.split_once('?').unwrap_or((path, "")))
            else {
                continue;
            };
            // A watch of a scenario lasts a second of recorded time.
            self.seconds += u32::from(query.contains("watch=1"));
            let mut body = match &request["body"] {
                Value::String(text) => match serde_json::from_str::<Value>(text) {
                    Ok(body) => body,
                    Err(_) => continue,
                },
                body => body.clone(),
            };
            normalize_numbers(&mut body);
            let write = Write {
                index,
                method: request["method"].as_str().unwrap(),
                path,
                query,
                content_type: request["contentType"].as_str().unwrap_or_default(),
                body: &body,
            };
            self.step(&write, response);
        }
    }

    fn step(&mut self, write: &Write<'_>, response: &Value) {
        let after = &response["body"];
        let ok = response["status"].as_u64().unwrap() < 300;
        if write.query.contains("dryRun") {
            return;
        }
        // Tests of the API server cover ownership through a scale and after writes of controllers.
        if write.path.ends_with("/scale") || write.path.contains("/customresourcedefinitions/") {
            if ok {
                self.objects.remove(&key(write.path.trim_end_matches("/scale")));
                if after["kind"] == "CustomResourceDefinition" {
                    self.define(after);
                }
            }
            return;
        }
        match write.method {
            "DELETE" => {
                self.objects.remove(&key(write.path));
            }
            "POST" | "PUT" | "PATCH" => {
                let subresource = if write.path.ends_with("/status") { "status" } else { "" };
                let path = match write.method {
                    "POST" if ok => {
                        &format!("{}/{}", write.path, after["metadata"]["name"].as_str().unwrap_or(""))
                    }
                    _ => write.path.trim_end_matches("/status"),
                };
                let path = &*key(path);
                let manager = parameter(write.query, "fieldManager").unwrap_or("unknown");
                let manager = &*percent_decode_str(manager).decode_utf8().unwrap();
                let now = &format!("2024-01-01T00:{:02}:{:02}Z", self.seconds / 60, self.seconds % 60);
                let by = Writer {
                    manager,
                    subresource,
                    api_version: if ok { &after["apiVersion"] } else { &write.body["apiVersion"] }
                        .as_str()
                        .unwrap_or_default(),
                    now,
                };
                if write.content_type.starts_with("application/apply-patch") {
                    self.apply(path, write, response, &by);
                } else if ok && after["kind"] != "Status" {
                    self.update(path, write, after, &by);
                }
                if after["kind"] == "CustomResourceDefinition" {
                    self.define(after);
                }
            }
            _ => {}
        }
    }

    fn define(&mut self, crd: &Value) {
        for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
            let group = crd["spec"]["group"].as_str().unwrap();
            let api_version = format!("{group}/{}", version["name"].as_str().unwrap());
            let kind = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
            let schema = Schema::of_crd(&version["schema"]["openAPIV3Schema"]);
            let status = version["subresources"].get("status").is_some();
            self.custom.insert((api_version, kind), (schema, status));
        }
    }

    fn schema(&self, object: &Value, subresource: &str) -> Option<(Arc<Schema>, &'static [&'static str])> {
        let api_version = object["apiVersion"].as_str()?;
        let kind = object["kind"].as_str()?;
        let custom = self.custom.get(&(api_version.to_owned(), kind.to_owned())).cloned();
        let (schema, status) = custom.or_else(|| Some((builtin(api_version, kind)?, true)))?;
        let reset: &[&str] = match subresource {
            "status" => &["spec", "metadata"],
            _ if status => &["status"],
            _ => &[],
        };
        Some((schema, reset))
    }

    fn update(&mut self, path: &str, write: &Write<'_>, after: &Value, by: &Writer<'_>) {
        let Some((schema, reset)) = self.schema(after, by.subresource) else {
            return;
        };
        let old = self.objects.get(path);
        if old.is_none() && write.method != "POST" {
            return;
        }
        let mut new = after.clone();
        new["metadata"].as_object_mut().unwrap().remove("managedFields");
        // Entries sent by the client are part of the input.
        let brought = match (write.content_type, old) {
            ("application/json-patch+json", Some(old)) => {
                let patch = write.body.to_string();
                let patched = patch::json(old, patch.as_bytes(), patch::OperationForm::Typed).unwrap();
                patched["metadata"]["managedFields"].clone()
            }
            ("application/merge-patch+json" | "application/strategic-merge-patch+json", Some(old)) => {
                let mut patched = old.clone();
                patch::merge(&mut patched, write.body);
                patched["metadata"]["managedFields"].clone()
            }
            _ => write.body["metadata"]["managedFields"].clone(),
        };
        if !brought.is_null() {
            new["metadata"]["managedFields"] = brought;
        }
        track_update(&schema, old, &mut new, by, reset);
        self.compare(write.index, path, new, after);
    }

    fn apply(&mut self, path: &str, write: &Write<'_>, response: &Value, by: &Writer<'_>) {
        let Some((schema, reset)) = self.schema(write.body, by.subresource) else {
            return;
        };
        let after = &response["body"];
        let old = self.objects.get(path);
        let is_forced = parameter(write.query, "force") == Some("true");
        let on_conflict = if is_forced { OnConflict::Force } else { OnConflict::Refuse };
        let outcome = apply(&schema, old, write.body, by, on_conflict, reset);
        match outcome {
            Ok(new) if response["status"].as_u64().unwrap() < 300 => {
                if schema.is_custom() {
                    let mut defaulted = new.clone();
                    schema.default(&mut defaulted);
                    if let Some(status) = defaulted.get_mut("status").filter(|_| reset.contains(&"status")) {
                        *status = after["status"].clone();
                    }
                    let spec = |object: &Value| object.get("spec").cloned();
                    if spec(&defaulted) != spec(after) && by.subresource.is_empty() {
                        self.fail(write.index, &defaulted["spec"], &after["spec"]);
                    }
                }
                let mut result = after.clone();
                result["metadata"]["managedFields"] = new["metadata"]["managedFields"].clone();
                self.compare(write.index, path, result, after);
            }
            Ok(_) => {
                let message = after["message"].as_str().unwrap_or_default();
                if message.contains("conflict with") || message.contains("typed patch object") {
                    self.fail(write.index, &json!("no error"), &after["message"]);
                }
            }
            // The request may have failed for a reason that the server finds before apply.
            Err(error)
                if [400, 404, 415].contains(&response["status"].as_u64().unwrap()) && error.code() != 409 => {
            }
            Err(error) => {
                self.checked += 1;
                if error.to_json() != *after {
                    self.fail(write.index, &error.to_json(), after);
                }
            }
        }
    }

    fn compare(&mut self, index: usize, path: &str, new: Value, recorded: &Value) {
        self.checked += 1;
        let entries = |object: &Value| -> Vec<Value> {
            let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
            let timed = |mut entry: Value| {
                if let Some(time) = entry.get_mut("time") {
                    *time = json!("some");
                }
                entry
            };
            entries.into_iter().map(timed).collect()
        };
        let (got, expected) = (entries(&new), entries(recorded));
        if got != expected {
            self.fail(index, &json!(got), &json!(expected));
        }
        self.objects.insert(path.to_owned(), new);
    }

    fn fail(&mut self, index: usize, got: &Value, expected: &Value) {
        self.failures
            .push(format!("{} step {index}\n  got      {got}\n  expected {expected}", self.scenario));
    }
}

/// Versions of a custom kind share their objects.
fn key(path: &str) -> String {
    let path: Vec<&str> = path.split('/').collect();
    match &*path {
        ["", "apis", group, _, rest @ ..] => format!("{group}/{}", rest.join("/")),
        _ => path.join("/"),
    }
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find_map(|(key, value)| (key == name).then_some(value))
}

#[test]
fn entries_are_those_of_a_real_server() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../apiserver/tests/conformance/transcripts");
    let mut failures = Vec::new();
    let mut checked = 0;
    for area in ["apply", "patch", "strategic", "cr-patch", "cr-create", "cr-update", "update"] {
        let mut files: Vec<_> =
            std::fs::read_dir(folder.join(area)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            let mut player = Player::default();
            player.play(&file);
            failures.append(&mut player.failures);
            checked += player.checked;
        }
    }
    assert!(checked > 250, "only {checked} writes were compared");
    assert!(failures.is_empty(), "{} of {checked} differ:\n{}", failures.len(), failures.join("\n"));
}

/// Entries of kube-apiserver v1.36.3.
#[test]
fn a_list_that_a_new_object_lacks_has_no_owner() {
    let schema = builtin("resource.k8s.io/v1", "ResourceClaim").unwrap();
    let owned = |devices: Value| {
        let mut claim = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {"devices": devices},
        });
        let writer = Writer {
            manager: "m",
            subresource: "",
            api_version: "resource.k8s.io/v1",
            now: "2024-01-01T00:00:00Z",
        };
        track_update(&schema, None, &mut claim, &writer, &[]);
        let claim = &claim;
        claim["metadata"]["managedFields"][0]["fieldsV1"].clone()
    };
    assert_eq!(owned(json!({"requests": null})), Value::Null);
    let config = json!([{"opaque": {"driver": "d", "parameters": {}}}]);
    assert_eq!(
        owned(json!({"requests": null, "config": config})),
        json!({"f:spec": {"f:devices": {"f:config": {}}}})
    );
}
