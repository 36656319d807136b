//! The requests of a story: one function for each verb.

use http::Method;
use serde_json::{Map, Value, json};

use super::super::catalog::Resource;
use super::super::mutation::{self, mutate, pointers};
use super::super::request::{Body, PROTOBUF, Request};
use super::super::responder::convert_object;
use super::{NAMES, Story};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
/// Types of responses that few clients ask for.
const RARE_TYPES: [&str; 10] = [
    "*/*",
    "application/*",
    "application/xml",
    "application/json;as=Table;v=v2;g=meta.k8s.io, application/json",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
    "application/yaml",
    "application/vnd.kubernetes.protobuf,application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/xml, application/json;q=0.5",
    "application/json;pretty=1",
];
/// Selectors of fields that some kind has.
const FIELDS: [&str; 30] = [
    "fieldSelector=metadata.name%3Da",
    "fieldSelector=metadata.name!%3Da,metadata.namespace%3D{{ns}}",
    "fieldSelector=metadata.name%3D{{ns}}-a",
    "fieldSelector=metadata.name%3Da,metadata.name%3Db",
    "fieldSelector=metadata.uid%3Da",
    "fieldSelector=spec.nodeName%3D",
    "fieldSelector=status.phase%3DPending",
    "fieldSelector=status.phase!%3DRunning",
    "fieldSelector=spec.restartPolicy%3DNever",
    "fieldSelector=spec.schedulerName%3Ddefault-scheduler",
    "fieldSelector=spec.serviceAccountName%3D",
    "fieldSelector=spec.hostNetwork%3Dfalse",
    "fieldSelector=status.podIP%3D",
    "fieldSelector=status.nominatedNodeName%3D",
    "fieldSelector=spec.color%3Dred",
    "fieldSelector=spec.unschedulable%3Dtrue",
    "fieldSelector=spec.clusterIP%3DNone",
    "fieldSelector=spec.type%3DNodePort",
    "fieldSelector=type%3DOpaque",
    "fieldSelector=reason%3DA,type%3DNormal",
    "fieldSelector=involvedObject.kind%3DPod,involvedObject.name%3Da",
    "fieldSelector=regarding.name%3Da",
    "fieldSelector=status.successful%3D0",
    "fieldSelector=status.replicas%3D0",
    "fieldSelector=spec.signerName%3Dexample.com%2Fa",
    "fieldSelector=spec.driver%3Dexample.com",
    "fieldSelector=spec.nodeName%3Da",
    "fieldSelector=x",
    "fieldSelector=",
    "fieldSelector=a%3Db%3Dc",
];
const LABELS: [&str; 16] = [
    "labelSelector=story%3D{{ns}}",
    "labelSelector=a%20in%20(b,c),story",
    "labelSelector=!a",
    "labelSelector=a%3D%3D%3Db",
    "labelSelector=a%20in",
    "labelSelector=a%3E1",
    "labelSelector=a!%3Db",
    "labelSelector=a%20notin%20(b,)",
    "labelSelector=a%3D",
    "labelSelector=a%3Cx",
    "labelSelector=a/b/c%3D1",
    "labelSelector=a%20in%20()",
    "labelSelector=,",
    "labelSelector=story,story",
    "labelSelector=a%3Da%20b",
    "labelSelector=",
];

impl Story<'_> {
    fn mutated(&mut self, mut object: Value, least: usize) -> Value {
        if is_converted(self.resource) && self.dice.percent(15) {
            object["spec"]["fail"] = self.dice.pick(&CONVERSION_FAILURES).into();
        }
        let number = least + self.dice.weighted(&[(45, 0), (40, 1), (12, 2), (3, 4)]);
        let resource = self.resource;
        let schemas = &self.catalog.schemas;
        let schema = schemas.of_kind(&resource.group, &resource.version, &resource.kind);
        for _ in 0..number {
            mutate(&mut object, schema, schemas, &mut self.dice);
        }
        if resource.kind == "PriorityClass"
            && let Some(class) = object.as_object_mut()
        {
            class.remove("globalDefault");
        }
        object
    }

    pub(super) fn create(&mut self) -> Request {
        let absent: Vec<&str> = NAMES.into_iter().filter(|name| !self.objects.contains_key(*name)).collect();
        let name = if absent.is_empty() || self.dice.percent(10) { "a" } else { self.dice.pick(&absent) };
        let sample = self.sample(name);
        let body = self.mutated(sample, 0);
        let mut request = self.request(Method::POST, self.resource.collection(), "create").body(body);
        self.spoil(&mut request);
        request
    }

    /// Object to send in an update: the last state, or a sample.
    fn current(&mut self, name: &str) -> Value {
        let sample = self.sample(name);
        let mut object = self.objects.get(name).cloned().unwrap_or(sample);
        if object["apiVersion"].as_str().is_some_and(|version| version != self.resource.api_version()) {
            object = convert_object(&object, &self.resource.api_version());
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            match self.dice.below(20) {
                0..4 => drop(metadata.remove("resourceVersion")),
                4 => {
                    let first = format!("{{{{first:{}/{name}}}}}", self.resource.kind);
                    metadata.insert("resourceVersion".into(), first.into());
                }
                5 => drop(metadata.remove("uid")),
                _ => {}
            }
        }
        object
    }

    pub(super) fn update(&mut self) -> Request {
        let name = self.name();
        let current = self.current(&name);
        let body = self.mutated(current, 0);
        let mut request = self.request(Method::PUT, self.item(&name), "update").body(body);
        self.spoil(&mut request);
        request
    }

    /// A merge patch that leads to a mutated state.
    fn difference(&mut self, name: &str) -> Value {
        let current = self.current(name);
        let target = self.mutated(current.clone(), 1);
        let mut patch = merge_patch(&current, &target);
        if self.dice.percent(10)
            && let Some(patch) = patch.as_object_mut()
        {
            let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert(
                    "resourceVersion".into(),
                    format!("{{{{rv:{}/{name}}}}}", self.resource.kind).into(),
                );
            }
        }
        patch
    }

    pub(super) fn merge(&mut self) -> Request {
        let name = self.name();
        let body = self.difference(&name);
        self.patch(&name, "application/merge-patch+json", "merge", body)
    }

    pub(super) fn strategic(&mut self) -> Request {
        let name = self.name();
        let mut body = self.difference(&name);
        if self.dice.percent(25) {
            let places: Vec<String> = pointers(&body)
                .into_iter()
                .filter(|pointer| body.pointer(pointer).is_some_and(Value::is_object))
                .collect();
            let directive = self
                .dice
                .one(&[
                    ("$patch", json!("replace")),
                    ("$patch", json!("delete")),
                    ("$patch", json!("x")),
                    ("$retainKeys", json!(["type"])),
                    ("$setElementOrder/containers", json!([{"name": "b"}, {"name": "a"}])),
                    ("$deleteFromPrimitiveList/finalizers", json!(["example.com/a"])),
                ])
                .cloned();
            if let (Some(place), Some((name, value))) = (self.dice.one(&places), directive)
                && let Some(target) = body.pointer_mut(place)
            {
                target[name] = value;
            }
        }
        self.patch(&name, "application/strategic-merge-patch+json", "strategic", body)
    }

    pub(super) fn json_patch(&mut self) -> Request {
        let name = self.name();
        let current = self.current(&name);
        let places = pointers(&current);
        let mut operations = Vec::new();
        if self.dice.percent(60) {
            let target = self.mutated(current.clone(), 1);
            changes(&current, &target, "", &mut operations);
        }
        let number = usize::from(operations.is_empty()) + self.dice.below(2);
        for _ in 0..number {
            let mut place = self.dice.one(&places).cloned().unwrap_or_default();
            let from = self.dice.one(&places).cloned().unwrap_or_default();
            if self.dice.percent(30) {
                place += self.dice.pick(&["/-", "/0", "/x", "/99", "/a~1b"]);
            }
            let source = if self.dice.percent(30) { &place } else { &from };
            let value = current.pointer(source).cloned().unwrap_or(json!("x"));
            let operation = self.dice.pick(&["add", "replace", "remove", "test", "move", "copy", "x"]);
            operations.push(match operation {
                "remove" => json!({"op": operation, "path": place}),
                "move" | "copy" => json!({"op": operation, "path": place, "from": from}),
                _ => json!({"op": operation, "path": place, "value": value}),
            });
        }
        self.patch(&name, "application/json-patch+json", "json-patch", operations.into())
    }

    fn patch(&mut self, name: &str, content_type: &'static str, verb: &str, body: Value) -> Request {
        let mut request = self.request(Method::PATCH, self.item(name), verb).body(body);
        request.content_type = content_type;
        self.spoil(&mut request);
        request
    }

    pub(super) fn apply(&mut self) -> Request {
        let name = self.name();
        let mut sample = self.sample(&name);
        for pointer in pointers(&sample) {
            if self.dice.percent(6)
                && pointer.matches('/').count() > 1
                && !pointer.starts_with("/metadata/name")
            {
                mutation::remove(&mut sample, &pointer);
            }
        }
        let body = self.mutated(sample, 0);
        let mut request = self.patch(&name, "application/apply-patch+yaml", "apply", body);
        if self.dice.percent(95) {
            request.query(self.dice.pick(&["fieldManager=one", "fieldManager=two"]));
        }
        if self.dice.percent(50) {
            request.query("force=true");
        }
        request
    }

    pub(super) fn subresource(&mut self) -> Request {
        let name = self.name();
        let subresource = self.dice.one(&self.resource.subresources).cloned().unwrap_or_default();
        let path = format!("{}/{subresource}", self.item(&name));
        let methods = [Method::GET, Method::PUT, Method::PUT, Method::PATCH, Method::PATCH, Method::POST];
        let method = self.dice.one(&methods).cloned().unwrap_or_default();
        let is_connect = matches!(&*subresource, "exec" | "attach" | "portforward" | "proxy" | "log");
        let is_created = matches!(&*subresource, "eviction" | "binding" | "token");
        let method = match (is_connect, is_created, &*subresource) {
            (true, ..) => Method::GET,
            (_, true, _) if self.dice.percent(80) => Method::POST,
            (.., "finalize") if self.dice.percent(80) => Method::PUT,
            _ => method,
        };
        let mut request = self.request(method.clone(), path, &subresource);
        if method == Method::PATCH && self.dice.percent(30) {
            return self.apply_part(&name, &subresource);
        }
        let full = self.full(&name);
        let body = match (&*subresource, &method) {
            (_, &Method::GET) => return request,
            ("scale", &Method::PUT) => json!({
                "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": full},
                "spec": {"replicas": self.dice.below(12)},
            }),
            ("scale", _) => json!({"spec": {"replicas": self.dice.below(12)}}),
            ("eviction", _) => {
                let mut eviction =
                    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": full}});
                if self.dice.percent(50) {
                    let uid = format!("{{{{uid:{}/{name}}}}}", self.resource.kind);
                    let options = [
                        json!({"gracePeriodSeconds": 5}),
                        json!({"dryRun": ["All"]}),
                        json!({"preconditions": {"uid": uid}}),
                        json!({"preconditions": {"uid": "x"}}),
                        json!({"gracePeriodSeconds": -1}),
                        json!({"propagationPolicy": "x"}),
                    ];
                    eviction["deleteOptions"] = self.dice.one(&options).cloned().into();
                }
                eviction
            }
            ("binding", _) => json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": full},
                "target": {"kind": "Node", "name": self.dice.pick(&["n", "", "m"])},
            }),
            ("token", _) => {
                let spec = [
                    json!({}),
                    json!({"audiences": ["a"], "expirationSeconds": 600}),
                    json!({"expirationSeconds": 599}),
                    json!({"expirationSeconds": 4_294_967_297_i64}),
                    json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none"}}),
                    json!({"boundObjectRef": {"kind": "X", "apiVersion": "v1", "name": "none"}}),
                ];
                let spec = self.dice.one(&spec).cloned();
                json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
            }
            (_, &Method::PATCH) => self.difference(&name),
            _ => {
                let current = self.current(&name);
                self.mutated(current, 1)
            }
        };
        if method == Method::PATCH {
            request.content_type =
                self.dice.pick(&["application/merge-patch+json", "application/strategic-merge-patch+json"]);
        }
        request.body = Body::Json(body);
        request
    }

    /// An apply to a subresource.
    fn apply_part(&mut self, name: &str, subresource: &str) -> Request {
        let full = self.full(name);
        let current = self.current(name);
        let target = self.mutated(current, 1);
        let mut body = match subresource {
            "scale" => json!({
                "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": self.dice.below(12)},
            }),
            _ => json!({"apiVersion": self.resource.api_version(), "kind": self.resource.kind}),
        };
        body["metadata"] = json!({"name": full});
        if subresource != "scale" {
            for part in ["status", "spec"] {
                if target.get(part).is_some() && (part == "status" || self.dice.percent(20)) {
                    body[part] = target[part].clone();
                }
            }
        }
        let path = format!("{}/{subresource}", self.item(name));
        let mut request = self.request(Method::PATCH, path, subresource).body(body);
        request.content_type = "application/apply-patch+yaml";
        request.query(self.dice.pick(&["fieldManager=one", "fieldManager=two"]));
        if self.dice.percent(50) {
            request.query("force=true");
        }
        request
    }

    pub(super) fn get(&mut self) -> Request {
        let name = self.name();
        let mut request = self.request(Method::GET, self.item(&name), "get");
        request.accept = self.dice.pick(&[
            "application/json",
            "application/json",
            TABLE,
            METADATA,
            "application/yaml",
            PROTOBUF,
        ]);
        if self.dice.percent(15) {
            request.query(self.dice.pick(&[
                "resourceVersion=0",
                "resourceVersion=x",
                "pretty=1",
                "resourceVersion=99999999",
                "includeObject=Object",
                "fieldSelector=x",
            ]));
        }
        request
    }

    pub(super) fn delete_collection(&mut self) -> Request {
        let path = format!("{}?{}", self.resource.collection(), self.scope());
        let mut request = self.request(Method::DELETE, path, "deletecollection");
        if self.dice.percent(40) {
            request.query(self.dice.pick(&FIELDS));
        }
        if self.resource.is_namespaced && self.dice.percent(40) {
            request.query(self.dice.pick(&LABELS));
        }
        if self.dice.percent(40) {
            let options = [
                json!({"propagationPolicy": "Foreground"}),
                json!({"gracePeriodSeconds": 0}),
                json!({"dryRun": ["All"]}),
                json!({"propagationPolicy": "x"}),
                json!({"preconditions": {"uid": "x"}}),
                json!({"dryRun": ["x"]}),
            ];
            request.body = Body::Json(self.dice.one(&options).cloned().unwrap_or_default());
        }
        request
    }

    pub(super) fn list(&mut self) -> Request {
        let mut path = format!("{}?{}", self.resource.collection(), self.scope());
        let mut is_narrow = self.resource.is_namespaced;
        if is_narrow && self.dice.percent(8) {
            // In all namespaces.
            path = format!("{}labelSelector=story%3D{{{{ns}}}}", path.replace("/namespaces/{{ns}}", ""));
            is_narrow = false;
        }
        let mut request = self.request(Method::GET, path, "list");
        request.accept =
            self.dice.pick(&["application/json", "application/json", TABLE, METADATA_LIST, PROTOBUF]);
        if self.dice.percent(30) {
            request.query(self.dice.pick(&FIELDS));
        }
        if self.dice.percent(40) {
            request.query(self.dice.pick(&[
                "limit=1",
                "limit=1&continue={{continue}}",
                "limit=x",
                "limit=-1",
                "limit=2",
                "limit=500&resourceVersion=0",
                "timeoutSeconds=x",
                "resourceVersion=0",
                "resourceVersion=0&resourceVersionMatch=Exact",
                "resourceVersionMatch=NotOlderThan",
                "resourceVersion=x",
                "continue=x",
                "includeObject=None",
                "includeObject=x",
            ]));
        }
        if is_narrow && self.dice.percent(30) {
            request.query(self.dice.pick(&LABELS));
        }
        request
    }

    pub(super) fn watch(&mut self) -> Request {
        let path = format!("{}?{}&watch=true&timeoutSeconds=1", self.resource.collection(), self.scope());
        let name = self.name();
        let mut request = self.request(Method::GET, path, "watch");
        // The embedded server creates the objects that every server has before its history begins.
        let from = if self.resource.fixtures().is_empty() { 0 } else { 3 };
        request.query(&match from + self.dice.below(5 - from) {
            0..3 => format!("resourceVersion={{{{first:{}/{name}}}}}", self.resource.kind),
            3 => "sendInitialEvents=true".into(),
            _ => "resourceVersion=x".into(),
        });
        request.accept = self.dice.pick(&["application/json", "application/json", TABLE, METADATA]);
        if self.dice.percent(30) {
            request.query(self.dice.pick(&FIELDS));
        }
        if self.resource.is_namespaced && self.dice.percent(30) {
            request.query(self.dice.pick(&LABELS));
        }
        request
    }

    pub(super) fn delete(&mut self) -> Request {
        let name = self.name();
        if self.resource.fixtures().contains(&&*name) {
            // The body of a deletion replaces the parameter for dry runs.
            return self.get();
        }
        let mut request = self.request(Method::DELETE, self.item(&name), "delete");
        if self.dice.percent(50) {
            let uid = format!("{{{{uid:{}/{name}}}}}", self.resource.kind);
            let version = format!("{{{{rv:{}/{name}}}}}", self.resource.kind);
            request.body = Body::Json(
                self.dice
                    .one(&[
                        json!({"apiVersion": "v1", "kind": "DeleteOptions"}),
                        json!({"propagationPolicy": "Foreground"}),
                        json!({"propagationPolicy": "Orphan"}),
                        json!({"propagationPolicy": "Background"}),
                        json!({"propagationPolicy": "x"}),
                        json!({"orphanDependents": true}),
                        json!({"orphanDependents": true, "propagationPolicy": "Orphan"}),
                        json!({"gracePeriodSeconds": 0}),
                        json!({"gracePeriodSeconds": -5}),
                        json!({"gracePeriodSeconds": 40}),
                        json!({"preconditions": {"uid": uid}}),
                        json!({"preconditions": {"uid": "x"}}),
                        json!({"preconditions": {"resourceVersion": "1"}}),
                        json!({"preconditions": {"resourceVersion": version}}),
                        json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true}),
                        json!({"gracePeriodSeconds": 1, "propagationPolicy": "Foreground"}),
                        json!({"unknown": 1}),
                        json!({"dryRun": ["All"]}),
                        json!({"kind": "Pod", "apiVersion": "v1"}),
                        json!("x"),
                    ])
                    .cloned()
                    .unwrap_or_default(),
            );
        }
        if self.dice.percent(10) {
            request.query(self.dice.pick(&[
                "propagationPolicy=Foreground",
                "gracePeriodSeconds=x",
                "orphanDependents=x",
            ]));
        }
        request
    }

    /// A request that no client should send.
    pub(super) fn strange(&mut self) -> Request {
        let name = self.name();
        let (collection, item) = (self.resource.collection(), self.item(&name));
        let sample = self.sample(&name);
        let (method, path, body) = match self.dice.below(9) {
            0 => (Method::PUT, collection, Some(sample)),
            1 => (Method::POST, item, Some(sample)),
            2 => (Method::PATCH, collection, Some(json!({}))),
            3 => (Method::GET, format!("{item}/unknown"), None),
            4 => (Method::GET, format!("{item}/"), None),
            5 => (Method::OPTIONS, item, None),
            6 => (Method::POST, collection, None),
            7 => (Method::GET, format!("{collection}s"), None),
            _ => (Method::PUT, format!("{item}x"), Some(sample)),
        };
        let mut request = self.request(method, path, "strange");
        request.body = body.map_or(Body::None, Body::Json);
        request
    }

    /// Damages some bodies and content types.
    fn spoil(&mut self, request: &mut Request) {
        if !self.dice.percent(6) {
            return;
        }
        let text = request.text();
        match self.dice.below(8) {
            0 => request.content_type = "text/plain",
            1 => request.content_type = "application/yaml",
            2 => request.body = Body::Text(text[..text.floor_char_boundary(text.len() / 2)].to_owned()),
            3 => request.body = Body::Text(format!("{text} x")),
            4 => request.body = Body::Text(text.replacen('{', r#"{"kind": "X", "#, 1)),
            5 => request.body = Body::Text(text.replacen("\"metadata\":{", r#""metadata":{"name":"z","#, 1)),
            6 => request.body = Body::Text(format!("[{text}]")),
            _ => request.body = Body::Text(String::new()),
        }
    }

    /// Changes the encodings of some requests.
    pub(super) fn encoding(&mut self, request: &mut Request) {
        let is_watch = request.is_watch();
        if !is_watch && self.dice.percent(3) {
            request.accept = self.dice.pick(&RARE_TYPES);
        } else if request.method != Method::GET && self.dice.percent(8) {
            request.accept = self.dice.pick(&[TABLE, METADATA, PROTOBUF, PROTOBUF]);
        }
        let is_object = matches!(request.body, Body::Json(Value::Object(_)))
            && request.content_type == "application/json"
            && [Method::POST, Method::PUT].contains(&request.method);
        if is_object && self.dice.percent(5) {
            request.content_type =
                self.dice.pick(&[PROTOBUF, PROTOBUF, "application/json; charset=utf-8", "*/*", "json"]);
        }
    }

    pub(super) fn write_options(&mut self, request: &mut Request) {
        if self.dice.percent(25) {
            request.query(self.dice.pick(&[
                "fieldValidation=Strict",
                "fieldValidation=Strict",
                "fieldValidation=Ignore",
                "fieldValidation=Warn",
                "fieldValidation=x",
            ]));
        }
        if self.dice.percent(15) && !request.path.contains("fieldManager") {
            let long = format!("fieldManager={}", "m".repeat(129));
            let managers = ["fieldManager=three", "fieldManager=a%20b", "fieldManager=%07", &*long];
            request.query(self.dice.pick(&managers));
        }
        if self.resource.affects_others() || self.dice.percent(8) {
            request.query("dryRun=All");
        } else if self.dice.percent(1) {
            request.query("dryRun=x");
        }
    }
}

/// Values of `spec.fail` of the resource with a conversion webhook.
const CONVERSION_FAILURES: [&str; 13] = [
    "failed",
    "silent",
    "uid",
    "none",
    "many",
    "version",
    "name",
    "kind",
    "label",
    "metadata",
    "finalizer",
    "bad-label",
    "null",
];

/// Whether a webhook converts the objects of a resource.
fn is_converted(resource: &Resource) -> bool {
    resource.plural == "sprockets"
}

/// Appends the operations of a JSON patch from one value to another. Lists of different lengths are replaced.
fn changes(from: &Value, to: &Value, path: &str, operations: &mut Vec<Value>) {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            let at = |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
            for name in from.keys().filter(|name| !to.contains_key(*name)) {
                operations.push(json!({"op": "remove", "path": at(name)}));
            }
            for (name, value) in to {
                match from.get(name) {
                    Some(before) => changes(before, value, &at(name), operations),
                    None => operations.push(json!({"op": "add", "path": at(name), "value": value})),
                }
            }
        }
        (Value::Array(from), Value::Array(to)) if from.len() == to.len() => {
            for (index, (from, to)) in from.iter().zip(to).enumerate() {
                changes(from, to, &format!("{path}/{index}"), operations);
            }
        }
        _ if from == to => {}
        _ => operations.push(json!({"op": "replace", "path": path, "value": to})),
    }
}

/// Returns the merge patch from one value to another.
fn merge_patch(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return to.clone() };
    let mut patch = Map::new();
    for name in from.keys().filter(|name| !to.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in to.iter().filter(|(name, value)| from.get(*name) != Some(value)) {
        patch.insert(name.clone(), merge_patch(from.get(name).unwrap_or(&Value::Null), value));
    }
    patch.into()
}
