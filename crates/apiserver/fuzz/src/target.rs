//! A server that receives arbitrary input, and checks of its responses.

use std::future::poll_fn;
use std::pin::pin;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::{ApiServer, ApiService, Options};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Duration;
use tower_service::Service;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// CPU time that a poll of a request may take; ten times as much without optimisation.
const HELD: Duration = Duration::from_millis(if cfg!(debug_assertions) { 500 } else { 50 });

/// CPU time of a poll from which on it is worth a line of output.
const LONG: Duration = Duration::from_millis(5);

/// Bytes of a text in a definition, and of an object with many equal parts. Larger bodies take longer whatever is in them.
const LONGEST: usize = 16 << 10;

/// CPU time of this thread, which other programs on the machine do not change.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("the clock of a thread starts at zero")
}

/// A server with a few objects.
pub struct Target {
    runtime: Runtime,
    service: ApiService,
    /// The longest poll so far.
    longest: Duration,
}

/// Completes like `future`; returns also the CPU time of its longest poll.
async fn longest_poll<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let mut future = pin!(future);
    let mut longest = Duration::ZERO;
    let output = poll_fn(|context| {
        let before = thread_time();
        let poll = future.as_mut().poll(context);
        longest = longest.max(thread_time().saturating_sub(before));
        poll
    });
    (output.await, longest)
}

/// A response that passed the checks.
struct Answer {
    code: u16,
    body: Bytes,
}

impl Answer {
    fn is_success(&self) -> bool {
        self.code < 300
    }

    fn value(&self) -> Value {
        let mut reader = serde_json::Deserializer::from_slice(&self.body);
        // A response may be nested deeper than the request, by the fields of its owners.
        reader.disable_recursion_limit();
        Value::deserialize(&mut reader).expect("an answer in JSON is JSON")
    }
}

impl Target {
    /// Starts a server with an object of each of three kinds: without a status, with one, and a custom one.
    pub fn start() -> Self {
        // Paused time, so that timeouts take no time.
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without input and output needs nothing of the system");
        let service = {
            let _time = runtime.enter();
            ApiServer::start(Options::default()).service()
        };
        let mut target = Self { runtime, service, longest: Duration::ZERO };
        let definition = json!({
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                        "data": {"type": "object", "additionalProperties": {"type": "string"}},
                        "nested": {"type": "object", "additionalProperties": {
                            "type": "object", "additionalProperties": {"type": "string", "maxLength": 3},
                        }},
                        "list": {
                            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                            "items": {"type": "object", "required": ["k"], "properties": {
                                "k": {"type": "string"}, "n": {"type": "integer"},
                            }},
                        },
                    }}},
                }],
            },
        });
        let template = json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}], "env": [{"name": "a"}]}]},
        });
        let selector = json!({"matchLabels": {"app": "web"}});
        for (collection, object) in [
            (DEFINITIONS, definition),
            (MAPS, json!({"metadata": {"name": "a", "labels": {"app": "web"}}, "data": {"k": "v"}})),
            (
                DEPLOYMENTS,
                json!({"metadata": {"name": "a"}, "spec": {"selector": selector, "template": template}}),
            ),
            (
                THINGS,
                json!({
                    "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"},
                    "spec": {"x": 1}, "data": {"k": "v"}, "list": [{"k": "a", "n": 1}],
                }),
            ),
        ] {
            let answer = target.send("POST", collection, JSON, JSON, object.to_string().as_bytes());
            assert!(answer.is_success(), "{collection}: {:?}", answer.body);
        }
        target
    }

    /// Sends an object in JSON or YAML. It is created or refused; if created, it is read and written back without a change.
    pub fn body(&mut self, data: &[u8]) {
        for collection in [MAPS, DEPLOYMENTS, THINGS] {
            for media_type in [JSON, YAML] {
                let answer = self.send("POST", collection, media_type, JSON, data);
                self.round_trip(collection, &answer);
            }
        }
        let path = format!("{MAPS}/a?dryRun=All");
        self.send("PUT", &path, JSON, JSON, data);
        self.delete_with(JSON, data);
    }

    /// Sends an object in protobuf, as it is and with the magic prefix.
    pub fn protobuf(&mut self, data: &[u8]) {
        for data in [data.to_vec(), [b"k8s\0", data].concat()] {
            for collection in [MAPS, DEPLOYMENTS] {
                let answer = self.send("POST", collection, PROTOBUF, JSON, &data);
                self.round_trip(collection, &answer);
            }
            let path = format!("{MAPS}/a?dryRun=All");
            self.send("PUT", &path, PROTOBUF, PROTOBUF, &data);
            self.delete_with(PROTOBUF, &data);
        }
    }

    /// Sends options of a DELETE. They replace those of the query, including a dry run, so the object is a spare one.
    fn delete_with(&mut self, media_type: &str, data: &[u8]) {
        let path = format!("{MAPS}/spare");
        self.send("POST", MAPS, JSON, JSON, br#"{"metadata":{"name":"spare"}}"#);
        self.send("DELETE", &path, media_type, JSON, data);
        self.remove(&path);
    }

    /// Deletes an object, whatever options it was deleted with before.
    fn remove(&mut self, path: &str) {
        self.send("DELETE", path, JSON, JSON, br#"{"gracePeriodSeconds":0}"#);
        let merge = "application/merge-patch+json";
        self.send("PATCH", path, merge, JSON, br#"{"metadata":{"finalizers":null}}"#);
        assert_eq!(self.send("GET", path, "", JSON, b"").code, 404, "{path}");
    }

    /// Sends a label selector and a field selector.
    pub fn selector(&mut self, text: &str) {
        let text = encoded(text);
        for collection in [MAPS, DEPLOYMENTS, THINGS, "/api/v1/pods", "/api/v1/events"] {
            for query in ["labelSelector", "fieldSelector"] {
                self.send("GET", &format!("{collection}?{query}={text}"), "", JSON, b"");
            }
        }
    }

    /// Sends a patch of each type. Those without a dry run must leave a readable object.
    pub fn patch(&mut self, data: &[u8]) {
        for media_type in [
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
        ] {
            for collection in [MAPS, DEPLOYMENTS, THINGS] {
                for query in ["?fieldManager=f&dryRun=All", "/status?fieldManager=f&dryRun=All"] {
                    let path = format!("{collection}/a{query}");
                    let answer =
                        self.send("PATCH", &path.replace("a?", "a?force=true&"), media_type, JSON, data);
                    if answer.is_success() {
                        assert!(answer.value()["metadata"].is_object(), "{path}");
                    }
                    self.send("PATCH", &path, media_type, JSON, data);
                }
            }
        }
    }

    /// Sends a path with or without a query, or a query of an existing path.
    pub fn path(&mut self, text: &str) {
        let text: String = text.chars().filter(|c| c.is_ascii_graphic() && *c != '#').collect();
        for path in [
            format!("/{}", text.trim_start_matches('/')),
            format!("{MAPS}?{text}"),
            format!("{MAPS}/a?{text}"),
            format!("{THINGS}?watch=1&timeoutSeconds=1&{text}"),
        ] {
            for accept in [JSON, "application/json;as=Table;g=meta.k8s.io;v=v1", PROTOBUF, &text] {
                self.send("GET", &path, "", accept, b"");
            }
            self.send("DELETE", &format!("{path}&dryRun=All"), "", JSON, b"");
        }
    }

    /// Uses a text as a pattern, as the path of a printer column and as a nested schema of a definition, then creates an object of it
    /// and shows it in a table.
    pub fn definition(&mut self, text: &str) {
        // The definition repeats the text seven times.
        let text = &text[..text.floor_char_boundary(LONGEST)];
        let mut schema = json!({"type": "string", "pattern": text, "default": text});
        // Two levels of JSON each, of 127.
        for _ in 0..text.len().min(50) {
            schema = json!({"type": "object", "default": {}, "properties": {"p": schema}});
        }
        let definition = json!({
            "metadata": {"name": "texts.example.com"},
            "spec": {
                "group": "example.com", "scope": "Cluster", "names": {"plural": "texts", "kind": "Text"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "additionalPrinterColumns": [
                        {"name": "a", "type": "string", "jsonPath": format!(".{text}")},
                        {"name": "b", "type": "string", "jsonPath": format!("..{text}..{text}..{text}.none")},
                    ],
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "text": {"type": "string", "pattern": text}, "deep": schema,
                        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    }}},
                }],
            },
        });
        let mut free = json!({"a": [1, 2, {"a": text}]});
        for _ in 0..100 {
            free = json!({"a": free});
        }
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Text", "metadata": {"name": "t"}, "text": text, "free": free,
        });
        let texts = "/apis/example.com/v1/texts";
        let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
        for (method, path, accept, body) in [
            ("POST", DEFINITIONS, JSON, definition.to_string()),
            ("POST", texts, JSON, object.to_string()),
            ("POST", texts, JSON, object.to_string().replace("\"text\":", "\"other\":")),
            ("GET", texts, table, String::new()),
            ("DELETE", &format!("{DEFINITIONS}/texts.example.com"), JSON, String::new()),
        ] {
            self.send(method, path, JSON, accept, body.as_bytes());
        }
    }

    /// Sends objects in which a field or an element is repeated, as often as fits into [`LONGEST`] bytes, below a name that may
    /// be long.
    pub fn bulk(&mut self, name: &str, piece: &str) {
        let name = &name[..name.floor_char_boundary(LONGEST / 4)];
        let text = |text: &str| Value::from(text).to_string();
        let times = LONGEST / (piece.len() + 8);
        let fields: Vec<String> = (0..times).map(|n| format!("{}:{piece}", text(&format!("{n}")))).collect();
        let fields = format!("{{{}}}", fields.join(","));
        let list = format!("[{}]", vec![piece; times].join(","));
        for many in [&fields, &list] {
            let below = format!("{{{}:{many}}}", text(name));
            for (collection, kind) in [(MAPS, "v1"), (THINGS, "example.com/v1")] {
                for (field, many) in [
                    ("data", many),
                    ("nested", &below),
                    ("list", many),
                    ("spec", &below),
                    ("x", many),
                    ("binaryData", many),
                ] {
                    let start = format!(r#"{{"apiVersion":"{kind}","metadata":{{"name":"x"}},"#);
                    let body = format!(r#"{start}"{field}":{many}}}"#);
                    self.send("POST", &format!("{collection}?dryRun=All"), JSON, JSON, body.as_bytes());
                    let patch = format!(r#"{{"{field}":{many}}}"#);
                    let merge = "application/merge-patch+json";
                    let path = format!("{collection}/a?dryRun=All");
                    self.send("PATCH", &path, merge, JSON, patch.as_bytes());
                }
                for field in ["labels", "annotations", "finalizers", "ownerReferences", "managedFields"] {
                    let body = format!(r#"{{"metadata":{{"name":"x","{field}":{many}}}}}"#);
                    self.send("POST", &format!("{collection}?dryRun=All"), JSON, JSON, body.as_bytes());
                }
            }
            let schema = format!(r#"{{"type":"object","properties":{below}}}"#);
            let deep = format!(
                r#"{{"type":"object","properties":{{"a":{{"type":"object","properties":{below}}}}}}}"#
            );
            for (schema, names) in [(&schema, "[]"), (&deep, "[]"), (&"{}".to_owned(), list.as_str())] {
                let body = format!(
                    r#"{{"metadata":{{"name":"texts.example.com"}},"spec":{{"group":"example.com","scope":"Cluster",
                    "names":{{"plural":"texts","kind":"Text","shortNames":{names}}},"versions":[{{"name":"v1","served":true,
                    "storage":true,"additionalPrinterColumns":{names},"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#
                );
                self.send("POST", &format!("{DEFINITIONS}?dryRun=All"), JSON, JSON, body.as_bytes());
            }
        }
    }

    /// Checks that a created object does not change when it is written back as read, and can be deleted.
    fn round_trip(&mut self, collection: &str, created: &Answer) {
        if !created.is_success() {
            return;
        }
        let created = created.value();
        let metadata =
            |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let path = format!("{collection}/{}", encoded(&metadata(&created, "name")));
        for media_type in [JSON, YAML, PROTOBUF] {
            if media_type == PROTOBUF && collection == THINGS {
                continue;
            }
            let read = self.send("GET", &path, "", media_type, b"");
            assert!(read.is_success(), "{path}: {:?}", read.body);
            let written = self.send("PUT", &path, media_type, JSON, &read.body);
            assert!(written.is_success(), "{path} in {media_type}: {:?}\n{:?}", read.body, written.body);
            let written = written.value();
            assert_eq!(
                metadata(&written, "resourceVersion"),
                metadata(&created, "resourceVersion"),
                "{media_type}: {created} became {written}"
            );
        }
        let answer = self.send("DELETE", &path, JSON, JSON, br#"{"gracePeriodSeconds":0}"#);
        assert!(answer.is_success(), "{path}: {:?}", answer.body);
        // Remove its finalizers, if any.
        self.send(
            "PATCH",
            &path,
            "application/merge-patch+json",
            JSON,
            br#"{"metadata":{"finalizers":null}}"#,
        );
    }

    /// Sends a request and checks the properties of every response.
    fn send(&mut self, method: &str, path: &str, media_type: &str, accept: &str, sent: &[u8]) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media_type)
            .header("accept", accept)
            .body(Full::new(Bytes::copy_from_slice(sent)));
        // Requests that the http crate refuses cannot be sent over any transport.
        let Ok(request) = request else {
            return Answer { code: 400, body: Bytes::new() };
        };
        let service = &mut self.service;
        let (answer, held) = self.runtime.block_on(longest_poll(async {
            let answer = service.call(request).await.expect("without faults every request is answered");
            let (head, body) = answer.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes);
            (head, body.unwrap_or_default())
        }));
        if held > self.longest {
            self.longest = held;
            if held > LONG {
                eprintln!("a poll of {held:?}: {method} {} with {} bytes", shown(path), sent.len());
            }
        }
        assert!(
            held < HELD,
            "{method} {} held its thread for {held:?}: {}",
            shown(path),
            shown(&String::from_utf8_lossy(sent))
        );
        let (head, body) = answer;
        let answer = Answer { code: head.status.as_u16(), body };
        let type_of_answer =
            head.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
        if head.status.as_u16() >= 400 && type_of_answer.starts_with(JSON) {
            let status = answer.value();
            assert_eq!(status["kind"], "Status", "{method} {path}: {status}");
            assert_eq!(status["code"], head.status.as_u16(), "{method} {path}: {status}");
            assert!(is_the_clients_fault(&status), "{method} {path}: {status}");
        }
        answer
    }
}

/// Whether the client can fix the error. Some of these are 5xx in Kubernetes too.
fn is_the_clients_fault(status: &Value) -> bool {
    let message = status["message"].as_str().unwrap_or_default();
    match status["code"].as_u64() {
        Some(400..=499) => true,
        Some(500) => KNOWN_INTERNAL.iter().any(|known| message.contains(known)),
        Some(504) => message.contains("Too large resource version"),
        _ => false,
    }
}

/// kube-apiserver's 500 messages for invalid requests.
const KNOWN_INTERNAL: [&str; 14] = [
    "resourceVersion should not be set on objects to be created",
    "strconv.ParseUint: parsing",
    "cannot merge lists without merge key",
    "merging lists cannot yet be specified in the patch",
    "no elements in any of the given slices",
    "list element types are not identical",
    "doesn't match $setElementOrder list",
    "expected a []interface {}, but received a",
    "unable to find api field in struct",
    "unknown patch type",
    "does not contain declared merge key",
    "failed to create typed patch object",
    "failed to convert new object",
    "object has no apiVersion field",
];

/// Returns the start of a text.
fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(300)]
}

/// Percent-encodes text for a query or a path.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}
