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

/// Action of the driver, or an event that it caused.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// A process was started.
    Start(Actor),
    /// The API server executed a call. Its commits follow.
    CarriedOut {
        actor: Actor,
        name: Arc<CallName>,
        /// Fields of a remote system that the call changed.
        changed: Arc<[String]>,
    },
    /// A call was refused.
    Refused { actor: Actor, name: Arc<CallName>, how: String },
    /// A response was delivered to its caller.
    Answered { actor: Actor, name: Arc<CallName> },
    /// The connection broke before the response was delivered.
    AnswerLost { actor: Actor, name: Arc<CallName> },
    /// Events of a watch were delivered to their process.
    Delivered { actor: Actor, name: Arc<CallName>, lines: Arc<[String]> },
    /// A reconcile began.
    ReconcileBegan { actor: Actor, label: Arc<str> },
    /// From now on, a process receives no events of a stream.
    Held { actor: Actor, what: String },
    /// A process receives events of a stream again.
    Released { actor: Actor, stream: String },
    /// The watches of a stream ended with 410, so that the process must relist.
    Expired { actor: Actor, stream: String },
    /// From now on, requests, responses and events between a process and the API server are held back.
    Paused { actor: Actor, duration: Duration },
    /// The pause is over.
    Resumed { actor: Actor },
    /// A commit. In an `Arc`, because a change is several times larger than any other action, and the watchdog copies each action.
    Committed(Arc<Change>),
    /// A process died.
    Crashed { actor: Actor, at: String },
    /// A process ended on its own.
    Ended { actor: Actor, reason: String },
    /// The user began a step.
    Step(String),
    /// The step is done.
    StepDone(String),
    /// The world is quiet.
    Quiet,
}

impl Action {
    /// Whether stories contain the action. They contain changes, effects, faults, steps, and starts and ends of processes.
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

/// Returns the first line at which two traces differ, in the form of each run. If the lines are equal but the written objects differ,
/// the lines end with the first field that differs.
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
    // Lines show only the paths of changed fields, so equal lines may hide different values.
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
