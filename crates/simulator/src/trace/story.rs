//! Summary of a run in a few lines, with the guilty write.

use super::{
    Action, Entry,
    guilty_write::{Guilty, Suspect, guilty},
};

/// Mark of the guilty write in a story.
pub(crate) const MARK: char = '←';

/// Summarizes a run in at most `lines` numbered lines about changes and faults. The guilty write is always included. Next in
/// importance are the deviations, the first difference, the steps, and the lines around all of these.
pub(crate) fn story(run: &[Entry], without_faults: &[Entry], suspect: &Suspect, lines: usize) -> Vec<String> {
    let all = |trace: &[Entry]| trace.iter().map(|entry| entry.action.clone()).collect::<Vec<Action>>();
    let (all_of_run, all_without_faults) = (all(run), all(without_faults));
    let found = guilty(&all_of_run, &all_without_faults, suspect);
    let notable = |trace: &[Action]| -> Vec<usize> {
        // A refused request is no notable action, but in this case it is the subject.
        let call = trace.iter().rposition(|action| suspect.is_call(action));
        let is_shown = |place: &usize| trace[*place].is_notable() || call == Some(*place);
        (0..trace.len()).filter(is_shown).collect()
    };
    let shown = notable(&all_of_run);
    let guilty = found.and_then(Guilty::place).and_then(|place| shown.binary_search(&place).ok());
    let missing = if let Some(Guilty::Missing(place)) = found { all_without_faults.get(place) } else { None };
    let actions = |all: &[Action], shown: Vec<usize>| -> Vec<Action> {
        shown.into_iter().map(|place| all[place].clone()).collect()
    };
    let (run, without_faults) =
        (actions(&all_of_run, shown), actions(&all_without_faults, notable(&all_without_faults)));
    let pairs = run.iter().zip(&without_faults);
    // Compared as text, because times and versions may differ although the runs do the same.
    let shared = pairs.take_while(|(one, other)| one.to_string() == other.to_string()).count();
    let deviations: Vec<usize> = (0..run.len()).filter(|place| run[*place].is_deviation()).collect();
    // Entries with smaller numbers are more important and kept first.
    let importance = |place: usize| {
        let is_next_to = |other: usize| place + 1 == other || place == other + 1;
        match &run[place] {
            _ if guilty == Some(place) => 0,
            action if action.is_deviation() => 1,
            _ if place == shared => 2,
            Action::Step(_) => 3,
            Action::Quiet => 6,
            _ if guilty.into_iter().chain(deviations.iter().copied()).any(is_next_to) => 4,
            _ => 5,
        }
    };
    let mut places: Vec<usize> = (0..run.len()).collect();
    places.sort_by_key(|place| (importance(*place), *place));
    // The line about a missing write stands at the end and counts as well.
    places.truncate(lines.saturating_sub(usize::from(missing.is_some())));
    places.sort_unstable();
    let line = |place: usize| {
        let mark = match found.filter(|_| guilty == Some(place)) {
            Some(Guilty::Extra(_)) => format!("   {MARK} not in the run without faults"),
            Some(Guilty::Unread(_)) => format!("   {MARK} changes what the operator had not read"),
            Some(Guilty::Last(_)) => format!("   {MARK} the last write before the violation"),
            Some(Guilty::Missing(_)) | None => String::new(),
        };
        format!("{:>3}  {}{mark}", place + 1, run[place])
    };
    let missing = missing.map(|action| format!("  –  {action}   {MARK} only in the run without faults"));
    places.into_iter().map(line).chain(missing).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::{Expect, expect};
    use serde_json::json;
    use tokio::time::Duration;

    use super::*;
    use crate::{
        names::{Actor, CallName, OPERATOR, ObjectId, ProcessName},
        similar::ObjectState,
        truth::{Change, Verb},
    };

    /// Actions of an operator from words such as `create x 1`: verb, name of a ConfigMap, content; or `step`. `user` before the verb makes
    /// it an action of the user, and `begin x` is the beginning of a reconcile.
    fn run(text: &str) -> Vec<Entry> {
        let process = ProcessName { program: OPERATOR, replica: 0, is_tested: true };
        let actor = Actor::Process { process, life: 0 };
        let action = |words: &str| {
            if words == "step" {
                return Entry { at: Duration::ZERO, action: Action::Step("a step".to_owned()) };
            }
            if let Some(name) = words.strip_prefix("begin ") {
                let began = Action::ReconcileBegan { actor, label: format!("map a/{name}").into() };
                return Entry { at: Duration::ZERO, action: began };
            }
            let (actor, words) =
                words.strip_prefix("user ").map_or((actor, words), |words| (Actor::User, words));
            let mut words = words.split(' ');
            let verb = match words.next() {
                Some("create") => Verb::Created,
                Some("change") => Verb::Changed,
                _ => Verb::Deleted,
            };
            let id = ObjectId::new("", "configmaps", "a", words.next().unwrap_or_default());
            let after =
                words.next().map(|content| Arc::new(ObjectState::uncompared(json!({"data": content}))));
            let (before, trespass) = (None, None);
            let change = Change {
                actor,
                verb,
                family: id.clone(),
                id,
                revision: 1,
                before,
                after,
                is_visible: true,
                trespass,
            };
            Entry { at: Duration::ZERO, action: Action::Committed(Arc::new(change)) }
        };
        text.split("; ").filter(|words| !words.is_empty()).map(action).collect()
    }

    fn check(with: &str, without: &str, suspect: &Suspect, expected: &Expect) {
        let story = story(&run(with), &run(without), suspect, 10);
        let marked: Vec<String> = story.into_iter().filter(|line| line.contains(MARK)).collect();
        expected.assert_eq(marked.join("\n").trim());
    }

    #[test]
    fn the_guilty_write_is_about_the_object_of_the_violation() {
        let x = &Suspect::about("configmaps a/x#2");
        check(
            "create y 1; create x 1; create x 1",
            "create x 1",
            x,
            &expect!["3  operator   creates configmaps a/x   ← not in the run without faults"],
        );
        check(
            "create y 1; create x 1",
            "create x 1; delete x",
            x,
            &expect!["–  operator   deletes configmaps a/x   ← only in the run without faults"],
        );
        check(
            "create y 1; create x 2",
            "create x 1",
            x,
            &expect!["2  operator   creates configmaps a/x   ← not in the run without faults"],
        );
        check(
            "create x 1; delete x; create y 1",
            "create x 1; delete x",
            x,
            &expect!["2  operator   deletes configmaps a/x   ← the last write before the violation"],
        );
    }

    #[test]
    fn the_guilty_write_is_the_one_that_the_run_without_faults_lacks_in_its_step() {
        check(
            "step; create x 1; create x 1; step; create x 1",
            "step; create x 1; step; create x 1",
            &Suspect::about("configmaps a/x"),
            &expect!["3  operator   creates configmaps a/x   ← not in the run without faults"],
        );
    }

    #[test]
    fn a_change_of_an_object_that_was_replaced_meanwhile_is_guilty_of_what_is_missing() {
        let y = &Suspect::about("configmaps a/y");
        let without_faults = "begin x; create y 1; change x 1; user delete x; user create x 2; begin x; create y 2; change x 2";
        check(
            "begin x; create y 1; user delete x; user create x 2; begin z; change x 1",
            without_faults,
            y,
            &expect!["4  operator   changes configmaps a/x   ← changes what the operator had not read"],
        );
        check(
            "begin x; create y 1; user delete x; user create x 2; begin x; change x 1",
            without_faults,
            y,
            &expect!["–  operator   creates configmaps a/y   ← only in the run without faults"],
        );
    }

    #[test]
    fn an_effect_that_changes_nothing_is_not_at_fault() {
        let effect = |verb: &str, changed: &[&str]| {
            let process = ProcessName { program: OPERATOR, replica: 0, is_tested: true };
            let actor = Actor::Process { process, life: 0 };
            let name = Arc::new(CallName::of_effect("dns", verb, "x"));
            let changed = changed.iter().map(|field| (*field).to_owned()).collect();
            Entry { at: Duration::ZERO, action: Action::CarriedOut { actor, name, changed } }
        };
        let run = [effect("add", &[".x"])];
        let without_faults = [effect("add", &[".x"]), effect("add", &[]), effect("remove", &[".x"])];
        let lines = story(&run, &without_faults, &Suspect::about("remote dns"), 10);
        let marked: Vec<&String> = lines.iter().filter(|line| line.contains(MARK)).collect();
        assert_eq!(marked, ["  –  operator   remove at dns x   ← only in the run without faults"]);
    }

    #[test]
    fn of_equal_effects_the_last_one_that_changed_the_field_is_at_fault() {
        let effect = |verb: &str, changed: &str| {
            let process = ProcessName { program: OPERATOR, replica: 0, is_tested: true };
            let actor = Actor::Process { process, life: 0 };
            let name = Arc::new(CallName::of_effect("rack", verb, "x"));
            let action = Action::CarriedOut { actor, name, changed: Arc::new([changed.to_owned()]) };
            Entry { at: Duration::ZERO, action }
        };
        let run = [effect("reboot", ".outages"), effect("look", ".down.x")];
        let marked = |suspect: &Suspect| {
            let lines = story(&run, &run, suspect, 10);
            lines.into_iter().find(|line| line.contains(MARK)).unwrap_or_default()
        };
        let rack = || Suspect::about("remote rack");
        assert_eq!(marked(&rack()), "  2  operator   look at rack x   ← the last write before the violation");
        let reboot = "  1  operator   reboot at rack x   ← the last write before the violation";
        assert_eq!(marked(&rack().of_field(".outages")), reboot);
        assert_eq!(marked(&rack().of_field(".outages.west")), reboot);
    }

    #[test]
    fn a_call_that_is_always_refused_is_at_fault() {
        let process = ProcessName { program: OPERATOR, replica: 0, is_tested: true };
        let actor = Actor::Process { process, life: 0 };
        let call = |method: &str, name: &str| {
            let uri = format!("/api/v1/namespaces/a/configmaps/{name}");
            let request = http::Request::builder().method(method).uri(uri).body(()).unwrap();
            let name = Arc::new(CallName::of_request(&request, b""));
            Entry { at: Duration::ZERO, action: Action::CarriedOut { actor, name, changed: Arc::default() } }
        };
        let run = [call("DELETE", "x"), call("GET", "x"), call("DELETE", "x"), call("DELETE", "y")];
        let error = Suspect::CallOf("cleanup: delete configmaps a/x: configmaps is forbidden: no".to_owned());
        assert_eq!(
            story(&run, &[], &error, 10),
            ["  1  operator   delete configmaps a/x   ← the last write before the violation"]
        );
    }

    #[test]
    fn later_steps_are_not_guilty_of_a_violation_after_an_earlier_one() {
        let x = &Suspect::about("configmaps a/x");
        let (late, in_time) = ("step; step; create x 2", "step; create x 1; step; change x 2");
        check(
            late,
            in_time,
            x,
            &expect!["–  operator   changes configmaps a/x   ← only in the run without faults"],
        );
        check(
            late,
            in_time,
            &x.clone().until(1),
            &expect!["–  operator   creates configmaps a/x   ← only in the run without faults"],
        );
    }

    #[test]
    fn of_two_objects_that_contradict_each_other_the_last_write_is_guilty() {
        let both = &Suspect::about_all(["configmaps a/x#2", "configmaps a/y"]);
        check(
            "create x 1; create y 1; create z 1",
            "create x 1; create y 1; create z 1",
            both,
            &expect!["2  operator   creates configmaps a/y   ← the last write before the violation"],
        );
    }

    #[test]
    fn without_an_object_the_first_other_write_is_guilty_and_without_another_run_the_last() {
        let unknown = &Suspect::Unknown;
        check(
            "create x 1; create y 1",
            "create x 1",
            unknown,
            &expect!["2  operator   creates configmaps a/y   ← not in the run without faults"],
        );
        check(
            "create x 1; delete x",
            "",
            &Suspect::LastChange,
            &expect!["2  operator   deletes configmaps a/x   ← the last write before the violation"],
        );
        check(
            "create x 1; create y 1",
            "",
            &Suspect::about("configmaps a/x"),
            &expect!["1  operator   creates configmaps a/x   ← the last write before the violation"],
        );
        check("create x 1", "", unknown, &expect![""]);
    }
}
