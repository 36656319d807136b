//! Finding `self-trigger`: a request that runs again and again because of its own writes. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use kube_clock::Clock;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    Finding, FindingId, Severity,
    text::{Plural, Span},
};
use crate::{
    client::RecordedWrite,
    reconcile::{Cause, Causes, ChangeType},
};

/// Smallest number of runs in a row that is reported. A reconciler that legitimately needs as many steps changes a different
/// field in each.
const MANY: u32 = 8;
/// Longest pause between two runs of a chain.
const PAUSE: Duration = Duration::from_secs(60);
/// Run of a chain from which on the bodies of writes are stored, for the comparison with the next run. Most chains end earlier, because
/// the run after a write finds nothing to do.
const FIRST_WITH_BODIES: u32 = 3;

/// Runs of a request in a row, each of which was caused by the writes of the previous one.
#[derive(Debug)]
pub(crate) struct Chain {
    runs: u32,
    /// Beginning of the first run.
    since: Instant,
    /// End of the last run.
    last: Instant,
    /// Subjects of the last run's writes, with their bodies from the third run on.
    writes: Vec<(String, Option<Bytes>)>,
    /// Fields that differed in all compared writes of a subject; `None` before the first comparison.
    differ: Option<BTreeMap<String, BTreeSet<String>>>,
}

/// A chain that is long enough to be reported.
#[derive(Debug)]
pub(crate) struct Loop {
    runs: u32,
    since: Instant,
    last: Instant,
    differ: BTreeMap<String, BTreeSet<String>>,
}

/// A run that has ended.
pub(crate) struct EndedRun<'r> {
    pub(crate) causes: &'r Causes,
    pub(crate) writes: &'r [RecordedWrite],
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    /// Namespace and name of the object that the request names.
    pub(crate) own: &'r dyn Fn() -> String,
}

impl Chain {
    /// Returns the chain after a run; `None` if its writes cannot cause another run.
    pub(crate) fn after(before: Option<Box<Self>>, run: &EndedRun<'_>) -> Option<Box<Self>> {
        // A failed write has changed nothing, as far as is known, so it causes no event.
        let writes = run.writes.iter().filter(|write| write.write.code.is_some_and(|code| code < 300));
        let writes: Vec<&RecordedWrite> = writes.collect();
        if writes.is_empty() {
            return None;
        }
        let mut chain = match before {
            Some(mut chain) if chain.leads_to(run) => {
                chain.runs += 1;
                chain
            }
            _ => Box::new(Self {
                runs: 1,
                since: run.began,
                last: run.ended,
                writes: Vec::new(),
                differ: None,
            }),
        };
        chain.last = run.ended;
        if chain.runs > FIRST_WITH_BODIES {
            let differ = chain.differences(&writes);
            chain.differ = Some(match chain.differ.take() {
                None => differ,
                Some(known) => common(known, &differ),
            });
        }
        let body = |write: &RecordedWrite| (chain.runs >= FIRST_WITH_BODIES).then(|| write.body.clone());
        chain.writes = writes.iter().map(|write| (write.write.subject.clone(), body(write))).collect();
        Some(chain)
    }

    /// Returns whether all events that led to a run are those of the writes of the last run in the chain.
    fn leads_to(&self, run: &EndedRun<'_>) -> bool {
        // Only the first causes are stored, so the number of events is compared as well: more events than writes have other
        // writers.
        let causes = run.causes.first();
        run.began <= self.last + PAUSE
            && !causes.is_empty()
            && run.causes.events() <= self.writes.len() as u64
            && causes
                .iter()
                .all(|cause| self.writes.iter().any(|(subject, _)| is_of(subject, cause, run.own)))
    }

    /// Fields that differ between the last writes and these, by subject.
    fn differences(&self, writes: &[&RecordedWrite]) -> BTreeMap<String, BTreeSet<String>> {
        let mut differ = BTreeMap::new();
        for write in writes {
            let same = |(subject, _): &&(String, _)| *subject == write.write.subject;
            if let Some((subject, Some(body))) = self.writes.iter().find(same) {
                let fields = fields_that_differ(body, &write.body);
                if !fields.is_empty() {
                    differ.insert(subject.clone(), fields);
                }
            }
        }
        differ
    }

    /// The loop, if the chain is one.
    pub(crate) fn as_loop(&self, now: Instant) -> Option<Loop> {
        let Self { runs, since, last, differ, .. } = self;
        let differ = differ.as_ref().filter(|differ| !differ.is_empty())?;
        let is_current = *runs >= MANY && *last + PAUSE >= now;
        is_current.then(|| Loop { runs: *runs, since: *since, last: *last, differ: differ.clone() })
    }
}

impl Loop {
    /// The finding about `request`, given by its `Debug` form.
    pub(crate) fn finding(&self, request: &str, controller: &str, clock: Clock) -> Finding {
        let Self { runs, since, last, differ } = self;
        let fields: Vec<_> = differ
            .iter()
            .map(|(subject, fields)| {
                let fields: Vec<&str> = fields.iter().take(3).map(|field| &**field).collect();
                format!("{} of {}", fields.join(", "), about(subject))
            })
            .collect();
        let differs =
            if differ.values().map(BTreeSet::len).sum::<usize>() == 1 { "differs" } else { "differ" };
        Finding {
            id: FindingId::SelfTrigger,
            severity: Severity::Error,
            subject: request.to_owned(),
            since: clock.at(*since),
            text: format!(
                "{request}: {} in {}, each caused by a write of the previous run: {} {differs} each time.",
                Plural((*runs).into(), "run"),
                Span(*last - *since),
                fields.join("; ")
            ),
            evidence: vec![format!("controller {controller}")],
            next: "Write the field only if something else changes as well, or ignore such events: with_predicate(GenerationChanged)."
                .to_owned(),
        }
    }
}

/// The object in a subject: `widgets.example.com shop/web` of `status of widgets.example.com shop/web`.
fn about(subject: &str) -> &str {
    subject.split_once(" of ").map_or(subject, |(_, object)| object)
}

/// Returns whether the event is that of a write about `subject`, such as `status of widgets.example.com shop/web`.
fn is_of(subject: &str, cause: &Cause, own: &dyn Fn() -> String) -> bool {
    if cause.change != ChangeType::Updated {
        return false;
    }
    let Some((resource, key)) = about(subject).split_once(' ') else { return false };
    *cause.source == *resource
        && match &cause.object {
            Some(object) => **object == *key,
            None => own() == key,
        }
}

/// Paths of the values that differ between two JSON bodies.
fn fields_that_differ(before: &[u8], after: &[u8]) -> BTreeSet<String> {
    let parse = |body: &[u8]| serde_json::from_slice::<Value>(body).map(as_object).unwrap_or_default();
    let mut fields = BTreeSet::new();
    compare(&parse(before), &parse(after), &mut String::new(), &mut fields);
    fields
}

/// Converts a JSON patch to an object with a member for each path. Other bodies stay as they are.
fn as_object(body: Value) -> Value {
    let Value::Array(operations) = body else { return body };
    let member = |operation: &Value| {
        let path = operation.get("path")?.as_str()?.trim_start_matches('/').replace('/', ".");
        Some((path, operation.get("value").cloned().unwrap_or_default()))
    };
    operations.iter().filter_map(member).collect::<serde_json::Map<_, _>>().into()
}

/// Fields that are not compared: the API server sets them, so a difference does not come from the reconciler.
const SERVER_SET: [&str; 4] =
    ["metadata.resourceVersion", "metadata.managedFields", "metadata.generation", "metadata.uid"];
/// Largest number of differing fields that are collected.
const FIELDS: usize = 64;

/// Adds the paths below `path` with differing values to `fields`.
fn compare(before: &Value, after: &Value, path: &mut String, fields: &mut BTreeSet<String>) {
    if before == after || fields.len() == FIELDS || SERVER_SET.contains(&&**path) {
        return;
    }
    let (Value::Object(one), Value::Object(other)) = (before, after) else {
        fields.insert(if path.is_empty() { "the object".to_owned() } else { path.clone() });
        return;
    };
    let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    for key in keys {
        let length = path.len();
        if length > 0 {
            path.push('.');
        }
        path.push_str(key);
        compare(one.get(key).unwrap_or(&Value::Null), other.get(key).unwrap_or(&Value::Null), path, fields);
        path.truncate(length);
    }
}

/// Fields that are in both, by subject.
fn common(
    known: BTreeMap<String, BTreeSet<String>>,
    differ: &BTreeMap<String, BTreeSet<String>>,
) -> BTreeMap<String, BTreeSet<String>> {
    let both = |(subject, fields): (String, BTreeSet<String>)| {
        let now = differ.get(&subject)?;
        let both: BTreeSet<String> = fields.intersection(now).cloned().collect();
        (!both.is_empty()).then_some((subject, both))
    };
    known.into_iter().filter_map(both).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{client::RunWrite, rights::Verb};

    fn write(status: &Value) -> RecordedWrite {
        let write = RunWrite {
            verb: Verb::Apply,
            subject: "status of guestbooks.example.com shop/web".to_owned(),
            code: Some(200),
            version: Some("1".to_owned()),
        };
        let body = json!({ "metadata": { "name": "web" }, "status": status }).to_string().into();
        RecordedWrite { write, body }
    }

    fn updated(object: Option<&str>, events: usize) -> Causes {
        let mut causes = Causes::default();
        for _ in 0..events {
            causes.add(Cause {
                change: ChangeType::Updated,
                source: "guestbooks.example.com".into(),
                object: object.map(Into::into),
            });
        }
        causes
    }

    /// The finding after runs a second apart with these statuses and causes.
    fn check(runs: &[(Value, Causes)]) -> Option<String> {
        let (start, mut chain) = (Instant::now(), None);
        let mut now = start;
        for (status, causes) in runs {
            let writes = [write(status)];
            let ended =
                EndedRun { causes, writes: &writes, began: now, ended: now, own: &|| "shop/web".to_owned() };
            chain = Chain::after(chain, &ended);
            now += Duration::from_secs(1);
        }
        let found = chain?.as_loop(now)?;
        Some(found.finding("Guestbook shop/web", "guestbook", Clock::default()).text)
    }

    #[tokio::test(start_paused = true)]
    async fn a_field_that_differs_each_time_is_named() {
        let run =
            |number| (json!({ "ready": true, "lastSeen": number, "round": number / 2 }), updated(None, 1));
        let runs: Vec<_> = (0..8).map(run).collect();
        assert_eq!(check(&runs[..7]), None);
        assert_eq!(
            check(&runs).as_deref(),
            Some(
                "Guestbook shop/web: 8 runs in 7 s, each caused by a write of the previous run: \
                 status.lastSeen of guestbooks.example.com shop/web differs each time."
            )
        );
    }

    #[tokio::test(start_paused = true)]
    async fn steps_that_change_different_fields_are_no_loop() {
        let run = |number: usize| (json!({ format!("step{number}"): true }), updated(None, 1));
        assert_eq!(check(&(0..20).map(run).collect::<Vec<_>>()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn events_of_other_writers_are_no_loop() {
        let with = |causes: Causes| {
            (0..20).map(|number| (json!({ "lastSeen": number }), causes.clone())).collect::<Vec<_>>()
        };
        assert!(check(&with(updated(None, 1))).is_some());
        assert_eq!(check(&with(updated(None, 2))), None, "one of the events is not its own");
        assert_eq!(check(&with(updated(Some("shop/db"), 1))), None);
        assert_eq!(check(&with(Causes::default())), None);
    }

    #[test]
    fn bodies_are_compared_by_field() {
        let differ = |one: Value, other: Value| {
            let fields = fields_that_differ(one.to_string().as_bytes(), other.to_string().as_bytes());
            fields.into_iter().collect::<Vec<_>>().join(" ")
        };
        let object = |version, seen| json!({ "metadata": { "resourceVersion": version }, "status": { "seen": [seen] } });
        assert_eq!(differ(object(1, 1), object(2, 2)), "status.seen");
        assert_eq!(differ(json!({ "a": 1 }), json!({ "b": 1 })), "a b");
        assert_eq!(differ(json!(1), json!(2)), "the object");
        let patch = |seen| json!([{ "op": "replace", "path": "/status/seen", "value": seen }]);
        assert_eq!(differ(patch(1), patch(2)), "status.seen");
    }
}
