//! Log of one run.

mod guilty_write;
mod story;

use std::{fmt, sync::Arc};

use tokio::time::Duration;

pub(crate) use self::{
    guilty_write::{Guilty, Suspect, guilty},
    story::{MARK, story},
};
use crate::{
    names::{Actor, CallName},
    truth::{Change, Verb, first_different_field},
};

/// One action, and its time since the start of the run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) at: Duration,
    pub(crate) action: Action,
}

/// Action of the driver, or an event that followed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// A process was started.
    Start(Actor),
    /// A call is carried out. Its commits follow.
    CarriedOut {
        actor: Actor,
        name: Arc<CallName>,
        /// Whether it changed the state of a remote system.
        changes_remote: bool,
    },
    /// A call was refused.
    Refused { actor: Actor, name: Arc<CallName>, how: String },
    /// An answer was delivered to its caller.
    Answered { actor: Actor, name: Arc<CallName> },
    /// A connection broke before the answer.
    AnswerLost { actor: Actor, name: Arc<CallName> },
    /// Lines of a watch were delivered to their process.
    Delivered { actor: Actor, name: Arc<CallName>, lines: Arc<[String]> },
    /// A reconcile began.
    ReconcileBegan { actor: Actor, label: String },
    /// From now on a process receives no lines of a stream.
    Held { actor: Actor, what: String },
    /// A process receives lines of a stream again.
    Released { actor: Actor, stream: String },
    /// The watches of a stream end with 410, so that the process must list the resource again.
    Expired { actor: Actor, stream: String },
    /// From now on requests, answers and events between a process and the world wait.
    Paused { actor: Actor, duration: Duration },
    /// The pause is over.
    Resumed { actor: Actor },
    /// A commit. Shared, because a change is several times as large as any other action, and the watchdog copies each.
    Committed(Arc<Change>),
    /// A process died.
    Crashed { actor: Actor, at: String },
    /// A process ended by itself.
    Ended { actor: Actor, reason: String },
    /// The user began a step.
    Step(String),
    /// The step is done.
    StepDone(String),
    /// The world is quiet.
    Quiet,
}

impl Action {
    /// Whether the action changes or breaks something. Stories contain only such actions.
    pub(crate) fn is_notable(&self) -> bool {
        match self {
            Self::Committed(change) => change.is_visible,
            Self::CarriedOut { name, .. } => name.is_effect(),
            Self::Answered { .. }
            | Self::Delivered { .. }
            | Self::StepDone(_)
            | Self::ReconcileBegan { .. } => false,
            Self::Start(_)
            | Self::Refused { .. }
            | Self::AnswerLost { .. }
            | Self::Crashed { .. }
            | Self::Ended { .. }
            | Self::Held { .. }
            | Self::Released { .. }
            | Self::Expired { .. }
            | Self::Paused { .. }
            | Self::Resumed { .. }
            | Self::Step(_)
            | Self::Quiet => true,
        }
    }
}

impl Action {
    /// Whether the action deviates from the run without faults, or ends an operator.
    pub(crate) fn is_deviation(&self) -> bool {
        matches!(
            self,
            Self::Crashed { .. }
                | Self::AnswerLost { .. }
                | Self::Refused { .. }
                | Self::Held { .. }
                | Self::Released { .. }
                | Self::Expired { .. }
                | Self::Paused { .. }
                | Self::Resumed { .. }
                | Self::Ended { .. }
        )
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(actor) => write!(f, "{actor:<10} starts"),
            Self::CarriedOut { actor, name, .. } => write!(f, "{actor:<10} {name}"),
            Self::Refused { actor, name, how } => write!(f, "{actor:<10} {name}: {how}"),
            Self::Answered { actor, name } => write!(f, "{actor:<10} is answered: {name}"),
            Self::AnswerLost { actor, name } => write!(f, "{actor:<10} {name}: the answer is lost"),
            Self::Delivered { actor, name, lines } => {
                write!(f, "{actor:<10} receives from {name}: {}", lines.join(", "))
            }
            Self::ReconcileBegan { actor, label } => write!(f, "{actor:<10} begins to reconcile {label}"),
            Self::Held { what, .. } => write!(f, "HELD BACK  {what}"),
            Self::Released { stream, .. } => write!(f, "RELEASED   lines about {stream}"),
            Self::Expired { stream, .. } => write!(f, "EXPIRED    the watch of {stream} ends with 410"),
            Self::Paused { actor, duration } => {
                write!(f, "PAUSED     {actor} is cut off for {} s", duration.as_secs())
            }
            Self::Resumed { actor } => write!(f, "RESUMED    {actor}"),
            Self::Committed(change) => write!(f, "{change}"),
            Self::Crashed { actor, at } => write!(f, "CRASH      {actor} dies {at}"),
            Self::Ended { actor, reason } => write!(f, "{actor:<10} ends by itself: {reason}"),
            Self::Step(name) => write!(f, "STEP       {name}"),
            Self::StepDone(name) => write!(f, "user       is done: {name}"),
            Self::Quiet => write!(f, "quiet"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.verb {
            Verb::Created => "creates",
            Verb::Changed => "changes",
            Verb::Deleted => "deletes",
        };
        write!(f, "{:<10} {verb} {}", self.actor, self.id)?;
        let paths = self.paths();
        if !paths.is_empty() {
            write!(f, " {}", paths.join(", "))?;
        }
        Ok(())
    }
}

/// Formats with the time in seconds.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let revision = match &self.action {
            Action::Committed(change) => format!("  rv {}", change.revision),
            _ => String::new(),
        };
        write!(f, "{:>10.3} {}{revision}", self.at.as_secs_f64(), self.action)
    }
}

/// Returns the first line at which two traces differ, as both runs have it. If the lines are equal and the written objects are not, the
/// lines end with the first field that differs.
pub(crate) fn first_difference(one: &[Entry], other: &[Entry]) -> Option<(usize, String, String)> {
    let mut places = 0..one.len().max(other.len());
    let place = places.find(|place| one.get(*place) != other.get(*place))?;
    let line = |trace: &[Entry]| {
        trace.get(place).map_or_else(|| "(the run is over)".to_owned(), ToString::to_string)
    };
    let (first, second) = (line(one), line(other));
    if first != second {
        return Some((place + 1, first, second));
    }
    let content = |trace: &[Entry]| match trace.get(place).map(|entry| &entry.action) {
        Some(Action::Committed(change)) => change.after.clone(),
        _ => None,
    };
    let field = content(one).zip(content(other)).and_then(|(one, other)| {
        let (path, one, other) = first_different_field(one.whole(), other.whole())?;
        Some((format!("{first}, with {path} = {one}"), format!("{second}, with {path} = {other}")))
    });
    let (first, second) = field.unwrap_or((first, second));
    Some((place + 1, first, second))
}
<<<<<<< HEAD
=======

/// Mark of the guilty write in a story.
pub(crate) const MARK: char = '←';

/// Writes a run as at most `lines` lines: the changes and faults, numbered. The guilty write is always among them; then come the
/// deviations, the first difference, the steps, and the lines around all these.
pub(crate) fn story(run: &[Entry], without_faults: &[Entry], suspect: &Suspect, lines: usize) -> Vec<String> {
    let notable = |trace: &[Entry]| -> Vec<Action> {
        let call = trace.iter().rposition(|entry| suspect.is_call(&entry.action));
        let actions = trace.iter().map(|entry| &entry.action).enumerate();
        let shown = actions.filter(|(place, action)| action.is_notable() || call == Some(*place));
        shown.map(|(_, action)| action.clone()).collect()
    };
    let (run, without_faults) = (notable(run), notable(without_faults));
    let found = guilty(&run, &without_faults, suspect);
    let guilty = found.and_then(Guilty::place);
    let pairs = run.iter().zip(&without_faults);
    let shared = pairs.take_while(|(one, other)| one.to_string() == other.to_string()).count();
    let deviations: Vec<usize> = (0..run.len()).filter(|place| run[*place].is_deviation()).collect();
    // Entries with the smallest numbers are kept.
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

/// Objects of a violation, by which the guilty write is looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Suspect {
    /// Objects or families, such as `configmaps default/page-*`, and remote systems, such as `remote cloud`.
    About(Vec<String>),
    /// The last call that this error names: the API server refuses it.
    CallOf(String),
    /// The state after the last change.
    LastChange,
    #[default]
    Unknown,
}

impl Suspect {
    /// The object that a difference between two worlds names, such as `configmaps default/page-*#2`.
    pub(crate) fn about(name: &str) -> Self {
        Self::about_all([name])
    }

    /// Like [`about`](Self::about), but several objects contradict each other.
    pub(crate) fn about_all<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let family = |name: &str| name.split('#').next().unwrap_or_default().to_owned();
        Self::About(names.into_iter().map(family).collect())
    }

    /// Whether an action is a call that the error names.
    fn is_call(&self, action: &Action) -> bool {
        match (self, action) {
            (Self::CallOf(error), Action::CarriedOut { actor, name, .. }) => {
                actor.is_operator() && error.contains(&name.to_string())
            }
            _ => false,
        }
    }

    /// Whether an action concerns it.
    fn has(&self, action: &Action) -> bool {
        match (self, action) {
            (Self::About(names), Action::Committed(change)) => names.contains(&change.family.to_string()),
            (Self::About(names), Action::CarriedOut { name: call, .. }) => names.iter().any(|name| {
                name.strip_prefix("remote ").is_some_and(|remote| call.target == format!("at {remote}"))
            }),
            _ => false,
        }
    }
}

/// The write that is at fault for a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guilty {
    /// Place of an action that the run without faults does not have as often, or with other content.
    Extra(usize),
    /// Place of an action of the run without faults that the run does not have as often.
    Missing(usize),
    /// Place of the last action about the object of the violation.
    Last(usize),
}

impl Guilty {
    /// Place in the run; `None` if the action is missing there.
    pub(crate) fn place(self) -> Option<usize> {
        match self {
            Self::Extra(place) | Self::Last(place) => Some(place),
            Self::Missing(_) => None,
        }
    }
}

/// Finds the guilty change or effect of an operator: the first about the object of the violation that the run without faults does
/// not have, or has with other content; or the first about it that only that run has; or the last about it. Without such an action the
/// object does not count.
pub(crate) fn guilty(run: &[Action], without_faults: &[Action], suspect: &Suspect) -> Option<Guilty> {
    let last = |is_last: &dyn Fn(&Action) -> bool| {
        run.iter().rposition(|action| label(action).is_some() && is_last(action)).map(Guilty::Last)
    };
    match suspect {
        Suspect::LastChange => return last(&|_| true),
        Suspect::CallOf(_) => {
            return run.iter().rposition(|action| suspect.is_call(action)).map(Guilty::Last);
        }
        Suspect::About(_) | Suspect::Unknown => {}
    }
    let about = |action: &Action| label(action).filter(|_| suspect.has(action));
    let with_content = |action: &Action| Some(format!("{} {:?}", about(action)?, content(action)));
    let last_about = last(&|action| suspect.has(action));
    if without_faults.is_empty() {
        return last_about;
    }
    let extra = |label: &dyn Fn(&Action) -> Option<String>| {
        first_excess(run, without_faults, label).map(Guilty::Extra)
    };
    let missing = |label: &dyn Fn(&Action) -> Option<String>| {
        first_excess(without_faults, run, label).map(Guilty::Missing)
    };
    extra(&about)
        .or_else(|| missing(&about))
        .or_else(|| extra(&with_content))
        .or(last_about)
        .or_else(|| extra(&label))
        .or_else(|| missing(&label))
}

/// Name of a change of an operator, or of an effect that changed a remote system, equal in all runs.
fn label(action: &Action) -> Option<String> {
    match action {
        Action::Committed(change) if change.actor.is_operator() => {
            Some(format!("{:?} {} {:?}", change.verb, change.family, change.paths()))
        }
        Action::CarriedOut { actor, name, changes_remote: true } if actor.is_operator() => {
            Some(name.to_string())
        }
        _ => None,
    }
}

/// Content of an object after a change, as far as two runs can have it in common.
fn content(action: &Action) -> Option<Value> {
    let Action::Committed(change) = action else { return None };
    let after = change.after.as_ref()?;
    let mut content = after.whole().clone();
    let metadata = content.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata {
        metadata.retain(|name, _| matches!(&**name, "labels" | "annotations" | "finalizers"));
    }
    Some(content)
}

/// Place of the first labelled action of `one` that `other` does not have as often: neither in all, nor up to the end of the step.
fn first_excess(
    one: &[Action],
    other: &[Action],
    label: &dyn Fn(&Action) -> Option<String>,
) -> Option<usize> {
    let (one, other) = (labelled(one, label), labelled(other, label));
    let count = |all: &[Labelled], label: &str, until: usize| {
        all.iter().filter(|known| known.label == label && known.step <= until).count()
    };
    let is_excess = |(number, found): &(usize, &Labelled)| {
        let so_far = one[..=*number].iter().filter(|known| known.label == found.label).count();
        so_far > count(&other, &found.label, found.step)
            && count(&one, &found.label, usize::MAX) > count(&other, &found.label, usize::MAX)
    };
    one.iter().enumerate().find(is_excess).map(|(_, found)| found.place)
}

/// An action with a label.
struct Labelled {
    label: String,
    place: usize,
    /// Number of steps that had begun.
    step: usize,
}

fn labelled(actions: &[Action], label: &dyn Fn(&Action) -> Option<String>) -> Vec<Labelled> {
    let mut step = 0;
    let mut all = Vec::new();
    for (place, action) in actions.iter().enumerate() {
        step += usize::from(matches!(action, Action::Step(_)));
        all.extend(label(action).map(|label| Labelled { label, place, step }));
    }
    all
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;
    use crate::{
        names::{OPERATOR, ObjectId, ProcessName},
        similar::ObjectState,
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
>>>>>>> 1e8937d6 (Simulator: changes in a trace are shared, and names are made only for holds)
