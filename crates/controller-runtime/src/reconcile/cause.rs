//! What led to a reconcile.

use std::{fmt, sync::Arc};

use serde::{Serialize, Serializer};
use smallvec::SmallVec;

/// Something that happened, and led to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Cause {
    /// What happened.
    pub change: Change,
    /// To what: a resource, e.g. `configmaps`, or the name of another source.
    #[serde(serialize_with = "text")]
    pub source: Arc<str>,
    /// To which one, e.g. `default/settings`, where that is not what the request names.
    #[serde(serialize_with = "optional_text", skip_serializing_if = "Option::is_none")]
    pub object: Option<Arc<str>>,
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Change {
    /// It appeared.
    Created,
    /// It changed.
    Updated,
    /// It is gone.
    Deleted,
    /// Something outside the API happened.
    Generic,
}

impl Change {
    /// The word for it in metrics and explanations.
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
            Change::Created => " created",
            Change::Updated => " updated",
            Change::Deleted => " deleted",
            Change::Generic => " told us so",
        })
    }
}

/// The causes of one run: the first few that differ, and how many events there were in all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Causes {
    /// Most runs have one.
    #[serde(serialize_with = "sequence")]
    first: SmallVec<[Cause; 1]>,
    events: u64,
}

impl Causes {
    /// How many causes are kept.
    const KEPT: usize = 4;

    pub(crate) fn add(&mut self, cause: Cause) {
        self.events += 1;
        if self.first.len() < Self::KEPT && !self.first.contains(&cause) {
            self.first.push(cause);
        }
    }

    /// The first causes, each once, at most four.
    #[must_use]
    pub fn first(&self) -> &[Cause] {
        &self.first
    }

    /// How many events there were. None: a retry, a run asked for by the one before, the initial list or a resync.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }
}

/// `2 events: widgets updated, configmaps default/settings deleted`
impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.events {
            0 => return f.write_str("no event"),
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

    fn cause(change: Change, object: Option<&str>) -> Cause {
        Cause { change, source: Arc::from("configmaps"), object: object.map(Arc::from) }
    }

    #[test]
    fn the_first_four_different_causes_are_kept_and_all_events_counted() {
        let mut causes = Causes::default();
        assert_eq!(causes.to_string(), "no event");
        causes.add(cause(Change::Created, None));
        assert_eq!(causes.to_string(), "1 event: configmaps created");
        for object in ["a/a", "a/b", "a/b", "a/c", "a/d"] {
            causes.add(cause(Change::Updated, Some(object)));
        }
        assert_eq!(
            causes.to_string(),
            "6 events: configmaps created, configmaps a/a updated, configmaps a/b updated, configmaps a/c updated"
        );
        assert_eq!((causes.events(), causes.first().len()), (6, 4));
    }
}
