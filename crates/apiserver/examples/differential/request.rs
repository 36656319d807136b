//! Requests with placeholders, and their responses.
//!
//! `{{ns}}` is the namespace of a story; `{{uid:Kind/name}}` and `{{rv:Kind/name}}` are the UID and the last seen
//! resourceVersion of an object, `{{first:Kind/name}}` is its first resourceVersion, `{{ip:Kind/name}}` its cluster IP,
//! `{{time:Kind/name/pointer}}` a time that the server has set, and `{{continue}}` the last continue token. `{{hook}}` is the start of the URLs of webhooks, and `{{ca}}` their authority.

use std::collections::BTreeMap;
use std::fmt;

use http::Method;
use serde_json::Value;

use super::comparison::is_recent;
use super::mutation::pointers;

/// Content type of protobuf.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A request to both servers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: Body,
    /// User that the request impersonates.
    pub(crate) user: Option<&'static str>,
    /// Resource and verb, for reports.
    pub(crate) subject: String,
}

/// Body of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    None,
    Json(Value),
    /// Text that need not be JSON.
    Text(String),
}

impl Request {
    pub(crate) fn new(method: Method, path: impl Into<String>, subject: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            accept: "application/json",
            content_type: "application/json",
            body: Body::None,
            user: None,
            subject: subject.into(),
        }
    }

    pub(crate) fn body(mut self, body: Value) -> Self {
        self.body = Body::Json(body);
        self
    }

    /// Returns the body as text, with placeholders.
    pub(crate) fn text(&self) -> String {
        match &self.body {
            Body::None => String::new(),
            Body::Json(value) => value.to_string(),
            Body::Text(text) => text.clone(),
        }
    }

    /// Adds a parameter to the query.
    pub(crate) fn query(&mut self, parameter: &str) {
        let separator = if self.path.contains('?') { '&' } else { '?' };
        self.path = format!("{}{separator}{parameter}", self.path);
    }

    /// Returns the prefix of the name that a server generates for this request.
    pub(crate) fn generate_name(&self) -> Option<&str> {
        let Body::Json(body) = &self.body else { return None };
        body["metadata"]["generateName"].as_str().filter(|prefix| !prefix.is_empty())
    }

    /// Whether the response is a stream of events.
    pub(crate) fn is_watch(&self) -> bool {
        self.path.contains("watch=")
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        if let Some(user) = self.user {
            write!(f, "\n    Impersonate-User: {user}")?;
        }
        if self.accept != "application/json" {
            write!(f, "\n    Accept: {}", self.accept)?;
        }
        if self.body != Body::None {
            write!(f, "\n    Content-Type: {}\n    {}", self.content_type, self.text())?;
        }
        Ok(())
    }
}

/// A response that arrived as a whole.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) warnings: Vec<String>,
    /// JSON; a list of the events of a watch; other text as a string.
    pub(crate) body: Value,
}

impl Answer {
    /// A connection that ended before the response, for this reason.
    pub(crate) fn ended(reason: &str) -> Self {
        Self { status: 0, content_type: String::new(), warnings: Vec::new(), body: reason.into() }
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.status == 0
    }

    /// Masks the random part of a generated name in an error.
    pub(crate) fn with_masked_name(&self, prefix: Option<&str>) -> Self {
        let mut masked = self.clone();
        let Some(prefix) = prefix.filter(|_| self.status >= 400) else { return masked };
        // Longer prefixes are cut.
        let prefix = prefix.get(..58).unwrap_or(prefix);
        let mut text = self.body.to_string();
        let mut at = 0;
        while let Some(found) = text[at..].find(prefix) {
            let is_word = text[..at + found].ends_with(|c: char| !c.is_ascii_alphanumeric());
            let start = at + found + prefix.len();
            at = start;
            // Other words, such as UIDs, can begin like a generated name.
            let is_whole = !text
                .get(start + 5..)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric()));
            if is_word && is_whole && text.get(start..start + 5).is_some_and(is_random) {
                text.replace_range(start..start + 5, "*****");
            }
        }
        masked.body = serde_json::from_str(&text).unwrap_or(masked.body);
        masked
    }
}

/// Whether a text has only characters that Kubernetes takes for generated names.
pub(crate) fn is_random(text: &str) -> bool {
    text.bytes().all(|c| b"bcdfghjklmnpqrstvwxz2456789".contains(&c))
}

/// Values of the placeholders on one server.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    values: BTreeMap<String, String>,
    /// Texts of the genuine server, such as generated names, that requests to this server replace by its own.
    renamed: BTreeMap<String, String>,
}

impl Bindings {
    pub(crate) fn new(namespace: &str) -> Self {
        let values = BTreeMap::from([("ns".to_owned(), namespace.to_owned())]);
        Self { values, renamed: BTreeMap::new() }
    }

    /// Sets the value of a placeholder.
    pub(crate) fn set(&mut self, label: &str, value: &str) {
        self.values.insert(label.to_owned(), value.to_owned());
    }

    /// Replaces a text of the genuine server in later requests.
    pub(crate) fn rename(&mut self, genuine: String, own: String) {
        if genuine != own {
            self.renamed.insert(genuine, own);
        }
    }

    /// Replaces the placeholders that have a value.
    pub(crate) fn expand(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            out.push_str(before);
            match after.split_once("}}") {
                Some((label, after)) if self.value(label).is_some() => {
                    out.push_str(self.value(label).unwrap_or_default());
                    rest = after;
                }
                _ => {
                    out.push_str("{{");
                    rest = after;
                }
            }
        }
        self.renamed.iter().fold(out + rest, |text, (genuine, own)| text.replace(genuine, own))
    }

    /// Returns the value of a placeholder, which may contain a name that the genuine server generated.
    fn value(&self, label: &str) -> Option<&str> {
        let own =
            || self.renamed.iter().fold(label.to_owned(), |text, (genuine, own)| text.replace(genuine, own));
        self.values.get(label).or_else(|| self.values.get(&own())).map(String::as_str)
    }

    /// Learns the placeholders of an object, or of a list, in a response.
    pub(crate) fn learn(&mut self, body: &Value) {
        let metadata = &body["metadata"];
        if let Some(token) = metadata["continue"].as_str() {
            self.values.insert("continue".into(), token.to_owned());
        }
        let (Some(kind), Some(name)) = (body["kind"].as_str(), metadata["name"].as_str()) else { return };
        let short = name.strip_prefix(&format!("{}-", self.values["ns"])).unwrap_or(name);
        let object = format!("{kind}/{short}");
        if let Some(uid) = metadata["uid"].as_str() {
            self.values.insert(format!("uid:{object}"), uid.to_owned());
        }
        if let Some(ip) = body["spec"]["clusterIP"].as_str() {
            self.values.insert(format!("ip:{object}"), ip.to_owned());
        }
        for (pointer, time) in recent_times(body) {
            self.values.insert(format!("time:{object}{pointer}"), time);
        }
        if let Some(version) = metadata["resourceVersion"].as_str() {
            self.values.insert(format!("rv:{object}"), version.to_owned());
            self.values.entry(format!("first:{object}")).or_insert_with(|| version.to_owned());
        }
    }
}

/// Returns the times outside of the metadata that a server has read from its clock, with their JSON pointers.
pub(crate) fn recent_times(object: &Value) -> Vec<(String, String)> {
    let outside = pointers(object).into_iter().filter(|pointer| !pointer.starts_with("/metadata"));
    outside
        .filter_map(|pointer| {
            let time = object.pointer(&pointer)?.as_str().filter(|text| is_recent(text))?.to_owned();
            Some((pointer, time))
        })
        .collect()
}
