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
    let notable = |trace: &[Entry]| -> Vec<Action> {
        // A refused request is no notable action, but in this case it is the subject.
        let call = trace.iter().rposition(|entry| suspect.is_call(&entry.action));
        let actions = trace.iter().map(|entry| &entry.action).enumerate();
        let shown = actions.filter(|(place, action)| action.is_notable() || call == Some(*place));
        shown.map(|(_, action)| action.clone()).collect()
    };
    let (run, without_faults) = (notable(run), notable(without_faults));
    let found = guilty(&run, &without_faults, suspect);
    let guilty = found.and_then(Guilty::place);
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
    let missing = if let Some(Guilty::Missing(place)) = found { without_faults.get(place) } else { None };
    // The line about a missing write stands at the end and counts as well.
    places.truncate(lines.saturating_sub(usize::from(missing.is_some())));
    places.sort_unstable();
    let line = |place: usize| {
        let mark = match found {
            Some(Guilty::Extra(guilty)) if guilty == place => {
                format!("   {MARK} not in the run without faults")
            }
            Some(Guilty::Last(guilty)) if guilty == place => {
                format!("   {MARK} the last write before the violation")
            }
            _ => String::new(),
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

    /// Actions of an operator from words such as `create x 1`: verb, name of a ConfigMap, content; or `step`.
    fn run(text: &str) -> Vec<Entry> {
        let process = ProcessName { program: OPERATOR, replica: 0, is_tested: true };
        let actor = Actor::Process { process, life: 0 };
        let action = |words: &str| {
            if words == "step" {
                return Entry { at: Duration::ZERO, action: Action::Step("a step".to_owned()) };
            }
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
    fn an_effect_that_changes_nothing_is_not_at_fault() {
        let effect = |verb: &str, changes_remote| {
            let process = ProcessName { program: OPERATOR, replica: 0, is_tested: true };
            let actor = Actor::Process { process, life: 0 };
            let name = Arc::new(CallName::of_effect("dns", verb, "x"));
            Entry { at: Duration::ZERO, action: Action::CarriedOut { actor, name, changes_remote } }
        };
        let run = [effect("add", true)];
        let without_faults = [effect("add", true), effect("add", false), effect("remove", true)];
        let lines = story(&run, &without_faults, &Suspect::about("remote dns"), 10);
        let marked: Vec<&String> = lines.iter().filter(|line| line.contains(MARK)).collect();
        assert_eq!(marked, ["  –  operator   remove at dns x   ← only in the run without faults"]);
    }

    #[test]
    fn a_call_that_is_always_refused_is_at_fault() {
        let process = ProcessName { program: OPERATOR, replica: 0, is_tested: true };
        let actor = Actor::Process { process, life: 0 };
        let call = |method: &str, name: &str| {
            let uri = format!("/api/v1/namespaces/a/configmaps/{name}");
            let request = http::Request::builder().method(method).uri(uri).body(()).unwrap();
            let name = Arc::new(CallName::of_request(&request, b""));
            Entry { at: Duration::ZERO, action: Action::CarriedOut { actor, name, changes_remote: false } }
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
