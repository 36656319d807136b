//! Findings `stuck-finalizer` and `unreadable-object`. Pure.

use k8s_openapi::jiff::Timestamp;
use tokio::time::Duration;

use super::{
    Finding, FindingId, Severity,
    owned_fields::{entries, manager_of_finalizer},
    text::{Plural, Span, TimeOfDay, beginning, without_stop},
};
use crate::cache::{Trouble, TroubledObject};

/// Shortest time since its deletion after which an object with finalizers is reported.
pub(crate) const DELETING: Duration = Duration::from_secs(300);
/// Largest number of bytes of an error message in a finding.
const LONGEST: usize = 256;

/// The last failed run of a controller for an object.
#[derive(Debug, Clone)]
pub(crate) struct LastFailure {
    pub(crate) controller: String,
    pub(crate) ended: Timestamp,
    pub(crate) error: String,
}

/// Facts about a version of an object.
#[derive(Debug, Clone)]
pub(crate) struct KnownVersion {
    /// The managed fields of this version as JSON. `None` before they were read; empty if the object had changed before they were read.
    pub(crate) managed_fields: Option<Vec<u8>>,
    /// Time at which the trouble was noticed.
    pub(crate) noticed: Timestamp,
}

/// The finding about an object. `operator` is the name under which this program writes. `failure` is the last run for the object,
/// if that run failed.
pub(crate) fn finding(
    object: &TroubledObject,
    known: &KnownVersion,
    operator: &str,
    failure: Option<&LastFailure>,
    now: Timestamp,
) -> Finding {
    match &object.trouble {
        Trouble::Deleting { since, finalizers } => {
            stuck(&object.subject(), *since, finalizers, known, operator, failure, now)
        }
        Trouble::Unreadable { path, error, objects } => unreadable(object, path, error, *objects, known, now),
    }
}

/// The finding about an object that is being deleted and still has finalizers.
fn stuck(
    subject: &str,
    since: Timestamp,
    finalizers: &[String],
    known: &KnownVersion,
    operator: &str,
    failure: Option<&LastFailure>,
    now: Timestamp,
) -> Finding {
    let entries = entries(known.managed_fields.as_deref().unwrap_or_default());
    let manager = |finalizer: &String| manager_of_finalizer(&entries, finalizer);
    let (ours, others): (Vec<&String>, Vec<&String>) =
        finalizers.iter().partition(|finalizer| manager(finalizer).as_deref() == Some(operator));
    let age = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    let begin = format!("{subject} was deleted {} ago and waits for", Span(age));
    let (text, next) = if let Some(finalizer) = ours.first() {
        let why = failure.map_or_else(
            || "No run for this object has failed recently".to_owned(),
            |LastFailure { controller, ended, error }| {
                let at = TimeOfDay { at: *ended, now };
                format!(
                    "The last run of controller {controller} failed at {at}: {}",
                    beginning(without_stop(error), LONGEST)
                )
            },
        );
        (
            format!("{begin} finalizer {finalizer} of this operator. {why}."),
            "Repair the cause of the error: the operator removes its finalizer when its clean-up succeeds."
                .to_owned(),
        )
    } else {
        let named: Vec<_> = others
            .iter()
            .map(|finalizer| match manager(finalizer) {
                Some(manager) => format!("{finalizer}, which {manager} added"),
                None => (*finalizer).clone(),
            })
            .collect();
        let (noun, them) = if others.len() == 1 { ("finalizer", "it") } else { ("finalizers", "them") };
        let whose = match entries.is_empty() {
            true => String::new(),
            false => format!(" This operator did not add {them}."),
        };
        (
            format!("{begin} {noun} {}.{whose}", named.join(" and ")),
            "Check whether the program that removes it runs. Remove the finalizer by hand only if that program is gone and its \
             clean-up does not matter."
                .to_owned(),
        )
    };
    Finding {
        id: FindingId::StuckFinalizer,
        severity: Severity::Warning,
        subject: subject.to_owned(),
        since,
        text,
        evidence: finalizers.iter().map(|finalizer| format!("finalizer {finalizer}")).collect(),
        next,
    }
}

/// The finding about an object that does not decode. `objects` is the number of objects of its kind.
fn unreadable(
    object: &TroubledObject,
    path: &str,
    error: &str,
    objects: usize,
    known: &KnownVersion,
    now: Timestamp,
) -> Finding {
    let subject = object.subject();
    let place = if path == "." { String::new() } else { format!(".{path}: ") };
    let version = object.version.as_ref().map(|version| format!("version {version}"));
    let entries = entries(known.managed_fields.as_deref().unwrap_or_default());
    let last = entries.iter().max_by_key(|entry| entry.time.as_deref());
    let at = last.and_then(|entry| entry.time.as_ref()?.parse::<Timestamp>().ok());
    let written = last.map(|entry| match at {
        Some(at) => format!("written by {} at {}", entry.manager, TimeOfDay { at, now }),
        None => format!("written by {}", entry.manager),
    });
    let facts: Vec<_> = version.into_iter().chain(written).collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
    let others = u64::try_from(objects.saturating_sub(1)).unwrap_or(u64::MAX);
    let others = match others {
        0 => String::new(),
        others => format!(
            " The other {} of its kind {} not affected.",
            Plural(others, "object"),
            if others == 1 { "is" } else { "are" }
        ),
    };
    Finding {
        id: FindingId::UnreadableObject,
        severity: Severity::Error,
        text: format!(
            "{subject} does not fit its Rust type: {place}{}{facts}. It is not reconciled until it changes.{others}",
            beginning(error, LONGEST)
        ),
        subject,
        since: at.unwrap_or(known.noticed),
        evidence: Vec::new(),
        next: "Correct the object, or widen the type.".to_owned(),
    }
}
