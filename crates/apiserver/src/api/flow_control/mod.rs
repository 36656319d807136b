//! Flow schema and priority level of requests: the part of kube-apiserver's "API Priority and Fairness" that clients see.
//!
//! Every response to an authenticated user carries the UIDs of the flow schema and the priority level. Clients such as Flux and cli-utils
//! look for these headers to learn whether the server limits requests itself, and then stop limiting their own. This server neither queues
//! nor rejects requests by priority: inject a [fault](crate::faults) to simulate overload.
//!
//! [`classifier`] holds the rules and is pure. It is rebuilt at the first request after a schema or level has changed. Other requests cost
//! two atomic loads and a scan of the rules, which for administrators ends at the first schema.

mod classifier;

use parking_lot::RwLock;

use crate::kind::resource::StorageKey;
use crate::request::info::RequestTarget;
use crate::state::{ClusterState, Subscription};
use crate::user::UserInfo;
pub(crate) use classifier::Flow;
use classifier::{Classifier, ParsedFlowSchema, PriorityLevel};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const SCHEMAS: &str = "flowschemas";
const LEVELS: &str = "prioritylevelconfigurations";

/// Classifies requests into flows.
pub(crate) struct FlowControl {
    schemas: Subscription,
    levels: Subscription,
    current: RwLock<Current>,
}

struct Current {
    /// Revisions of the latest change of schemas and of levels when the classifier was built; 0 if there was none.
    as_of: (u64, u64),
    classifier: Classifier,
}

impl FlowControl {
    /// Creates the classifier; `subscribe` returns a subscription to the changes of a table.
    pub(crate) fn new(mut subscribe: impl FnMut(StorageKey) -> Subscription) -> Self {
        let mut table =
            |plural: &str| subscribe(StorageKey { group: GROUP.to_owned(), plural: plural.to_owned() });
        Self {
            schemas: table(SCHEMAS),
            levels: table(LEVELS),
            current: RwLock::new(Current { as_of: (0, 0), classifier: Classifier::default() }),
        }
    }

    /// Returns the flow of a request; `None` if no schema matches, which requires that `catch-all` was deleted.
    pub(crate) fn classify(
        &self,
        cluster: &ClusterState,
        user: &UserInfo,
        target: &RequestTarget,
    ) -> Option<Flow> {
        // The revisions are loaded before the objects are read, so that a change in between rebuilds the classifier at the next request.
        let as_of = (self.schemas.latest(), self.levels.latest());
        {
            let current = self.current.read();
            if current.as_of == as_of {
                return current.classifier.classify(user, target);
            }
        }
        let classifier = read(cluster);
        let flow = classifier.classify(user, target);
        *self.current.write() = Current { as_of, classifier };
        flow
    }
}

/// Builds a classifier from the stored schemas and levels.
fn read(cluster: &ClusterState) -> Classifier {
    let registry = cluster.registry();
    let objects = |plural: &str| {
        let served = registry.get(GROUP, "v1", plural);
        let objects = served.map(|served| {
            let snapshot = cluster.read(|store| store.snapshot(served.storage()));
            snapshot.range("", None).map(|(_, stored)| served.value(stored)).collect::<Vec<_>>()
        });
        objects.unwrap_or_default()
    };
    let levels = objects(LEVELS).into_iter().filter_map(PriorityLevel::read);
    let schemas = objects(SCHEMAS).into_iter().filter_map(ParsedFlowSchema::read);
    Classifier::new(schemas, levels)
}
