//! Log of one run.

use std::fmt;

use tokio::time::Duration;

use crate::{
    names::{Actor, CallName},
    truth::{Change, Verb},
};

/// One action, and its time since the start of the run.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) at: Duration,
    pub(crate) action: Action,
}

/// Action of the driver, or an event that followed.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// An operator was started.
    Start(Actor),
    /// A call was carried out, and the commits since the entry before.
    CarriedOut { actor: Actor, name: CallName },
    /// A call was refused.
    Refused { actor: Actor, name: CallName, how: String },
    /// An answer was handed over.
    Answered { actor: Actor, name: CallName },
    /// A connection broke before the answer.
    AnswerLost { actor: Actor, name: CallName },
    /// Lines of a watch were handed over.
    Delivered { actor: Actor, name: CallName, lines: Vec<String> },
    /// A reconcile began.
    ReconcileBegan { actor: Actor, label: String },
    /// From now on the operator receives nothing about a resource.
    Held { what: String },
    /// A process receives lines of a stream again.
    Released { stream: String },
    /// A process must list a resource again.
    Expired { stream: String },
    /// Nothing passes between a process and the world.
    Paused { actor: Actor, duration: Duration },
    /// The pause is over.
    Resumed { actor: Actor },
    /// A commit.
    Committed(Change),
    /// An operator died.
    Crashed { actor: Actor, at: String },
    /// An operator ended by itself.
    Ended { actor: Actor, reason: String },
    /// The user began a step.
    Step(String),
    /// The step is done.
    StepDone(String),
    /// Nothing more happens by itself.
    Quiet,
}

impl Action {
    /// Whether the action changes or breaks something, so that a story may not leave it out.
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
            Self::CarriedOut { actor, name } => write!(f, "{actor:<10} {name}"),
            Self::Refused { actor, name, how } => write!(f, "{actor:<10} {name}: {how}"),
            Self::Answered { actor, name } => write!(f, "{actor:<10} is answered: {name}"),
            Self::AnswerLost { actor, name } => write!(f, "{actor:<10} {name}: the answer is lost"),
            Self::Delivered { actor, name, lines } => {
                write!(f, "{actor:<10} receives from {name}: {}", lines.join(", "))
            }
            Self::ReconcileBegan { actor, label } => write!(f, "{actor:<10} begins to reconcile {label}"),
            Self::Held { what } => write!(f, "HELD BACK  {what}"),
            Self::Released { stream } => write!(f, "RELEASED   lines about {stream}"),
            Self::Expired { stream } => write!(f, "EXPIRED    the watch of {stream} ends with 410"),
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
        if !self.paths.is_empty() {
            write!(f, " {}", self.paths.join(", "))?;
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

/// Returns the first line at which two traces differ, as both runs have it.
pub(crate) fn first_difference(one: &[Entry], other: &[Entry]) -> Option<(usize, String, String)> {
    let line = |trace: &[Entry], place: usize| {
        trace.get(place).map_or_else(|| "(the run is over)".to_owned(), ToString::to_string)
    };
    let places = 0..one.len().max(other.len());
    places.map(|place| (place + 1, line(one, place), line(other, place))).find(|(_, one, other)| one != other)
}

/// Mark of the guilty write in a story.
pub(crate) const MARK: char = '←';

/// Writes a run as at most `lines` lines: the changes and faults, numbered. The first change that the run without faults lacks is always among
/// them, or else the first one that only that run has; then come the deviations, the first difference, the steps, and the lines around all these.
pub(crate) fn story(run: &[Entry], without_faults: &[Entry], lines: usize) -> Vec<String> {
    let notable = |trace: &[Entry]| -> Vec<Action> {
        let actions = trace.iter().map(|entry| &entry.action);
        actions.filter(|action| action.is_notable()).cloned().collect()
    };
    let (run, without_faults) = (notable(run), notable(without_faults));
    let guilty = guilty(&run, &without_faults);
    let pairs = run.iter().zip(&without_faults);
    let shared = pairs.take_while(|(one, other)| one.to_string() == other.to_string()).count();
    let deviations: Vec<usize> = (0..run.len()).filter(|place| run[*place].is_deviation()).collect();
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
    let missing = if guilty.is_none() { missing(&run, &without_faults) } else { None };
    places.truncate(lines.saturating_sub(usize::from(missing.is_some())));
    places.sort_unstable();
    let line = |place: usize| {
        let mark = if guilty == Some(place) {
            format!("   {MARK} not in the run without faults")
        } else {
            String::new()
        };
        format!("{:>3}  {}{mark}", place + 1, run[place])
    };
    let missing = missing.map(|action| format!("  –  {action}   {MARK} only in the run without faults"));
    places.into_iter().map(line).chain(missing).collect()
}

/// Name of a change or effect of an operator, equal in all runs.
fn label(action: &Action) -> Option<String> {
    match action {
        Action::Committed(change) if change.actor.is_operator() => {
            Some(format!("{:?} {} {:?}", change.verb, change.family, change.paths))
        }
        Action::CarriedOut { actor, name } if actor.is_operator() && name.is_effect() => {
            Some(name.to_string())
        }
        _ => None,
    }
}

/// Finds the first change or effect of an operator that the run without faults does not have as often.
pub(crate) fn guilty(run: &[Action], without_faults: &[Action]) -> Option<usize> {
    first_excess(run, without_faults)
}

/// Finds the first change or effect of an operator that only the run without faults has.
fn missing<'a>(run: &[Action], without_faults: &'a [Action]) -> Option<&'a Action> {
    first_excess(without_faults, run).map(|place| &without_faults[place])
}

/// Place of the first labelled action of `one` that `other` does not have as often.
fn first_excess(one: &[Action], other: &[Action]) -> Option<usize> {
    let mut left: Vec<String> = other.iter().filter_map(label).collect();
    one.iter().position(|action| {
        label(action).is_some_and(|label| match left.iter().position(|known| *known == label) {
            Some(place) => {
                left.remove(place);
                false
            }
            None => true,
        })
    })
}
