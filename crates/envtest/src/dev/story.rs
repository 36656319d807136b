//! Turns commits of the API server into lines such as `guestbook default/sample created → configmaps default/sample created → Ready`.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_apiserver_embedded::Commit;
use serde_json::Value;

/// Time without a further step after which a line ends.
const QUIET: Duration = Duration::from_millis(200);

/// Steps in one line. An operator that writes without end gets a line for each so many steps.
const STEPS: usize = 6;

/// Changes of an operator's objects and their children, grouped into one line for each object.
///
/// A line ends when a condition became true, when nothing followed for [`QUIET`], or after [`STEPS`] steps.
#[derive(Debug, Default)]
pub(super) struct Story {
    /// Name for each resource of the operator, by group and plural: `guestbook`.
    kinds: BTreeMap<(String, String), String>,
    /// Objects of these kinds by uid, for their children.
    owners: BTreeMap<String, String>,
    /// Unfinished lines by object.
    open: BTreeMap<String, Line>,
}

#[derive(Debug)]
struct Line {
    begun: Duration,
    last: Duration,
    steps: Vec<String>,
}

impl Story {
    /// A story about the kinds that `crds` define.
    pub(super) fn new(crds: &[CustomResourceDefinition]) -> Self {
        let kind = |crd: &CustomResourceDefinition| {
            let names = &crd.spec.names;
            let singular = names.singular.clone().unwrap_or_else(|| names.kind.to_lowercase());
            ((crd.spec.group.clone(), names.plural.clone()), singular)
        };
        Self { kinds: crds.iter().map(kind).collect(), ..Self::default() }
    }

    /// Adds a commit at the time `now`, and returns the lines that it completes.
    pub(super) fn commit(&mut self, commit: &Commit, now: Duration) -> Vec<String> {
        let object = commit.after.as_ref().or(commit.before.as_ref());
        let Some(object) = object else { return Vec::new() };
        let place = if commit.namespace.is_empty() {
            commit.name.clone()
        } else {
            format!("{}/{}", commit.namespace, commit.name)
        };
        let kind = self.kinds.get(&(commit.group.clone(), commit.resource.clone()));
        let (subject, step, ends) = match kind {
            Some(kind) => {
                let subject = format!("{kind} {place}");
                if let Some(uid) = object["metadata"]["uid"].as_str() {
                    self.owners.insert(uid.to_owned(), subject.clone());
                }
                let Some((step, ends)) = step(commit) else { return Vec::new() };
                (subject, step, ends)
            }
            None => {
                let controller = object["metadata"]["ownerReferences"].as_array().and_then(|owners| {
                    owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str()
                });
                let Some(owner) = controller.and_then(|uid| self.owners.get(uid)) else { return Vec::new() };
                let verb = match (&commit.before, &commit.after) {
                    (None, _) => "created",
                    (_, None) => "deleted",
                    _ => "changed",
                };
                (owner.clone(), format!("{} {place} {verb}", commit.resource), false)
            }
        };
        let line =
            self.open.entry(subject.clone()).or_insert(Line { begun: now, last: now, steps: Vec::new() });
        line.last = now;
        line.steps.push(step);
        if ends || line.steps.len() == STEPS {
            return self.open.remove(&subject).map(|line| line.text(&subject)).into_iter().collect();
        }
        Vec::new()
    }

    /// Returns the lines to which nothing was added for a while, all of them with `now` at the end of time.
    pub(super) fn quiet(&mut self, now: Duration) -> Vec<String> {
        let over = |line: &mut Line| now >= line.last + QUIET;
        self.open.extract_if(.., |_, line| over(line)).map(|(subject, line)| line.text(&subject)).collect()
    }

    /// Time at which [`quiet`](Self::quiet) returns the next line.
    pub(super) fn next(&self) -> Option<Duration> {
        self.open.values().map(|line| line.last + QUIET).min()
    }
}

impl Line {
    fn text(&self, subject: &str) -> String {
        let took = (self.last - self.begun).as_millis();
        let after = if self.steps.len() > 1 { format!(", after {took} ms") } else { String::new() };
        format!("{subject}  {}{after}", self.steps.join(" → "))
    }
}

/// Describes a change of an operator's object, and returns whether a line ends with it. `None` if users do not care.
fn step(commit: &Commit) -> Option<(String, bool)> {
    let (before, after) = match (&commit.before, &commit.after) {
        (None, Some(_)) => return Some(("created".to_owned(), false)),
        (_, None) => return Some(("deleted".to_owned(), true)),
        (Some(before), Some(after)) => (before, after),
    };
    let deleted = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
    if deleted(after) && !deleted(before) {
        return Some(("deletion requested".to_owned(), false));
    }
    if before["metadata"]["generation"] != after["metadata"]["generation"] {
        return Some(("changed".to_owned(), false));
    }
    if let Some(condition) = changed_condition(before, after) {
        return Some(condition);
    }
    if before["status"] != after["status"] {
        return Some(("status written".to_owned(), false));
    }
    (before["metadata"]["finalizers"] != after["metadata"]["finalizers"])
        .then(|| ("finalizers changed".to_owned(), false))
}

/// Returns the first condition that differs, and whether it is true.
fn changed_condition(before: &Value, after: &Value) -> Option<(String, bool)> {
    let conditions = |object: &Value| object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let before = conditions(before);
    let changed = conditions(after).into_iter().find(|condition| !before.contains(condition))?;
    let text = |field: &str| changed[field].as_str().unwrap_or_default().to_owned();
    if text("status") == "True" {
        return Some((text("type"), true));
    }
    Some((format!("{} {}: {} ({})", text("type"), text("status"), text("message"), text("reason")), false))
}
