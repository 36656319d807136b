//! A copy of each commit, for tools in the same process that follow the whole state of a server.

use std::sync::Arc;

use serde_json::Value;

use crate::kind::resource::StorageKey;
use crate::store::{StoreEvent, Stored};

/// Function that receives each commit. It is called within the commit, without a lock.
pub(crate) type Tap = Box<dyn Fn(&Commit) + Send + Sync>;

/// A change of one object.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Commit {
    /// API group of the resource; empty for the core group.
    pub group: String,
    /// Plural name of the resource, such as `configmaps`.
    pub resource: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Revision of the commit: `metadata.resourceVersion`.
    pub revision: u64,
    before: Option<CommittedObject>,
    after: Option<CommittedObject>,
}

/// State of an object before or after a commit, without `kind` and `apiVersion`. A stored object stays text until the receiver reads it, and
/// clones share the text.
#[derive(Debug, Clone)]
pub struct CommittedObject(State);

#[derive(Debug, Clone)]
enum State {
    Stored(Arc<Stored>),
    Value(Value),
}

impl CommittedObject {
    /// Parses the object. Each call does so again.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match &self.0 {
            // Stored documents are JSON, so parsing does not fail.
            State::Stored(_) => self.with_text(|text| serde_json::from_slice(text).unwrap_or_default()),
            State::Value(value) => value.clone(),
        }
    }

    /// Calls `read` with the object's JSON text. The API server writes the metadata first.
    pub fn with_text<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        match &self.0 {
            State::Stored(stored) => {
                let mut text = Vec::with_capacity(stored.document.len() + 64);
                stored.document.write(&mut text, None, stored.revision);
                read(&text)
            }
            State::Value(value) => read(value.to_string().as_bytes()),
        }
    }
}

/// Objects are equal if their JSON is, including `metadata.resourceVersion`.
impl PartialEq for CommittedObject {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (State::Stored(one), State::Stored(other)) => {
                Arc::ptr_eq(one, other)
                    || one.revision == other.revision && one.document.text() == other.document.text()
            }
            _ => self.to_value() == other.to_value(),
        }
    }
}

/// An object that did not come from a server, for tests of tools.
impl From<Value> for CommittedObject {
    fn from(object: Value) -> Self {
        Self(State::Value(object))
    }
}

impl Commit {
    /// Returns the object before the commit, without `kind` and `apiVersion`; `None` if it was created. Each call parses it.
    #[must_use]
    pub fn before(&self) -> Option<Value> {
        self.before.as_ref().map(CommittedObject::to_value)
    }

    /// Like [`before`](Self::before), but after the commit; `None` if the object was deleted.
    #[must_use]
    pub fn after(&self) -> Option<Value> {
        self.after.as_ref().map(CommittedObject::to_value)
    }

    /// Like [`before`](Self::before), without parsing the object.
    #[must_use]
    pub fn object_before(&self) -> Option<&CommittedObject> {
        self.before.as_ref()
    }

    /// Like [`after`](Self::after), without parsing the object.
    #[must_use]
    pub fn object_after(&self) -> Option<&CommittedObject> {
        self.after.as_ref()
    }

    /// Creates a commit that did not come from a server, for tests of tools.
    #[doc(hidden)]
    #[must_use]
    pub fn of_parts(
        group: &str,
        resource: &str,
        namespace: &str,
        name: &str,
        before: Option<Value>,
        after: Option<Value>,
    ) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            revision: 0,
            before: before.map(CommittedObject::from),
            after: after.map(CommittedObject::from),
        }
    }

    pub(crate) fn new(storage: &StorageKey, event: &StoreEvent) -> Self {
        let state = |stored: &Option<Arc<Stored>>| {
            stored.clone().map(|stored| CommittedObject(State::Stored(stored)))
        };
        Self {
            group: storage.group.clone(),
            resource: storage.plural.clone(),
            namespace: event.key.namespace().to_owned(),
            name: event.key.name().to_owned(),
            revision: event.revision,
            before: state(&event.before),
            after: state(&event.after),
        }
    }
}
