//! Ownership of the replicas, which have one path in an object and another one in its `Scale`.
//!
//! A write to `/scale` is tracked in the scale, and the resulting entries are transferred to the object. As in kube-apiserver, the
//! transferred entries have no time, and if a manager set the replicas through the object, they move from that entry to one of their own.

use serde_json::{Value, json};

use super::managers::{Managers, Owned, encode};
use super::set::{FieldSet, PathElement, SetNode};

/// Version of `Scale`.
pub const API_VERSION: &str = "autoscaling/v1";

/// Path of the replicas in a scale.
const REPLICAS: [&str; 2] = ["spec", "replicas"];

/// Returns the entries of an object's scale: those of the managers that own the replicas.
pub fn entries_of_scale(object: &Value, replicas: &[String]) -> Option<Value> {
    let mut of_scale = Managers::default();
    for (id, owned) in Managers::decode(object).ok()?.into_iter() {
        if has(&owned.set, replicas) {
            let (set, time) = (only(&REPLICAS), owned.time);
            of_scale
                .put(id.in_version(API_VERSION), Owned { set, api_version: API_VERSION.to_owned(), time });
        }
    }
    let mut scale = json!({});
    of_scale.encode(&mut scale);
    scale["metadata"].get_mut("managedFields").map(Value::take)
}

/// Sets the entries of an object after a write of its scale.
pub fn take_over(object: &mut Value, replicas: &[String], api_version: &str, scale: &Value) {
    let mut of_scale = Managers::decode(scale).unwrap_or_default();
    let mut entries = Vec::new();
    for (id, mut owned) in Managers::decode(object).unwrap_or_default().into_iter() {
        // An applier has the same key in the object and in its scale. The keys of updaters contain the version and never match.
        if has(&owned.set, replicas) && of_scale.remove(&id).is_none() {
            owned.set.remove_field(&replicas.iter().map(String::as_str).collect::<Vec<_>>());
        }
        entries.push((id, owned));
    }
    // Remaining entries belong to managers that took the replicas through the scale.
    for (id, _) in of_scale.into_iter().filter(|(_, owned)| has(&owned.set, &REPLICAS)) {
        // kube-apiserver looks up the time of the new entry among those of the object, where it is missing.
        let owned = Owned { set: only(replicas), api_version: api_version.to_owned(), time: None };
        entries.push((id.in_version(api_version), owned));
    }
    entries.retain(|(_, owned)| !owned.set.is_empty());
    encode(entries, object);
}

fn has(set: &FieldSet, path: &[impl AsRef<str>]) -> bool {
    let Some((last, parents)) = path.split_last() else { return false };
    let field = |name: &str| PathElement::Field(name.to_owned());
    let parent = parents.iter().try_fold(set, |set, name| Some(&set.get(&field(name.as_ref()))?.below));
    parent.and_then(|set| set.get(&field(last.as_ref()))).is_some_and(|node| node.member)
}

/// Returns a set of a single field.
fn only(path: &[impl AsRef<str>]) -> FieldSet {
    let mut set = FieldSet::default();
    let Some((first, rest)) = path.split_first() else { return set };
    let node = if rest.is_empty() { SetNode::member() } else { SetNode { member: false, below: only(rest) } };
    set.insert(PathElement::Field(first.as_ref().to_owned()), node);
    set
}
