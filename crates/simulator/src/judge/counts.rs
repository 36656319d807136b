//! Comparison of creations and deletions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Violation, changes};
use crate::{
    names::{Actor, ObjectId},
    oracle::Oracle,
    plan::{DeviationKind, Plan, Until},
    run::Outcome,
    similar::{Learned, ObjectState},
    trace::{Action, Entry, Suspect},
    truth::{Counts, Verb},
};

/// Counts of a run without faults.
#[derive(Debug)]
pub(crate) struct CountsOfSteps {
    at_the_end: BTreeMap<ObjectId, Counts>,
    /// Counts when the world was quiet after each step.
    after_steps: BTreeMap<usize, BTreeMap<ObjectId, Counts>>,
}

impl CountsOfSteps {
    pub(crate) fn of(outcome: Outcome) -> Self {
        let after_steps = outcome.quiet.into_iter().map(|(step, quiet)| (step, quiet.counts)).collect();
        Self { at_the_end: outcome.counts, after_steps }
    }

    /// Counts after a step, or at the end.
    pub(crate) fn after(&self, step: Option<usize>) -> &BTreeMap<ObjectId, Counts> {
        step.and_then(|step| self.after_steps.get(&step)).unwrap_or(&self.at_the_end)
    }
}

/// Counts of a run without short-lived objects. A process that becomes the leader with an old view may create an object, and delete it
/// again when it has received the events. And a request that arrives after its process was cut off may create an object, which the next
/// leader deletes: no operator can prevent the creation. If no other program has touched the object meanwhile, nothing is lost.
pub(super) fn lasting_counts(outcome: &Outcome, plan: &Plan) -> BTreeMap<ObjectId, Counts> {
    let mut counts = outcome.counts.clone();
    let has = |what| plan.deviations.iter().any(|deviation| deviation.what == what);
    let has_old_view = has(DeviationKind::Hold(Until::Leading));
    let cut_off = has(DeviationKind::CutOff).then(|| paused(&outcome.trace)).flatten();
    if !has_old_view && cut_off.is_none() {
        return counts;
    }
    let is_undone = |creator: Actor, remover: Actor| {
        (has_old_view && creator == remover) || (cut_off == Some(creator) && remover.is_operator())
    };
    let is_fault = |entry: &Entry| entry.action.is_deviation();
    // Before the first fault the run equals that without faults, whose counts contain such objects as well.
    let first = outcome.trace.iter().position(is_fault).unwrap_or(outcome.trace.len());
    let mut created: BTreeMap<&ObjectId, Actor> = BTreeMap::new();
    for change in changes(&outcome.trace[first..]) {
        match change.verb {
            Verb::Created if change.actor.is_operator() => drop(created.insert(&change.id, change.actor)),
            Verb::Deleted
                if created.get(&change.id).is_some_and(|creator| is_undone(*creator, change.actor)) =>
            {
                created.remove(&change.id);
                if let Some(counts) = counts.get_mut(&change.family) {
                    counts.created = counts.created.saturating_sub(1);
                    counts.deleted = counts.deleted.saturating_sub(1);
                }
            }
            // Another program has touched the object, so its deletion counts.
            _ if created.get(&change.id) != Some(&change.actor) => drop(created.remove(&change.id)),
            _ => {}
        }
    }
    counts
}

/// The process that a plan pauses first.
fn paused(trace: &[Entry]) -> Option<Actor> {
    trace.iter().find_map(|entry| match &entry.action {
        Action::Paused { actor, .. } => Some(*actor),
        _ => None,
    })
}

/// Sums up the counts of objects with names that the operator generates itself.
pub(super) fn sums_of_families(
    counts: &BTreeMap<ObjectId, Counts>,
    learned: &Learned,
) -> BTreeMap<ObjectId, Counts> {
    let mut sums = BTreeMap::<ObjectId, Counts>::new();
    for (id, counts) in counts {
        let sum = sums.entry(learned.names.family_by_name(id)).or_default();
        sum.created += counts.created;
        sum.deleted += counts.deleted;
        // Two runs give such an object two names, so only the sums of the families can be compared.
        sum.changed += counts.changed;
    }
    sums
}

/// Selects one of the numbers.
type NumberOf = fn(&Counts) -> u32;

/// Compares creations and deletions. They may be as many as in any of the expected runs, the first of which is the run without faults, and as any
/// number in between. Fewer are not a violation if changes were merged while the operator was down.
pub(super) fn compare_counts(
    expected: &[BTreeMap<ObjectId, Counts>],
    found: &BTreeMap<ObjectId, Counts>,
    may_be_fewer: bool,
) -> Option<Violation> {
    let ids: BTreeSet<&ObjectId> = expected.iter().flatten().map(|(id, _)| id).chain(found.keys()).collect();
    let verbs: [(&str, NumberOf); 2] =
        [("created", |counts| counts.created), ("deleted", |counts| counts.deleted)];
    for id in ids {
        for (verb, number) in verbs {
            let of = |counts: &BTreeMap<ObjectId, Counts>| counts.get(id).map(number).unwrap_or_default();
            let found = of(found);
            let is_more = expected.iter().all(|expected| found > of(expected));
            let is_less = expected.iter().all(|expected| found < of(expected));
            if is_more || (is_less && !may_be_fewer) {
                let expected = expected.first().map(of).unwrap_or_default();
                let title = format!("{id} {verb} {found} times, {expected} times in the run without faults");
                let suspect = Suspect::about(&id.to_string());
                return Some(Violation { oracle: Oracle::SameCounts, title, suspect, details: Vec::new() });
            }
        }
    }
    None
}

/// Finalizer of an object that is deleted after its children.
const FOREGROUND: &str = "foregroundDeletion";

/// Objects that the garbage collector deleted, and that were created when their owners were gone already, by family. An operator that has not
/// received the deletion of an owner yet may create its children again. The garbage collector deletes them again, so nothing is lost. If the plan
/// holds lines of watches back, the operator may delete them itself when these arrive.
pub(super) fn orphans(trace: &[Entry], learned: &Learned, plan: &Plan) -> BTreeMap<ObjectId, u32> {
    let has_old_view = plan.deviations.iter().any(|deviation| deviation.what.holds_lines_back());
    let is_collected = |actor: Actor| is_collector(actor) || (has_old_view && actor.is_operator());
    let mut gone: BTreeSet<String> = BTreeSet::new();
    let mut orphans: BTreeSet<String> = BTreeSet::new();
    let mut collected = BTreeMap::new();
    for change in changes(trace) {
        let Some(state) = change.after.as_ref().or(change.before.as_ref()) else { continue };
        let uid = state.metadata_text("uid").to_owned();
        match change.verb {
            Verb::Created
                if has_lost_its_owners(state, |owner| gone.contains(owner) || orphans.contains(owner)) =>
            {
                orphans.insert(uid);
            }
            Verb::Created => {}
            Verb::Changed if awaits_its_children(state) => drop(gone.insert(uid)),
            Verb::Changed => {}
            Verb::Deleted => {
                if is_collected(change.actor) && orphans.contains(&uid) {
                    *collected.entry(learned.names.family_by_name(&change.family)).or_default() += 1;
                }
                gone.insert(uid);
            }
        }
    }
    collected
}

/// Whether this actor may end a deletion that the garbage collector began. The kubelet does so for Pods.
fn is_collector(actor: Actor) -> bool {
    actor != Actor::User && !actor.is_operator()
}

/// Whether an object has owners, and all of them are lost.
fn has_lost_its_owners(state: &ObjectState, is_lost: impl Fn(&str) -> bool) -> bool {
    let owners = state.whole()["metadata"]["ownerReferences"].as_array();
    let is_lost = |owner: &Value| owner["uid"].as_str().is_some_and(&is_lost);
    owners.is_some_and(|owners| !owners.is_empty() && owners.iter().all(is_lost))
}

/// Whether an object is deleted as soon as its children are.
fn awaits_its_children(state: &ObjectState) -> bool {
    let metadata = &state.whole()["metadata"];
    let finalizers = metadata["finalizers"].as_array();
    let awaits = finalizers.is_some_and(|names| names.iter().any(|name| name == FOREGROUND));
    awaits && !metadata["deletionTimestamp"].is_null()
}

/// Subtracts collected orphans from the counts of a run, as far as these exceed the expected ones.
pub(super) fn leave_out_orphans(
    orphans: &BTreeMap<ObjectId, u32>,
    expected: &BTreeMap<ObjectId, Counts>,
    found: &mut BTreeMap<ObjectId, Counts>,
) {
    for (family, orphans) in orphans {
        let Some(found) = found.get_mut(family) else { continue };
        let expected = expected.get(family).copied().unwrap_or_default();
        for (found, expected) in
            [(&mut found.created, expected.created), (&mut found.deleted, expected.deleted)]
        {
            *found -= (*orphans).min(found.saturating_sub(expected));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tokio::time::Duration;

    use super::*;
    use crate::{
        names::{OPERATOR, ProcessName},
        similar::Masks,
        truth::Change,
    };

    #[test]
    fn short_lived_objects_of_failovers_do_not_count() {
        let actor = |replica| {
            let process = ProcessName { program: OPERATOR, replica, is_tested: true };
            Actor::Process { process, life: 0 }
        };
        let id = ObjectId::new("", "configmaps", "a", "x");
        let entry = |action| Entry { at: Duration::ZERO, action };
        let change = |actor, verb| {
            let (id, family) = (id.clone(), id.clone());
            let (revision, before, after, is_visible, trespass) = (1, None, None, true, None);
            entry(Action::Committed(Arc::new(Change {
                actor,
                verb,
                id,
                family,
                revision,
                before,
                after,
                is_visible,
                trespass,
            })))
        };
        let crash = || entry(Action::Crashed { actor: actor(0), at: String::new() });
        let counted = |trace: Vec<Entry>, plan: &str| {
            let counts = BTreeMap::from([(id.clone(), Counts { created: 2, deleted: 2, changed: 0 })]);
            let outcome = Outcome { trace, counts, ..Outcome::default() };
            lasting_counts(&outcome, &plan.parse().unwrap())[&id].created
        };
        let old_view = "hold until it leads, from tasks ADDED a/x to operator-2 #1";
        let passes = || vec![crash(), change(actor(1), Verb::Created), change(actor(1), Verb::Deleted)];
        assert_eq!(counted(passes(), old_view), 1);
        assert_eq!(counted(passes(), "crash at rest after step #1"), 2);
        let older = vec![change(actor(1), Verb::Created), crash(), change(actor(1), Verb::Deleted)];
        assert_eq!(counted(older, old_view), 2);
        let touched = [
            change(actor(1), Verb::Created),
            change(Actor::User, Verb::Changed),
            change(actor(1), Verb::Deleted),
        ];
        assert_eq!(counted(std::iter::once(crash()).chain(touched).collect(), old_view), 2);

        // A late request of the former leader creates the object, and the next leader deletes it.
        let late = "cut off, and carry out late: create configmaps a/x #1";
        let pause = || entry(Action::Paused { actor: actor(0), duration: Duration::from_secs(40) });
        let by =
            |creator, remover| vec![pause(), change(creator, Verb::Created), change(remover, Verb::Deleted)];
        assert_eq!(counted(by(actor(0), actor(1)), late), 1);
        assert_eq!(
            counted(by(actor(0), actor(1)), "pause for 61 seconds before create configmaps a/x #1"),
            2
        );
        assert_eq!(counted(by(actor(1), actor(1)), late), 2, "the next leader creates it itself");
        assert_eq!(counted(by(actor(0), Actor::User), late), 2, "another program deletes it");
    }

    #[test]
    fn more_creations_are_always_a_violation_and_fewer_only_if_nothing_was_merged() {
        let id = ObjectId::new("", "configmaps", "a", "x");
        let counts = |created| BTreeMap::from([(id.clone(), Counts { created, ..Counts::default() })]);
        let title = |expected, found, merged| {
            compare_counts(&[counts(expected)], &counts(found), merged).map(|violation| violation.title)
        };
        let more = "configmaps a/x created 2 times, 1 times in the run without faults";
        assert_eq!(title(1, 2, false).as_deref(), Some(more));
        assert_eq!(title(1, 2, true).as_deref(), Some(more));
        assert!(title(2, 1, false).is_some());
        assert_eq!(title(2, 1, true), None);
        assert_eq!(title(1, 1, false), None);

        let between = |found| compare_counts(&[counts(2), counts(4), counts(1)], &counts(found), false);
        assert!([1, 2, 3, 4].into_iter().all(|found| between(found).is_none()));
        let most = between(5).map(|violation| violation.title);
        assert_eq!(
            most.as_deref(),
            Some("configmaps a/x created 5 times, 2 times in the run without faults")
        );
        assert!(between(0).is_some());
    }

    /// A cluster is deleted, and its page is collected. The operator creates the page again, with an owner, and the page is collected again.
    fn risen(owner: &str, creator: Actor, collector: Actor) -> Vec<Entry> {
        let state = |uid: &str, owner: Option<&str>| {
            let owners: Vec<Value> = owner.map(|uid| json!({"uid": uid})).into_iter().collect();
            let whole = json!({"metadata": {"uid": uid, "ownerReferences": owners}});
            Some(Arc::new(ObjectState::new("pages", whole, &Masks::default())))
        };
        let change = |actor, verb, id: &ObjectId, state: Option<Arc<ObjectState>>| {
            let (before, after) = if verb == Verb::Deleted { (state, None) } else { (None, state) };
            let (id, family) = (id.clone(), id.clone());
            let (revision, is_visible, trespass) = (1, true, None);
            let change = Change { actor, verb, id, family, revision, before, after, is_visible, trespass };
            Entry { at: Duration::ZERO, action: Action::Committed(Arc::new(change)) }
        };
        let (cluster, page) = (ObjectId::new("", "clusters", "a", "x"), ObjectId::new("", "pages", "a", "x"));
        vec![
            change(Actor::User, Verb::Created, &cluster, state("cluster", None)),
            change(creator, Verb::Created, &page, state("page", Some("cluster"))),
            change(Actor::User, Verb::Deleted, &cluster, state("cluster", None)),
            change(Actor::Server, Verb::Deleted, &page, state("page", Some("cluster"))),
            change(creator, Verb::Created, &page, state("risen", Some(owner))),
            change(collector, Verb::Deleted, &page, state("risen", Some(owner))),
        ]
    }

    #[test]
    fn children_of_a_deleted_owner_that_are_collected_do_not_count() {
        let operator = ProcessName { program: OPERATOR, replica: 0, is_tested: true };
        let operator = Actor::Process { process: operator, life: 0 };
        let page = ObjectId::new("", "pages", "a", "x");
        let counted_with = |plan: &str, trace: &[Entry], expected: u32| {
            let plan: Plan = plan.parse().expect("a plan");
            let counts =
                |created| BTreeMap::from([(page.clone(), Counts { created, deleted: created, changed: 0 })]);
            let mut found = counts(2);
            leave_out_orphans(&orphans(trace, &Learned::default(), &plan), &counts(expected), &mut found);
            (found[&page].created, found[&page].deleted)
        };
        let counted = |trace: &[Entry], expected| counted_with("", trace, expected);
        let collected = risen("cluster", operator, Actor::Server);
        assert_eq!(counted(&collected, 1), (1, 1));
        assert_eq!(counted(&collected, 2), (2, 2), "the run without faults has them as well");
        assert_eq!(counted(&collected[..5], 1), (2, 2), "the page stays");
        assert_eq!(counted(&risen("another", operator, Actor::Server), 1), (2, 2), "its owner exists");
        let by_operator = risen("cluster", operator, operator);
        assert_eq!(counted(&by_operator, 1), (2, 2), "the operator deletes it itself");
        let held =
            "skip until the next step is done and list again, from clusters.further.dev MODIFIED a/x #1";
        assert_eq!(counted_with(held, &by_operator, 1), (1, 1), "the operator had an old view");
        let by_user = risen("cluster", operator, Actor::User);
        assert_eq!(counted_with(held, &by_user, 1), (2, 2), "the user deletes it");
        assert_eq!(counted(&risen("page", operator, Actor::Server), 1), (1, 1), "its owner was collected");
        let kubelet = ProcessName { program: "kubelet", replica: 0, is_tested: false };
        let kubelet = Actor::Process { process: kubelet, life: 0 };
        assert_eq!(counted(&risen("cluster", operator, kubelet), 1), (1, 1), "the kubelet ends the deletion");
        assert_eq!(counted(&risen("cluster", operator, Actor::User), 1), (2, 2), "the user deletes it");
    }
}
