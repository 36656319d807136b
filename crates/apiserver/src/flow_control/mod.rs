//! Which flow schema and priority level a request belongs to: kube-apiserver's "API Priority and Fairness", as far as it
//! tells clients of it.
//!
//! Every answer to a user who is known carries the uids of both. Clients look for them to learn whether the server limits
//! requests itself, and then stop doing so (Flux and cli-utils do). Nothing waits or is refused here: overload is a
//! [fault](crate::faults).
//!
//! [`classifier`] decides and is pure. It is made of the objects as they are, and made anew when one of them has changed;
//! other requests pay for two loads and a walk over texts, which for administrators ends at the first schema.

mod classifier;

use http::request::Parts;
use parking_lot::RwLock;

use crate::authentication::UserInfo;
use crate::resource::StorageKey;
use crate::server::{Server, Subscription};
pub(crate) use classifier::Flow;
use classifier::{Classifier, Level, Schema};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const SCHEMAS: &str = "flowschemas";
const LEVELS: &str = "prioritylevelconfigurations";

/// Tells the flow of each request.
pub(crate) struct FlowControl {
    schemas: Subscription,
    levels: Subscription,
    current: RwLock<Current>,
}

struct Current {
    /// The latest changes of schemas and levels when they were read; 0 is before the first.
    as_of: (u64, u64),
    classifier: Classifier,
}

impl FlowControl {
    /// `subscribe` tells of the changes of a table.
    pub(crate) fn new(mut subscribe: impl FnMut(StorageKey) -> Subscription) -> Self {
        let mut table =
            |plural: &str| subscribe(StorageKey { group: GROUP.to_owned(), plural: plural.to_owned() });
        Self {
            schemas: table(SCHEMAS),
            levels: table(LEVELS),
            current: RwLock::new(Current { as_of: (0, 0), classifier: Classifier::default() }),
        }
    }

    /// The flow of a request; `None` if no schema takes it, which needs somebody to have deleted `catch-all`.
    pub(crate) fn classify(&self, server: &Server, user: &UserInfo, head: &Parts) -> Option<Flow> {
        // Asked before the objects are read: what changes meanwhile has them read again.
        let as_of = (self.schemas.latest(), self.levels.latest());
        {
            let current = self.current.read();
            if current.as_of == as_of {
                return current.classifier.classify(user, head);
            }
        }
        let classifier = read(server);
        let flow = classifier.classify(user, head);
        *self.current.write() = Current { as_of, classifier };
        flow
    }
}

/// Reads schemas and levels.
fn read(server: &Server) -> Classifier {
    let registry = server.registry();
    let objects = |plural: &str| {
        let served = registry.get(GROUP, "v1", plural);
        let objects = served.map(|served| {
            let snapshot = server.read(|store| store.snapshot(served.storage()));
            snapshot.range("", None).map(|(_, stored)| served.value(stored)).collect::<Vec<_>>()
        });
        objects.unwrap_or_default()
    };
    let levels = objects(LEVELS).into_iter().filter_map(Level::read);
    let schemas = objects(SCHEMAS).into_iter().filter_map(Schema::read);
    Classifier::new(schemas, levels)
}
