//! The writes of a story, except for patches: one function for each verb.

use http::Method;
use serde_json::{Value, json};

use super::super::catalog::Resource;
use super::super::mutation::mutate;
use super::super::request::{Body, PROTOBUF, Request};
use super::super::responder::convert_object;
use super::{NAMES, Story};

pub(super) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
pub(super) const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
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
pub(super) const FIELDS: [&str; 30] = [
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
/// Selectors of labels.
pub(super) const LABELS: [&str; 16] = [
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
    pub(super) fn mutated(&mut self, mut object: Value, least: usize) -> Value {
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
    pub(super) fn current(&mut self, name: &str) -> Value {
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
    pub(super) fn spoil(&mut self, request: &mut Request) {
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
