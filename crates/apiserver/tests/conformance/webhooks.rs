//! Answers of the webhooks that the server under test calls, as `webhook` steps describe them.
//!
//! `respond` is an AdmissionResponse without uid, with its patch as JSON; or `{"conversion": {"<version>": [operations]}}` or
//! `{"conversionFailure": message}`. Faults: `httpStatus` and `raw` (literal answer), `delaySeconds`, `wrongUid`, `close` (no
//! answer).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::time::{Duration, sleep};

/// Webhooks of a scenario.
pub(crate) trait Hooks {
    /// Host and port in their URLs.
    fn host(&self) -> String;
    /// Base64 of the certificate authority that a configuration has to trust.
    fn ca_bundle(&self) -> String;
    /// Sets the answer of a webhook.
    fn respond(&self, name: &str, respond: Value);
    /// Whether calls are recorded.
    fn record(&self, on: bool);
    /// Returns the recorded calls of a webhook, and forgets them.
    fn take_calls(&self, name: &str) -> Vec<Value>;
}

/// Webhooks that answer.
pub(crate) struct Webhooks {
    host: String,
    ca_bundle: String,
    state: Mutex<State>,
}

struct State {
    is_recording: bool,
    answers: BTreeMap<String, Value>,
    calls: BTreeMap<String, Vec<Value>>,
}

impl Webhooks {
    pub(crate) fn new(host: &str, authority: &str) -> Self {
        let state = State { is_recording: true, answers: BTreeMap::new(), calls: BTreeMap::new() };
        let ca_bundle = BASE64_STANDARD.encode(authority);
        Self { host: host.to_owned(), ca_bundle, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a POST to a path with status and body; `None` closes the connection without an answer.
    pub(crate) async fn answer(&self, path: &str, body: &[u8]) -> Option<(u16, Bytes)> {
        let name = path.trim_matches('/');
        let review: Value = match serde_json::from_slice(body) {
            Ok(review) => review,
            Err(why) => return Some((400, format!("the review is not JSON: {why}").into())),
        };
        let respond = {
            let mut state = self.state();
            if state.is_recording {
                state.calls.entry(name.to_owned()).or_default().push(review.clone());
            }
            state.answers.get(name).cloned()
        };
        let Some(respond) = respond else { return Some((404, "no such webhook".into())) };
        if let Some(delay) = respond["delaySeconds"].as_f64() {
            sleep(Duration::from_secs_f64(delay)).await;
        }
        if respond["close"] == true {
            return None;
        }
        if respond.get("raw").is_some() || respond.get("httpStatus").is_some() {
            let status = respond["httpStatus"].as_u64().and_then(|status| u16::try_from(status).ok());
            let raw = respond["raw"].as_str().unwrap_or_default().to_owned();
            return Some((status.unwrap_or(200), raw.into()));
        }
        Some((200, reply(&respond, &review).to_string().into()))
    }
}

impl Hooks for Webhooks {
    fn host(&self) -> String {
        self.host.clone()
    }

    fn ca_bundle(&self) -> String {
        self.ca_bundle.clone()
    }

    fn respond(&self, name: &str, respond: Value) {
        self.state().answers.insert(name.to_owned(), respond);
    }

    fn record(&self, on: bool) {
        self.state().is_recording = on;
    }

    fn take_calls(&self, name: &str) -> Vec<Value> {
        self.state().calls.remove(name).unwrap_or_default()
    }
}

/// Returns the review with its response.
fn reply(respond: &Value, review: &Value) -> Value {
    let request = &review["request"];
    let is_conversion = respond.get("conversion").is_some() || respond.get("conversionFailure").is_some();
    let mut response = if is_conversion { converted(respond, request) } else { admitted(respond) };
    let uid = if respond["wrongUid"] == true { json!("wrong-uid") } else { request["uid"].clone() };
    response.insert("uid".to_owned(), uid);
    json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
}

/// Returns an AdmissionResponse: the step's fields, with the patch encoded.
fn admitted(respond: &Value) -> Map<String, Value> {
    let mut response = respond.as_object().cloned().unwrap_or_default();
    response.remove("delaySeconds");
    response.remove("wrongUid");
    if let Some(patch) = response.get_mut("patch") {
        *patch = BASE64_STANDARD.encode(patch.to_string()).into();
        response.entry("patchType").or_insert(json!("JSONPatch"));
    }
    response
}

/// Returns a ConversionResponse: each object with the operations of the desired version applied.
fn converted(respond: &Value, request: &Value) -> Map<String, Value> {
    let response = match respond["conversionFailure"].as_str() {
        Some(message) => json!({"result": {"status": "Failure", "message": message}}),
        None => {
            let desired = request["desiredAPIVersion"].as_str().unwrap_or_default();
            let operations = respond["conversion"][desired].as_array().into_iter().flatten();
            let mut objects = request["objects"].clone();
            for object in objects.as_array_mut().into_iter().flatten() {
                object["apiVersion"] = json!(desired);
                operations.clone().for_each(|operation| convert(object, operation));
            }
            json!({"convertedObjects": objects, "result": {"status": "Success"}})
        }
    };
    response.as_object().cloned().unwrap_or_default()
}

/// Applies `move`, `set` or `remove`. An absent source changes nothing.
fn convert(object: &mut Value, operation: &Value) {
    let pointer = |field: &str| operation[field].as_str().unwrap_or_default().to_owned();
    let value = match operation["op"].as_str() {
        Some("set") => operation["value"].clone(),
        Some("move") => match take(object, &pointer("from")) {
            Some(value) => value,
            None => return,
        },
        _ => {
            take(object, &pointer("path"));
            return;
        }
    };
    put(object, &pointer("path"), value);
}

fn keys(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~")).collect()
}

fn take(object: &mut Value, pointer: &str) -> Option<Value> {
    let keys = keys(pointer);
    let (last, parents) = keys.split_last()?;
    let parent = parents.iter().try_fold(object, |value, key| value.get_mut(key))?;
    parent.as_object_mut()?.remove(last)
}

/// Sets a value; absent parents are created.
fn put(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for key in keys(pointer) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[key];
    }
    *place = value;
}
