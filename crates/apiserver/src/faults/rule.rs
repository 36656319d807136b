//! Fault rules: the requests to which a fault applies, and when.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use tokio::time::Duration;

use super::{Action, RequestInfo, Verb, fault_json};

/// Identifies a rule of one server. Ids are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RuleId(pub(super) u64);

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}", self.0)
    }
}

/// Selects some of the matching requests, or of the events of a watch. Counting begins with 1 when the rule is added or the watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum When {
    /// All requests or events.
    #[default]
    Always,
    /// The n-th; with 0 none.
    Nth(u64),
    /// The n-th, the 2n-th and so on; with 0 none.
    Every(u64),
    /// Each one with this probability, drawn from the server's seed. 0, negative numbers and NaN mean never; 1 or more means always.
    Probability(f64),
}

impl When {
    /// Whether the `seen`-th request or event is selected.
    pub(super) fn is_due(self, seen: u64, random: &mut fastrand::Rng) -> bool {
        match self {
            Self::Always => true,
            Self::Nth(n) => seen == n,
            Self::Every(n) => n != 0 && seen.is_multiple_of(n),
            // Draw for each request, so that the k-th draw belongs to the k-th request.
            Self::Probability(probability) => random.f64() < probability,
        }
    }
}

/// Describes events: `all events`, `event 3`, `one event in 2` and so on.
impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("all events"),
            Self::Nth(n) => write!(f, "event {n}"),
            Self::Every(n) => write!(f, "one event in {n}"),
            Self::Probability(probability) => write!(f, "events with probability {probability}"),
        }
    }
}

/// An action and the requests to which it applies. A new rule matches every request to a resource; each method narrows it down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[must_use]
pub struct Rule {
    action: Action,
    #[serde(default)]
    when: When,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<TimeWindow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    verbs: Vec<Verb>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<GroupResource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subresource: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_manager: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<bool>,
}

/// A window of the time since a rule was added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimeWindow {
    #[serde(with = "fault_json::duration")]
    from: Duration,
    #[serde(with = "fault_json::duration")]
    to: Duration,
}

/// A resource in all its versions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GroupResource {
    /// API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Plural name, such as `configmaps`.
    pub plural: String,
}

impl GroupResource {
    /// The resource `plural` of `group`, which is empty for the core group.
    #[must_use]
    pub fn new(group: impl Into<String>, plural: impl Into<String>) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }
}

/// Formats as `deployments.apps`.
impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

impl Rule {
    /// Creates a rule that matches every request to a resource; with [`Action::Watch`] every watch, and with
    /// [`Action::StaleRead`] every read that accepts any state.
    pub fn new(action: Action) -> Self {
        Self {
            action,
            when: When::Always,
            at_most: None,
            within: None,
            verbs: Vec::new(),
            resource: None,
            subresource: None,
            namespace: None,
            name: None,
            user_agent: None,
            field_manager: None,
            dry_run: None,
        }
    }

    /// Matches only this verb. Several calls add verbs.
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// Matches only this resource, in all versions and including subresources; `group` is empty for the core group.
    pub fn resource(mut self, group: &str, plural: &str) -> Self {
        self.resource = Some(GroupResource::new(group, plural));
        self
    }

    /// Matches only this subresource; empty for the object itself.
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Matches only this namespace; empty for cluster-scoped objects and requests across namespaces.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Matches only the object of this name; see [`RequestInfo::name`] for requests that have none.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Matches only clients with a `User-Agent` that starts with `prefix`, such as `kubectl/`.
    pub fn user_agent(mut self, prefix: &str) -> Self {
        self.user_agent = Some(prefix.to_owned());
        self
    }

    /// Matches only requests with this `fieldManager` parameter.
    pub fn field_manager(mut self, manager: &str) -> Self {
        self.field_manager = Some(manager.to_owned());
        self
    }

    /// Matches only dry runs (`true`), or only requests that are not dry runs (`false`).
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = Some(dry_run);
        self
    }

    /// Selects among the matching requests; the default is [`When::Always`].
    pub fn when(mut self, when: When) -> Self {
        self.when = when;
        self
    }

    /// Picks at most `times` requests; the rule stays in the list afterwards.
    pub fn at_most(mut self, times: u64) -> Self {
        self.at_most = Some(times);
        self
    }

    /// Picks at most one request, like `at_most(1)`.
    pub fn once(self) -> Self {
        self.at_most(1)
    }

    /// Matches only requests that arrive in this window of the time since the rule was added. Its end is exclusive.
    pub fn within(mut self, time: Range<Duration>) -> Self {
        self.within = Some(TimeWindow { from: time.start, to: time.end });
        self
    }

    /// Returns the action of the rule.
    #[must_use]
    pub fn action(&self) -> &Action {
        &self.action
    }

    /// Whether the rule matches this request, regardless of counters and time.
    #[must_use]
    pub fn fits(&self, request: &RequestInfo) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && match self.action {
                Action::Watch(_) => request.verb == Verb::Watch,
                Action::StaleRead { .. } => {
                    [Verb::Get, Verb::List, Verb::Watch].contains(&request.verb)
                        && request.resource_version == "0"
                }
                _ => true,
            }
            && self
                .resource
                .as_ref()
                .is_none_or(|wanted| wanted.group == request.group && wanted.plural == request.resource)
            && is(&self.subresource, &request.subresource)
            && is(&self.namespace, &request.namespace)
            && is(&self.name, &request.name)
            && self.user_agent.as_ref().is_none_or(|prefix| request.user_agent.starts_with(prefix.as_str()))
            && is(&self.field_manager, &request.field_manager)
            && self.dry_run.is_none_or(|dry_run| dry_run == request.dry_run)
    }

    /// Whether the rule picks the `seen`-th request that matches.
    pub(super) fn is_due(&self, seen: u64, random: &mut fastrand::Rng) -> bool {
        self.when.is_due(seen, random)
    }

    /// Whether the rule's window contains this time since the rule was added.
    pub(super) fn is_open(&self, age: Duration) -> bool {
        self.within.as_ref().is_none_or(|within| (within.from..within.to).contains(&age))
    }

    /// Whether the rule has picked as many requests as it may.
    pub(super) fn is_spent(&self, acted: u64) -> bool {
        self.at_most.is_some_and(|times| acted >= times)
    }
}
