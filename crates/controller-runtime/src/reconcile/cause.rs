//! Events that led to a reconcile.

use std::{fmt, sync::Arc};

use serde::{Serialize, Serializer};
use smallvec::SmallVec;

/// One event that led to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Cause {
    /// Type of the event.
    pub change: ChangeType,
    /// Source of the event: a resource, e.g. `configmaps`, or the name of another source.
    #[serde(serialize_with = "text")]
    pub source: Arc<str>,
    /// Key of the object, e.g. `default/settings`, if it is not the object that the request names.
    #[serde(serialize_with = "optional_text", skip_serializing_if = "Option::is_none")]
    pub object: Option<Arc<str>>,
}

/// Type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ChangeType {
    /// The object was created, or is part of an initial list.
    Created,
    /// The object was updated.
    Updated,
    /// The object was deleted.
    Deleted,
    /// The source reported an event that is not a change of an object in the API, such as a message on a channel.
    Generic,
}

impl ChangeType {
    /// The type's name in metrics and explanations.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Generic => "generic",
        }
    }
}

/// `configmaps default/settings updated`
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(object) = &self.object {
            write!(f, " {object}")?;
        }
        f.write_str(match self.change {
            ChangeType::Created => " created",
            ChangeType::Updated => " updated",
            ChangeType::Deleted => " deleted",
            ChangeType::Generic => " sent an event",
        })
    }
}

/// The causes of one run: the first few distinct ones, and the number of events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Causes {
    /// The first distinct causes. Most runs have one, which needs no allocation.
    #[serde(serialize_with = "sequence")]
    first: SmallVec<[Cause; 1]>,
    events: u64,
    #[serde(rename = "withoutEvent", skip_serializing_if = "Option::is_none")]
    without_event: Option<WithoutEvent>,
}

/// Reason for a run without events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum WithoutEvent {
    /// The object was in the initial list, was delivered again by a resync, or a source enqueued the request without an event.
    #[default]
    Listed,
    /// The previous run failed.
    Retry,
    /// The previous run requeued the request ([`Action::requeue`](crate::Action::requeue),
    /// [`Action::requeue_after`](crate::Action::requeue_after)).
    Requested,
}

impl fmt::Display for WithoutEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Listed => "initial list, resync or source",
            Self::Retry => "a retry",
            Self::Requested => "requested by the previous run",
        })
    }
}

impl Causes {
    /// Number of distinct causes that are stored.
    const KEPT: usize = 4;

    /// Causes of a run without events.
    pub(crate) fn none(why: WithoutEvent) -> Self {
        Self { without_event: Some(why), ..Self::default() }
    }

    pub(crate) fn add(&mut self, cause: Cause) {
        self.events += 1;
        if self.first.len() < Self::KEPT && !self.first.contains(&cause) {
            self.first.push(cause);
        }
    }

    /// The first distinct causes, at most four.
    #[must_use]
    pub fn first(&self) -> &[Cause] {
        &self.first
    }

    /// Number of events. Zero for a retry, a run that the previous one requested, the initial list or a resync.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the reason for a run without events; `None` if there were events, or the run has not begun.
    #[must_use]
    pub fn without_event(&self) -> Option<WithoutEvent> {
        self.without_event
    }
}

/// `2 events: widgets updated, configmaps default/settings deleted`, or `a retry`
impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.events {
            0 => {
                return match self.without_event {
                    Some(why) => write!(f, "{why}"),
                    None => f.write_str("no event"),
                };
            }
            1 => f.write_str("1 event: ")?,
            events => write!(f, "{events} events: ")?,
        }
        for (index, cause) in self.first.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{cause}")?;
        }
        Ok(())
    }
}

fn text<S: Serializer>(text: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

fn sequence<S: Serializer>(causes: &[Cause], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(causes)
}

fn optional_text<S: Serializer>(text: &Option<Arc<str>>, to: S) -> Result<S::Ok, S::Error> {
    text.as_deref().serialize(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(change: ChangeType, object: Option<&str>) -> Cause {
        Cause { change, source: Arc::from("configmaps"), object: object.map(Arc::from) }
    }

    #[test]
    fn the_first_four_different_causes_are_kept_and_all_events_counted() {
        let mut causes = Causes::default();
        assert_eq!(causes.to_string(), "no event");
        assert_eq!(Causes::none(WithoutEvent::Requested).to_string(), "requested by the previous run");
        causes.add(cause(ChangeType::Created, None));
        assert_eq!(causes.to_string(), "1 event: configmaps created");
        for object in ["a/a", "a/b", "a/b", "a/c", "a/d"] {
            causes.add(cause(ChangeType::Updated, Some(object)));
        }
        assert_eq!(
            causes.to_string(),
            "6 events: configmaps created, configmaps a/a updated, configmaps a/b updated, configmaps a/c updated"
        );
        assert_eq!((causes.events(), causes.first().len()), (6, 4));
    }
}
