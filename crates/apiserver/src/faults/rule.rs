//! Which requests a fault is for, and when.

use std::fmt;

use super::{Action, Facts, Verb};

/// Names a rule of one server. Ids are not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(pub(super) u64);

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}", self.0)
    }
}

/// Which of the requests that fit are picked. Counting begins with 1, when the rule is added.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum When {
    /// All.
    #[default]
    Always,
    /// The n-th; none for 0.
    Nth(u64),
    /// The n-th, the 2n-th and so on; none for 0.
    Every(u64),
    /// Each with this probability, from the server's seed: 0 and less, or no number, is never, 1 and more is always.
    Probability(f64),
}

/// An action and the requests it is for. A new rule fits every request to a resource; each call narrows it.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Rule {
    action: Action,
    when: When,
    at_most: Option<u64>,
    verbs: Vec<Verb>,
    resource: Option<(String, String)>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    user_agent: Option<String>,
    field_manager: Option<String>,
    dry_run: Option<bool>,
}

impl Rule {
    /// A rule for every request to a resource; with [`Action::Watch`], for every watch.
    pub fn new(action: Action) -> Self {
        Self {
            action,
            when: When::Always,
            at_most: None,
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

    /// Only this verb, or those of earlier calls.
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// Only this resource: the group (empty for the core group) and the plural name; all versions, and subresources too.
    pub fn resource(mut self, group: &str, plural: &str) -> Self {
        self.resource = Some((group.to_owned(), plural.to_owned()));
        self
    }

    /// Only this subresource; empty for the object itself.
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Only within this namespace; empty for cluster-scoped objects and requests across namespaces.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only the object of this name; see [`Facts::name`] for requests that have none.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only clients whose `User-Agent` begins like this, such as `kubectl/`.
    pub fn user_agent(mut self, prefix: &str) -> Self {
        self.user_agent = Some(prefix.to_owned());
        self
    }

    /// Only requests with this `fieldManager` parameter.
    pub fn field_manager(mut self, manager: &str) -> Self {
        self.field_manager = Some(manager.to_owned());
        self
    }

    /// Only dry runs, or none of them.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = Some(dry_run);
        self
    }

    /// Which of the requests that fit are picked; the default is [`When::Always`].
    pub fn when(mut self, when: When) -> Self {
        self.when = when;
        self
    }

    /// Picks no request after this many; the rule stays in the list.
    pub fn at_most(mut self, times: u64) -> Self {
        self.at_most = Some(times);
        self
    }

    /// `at_most(1)`
    pub fn once(self) -> Self {
        self.at_most(1)
    }

    /// What the rule does.
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }

    /// Whether the rule is for this request, whenever it is.
    #[must_use]
    pub fn fits(&self, request: &Facts) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && (request.verb == Verb::Watch || !matches!(self.action, Action::Watch(_)))
            && self
                .resource
                .as_ref()
                .is_none_or(|(group, plural)| *group == request.group && *plural == request.resource)
            && is(&self.subresource, &request.subresource)
            && is(&self.namespace, &request.namespace)
            && is(&self.name, &request.name)
            && self.user_agent.as_ref().is_none_or(|prefix| request.user_agent.starts_with(prefix.as_str()))
            && is(&self.field_manager, &request.field_manager)
            && self.dry_run.is_none_or(|dry_run| dry_run == request.dry_run)
    }

    /// Whether the rule picks the request that is the `seen`-th that fits.
    pub(super) fn is_due(&self, seen: u64, random: &mut fastrand::Rng) -> bool {
        match self.when {
            When::Always => true,
            When::Nth(n) => seen == n,
            When::Every(n) => n != 0 && seen.is_multiple_of(n),
            // Drawn for every request that fits, so that the k-th draw belongs to the k-th of them.
            When::Probability(probability) => random.f64() < probability,
        }
    }

    /// Whether the rule has picked all that it may.
    pub(super) fn is_spent(&self, acted: u64) -> bool {
        self.at_most.is_some_and(|times| acted >= times)
    }
}
