use std::{
    fmt,
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use serde_json::Value;

/// What changes objects before they are held.
#[derive(Clone)]
pub(crate) struct Transform(Arc<dyn Fn(&mut Value) + Send + Sync>);

/// What names an object and its state: a transform cannot change it.
const IDENTITY: [&str; 4] = ["namespace", "name", "uid", "resourceVersion"];

impl Transform {
    pub(crate) fn new(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self(Arc::new(change))
    }

    /// The object as it is to be held; `None` if that is as it came: it is no object, or the transform panics, which is
    /// reported.
    pub(crate) fn apply(&self, json: &[u8], resource: &str) -> Option<String> {
        let mut object: Value = serde_json::from_slice(json).ok()?;
        let identity = IDENTITY.map(|field| object.get("metadata")?.get(field).cloned());
        let changed = panic::catch_unwind(AssertUnwindSafe(|| {
            (self.0)(&mut object);
            object
        }));
        let mut object = changed
            .inspect_err(|panic| {
                let reason = crate::reconcile::panic_message(&**panic);
                tracing::error!(
                    resource,
                    "a transform panicked, and the object is held as it came: {reason}"
                );
            })
            .ok()?;
        let metadata =
            object.as_object_mut()?.entry("metadata").or_insert_with(|| Value::Object(Default::default()));
        if !metadata.is_object() {
            *metadata = Value::Object(Default::default());
        }
        for (field, value) in IDENTITY.iter().zip(identity) {
            match value {
                Some(value) => metadata[*field] = value,
                None => drop(metadata.as_object_mut()?.remove(*field)),
            }
        }
        Some(object.to_string())
    }
}

impl PartialEq for Transform {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transform")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apply(change: impl Fn(&mut Value) + Send + Sync + 'static, object: &Value) -> Option<Value> {
        let held = Transform::new(change).apply(object.to_string().as_bytes(), "things")?;
        Some(serde_json::from_str(&held).expect("JSON"))
    }

    #[test]
    fn all_may_change_but_what_names_the_object_and_its_state() {
        let object =
            json!({ "metadata": { "name": "a", "resourceVersion": "5", "labels": { "x": "y" } }, "data": 1 });
        let named = json!({ "metadata": { "name": "a", "resourceVersion": "5" } });
        for change in
            [json!({}), json!({ "metadata": 5 }), json!({ "metadata": { "name": "b", "uid": "u" } })]
        {
            assert_eq!(apply(move |object| *object = change.clone(), &object), Some(named.clone()));
        }
        let without =
            apply(|object| drop(object.as_object_mut().and_then(|object| object.remove("data"))), &object);
        assert_eq!(without.expect("an object")["metadata"], object["metadata"]);
    }

    #[test]
    fn what_makes_no_object_changes_nothing() {
        let object = json!({ "metadata": { "name": "a" } });
        assert_eq!(apply(|object| *object = json!([]), &object), None);
        assert_eq!(apply(|_| panic!("a bug"), &object), None);
    }
}
