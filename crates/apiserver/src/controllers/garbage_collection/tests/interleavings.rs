//! Random graphs, policies and interleavings: the collector deletes an object only after all its owners.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::api::verbs::{delete, patch};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const HOLD: &str = "example.com/hold";

/// References by position in [`NAMES`], and whether they block.
type Owners = Vec<(usize, bool)>;

/// One step of a client or of the collector.
#[derive(Debug, Clone)]
enum Step {
    Create { name: usize, held: bool, owners: Owners },
    Own { name: usize, owners: Owners },
    Release { name: usize },
    Delete { name: usize, policy: &'static str },
    CatchUp,
    CollectOne,
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    let owners = || prop::collection::vec((name(), any::<bool>()), 0..3);
    let policy = prop::sample::select(vec!["Background", "Foreground", "Orphan", "Orphan"]);
    prop_oneof![
        4 => (name(), prop::bool::weighted(0.2), owners())
            .prop_map(|(name, held, owners)| Step::Create { name, held, owners }),
        1 => (name(), owners()).prop_map(|(name, owners)| Step::Own { name, owners }),
        1 => name().prop_map(|name| Step::Release { name }),
        3 => (name(), policy).prop_map(|(name, policy)| Step::Delete { name, policy }),
        4 => Just(Step::CatchUp),
        6 => Just(Step::CollectOne),
    ]
}

/// A server with a collector, and a model of the ConfigMaps that is built from events.
struct World {
    server: Running,
    collector: Collector,
    objects: BTreeMap<String, Value>,
    /// Last UID of each name. References may lead to objects that were deleted, or created again.
    uids: BTreeMap<String, String>,
    revision: u64,
}

impl World {
    fn new() -> Self {
        let server = testing::server();
        let revision = server.read(crate::store::Store::revision);
        Self {
            server,
            collector: Collector::new(),
            objects: BTreeMap::new(),
            uids: BTreeMap::new(),
            revision,
        }
    }

    fn references(&self, owners: &Owners) -> Value {
        let one = |(owner, blocks): &(usize, bool)| {
            let name = NAMES[*owner];
            let uid = self.uids.get(name).map_or("never-was", String::as_str);
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": blocks})
        };
        owners.iter().map(one).collect()
    }

    /// Performs a step. Requests may fail, for example because the name is taken.
    fn take(&mut self, step: &Step) {
        let path = |name: usize| format!("{MAPS}/{}", NAMES[name]);
        match step {
            Step::Create { name, held, owners } => {
                let finalizers: &[&str] = if *held { &[HOLD] } else { &[] };
                let map = json!({"metadata": {
                    "name": NAMES[*name], "finalizers": finalizers, "ownerReferences": self.references(owners),
                }});
                let _ = testing::create(&self.server, MAPS, &map);
            }
            Step::Own { name, owners } => {
                self.patch(*name, &json!({"metadata": {"ownerReferences": self.references(owners)}}));
            }
            Step::Release { name } => {
                let kept: Vec<&str> = self.objects.get(NAMES[*name]).map_or(Vec::new(), |map| {
                    metadata::finalizers(map).into_iter().filter(|finalizer| *finalizer != HOLD).collect()
                });
                self.patch(*name, &json!({"metadata": {"finalizers": kept}}));
            }
            Step::Delete { name, policy } => {
                let options = json!({"propagationPolicy": policy}).to_string();
                let call = testing::call(&self.server, &path(*name));
                let _ = testing::now(delete::run(&call, &Bytes::from(options)));
            }
            Step::CatchUp => finish(self.collector.catch_up(&self.server)),
            Step::CollectOne => {
                self.collector.collect_one(&self.server);
            }
        }
        self.read_events(matches!(step, Step::CollectOne));
    }

    fn patch(&self, name: usize, patch: &Value) {
        let mut call = testing::call(&self.server, &format!("{MAPS}/{}", NAMES[name]));
        call.content_type = Some("application/merge-patch+json".to_owned());
        let _ = testing::now(patch::run(&call, &Bytes::from(patch.to_string())));
    }

    fn read_events(&mut self, collects: bool) {
        let events = self
            .server
            .read(|store| store.events_after(&table("", "configmaps"), self.revision, usize::MAX))
            .unwrap();
        for event in events {
            let name = event.key.name().to_owned();
            let read =
                |stored: &Arc<Stored>| stored.document.to_value(&TypeMeta::new("", ""), stored.revision);
            let after = event.after.as_ref().map(read);
            let begins = |map: &Value| !metadata::is_terminating(map);
            if collects
                && after.as_ref().is_none_or(metadata::is_terminating)
                && let Some(before) = event.before.as_ref().map(read).filter(begins)
            {
                assert!(!owners(&before).is_empty(), "{name} had no owner and was collected");
                for owner in owners(&before) {
                    let state = self.state(owner);
                    assert_ne!(state, OwnerState::Living, "{name} was collected although {owner} lives");
                }
            }
            self.revision = event.revision;
            match after {
                Some(map) => {
                    self.uids.insert(name.clone(), metadata::text(&map, "uid").to_owned());
                    self.objects.insert(name, map);
                }
                None => {
                    self.objects.remove(&name);
                }
            }
        }
    }

    fn state(&self, owner: &Value) -> OwnerState {
        let living =
            self.objects.get(text(owner, "name")).filter(|map| map["metadata"]["uid"] == owner["uid"]);
        match living {
            None => OwnerState::Absent,
            Some(map) if wait(map) == Some(Wait::Dependents) => OwnerState::Leaving,
            Some(_) => OwnerState::Living,
        }
    }

    /// Runs the collector until nothing changes. Checks that no remaining object has a deleted owner.
    fn check_settled(&mut self) {
        loop {
            let before = self.revision;
            self.take(&Step::CatchUp);
            while self.collector.collect_one(&self.server) {
                self.read_events(true);
            }
            self.read_events(true);
            if self.revision == before {
                break;
            }
        }
        for (name, map) in &self.objects {
            assert_ne!(wait(map), Some(Wait::Orphans), "{name} still waits for its orphans");
            for owner in owners(map) {
                let settled = metadata::is_terminating(map) || self.state(owner) == OwnerState::Living;
                assert!(settled, "{name} is left although {owner} is not");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn an_object_with_a_living_owner_or_without_any_is_never_collected(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new();
            for step in &steps {
                world.take(step);
            }
            world.check_settled();
        });
    }
}

#[tokio::test]
async fn an_orphan_stays_if_its_owner_is_processed_first() {
    let mut world = World::new();
    let steps = [
        Step::Create { name: 0, held: false, owners: vec![] },
        Step::Create { name: 1, held: false, owners: vec![(0, true)] },
        Step::Delete { name: 0, policy: "Orphan" },
    ];
    for step in &steps {
        world.take(step);
    }
    world.check_settled();
    assert_eq!(world.objects.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(owners(&world.objects["b"]), [] as [Value; 0]);
}
