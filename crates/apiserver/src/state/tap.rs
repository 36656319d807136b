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
    before: Option<State>,
    after: Option<State>,
}

/// State of the object. A stored object stays text until the receiver reads it.
#[derive(Debug, Clone)]
enum State {
    Stored(Arc<Stored>),
    Value(Value),
}

impl State {
    fn to_value(&self) -> Value {
        match self {
            Self::Stored(stored) => {
                let mut text = Vec::with_capacity(stored.document.len() + 64);
                stored.document.write(&mut text, None, stored.revision);
                // Stored documents are JSON, so parsing does not fail.
                serde_json::from_slice(&text).unwrap_or_default()
            }
            Self::Value(value) => value.clone(),
        }
    }
}

impl Commit {
    /// Returns the object before the commit, without `kind` and `apiVersion`; `None` if it was created. Each call parses it.
    #[must_use]
    pub fn before(&self) -> Option<Value> {
        self.before.as_ref().map(State::to_value)
    }

    /// Like [`before`](Self::before), but after the commit; `None` if the object was deleted.
    #[must_use]
    pub fn after(&self) -> Option<Value> {
        self.after.as_ref().map(State::to_value)
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
            before: before.map(State::Value),
            after: after.map(State::Value),
        }
    }

    pub(crate) fn new(storage: &StorageKey, event: &StoreEvent) -> Self {
        let state = |stored: &Option<Arc<Stored>>| stored.clone().map(State::Stored);
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
