//! File format of a recorded scenario.
//!
//! Unknown fields are refused, so that a step which this player does not support is not silently skipped.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A scenario: requests to a fresh server, and the responses of a genuine kube-apiserver.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Transcript {
    /// Folder and file name, such as `create/dry-run`.
    pub(crate) name: String,
    /// Namespace to create before the first step, with a suffix that the player chooses.
    pub(crate) namespace: String,
    pub(crate) steps: Vec<Step>,
    /// Placeholders of resource versions in increasing order of their values.
    #[serde(default)]
    pub(crate) revisions: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "StepFields")]
pub(crate) enum Step {
    /// Send a request and compare its response.
    Exchange { request: Request, response: Response },
    /// Poll until a condition holds.
    Wait(Wait),
    /// Open a watch, play other steps, and compare the events.
    Watch(Watch),
    /// Answer calls of a webhook from now on.
    Webhook(Webhook),
    /// Compare the reviews that a webhook received since the last such step.
    WebhookCalls(WebhookCalls),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// A list of values repeats the header.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, OneOrMany>,
    pub(crate) content_type: Option<String>,
    /// Kept as text: the order of its keys is visible in warnings about them.
    pub(crate) body: Option<Box<RawValue>>,
    /// Credentials, if the request is not the admin's.
    pub(crate) auth: Option<Auth>,
}

/// Credentials other than the admin's.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Auth {
    /// Absent for a request without credentials.
    pub(crate) token: Option<String>,
    #[serde(default, rename = "none")]
    _none: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(crate) fn values(&self) -> &[String] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Absent if the response had no such header.
    pub(crate) content_type: Option<String>,
    /// `Warning` headers as received.
    #[serde(default)]
    pub(crate) warnings: Vec<String>,
    /// A string if the response was not JSON; absent for an accepted watch.
    #[serde(default)]
    pub(crate) body: Value,
    /// Events of an accepted watch.
    pub(crate) events: Option<Vec<Value>>,
    /// Whether the server ended the watch before `count` events.
    #[serde(default)]
    pub(crate) closed: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wait {
    #[serde(default = "get")]
    pub(crate) method: String,
    pub(crate) path: String,
    #[serde(rename = "contentType")]
    pub(crate) content_type: Option<String>,
    pub(crate) body: Option<Box<RawValue>>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, OneOrMany>,
    pub(crate) auth: Option<Auth>,
    /// A dotted path into the response, or `status_code`, and the value to wait for.
    pub(crate) until: (String, Value),
    pub(crate) seconds: u64,
}

fn get() -> String {
    "GET".to_owned()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Watch {
    pub(crate) request: Request,
    pub(crate) during: Vec<Step>,
    /// Reading ends after this many events, at the end of the stream, or after `seconds`.
    pub(crate) count: usize,
    pub(crate) seconds: u64,
    pub(crate) response: Response,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Webhook {
    pub(crate) name: String,
    /// The answer: see [`crate::webhooks`].
    pub(crate) respond: Box<RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookCalls {
    pub(crate) name: String,
    pub(crate) requests: Vec<Value>,
}

/// A step as stored: exactly one of exchange, wait, watch, webhook and webhookCalls.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct StepFields {
    request: Option<Request>,
    response: Option<Response>,
    wait: Option<Wait>,
    watch: Option<Watch>,
    webhook: Option<Webhook>,
    webhook_calls: Option<WebhookCalls>,
    /// For readers of the file.
    #[serde(rename = "note")]
    _note: Option<Value>,
}

impl TryFrom<StepFields> for Step {
    type Error = &'static str;

    fn try_from(fields: StepFields) -> Result<Self, Self::Error> {
        let StepFields { request, response, wait, watch, webhook, webhook_calls, .. } = fields;
        match (request, response, wait, watch, webhook, webhook_calls) {
            (Some(request), Some(response), None, None, None, None) => {
                Ok(Self::Exchange { request, response })
            }
            (None, None, Some(wait), None, None, None) => Ok(Self::Wait(wait)),
            (None, None, None, Some(watch), None, None) => Ok(Self::Watch(watch)),
            (None, None, None, None, Some(webhook), None) => Ok(Self::Webhook(webhook)),
            (None, None, None, None, None, Some(calls)) => Ok(Self::WebhookCalls(calls)),
            _ => Err("a step is a request with its response, a wait, a watch, a webhook or its calls"),
        }
    }
}

/// Reads all transcripts below `folder`, by name.
///
/// # Errors
///
/// The file that cannot be read, is not a transcript, or has a name other than its path.
pub(crate) fn load(folder: &Path) -> Result<BTreeMap<String, Transcript>, String> {
    let mut found = BTreeMap::new();
    for group in entries(folder)? {
        for file in entries(&group)? {
            let at = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
            let text = std::fs::read_to_string(&file).map_err(|error| at(&error))?;
            let transcript: Transcript = serde_json::from_str(&text).map_err(|error| at(&error))?;
            if folder.join(format!("{}.json", transcript.name)) != file {
                return Err(at(&format_args!("is named {}", transcript.name)));
            }
            found.insert(transcript.name.clone(), transcript);
        }
    }
    Ok(found)
}

fn entries(folder: &Path) -> Result<Vec<std::path::PathBuf>, String> {
    let at = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(at)? {
        paths.push(entry.map_err(at)?.path());
    }
    paths.sort();
    Ok(paths)
}
