//! Copies of resource versions. An operator may store the version of a Secret in an annotation, so that pods are replaced when it changes.
//! Versions differ from run to run, but copies of the version of one object are alike.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::World;

/// Versions of the objects of a world, each with the names of the objects that have it, without generated parts.
pub(crate) struct Versions(BTreeMap<String, BTreeSet<String>>);

impl Versions {
    pub(crate) fn of(world: &World) -> Self {
        let mut versions = BTreeMap::<String, BTreeSet<String>>::new();
        for (id, object) in world.objects.iter().chain(&world.uncompared) {
            if let Some(version) = object.whole()["metadata"]["resourceVersion"].as_str() {
                let family = id.family(object.metadata_text("generateName")).to_string();
                versions.entry(version.to_owned()).or_default().insert(family);
            }
        }
        Self(versions)
    }

    /// Whether two values are equal, if versions of corresponding objects count as equal.
    pub(crate) fn are_alike(&self, value: &Value, others: &Self, other: &Value) -> bool {
        match (value, other) {
            (Value::Array(items), Value::Array(more)) => {
                let mut pairs = items.iter().zip(more);
                items.len() == more.len() && pairs.all(|(item, other)| self.are_alike(item, others, other))
            }
            (Value::Object(fields), Value::Object(more)) => {
                let mut pairs = fields.iter().zip(more);
                fields.len() == more.len()
                    && pairs.all(|((name, field), (other_name, other))| {
                        name == other_name && self.are_alike(field, others, other)
                    })
            }
            (Value::String(text), Value::String(other)) => self.are_texts_alike(text, others, other),
            // An operator may also store a version as a number.
            (Value::Number(number), Value::Number(other)) => {
                self.are_texts_alike(&number.to_string(), others, &other.to_string())
            }
            (value, other) => value == other,
        }
    }

    fn are_texts_alike(&self, text: &str, others: &Self, other: &str) -> bool {
        let (parts, more) = (parts(text), parts(other));
        // The same digits may be versions of several objects, so one object in common suffices.
        let share_an_object = |part: &str, other: &str| {
            let names = self.0.get(part).zip(others.0.get(other));
            names.is_some_and(|(names, more)| !names.is_disjoint(more))
        };
        let mut pairs = parts.iter().zip(&more);
        parts.len() == more.len() && pairs.all(|(part, other)| part == other || share_an_object(part, other))
    }
}

/// Runs of digits of a text, and the texts between them.
fn parts(text: &str) -> Vec<&str> {
    text.as_bytes()
        .chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit())
        .scan(0, |start, run| {
            let part = text.get(*start..*start + run.len());
            *start += run.len();
            part
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{
        names::ObjectId,
        similar::{Masks, ObjectState},
    };

    fn versions(of: &[(&str, &str)]) -> Versions {
        let object = |(name, version): &(&str, &str)| {
            let whole = json!({"metadata": {"name": name, "resourceVersion": version}});
            let state = ObjectState::new("secrets", whole, &Masks::default());
            (ObjectId::new("", "secrets", "a", name), Arc::new(state))
        };
        Versions::of(&World { objects: of.iter().map(object).collect(), ..World::default() })
    }

    #[test]
    fn copies_of_the_version_of_one_object_are_alike() {
        let (expected, found) =
            (versions(&[("login", "57"), ("tls", "60")]), versions(&[("login", "61"), ("tls", "57")]));
        let are_alike = |one: Value, other: Value| expected.are_alike(&one, &found, &other);
        assert!(are_alike(json!("57"), json!("61")));
        assert!(are_alike(json!(57), json!(61)));
        assert!(are_alike(json!("57-é2"), json!("61-é2")));
        assert!(are_alike(json!([{"name": "A", "value": "57"}]), json!([{"name": "A", "value": "61"}])));
        assert!(are_alike(json!("80"), json!("80")), "equal values need not be versions");
        assert!(!are_alike(json!("57"), json!("62")), "an old version");
        assert!(!are_alike(json!("57"), json!("60")));
        assert!(!are_alike(json!("60"), json!("61")), "versions of two objects");
        assert!(!are_alike(json!("57-2"), json!("61-3")));
        assert!(!are_alike(json!(["57"]), json!(["61", "61"])));
        assert!(!are_alike(json!({"a": "57"}), json!({"b": "61"})));
    }
}
