//! `manifests --check` on every value of every object: it reports each changed or removed value, and no difference of order,
//! style or comments.

use std::fs;

use super::{objects::complete_manifests, *};
use crate::manifests::objects_of;

/// Least number of planted differences, and least number of harmless changes, that the tests must have tried.
const PLANTED: usize = 60;

/// A folder with the file of an operator that has every kind of object, and the command that checks it.
struct Rendered {
    folder: tempfile::TempDir,
    objects: Vec<Value>,
    line: String,
}

impl Rendered {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (operator, options) = complete_manifests();
        let command = |what: &str| format!("manifests {what} --out {} {options}", folder.path().display());
        answer(&operator, &command("")).await.expect("files");
        let text = fs::read_to_string(folder.path().join("operator.yaml")).expect("the file");
        let line = command("--check");
        Self { objects: objects_of(&text).expect("YAML"), line, folder }
    }

    /// Whether the check finds a difference between the program and a file with this text.
    async fn differs(&self, text: &str) -> bool {
        fs::write(self.folder.path().join("operator.yaml"), text).expect("written");
        match answer(&complete_manifests().0, &self.line).await {
            Ok(_) => false,
            Err((3, _)) => true,
            Err((code, text)) => panic!("code {code}: {text}"),
        }
    }
}

fn text_of(objects: &[Value]) -> String {
    objects.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n---\n")
}

/// Pointers to all values that contain no others, except the annotation with the digest.
fn leaves(value: &Value, pointer: &str, found: &mut Vec<String>) {
    let mut inner = |key: &str, value: &Value| {
        leaves(value, &format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")), found);
    };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields.iter().filter(|(key, _)| *key != "annotations") {
                inner(key, value);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, value) in items.iter().enumerate() {
                inner(&index.to_string(), value);
            }
        }
        _ => found.push(pointer.to_owned()),
    }
}

/// A value that differs from `value`.
fn other(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::from(format!("{text}x")),
        Value::Number(number) => Value::from(number.as_i64().unwrap_or_default() + 1),
        Value::Bool(is) => Value::from(!is),
        _ => Value::from("other"),
    }
}

/// Removes the value at a pointer.
fn remove(object: &mut Value, pointer: &str) {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
    match object.pointer_mut(parent).expect("its parent") {
        Value::Object(fields) => drop(fields.remove(&key.replace("~1", "/").replace("~0", "~"))),
        Value::Array(items) => drop(items.remove(key.parse().expect("an index"))),
        other => panic!("{other} has no parts"),
    }
}

#[tokio::test]
async fn no_value_of_any_object_changes_unnoticed() {
    let rendered = Rendered::new().await;
    assert!(!rendered.differs(&text_of(&rendered.objects)).await);
    let (mut planted, mut missed) = (0, Vec::new());
    for index in 0..rendered.objects.len() {
        let mut pointers = Vec::new();
        leaves(&rendered.objects[index], "", &mut pointers);
        for (place, pointer) in pointers.iter().enumerate() {
            let mut objects = rendered.objects.clone();
            // Each value is either changed or removed; both would take twice as long and show the same.
            if place % 2 == 0 {
                let value = objects[index].pointer_mut(pointer).expect("a value");
                *value = other(value);
            } else {
                remove(&mut objects[index], pointer);
            }
            planted += 1;
            if !rendered.differs(&text_of(&objects)).await {
                missed.push(format!("{} {pointer}", objects[index]["kind"]));
            }
        }
        let mut objects = rendered.objects.clone();
        objects.remove(index);
        planted += 1;
        if !rendered.differs(&text_of(&objects)).await {
            missed.push(format!("object {index}"));
        }
    }
    assert_eq!(missed, Vec::<String>::new());
    assert!(planted >= PLANTED, "{planted}");
}

/// The value with its fields in the opposite order.
fn reversed(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .rev()
                .map(|(key, value)| format!("{}: {}", Value::from(&**key), reversed(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(reversed).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// The role with its rules in the opposite order, and one verb in each; `None` for other objects.
fn split_rules(object: &Value) -> Option<Value> {
    let rules = object["rules"]
        .as_array()
        .filter(|_| object["kind"].as_str().is_some_and(|kind| kind.ends_with("Role")))?;
    let split = rules.iter().rev().flat_map(|rule| {
        let verbs = rule["verbs"].as_array().into_iter().flatten();
        verbs.map(|verb| {
            let mut one = rule.clone();
            one["verbs"] = Value::from(vec![verb.clone()]);
            one
        })
    });
    let mut changed = object.clone();
    changed["rules"] = split.collect();
    Some(changed)
}

#[tokio::test]
async fn no_change_of_form_is_an_alarm() {
    let rendered = Rendered::new().await;
    let objects = &rendered.objects;
    let mut changed: Vec<String> = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        let with = |text: String| {
            let mut texts: Vec<String> = objects.iter().map(ToString::to_string).collect();
            texts[index] = text;
            texts.join("\n---\n")
        };
        // The order of fields, comments, the annotation, the style, and the order of objects.
        changed.push(with(reversed(object)));
        changed.push(with(format!("# A comment.\n{object} # and another\n")));
        let mut annotated = object.clone();
        annotated["metadata"]["annotations"]["operator/rendered-by"] = Value::from("another version");
        changed.push(with(annotated.to_string()));
        changed.push(with(kube_apimachinery::yaml::write(object)));
        let mut rotated = objects.clone();
        rotated.rotate_left(index + 1);
        changed.push(format!("---\n{}\n---\n", text_of(&rotated)));
        changed.extend(split_rules(object).map(|split| with(split.to_string())));
    }
    assert!(changed.len() >= PLANTED, "{}", changed.len());
    for text in changed {
        assert!(!rendered.differs(&text).await, "{text}");
    }
}
