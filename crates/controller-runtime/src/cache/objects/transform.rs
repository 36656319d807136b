//! Transforms: user functions that change objects before they are stored.

use std::{
    collections::BTreeMap,
    fmt,
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use serde_json::Value;

/// The transforms of a cache.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Transform {
    /// Applies in namespaces without an entry in `by_namespace`.
    elsewhere: Option<TransformFn>,
    by_namespace: BTreeMap<Arc<str>, TransformFn>,
}

/// A user's transform. Clones of the same one are equal.
#[derive(Clone)]
pub(crate) struct TransformFn(Arc<dyn Fn(&mut Value) + Send + Sync>);

/// Metadata that identify the object and its state. A transform cannot change them.
const IDENTITY: [&str; 4] = ["namespace", "name", "uid", "resourceVersion"];

impl TransformFn {
    pub(in crate::cache) fn new(change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        Self(Arc::new(change))
    }
}

impl Transform {
    /// Returns `None` if there is no transform.
    pub(in crate::cache) fn new(
        elsewhere: Option<TransformFn>,
        by_namespace: BTreeMap<Arc<str>, TransformFn>,
    ) -> Option<Self> {
        let changes = elsewhere.is_some() || !by_namespace.is_empty();
        changes.then_some(Self { elsewhere, by_namespace })
    }

    /// Returns the transformed object. Returns `None` if the object is to be stored as received: if there is no transform
    /// for the namespace, the text is not an object, or the transform panics or returns something other than an object. Such
    /// a failure is logged.
    pub(crate) fn apply(&self, json: &[u8], namespace: &str, resource: &str) -> Option<String> {
        let change = self.by_namespace.get(namespace).or(self.elsewhere.as_ref())?;
        let mut object: Value = serde_json::from_slice(json).ok()?;
        let identity = IDENTITY.map(|field| object.get("metadata")?.get(field).cloned());
        // Unwind safe: after a panic the object, which may be half changed, is dropped.
        let changed = panic::catch_unwind(AssertUnwindSafe(|| {
            (change.0)(&mut object);
            object
        }));
        let changed = match changed {
            Ok(object) if object.is_object() => Ok(object),
            Ok(_) => Err("the result is not an object".to_owned()),
            Err(panic) => Err(format!("it panicked: {}", crate::panics::panic_message(&*panic))),
        };
        let mut object = changed
            .inspect_err(|reason| {
                let name = identity[1].as_ref().and_then(Value::as_str);
                tracing::error!(
                    resource,
                    namespace,
                    name,
                    "a transform of the cache failed, and the object is stored unchanged: {reason}"
                );
            })
            .ok()?;
        // The identity is restored even if the transform has removed the metadata.
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

impl PartialEq for TransformFn {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for TransformFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TransformFn")
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use serde_json::json;

    use super::*;

    fn apply(change: impl Fn(&mut Value) + Send + Sync + 'static, object: &Value) -> Option<Value> {
        let transform = Transform::new(Some(TransformFn::new(change)), BTreeMap::new()).expect("one change");
        let held = transform.apply(object.to_string().as_bytes(), "ns", "things")?;
        Some(serde_json::from_str(&held).expect("JSON"))
    }

    #[test]
    fn a_transform_cannot_change_the_identity_of_an_object() {
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
    fn an_invalid_result_of_a_transform_is_logged_and_ignored() {
        let log = Arc::new(tempfile::tempfile().expect("a file"));
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(Arc::clone(&log)).finish();
        let object = json!({ "metadata": { "name": "a" } });
        tracing::subscriber::with_default(subscriber, || {
            assert_eq!(apply(|object| *object = json!([]), &object), None);
            assert_eq!(apply(|_| panic!("a bug"), &object), None);
        });
        let mut text = String::new();
        (&*log).rewind().and_then(|()| (&*log).read_to_string(&mut text)).expect("the log can be read");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        for (line, reason) in lines.iter().zip(["the result is not an object", "it panicked: a bug"]) {
            let message =
                format!("a transform of the cache failed, and the object is stored unchanged: {reason}");
            assert!(line.contains(&message) && line.contains(r#"name="a""#), "{line}");
        }
    }
}
