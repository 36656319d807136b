//! Plan of faults (pure): selects the fault for a request, if there is one.

use jiff::Timestamp;
use tokio::time::Instant;

use super::journal::{Injected, Journal};
use super::{Action, RequestInfo, Rule, RuleId, WatchFault};

/// Rules in order, their counters, and the journal. It reads no clock and never waits.
#[derive(Debug)]
pub(crate) struct Plan {
    seed: u64,
    added: u64,
    rules: Vec<ActiveRule>,
    journal: Journal,
}

/// A rule with its counters.
#[derive(Debug)]
struct ActiveRule {
    id: RuleId,
    rule: Rule,
    since: Instant,
    seed: u64,
    /// Number of requests that matched.
    seen: u64,
    /// Number of requests that were picked.
    acted: u64,
    /// Generator of this rule alone, so that draws of other rules do not affect it.
    random: fastrand::Rng,
}

/// Action selected for a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedAction {
    pub(crate) action: Action,
    /// Seed for random choices during the action, such as which events are dropped.
    pub(crate) seed: u64,
}

/// Fault of a watch; an extension of its request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultyWatch {
    pub(crate) fault: WatchFault,
    pub(crate) seed: u64,
}

/// Age of the state from which a read is answered; an extension of its request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stale {
    pub(crate) behind: u64,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, added: 0, rules: Vec::new(), journal: Journal::default() }
    }

    pub(crate) fn add(&mut self, rule: Rule, since: Instant) -> RuleId {
        self.added += 1;
        let id = RuleId(self.added);
        // Multiplied by an odd number, so that neighboring seeds and ids give unrelated sequences.
        let seed = self.seed ^ self.added.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let random = fastrand::Rng::with_seed(seed);
        self.rules.push(ActiveRule { id, rule, since, seed, seen: 0, acted: 0, random });
        id
    }

    pub(crate) fn remove(&mut self, id: RuleId) -> Option<Rule> {
        let at = self.rules.iter().position(|active| active.id == id)?;
        Some(self.rules.remove(at).rule)
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(crate) fn rules(&self) -> impl ExactSizeIterator<Item = (RuleId, &Rule)> {
        self.rules.iter().map(|active| (active.id, &active.rule))
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn record(&mut self, what: Injected, now: Timestamp) {
        self.journal.push(now, what);
    }

    /// Selects the action for a request that arrives at `now`; `at` is the time for the journal. The first rule that picks the request
    /// decides; later rules are not evaluated.
    pub(crate) fn decide(
        &mut self,
        request: &RequestInfo,
        now: Instant,
        at: Timestamp,
    ) -> Option<PlannedAction> {
        let active = self.rules.iter_mut().find_map(|active| active.picks(request, now).then_some(active))?;
        let action = active.rule.action().clone();
        // As in `add`: the requests of one rule get unrelated seeds.
        let seed = active.seed ^ active.acted.wrapping_mul(0xd1b5_4a32_d192_ed03);
        let what =
            Injected::Rule { rule: active.id, request: Box::new(request.clone()), action: action.clone() };
        self.journal.push(at, what);
        Some(PlannedAction { action, seed })
    }
}

impl ActiveRule {
    fn picks(&mut self, request: &RequestInfo, now: Instant) -> bool {
        let is_open = self.rule.is_open(now.saturating_duration_since(self.since));
        if self.rule.is_spent(self.acted) || !is_open || !self.rule.fits(request) {
            return false;
        }
        // Counted last, so that `When::Nth` counts only requests that the rule could pick.
        self.seen += 1;
        let due = self.rule.is_due(self.seen, &mut self.random);
        self.acted += u64::from(due);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Failure, Verb, When};
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;
    use tokio::time::Duration;

    fn request(verb: Verb, name: &str) -> RequestInfo {
        RequestInfo {
            verb,
            group: String::new(),
            version: "v1".to_owned(),
            resource: "configmaps".to_owned(),
            subresource: String::new(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            resource_version: String::new(),
            user_agent: "test/1".to_owned(),
            field_manager: String::new(),
            dry_run: false,
        }
    }

    /// Outside a runtime, this is the time of the system. Only windows depend on it.
    fn now() -> Instant {
        Instant::now()
    }

    fn picked(plan: &mut Plan, requests: u64) -> Vec<u64> {
        let facts = request(Verb::Get, "a");
        (1..=requests).filter(|_| plan.decide(&facts, now(), Timestamp::UNIX_EPOCH).is_some()).collect()
    }

    #[test]
    fn the_first_rule_that_picks_a_request_hides_it_from_the_others() {
        let mut plan = Plan::new(0);
        plan.add(Rule::new(Action::Reset).name("a").when(When::Nth(2)), now());
        let second = plan.add(Rule::new(Action::LoseResponse).verb(Verb::Get).when(When::Every(2)), now());
        for name in ["a", "b", "a", "a"] {
            plan.decide(&request(Verb::Get, name), now(), Timestamp::UNIX_EPOCH);
        }
        assert!(plan.remove(second).is_some() && plan.remove(second).is_none());
        plan.decide(&request(Verb::Get, "b"), now(), Timestamp::UNIX_EPOCH);
        expect![[r#"
            rule 2: get configmaps default/b: carried out, response lost
            rule 1: get configmaps default/a: reset
        "#]]
        .assert_eq(&plan.journal().to_string());
    }

    #[test]
    fn the_journal_keeps_the_last_entries_and_counts_the_rest() {
        let mut plan = Plan::new(0);
        plan.add(Rule::new(Action::Fail(Failure::Internal)), now());
        picked(&mut plan, 10_003);
        assert_eq!((plan.journal().len(), plan.journal().dropped()), (10_000, 3));
    }

    #[test]
    fn a_rule_with_a_window_counts_and_picks_within_it() {
        let mut plan = Plan::new(0);
        let start = now();
        let second = Duration::from_secs(1);
        plan.add(Rule::new(Action::Reset).within(2 * second..5 * second).when(When::Every(2)), start);
        let facts = request(Verb::Get, "a");
        let picked: Vec<u32> = (0..8)
            .filter(|n| plan.decide(&facts, start + second * *n, Timestamp::UNIX_EPOCH).is_some())
            .collect();
        assert_eq!(picked, [3], "2 is the first that is seen, 4 the third, and 5 comes too late");
    }

    #[test]
    fn stale_reads_are_reads_that_allow_any_state() {
        let rule = Rule::new(Action::StaleRead { behind: 1 });
        let with =
            |verb, version: &str| RequestInfo { resource_version: version.to_owned(), ..request(verb, "") };
        assert!([Verb::Get, Verb::List, Verb::Watch].iter().all(|verb| rule.fits(&with(*verb, "0"))));
        assert!(!rule.fits(&with(Verb::List, "")) && !rule.fits(&with(Verb::List, "7")));
        assert!(!rule.fits(&with(Verb::Update, "0")));
    }

    /// Expected picks of a rule, computed without mutable counters.
    fn model(when: When, at_most: Option<u64>, requests: u64) -> Option<Vec<u64>> {
        let due: Vec<u64> = match when {
            When::Always => (1..=requests).collect(),
            When::Nth(n) => (1..=requests).filter(|seen| *seen == n).collect(),
            When::Every(n) => (1..=requests).filter(|seen| seen.checked_rem(n) == Some(0)).collect(),
            When::Probability(p) if p <= 0.0 || p.is_nan() => Vec::new(),
            When::Probability(p) if p >= 1.0 => (1..=requests).collect(),
            When::Probability(_) => return None,
        };
        Some(
            due.into_iter().take(at_most.map_or(usize::MAX, |most| usize::try_from(most).unwrap())).collect(),
        )
    }

    fn when() -> impl Strategy<Value = When> {
        prop_oneof![
            Just(When::Always),
            (0u64..8).prop_map(When::Nth),
            (0u64..8).prop_map(When::Every),
            prop_oneof![Just(-1.0), Just(0.0), Just(1.0), Just(2.0), Just(f64::NAN), 0.0..1.0]
                .prop_map(When::Probability),
        ]
    }

    proptest! {
        #[test]
        fn a_rule_picks_the_requests_of_the_model(
            when in when(),
            at_most in proptest::option::of(0u64..5),
            requests in 0u64..40,
            seed in any::<u64>(),
        ) {
            let mut rule = Rule::new(Action::Reset).verb(Verb::Get).when(when);
            if let Some(times) = at_most {
                rule = rule.at_most(times);
            }
            let run = |others: bool| {
                let mut plan = Plan::new(seed);
                plan.add(rule.clone(), now());
                if others {
                    plan.add(Rule::new(Action::Reset).when(When::Probability(0.5)), now());
                }
                let mut picks = Vec::new();
                for number in 1..=requests {
                    let before = plan.rules[0].acted;
                    plan.decide(&request(Verb::Get, "a"), now(), Timestamp::UNIX_EPOCH);
                    if plan.rules[0].acted > before {
                        picks.push(number);
                    }
                    plan.decide(&request(Verb::List, ""), now(), Timestamp::UNIX_EPOCH);
                }
                if !others {
                    assert_eq!(plan.journal().len(), picks.len());
                }
                picks
            };
            let picks = run(false);
            if let Some(expected) = model(when, at_most, requests) {
                prop_assert_eq!(&picks, &expected);
            }
            prop_assert!(at_most.is_none_or(|times| picks.len() as u64 <= times));
            prop_assert_eq!(picks, run(true), "the same seed, whatever other rules there are");
        }
    }
}
