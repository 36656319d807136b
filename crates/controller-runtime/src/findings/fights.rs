//! Finding `fight`: a field that this operator and another manager alternately overwrite. Pure.
//!
//! After a write of this operator, the managed fields in the answer are stored. If a later event shows that the operator has lost a
//! field, the field's new manager had a turn. If the answer to the next write shows that the operator has the field again, the
//! operator had a turn. So an object that only this operator writes costs one copy of its managed fields per write, and no parsing.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use kube_clock::Clock;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    Finding, FindingId, Severity,
    owned_fields::{OwnedPath, entries, fields_of, manager_of},
    text::{Span, TimeOfDay},
};
use crate::client::{Call, WrittenObject};

/// Largest number of objects in each of the two generations. So at least so many objects are tracked if all were written within
/// [`WINDOW`]: those that were written last.
const TRACKED: usize = 256;
/// Largest number of bytes of managed fields that are stored.
const LONGEST: usize = 4096;
/// Largest number of fields with stored turns, for each object.
const CONTESTED: usize = 8;
/// Largest number of stored turns of a field.
const TURNS: usize = 16;
/// Smallest number of turns that is reported.
const MANY: usize = 5;
/// Longest time between two turns of one fight.
const WINDOW: Duration = Duration::from_secs(600);

/// Objects that this operator has written lately, and fields of them that another manager took.
#[derive(Debug, Default)]
pub(super) struct Fights {
    /// Objects by UID. A write moves its object to `young`. When `young` is full or began [`WINDOW`] ago, it becomes `old`, and the objects
    /// that were in `old` are dropped: to bound the memory, or because a fight of an object that was not written for so long is over.
    young: BTreeMap<String, Tracked>,
    old: BTreeMap<String, Tracked>,
    /// Time at which `young` began.
    began: Option<Instant>,
}

#[derive(Debug)]
struct Tracked {
    /// Kind and key, such as `Deployment shop/web`.
    subject: String,
    /// Whether values must not be shown.
    is_secret: bool,
    /// Name under which this operator writes.
    manager: String,
    version: u64,
    /// Time of its last write.
    wrote: Instant,
    managed_fields: Box<[u8]>,
    contested: Vec<Contested>,
}

/// A field that was taken from this operator.
#[derive(Debug)]
struct Contested {
    field: OwnedPath,
    /// Writes of the field, alternately by this operator and by others.
    turns: VecDeque<FieldWrite>,
}

#[derive(Debug, Clone)]
struct FieldWrite {
    manager: String,
    /// `None` if it is not known.
    value: Option<String>,
    at: Instant,
}

impl Fights {
    pub(super) fn tracks(&self, uid: &str) -> bool {
        self.young.contains_key(uid) || self.old.contains_key(uid)
    }

    /// The tracked object with this UID.
    fn find(&mut self, uid: &str) -> Option<&mut Tracked> {
        match self.young.get_mut(uid) {
            Some(tracked) => Some(tracked),
            None => self.old.get_mut(uid),
        }
    }

    /// Records that this operator has written an object.
    pub(super) fn wrote(&mut self, call: &Call, object: &WrittenObject<'_>, now: Instant) {
        let (Some(manager), Ok(version)) = (call.query("fieldManager"), object.version.parse()) else {
            return;
        };
        // An answer may lack the managed fields, and very long ones would take too much memory.
        let is_whole = !object.managed_fields.is_empty() && object.managed_fields.len() <= LONGEST;
        if !is_whole || object.uid.is_empty() {
            return;
        }
        self.age(now);
        if let Some(known) = self.old.remove(&*object.uid) {
            self.young.insert(object.uid.to_string(), known);
        }
        if let Some(tracked) = self.young.get_mut(&*object.uid) {
            // Answers to concurrent writes may arrive out of order.
            if tracked.version < version {
                tracked.wrote(object, version, now);
            }
            return;
        }
        let resource = call.kind().resource();
        // The name may have been generated.
        let name = call.name().map(str::to_owned).or_else(|| name_in(object)).unwrap_or_default();
        let key = call.namespace().map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"));
        let tracked = Tracked {
            subject: format!("{} {key}", resource.kind),
            is_secret: resource.group.is_empty() && resource.kind == "Secret",
            manager: manager.to_owned(),
            version,
            wrote: now,
            managed_fields: object.managed_fields.into(),
            contested: Vec::new(),
        };
        self.young.insert(object.uid.to_string(), tracked);
    }

    /// Begins a new generation if the young one is full or old enough. An object that was not written in two generations is forgotten.
    fn age(&mut self, now: Instant) {
        let began = *self.began.get_or_insert(now);
        if self.young.len() >= TRACKED || now >= began + WINDOW {
            self.old = std::mem::take(&mut self.young);
            self.began = Some(now);
        }
    }

    /// Records that a watch has reported a version of an object.
    pub(super) fn changed(&mut self, object: &WrittenObject<'_>, now: Instant) {
        let (Some(tracked), Ok(version)) = (self.find(&object.uid), object.version.parse::<u64>()) else {
            return;
        };
        // Skips the event of an own write, and events of changes before the last own write.
        if version > tracked.version {
            tracked.changed(object, now);
        }
    }

    /// Drops the state of a deleted object. Otherwise it would stay until two generations have passed.
    pub(super) fn forget(&mut self, uid: &str) {
        self.young.remove(uid);
        self.old.remove(uid);
    }

    pub(super) fn findings(&self, now: Instant, clock: Clock) -> Vec<Finding> {
        let tracked = self.young.values().chain(self.old.values());
        tracked
            .flat_map(|tracked| {
                tracked.contested.iter().filter_map(|field| tracked.finding(field, now, clock))
            })
            .collect()
    }
}

impl Tracked {
    /// Stores the state after an own write, and records the turns of this operator.
    fn wrote(&mut self, object: &WrittenObject<'_>, version: u64, now: Instant) {
        if self.contested.iter().any(|contested| contested.is_lost(&self.manager)) {
            let (entries, value) = (entries(object.managed_fields), parsed(object));
            let ours = fields_of(&entries, &self.manager);
            for contested in self.contested.iter_mut().filter(|contested| ours.contains(&contested.field)) {
                contested.turn(&self.manager, &value, now);
            }
        }
        (self.version, self.wrote) = (version, now);
        if *self.managed_fields != *object.managed_fields {
            self.managed_fields = object.managed_fields.into();
        }
    }

    /// Compares a version of another writer with the last own one, and records the turns of the other writer.
    fn changed(&mut self, object: &WrittenObject<'_>, now: Instant) {
        let (before, entries) = (entries(&self.managed_fields), entries(object.managed_fields));
        let (had, has) = (fields_of(&before, &self.manager), fields_of(&entries, &self.manager));
        // The next loss of a field whose fight is over begins another fight, with this operator's last write.
        self.contested.retain(|contested| !contested.is_over(now));
        let mut value = None;
        for field in had.difference(&has).take(CONTESTED) {
            let Some(other) = manager_of(&entries, field, &self.manager) else { continue };
            let value = value.get_or_insert_with(|| parsed(object));
            let known = self.contested.iter().position(|contested| contested.field == *field);
            let index = known.unwrap_or_else(|| {
                if self.contested.len() == CONTESTED {
                    self.contested.remove(0);
                }
                // This operator's last write was the first turn. Its value is no longer known.
                let first = FieldWrite { manager: self.manager.clone(), value: None, at: self.wrote };
                self.contested.push(Contested { field: field.clone(), turns: [first].into() });
                self.contested.len() - 1
            });
            self.contested[index].turn(other, value, now);
        }
    }

    fn finding(&self, contested: &Contested, now: Instant, clock: Clock) -> Option<Finding> {
        let Contested { field, turns } = contested;
        let (first, last) = (turns.front()?, turns.back()?);
        if turns.len() < MANY || last.at + WINDOW < now {
            return None;
        }
        let Self { subject, manager, is_secret, .. } = self;
        let mut writers: BTreeMap<&str, usize> = BTreeMap::new();
        for turn in turns {
            *writers.entry(&turn.manager).or_default() += 1;
        }
        // This operator comes first in the text.
        let ours = writers.remove(&**manager).unwrap_or_default();
        let others: Vec<_> = writers.iter().map(|(other, turns)| format!("{other} ({turns})")).collect();
        let names: Vec<_> = writers.into_keys().collect();
        let now = clock.at(now);
        let shown = turns.iter().rev().take(4).map(|turn| {
            let (at, writer) = (TimeOfDay { at: clock.at(turn.at), now }, &turn.manager);
            match turn.value.as_ref().filter(|_| !is_secret) {
                Some(value) => format!("{at}: {writer} wrote {value}"),
                None => format!("{at}: {writer}"),
            }
        });
        Some(Finding {
            id: FindingId::Fight,
            severity: Severity::Error,
            subject: subject.clone(),
            since: clock.at(first.at),
            text: format!(
                "{subject}: {field} is written alternately by {manager} ({ours}) and {}, {} times in {}.",
                others.join(", "),
                turns.len(),
                Span(last.at - first.at)
            ),
            evidence: shown.collect(),
            next: format!(
                "Remove the field from the writes of {manager}, or stop {} from writing it.",
                names.join(" and ")
            ),
        })
    }
}

impl Contested {
    /// Returns whether another manager than `ours` had the last turn. The first turn does not show it: that may be of any manager, because
    /// a fight that began long after a write of this operator, or has had many turns, lacks its beginning.
    fn is_lost(&self, ours: &str) -> bool {
        self.turns.back().is_some_and(|last| last.manager != ours)
    }

    /// Returns whether the last turn was so long ago that the next one belongs to another fight.
    fn is_over(&self, now: Instant) -> bool {
        self.turns.back().is_some_and(|last| last.at + WINDOW < now)
    }

    /// Records that a manager has written the field, unless it had the last turn. `object` is the written version.
    fn turn(&mut self, manager: &str, object: &Value, now: Instant) {
        if self.is_over(now) {
            self.turns.clear(); // a new fight
        }
        if self.turns.back().is_some_and(|last| last.manager == manager) {
            return;
        }
        if self.turns.len() == TURNS {
            self.turns.pop_front();
        }
        self.turns.push_back(FieldWrite {
            manager: manager.to_owned(),
            value: self.field.value_in(object),
            at: now,
        });
    }
}

fn parsed(object: &WrittenObject<'_>) -> Value {
    serde_json::from_slice(object.json).unwrap_or_default()
}

fn name_in(object: &WrittenObject<'_>) -> Option<String> {
    Some(parsed(object)["metadata"]["name"].as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use serde_json::json;

    use super::*;
    use crate::rights::Verb;

    fn apply(name: &str) -> Call {
        let mut call = Call::about_object::<Deployment>(Verb::Apply, "shop", name);
        call.set_field_manager("guestbook");
        call
    }

    /// An object with replicas that `manager` owns, and another field that other managers own.
    fn object(uid: &str, version: u64, manager: &str, replicas: u32) -> String {
        let entry =
            |manager: &str, fields: &Value| json!({ "manager": manager, "fieldsV1": { "f:spec": fields } });
        let object = json!({
            "metadata": {
                "uid": uid, "resourceVersion": version.to_string(),
                "managedFields": [
                    entry(manager, &json!({ "f:replicas": {} })),
                    entry("guestbook", &json!({ "f:paused": {} })),
                    entry("kubelet", &json!({ "f:paused": {} })),
                ],
            },
            "spec": { "replicas": replicas },
        });
        object.to_string()
    }

    struct Test {
        fights: Fights,
        start: Instant,
        version: u64,
    }

    impl Test {
        fn new() -> Self {
            Self { fights: Fights::default(), start: Instant::now(), version: 0 }
        }

        fn write(&mut self, uid: &str, second: u64) {
            self.version += 1;
            let text = object(uid, self.version, "guestbook", 3);
            let object = WrittenObject::of(text.as_bytes()).expect("an object");
            let now = self.start + Duration::from_secs(second);
            self.fights.wrote(&apply(uid), &object, now);
            self.fights.changed(&object, now); // the watch reports it as well
        }

        fn event(&mut self, uid: &str, manager: &str, second: u64) {
            self.version += 1;
            let text = object(uid, self.version, manager, 2);
            let object = WrittenObject::of(text.as_bytes()).expect("an object");
            assert!(self.fights.tracks(uid));
            self.fights.changed(&object, self.start + Duration::from_secs(second));
        }

        fn findings(&self, second: u64) -> Vec<Finding> {
            self.fights.findings(self.start + Duration::from_secs(second), Clock::default())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_tracked_objects_is_bounded() {
        let mut test = Test::new();
        let count = |fights: &Fights| fights.young.len() + fights.old.len();
        for round in 0..4 {
            // Each known object is written between two new ones.
            for number in 0..2 * TRACKED {
                test.write(&format!("known-{number}"), 0);
                test.write(&format!("new-{round}-{number}"), 0);
                assert!(count(&test.fights) <= 2 * TRACKED, "{}", count(&test.fights));
            }
        }
        assert!(test.fights.tracks(&format!("new-3-{}", 2 * TRACKED - 1)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_is_not_written_any_more_is_forgotten() {
        let mut test = Test::new();
        test.write("gone", 0);
        for second in [0, 599, 600, 1199] {
            test.write("web", second);
            assert!(test.fights.tracks("gone"), "after {second} s");
        }
        test.write("web", 1200);
        assert!(test.fights.tracks("web") && !test.fights.tracks("gone"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_object_is_forgotten() {
        let mut test = Test::new();
        for number in 0..TRACKED + 1 {
            test.write(&format!("web-{number}"), 0);
        }
        assert_eq!((test.fights.old.len(), test.fights.young.len()), (TRACKED, 1));
        for number in 0..TRACKED + 1 {
            test.fights.forget(&format!("web-{number}"));
        }
        assert_eq!((test.fights.old.len(), test.fights.young.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn five_turns_are_a_fight() {
        let mut test = Test::new();
        for turn in 0..3 {
            test.write("web", 6 * turn);
            assert_eq!(test.findings(6 * turn).len(), usize::from(turn == 2), "after {turn}");
            if turn < 2 {
                test.event("web", "hpa", 6 * turn + 3);
            }
        }
        let [finding] = &test.findings(12)[..] else { panic!("{:?}", test.fights) };
        assert_eq!(
            finding.text,
            "Deployment shop/web: .spec.replicas is written alternately by guestbook (3) and hpa (2), 5 times in 12 s."
        );
        assert_eq!(
            finding.next,
            "Remove the field from the writes of guestbook, or stop hpa from writing it."
        );
        assert_eq!(finding.evidence.len(), 4);
        assert!(finding.evidence[1].ends_with("hpa wrote 2"), "{:?}", finding.evidence);
        assert_eq!(test.findings(12 + 601), []);
    }

    #[tokio::test(start_paused = true)]
    async fn turns_with_long_pauses_are_no_fight() {
        let mut test = Test::new();
        for turn in 0..10 {
            test.write("web", 1400 * turn);
            test.event("web", "hpa", 1400 * turn + 700);
        }
        assert_eq!(test.findings(1400 * 9 + 700), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_fight_over_a_field_is_reported() {
        let mut test = Test::new();
        test.write("web", 0);
        test.event("web", "hpa", 3);
        test.write("web", 6);
        // The operator wins the field back, and the next fight begins long after that.
        test.write("web", 1000);
        for turn in 0..2 {
            test.event("web", "hpa", 1003 + 6 * turn);
            test.write("web", 1006 + 6 * turn);
        }
        let [finding] = &test.findings(1012)[..] else { panic!("{:?}", test.fights) };
        assert!(finding.text.ends_with("by guestbook (3) and hpa (2), 5 times in 12 s."), "{finding:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_fight_that_begins_long_after_the_write_is_reported() {
        let mut test = Test::new();
        test.write("web", 0);
        for turn in 0..3 {
            test.event("web", "hpa", 700 + 6 * turn);
            assert_eq!(test.findings(700 + 6 * turn).len(), usize::from(turn == 2), "after {turn}");
            test.write("web", 703 + 6 * turn);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_of_other_fields_are_no_turns() {
        let mut test = Test::new();
        for turn in 0..10 {
            test.write("web", turn);
            test.event("web", "guestbook", turn);
        }
        assert_eq!(test.findings(10), []);
    }

    #[tokio::test(start_paused = true)]
    async fn the_objects_written_last_are_tracked() {
        let mut test = Test::new();
        for number in 0..10_000 {
            test.write(&format!("web-{number}"), 0);
            test.write("often", 0);
        }
        let tracked = |number: u32| test.fights.tracks(&format!("web-{number}"));
        assert!(test.fights.tracks("often") && (10_000 - 255..10_000).all(tracked) && !tracked(9000));
        assert!(test.fights.young.len() + test.fights.old.len() <= 2 * TRACKED);
    }
}
