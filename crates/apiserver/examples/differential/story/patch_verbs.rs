//! The patches of a story: merge patches, strategic merge patches, JSON patches and applies.

use http::Method;
use serde_json::{Map, Value, json};

use super::super::mutation::{self, pointers};
use super::super::request::Request;
use super::Story;

impl Story<'_> {
    /// A merge patch that leads to a mutated state.
    pub(super) fn difference(&mut self, name: &str) -> Value {
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
