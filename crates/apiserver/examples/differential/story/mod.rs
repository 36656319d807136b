//! A story: a sequence of random requests about the objects of one resource, in a namespace of its own.

mod patch_verbs;
mod read_verbs;
mod subresource_verbs;
mod verbs;

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Value, json};

use super::catalog::{Catalog, Resource};
use super::dice::Dice;
use super::hooks::configuration;
use super::request::{Answer, PROTOBUF, Request, recent_times};

/// Names of the objects.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Draws the requests of a story one after the other.
pub(crate) struct Story<'a> {
    catalog: &'a Catalog,
    resource: &'a Resource,
    /// `resource` in another version, to which a story changes from time to time.
    other: Option<&'a Resource>,
    /// Webhook configurations that the story has yet to create.
    configurations: Vec<Request>,
    dice: Dice,
    /// Namespace of the story on the genuine server.
    namespace: String,
    /// States of the objects as the genuine server last returned them, with placeholders.
    objects: BTreeMap<String, Value>,
    /// User that most requests impersonate.
    user: Option<&'static str>,
    /// Number of requests that the story has yet to draw.
    left: usize,
}

impl<'a> Story<'a> {
    pub(crate) fn new(catalog: &'a Catalog, only: Option<&str>, seed: u64, namespace: &str) -> Self {
        let mut dice = Dice::new(seed);
        let fitting: Vec<&Resource> = catalog
            .resources
            .iter()
            .filter(|resource| only.is_none_or(|only| resource.plural == only))
            .collect();
        let resource = match dice.percent(25) {
            true => *dice.one(&custom_or_all(&fitting)).unwrap_or(&fitting[0]),
            false => *dice.one(&fitting).unwrap_or(&fitting[0]),
        };
        let left = if resource.verbs.len() == 1 { 3 } else { 8 + dice.below(16) };
        let namespace = namespace.to_owned();
        let is_other = |other: &&Resource| {
            other.kind == resource.kind
                && other.plural == resource.plural
                && other.api_version() != resource.api_version()
        };
        let other = catalog.resources.iter().find(is_other);
        let mut configurations = Vec::new();
        if !resource.affects_others() && dice.percent(20) {
            for _ in 0..=usize::from(dice.percent(30)) {
                let is_mutating = dice.percent(60);
                let is_first = |request: &Request| request.path.contains("/mutating") != is_mutating;
                if configurations.iter().all(is_first) {
                    configurations.push(configuration(resource, is_mutating, &mut dice));
                }
            }
        }
        let user = dice.percent(10).then(|| dice.pick(&["viewer", "editor", "keeper", "stranger"]));
        let objects = BTreeMap::new();
        Self { catalog, resource, other, configurations, dice, namespace, objects, user, left }
    }

    /// Returns the next request.
    pub(crate) fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        if self.dice.percent(50)
            && let Some(configuration) = self.configurations.pop()
        {
            return Some(configuration);
        }
        if let Some(other) = self.other
            && self.dice.percent(25)
        {
            self.other = Some(std::mem::replace(&mut self.resource, other));
        }
        let mut request = loop {
            if let Some(request) = self.draw() {
                break request;
            }
        };
        if request.method != Method::GET {
            self.write_options(&mut request);
        }
        self.encoding(&mut request);
        request.user = self.user.filter(|_| self.dice.percent(80));
        Some(request)
    }

    /// Takes note of a response of the genuine server.
    pub(crate) fn observe(&mut self, request: &Request, answer: &Answer) {
        let Some(name) = answer.body["metadata"]["name"].as_str() else { return };
        let is_object = answer.status < 300
            && answer.body["kind"] == self.resource.kind.as_str()
            && ["application/json", PROTOBUF].contains(&request.accept);
        let name = name.strip_prefix(&format!("{}-", self.namespace)).unwrap_or(name).to_owned();
        if !is_object || request.path.contains("dryRun") {
            return;
        }
        if request.method == Method::DELETE {
            self.objects.remove(&name);
            return;
        }
        let mut text = answer.body.to_string().replace(&self.namespace, "{{ns}}");
        // Other fields can contain the values too: labels of a Job have its UID.
        for (label, pointer) in [("uid", "/metadata/uid"), ("ip", "/spec/clusterIP")] {
            let value = answer.body.pointer(pointer).and_then(Value::as_str);
            if let Some(value) = value.filter(|value| value.len() > 6) {
                text = text.replace(value, &format!("{{{{{label}:{}/{name}}}}}", self.resource.kind));
            }
        }
        let mut object: Value = serde_json::from_str(&text).unwrap_or_default();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in
                ["creationTimestamp", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds"]
            {
                metadata.remove(field);
            }
            metadata.insert("uid".into(), format!("{{{{uid:{}/{name}}}}}", self.resource.kind).into());
        }
        // Each server has its own times: without them a client that repeats a status would change it on one server.
        for (pointer, _) in recent_times(&object) {
            if let Some(time) = object.pointer_mut(&pointer) {
                *time = format!("{{{{time:{}/{name}{pointer}}}}}", self.resource.kind).into();
            }
        }
        // Each server has its own versions, also in a field to which a JSON patch has copied the metadata.
        set_versions(&mut object, &format!("{{{{rv:{}/{name}}}}}", self.resource.kind));
        self.objects.insert(name, object);
    }

    fn draw(&mut self) -> Option<Request> {
        let fixtures = self.resource.fixtures();
        let share = if self.objects.is_empty() { 70 } else { 10 };
        if !fixtures.is_empty() && self.dice.percent(share) {
            let name = self.dice.pick(fixtures);
            let path = self.item(name);
            return Some(self.request(Method::GET, path, "get"));
        }
        let verb = self.dice.weighted(&[
            (24, Verb::Create),
            (8, Verb::Get),
            (8, Verb::List),
            (13, Verb::Update),
            (10, Verb::Merge),
            (8, Verb::Strategic),
            (8, Verb::JsonPatch),
            (14, Verb::Apply),
            (12, Verb::Subresource),
            (7, Verb::Delete),
            (1, Verb::DeleteCollection),
            (2, Verb::Watch),
            (3, Verb::Strange),
        ]);
        // Most requests need an object.
        let needs_object = !matches!(verb, Verb::Create | Verb::List | Verb::Apply | Verb::Strange);
        let is_useless = needs_object && self.objects.is_empty()
            || matches!(verb, Verb::Strategic) && self.resource.is_custom();
        if is_useless && !self.dice.percent(10) {
            return None;
        }
        let (listed, is_known) = match verb {
            Verb::Create => ("create", true),
            Verb::Get => ("get", true),
            Verb::List => ("list", true),
            Verb::Update => ("update", true),
            Verb::Delete => ("delete", true),
            Verb::DeleteCollection => ("deletecollection", true),
            Verb::Watch => ("watch", true),
            Verb::Subresource => ("get", !self.resource.subresources.is_empty()),
            Verb::Merge | Verb::Strategic | Verb::JsonPatch | Verb::Apply => ("patch", true),
            Verb::Strange => ("", true),
        };
        let is_served = listed.is_empty() || self.resource.verbs.iter().any(|verb| verb == listed);
        if !is_known || !(is_served || self.dice.percent(5)) {
            return None;
        }
        Some(match verb {
            Verb::Create => self.create(),
            Verb::Get => self.get(),
            Verb::List => self.list(),
            Verb::Update => self.update(),
            Verb::Merge => self.merge(),
            Verb::Strategic => self.strategic(),
            Verb::JsonPatch => self.json_patch(),
            Verb::Apply => self.apply(),
            Verb::Subresource => self.subresource(),
            Verb::Delete => self.delete(),
            Verb::DeleteCollection => self.delete_collection(),
            Verb::Watch => self.watch(),
            Verb::Strange => self.strange(),
        })
    }

    fn request(&self, method: Method, path: String, verb: &str) -> Request {
        Request::new(method, path, format!("{verb} {}", self.resource.plural))
    }

    /// Name of an object: mostly of one that exists.
    fn name(&mut self) -> String {
        // Only after a read: their UIDs and versions differ on the servers.
        let fixtures = self.resource.fixtures().iter().filter(|name| self.objects.contains_key(**name));
        let fixtures: Vec<&str> = fixtures.copied().collect();
        if !fixtures.is_empty() && self.dice.percent(70) {
            return self.dice.pick(&fixtures).to_owned();
        }
        let known: Vec<String> = self.objects.keys().cloned().collect();
        match self.dice.one(&known) {
            Some(name) if self.dice.percent(90) => name.clone(),
            _ => self.dice.pick(&NAMES).to_owned(),
        }
    }

    /// Name in a request for an object with this short name.
    fn full(&self, name: &str) -> String {
        if self.resource.fixtures().contains(&name) {
            name.to_owned()
        } else if self.resource.plural == "customresourcedefinitions" {
            "things.other.example.com".into()
        } else if self.resource.is_namespaced || name.starts_with("{{ns}}") {
            name.to_owned()
        } else {
            format!("{{{{ns}}}}-{name}")
        }
    }

    fn item(&self, name: &str) -> String {
        format!("{}/{}", self.resource.collection(), self.full(name))
    }

    /// Restricts a request for a collection to the objects of this story.
    fn scope(&self) -> &'static str {
        if self.resource.is_namespaced { "" } else { "labelSelector=story%3D{{ns}}" }
    }

    fn sample(&mut self, name: &str) -> Value {
        let mut sample = self.dice.one(&self.resource.samples).cloned().unwrap_or_default();
        sample["metadata"] = json!({"name": self.full(name), "labels": {"story": "{{ns}}"}});
        sample
    }
}

#[derive(Debug, Clone, Copy)]
enum Verb {
    Create,
    Get,
    List,
    Update,
    Merge,
    Strategic,
    JsonPatch,
    Apply,
    Subresource,
    Delete,
    DeleteCollection,
    Watch,
    Strange,
}

/// The custom resources, or all if there are none.
fn custom_or_all<'a>(resources: &[&'a Resource]) -> Vec<&'a Resource> {
    let custom: Vec<_> = resources.iter().copied().filter(|resource| resource.is_custom()).collect();
    if custom.is_empty() { resources.to_vec() } else { custom }
}

/// Sets each field `resourceVersion` of a value.
fn set_versions(value: &mut Value, version: &str) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == "resourceVersion" && value.is_string() {
                    *value = version.into();
                } else {
                    set_versions(value, version);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| set_versions(item, version)),
        _ => {}
    }
}
