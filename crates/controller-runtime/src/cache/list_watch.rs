//! What to ask the API server next in order to know all objects of a kind: client-go's reflector as a state machine.
//!
//! The machine knows neither objects nor requests. It is told how the last request went and says what the next one
//! is, so each rule below can be tested without a server:
//!
//! - list in pages, then watch from the list's version;
//! - a watch that ends is taken up again from the last version seen; one that ends at once waits first;
//! - a version the server no longer knows (410), at the start of a watch or within, leads back to a list: at once if
//!   that did not happen in the last ten seconds, otherwise after a wait;
//! - any other refusal of a watch that is not a matter of load leads back to a list, after a wait;
//! - a failed list starts over, after a wait that grows.

use std::time::Duration;

use tokio::time::Instant;

use super::backoff::Backoff;

/// What the shell is to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// List one page; with no token, the first one.
    List { continue_token: Option<String> },
    /// Watch from this version for at most this long.
    Watch { resource_version: String, timeout: Duration },
    /// Wait, then ask again with [`Input::Waited`].
    Wait(Duration),
}

/// What the shell tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// Nothing has been done yet.
    Start,
    /// The wait is over.
    Waited,
    /// A page arrived.
    Page { resource_version: String, continue_token: Option<String> },
    /// A page did not.
    ListFailed(Failure),
    /// The watch ended: it had `progressed` if it delivered anything or stayed open for a while.
    WatchEnded { progressed: bool },
    /// The watch failed, at its start or within.
    WatchFailed(Failure),
}

/// Why a request failed, as far as it changes what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The version or the continue token is too old.
    Expired,
    /// The server is overloaded or unreachable: the same request may succeed later.
    Transient,
    /// The server refuses, or its answer makes no sense: this request will not succeed.
    Refused,
}

/// The list-watch state of one kind.
#[derive(Debug)]
pub(crate) struct ListWatch {
    phase: Phase,
    /// When an expired version was last answered with a list at once.
    relisted: Option<Instant>,
    backoff: Backoff,
    rng: fastrand::Rng,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Listing,
    Watching { resource_version: String },
}

impl ListWatch {
    /// The shortest time for which a watch is asked to stay open; the longest is twice that.
    const WATCH_AT_LEAST: Duration = Duration::from_secs(300);

    /// How often an expired version may lead to a list without a wait.
    const RELIST_AT_ONCE_EVERY: Duration = Duration::from_secs(10);

    pub(crate) fn new(rng: fastrand::Rng) -> Self {
        Self { phase: Phase::Listing, relisted: None, backoff: Backoff::default(), rng }
    }

    /// Remembers the version of a watch event or bookmark, from which a later watch can go on.
    ///
    /// An object without a version tells nothing: a watch from no version would start at the present and miss what
    /// happened before.
    pub(crate) fn saw(&mut self, version: Option<&str>) {
        if let (Phase::Watching { resource_version }, Some(version)) =
            (&mut self.phase, version.filter(|v| !v.is_empty()))
        {
            version.clone_into(resource_version);
        }
    }

    pub(crate) fn step(&mut self, input: Input, now: Instant) -> Step {
        match input {
            Input::Start | Input::Waited | Input::WatchEnded { progressed: true } => self.resume(),
            Input::Page { continue_token: Some(token), .. } => Step::List { continue_token: Some(token) },
            Input::Page { resource_version, continue_token: None } => {
                self.phase = Phase::Watching { resource_version };
                self.resume()
            }
            Input::ListFailed(Failure::Expired) | Input::WatchFailed(Failure::Expired) => {
                self.phase = Phase::Listing;
                // A server that finds every version too old must not be asked in a tight circle.
                if self.relisted.is_some_and(|at| now.duration_since(at) < Self::RELIST_AT_ONCE_EVERY) {
                    return self.wait(now);
                }
                self.relisted = Some(now);
                self.resume()
            }
            Input::WatchFailed(Failure::Refused) => {
                self.phase = Phase::Listing;
                self.wait(now)
            }
            Input::ListFailed(_)
            | Input::WatchFailed(Failure::Transient)
            | Input::WatchEnded { progressed: false } => self.wait(now),
        }
    }

    fn resume(&mut self) -> Step {
        match &self.phase {
            Phase::Listing => Step::List { continue_token: None },
            Phase::Watching { resource_version } => Step::Watch {
                resource_version: resource_version.clone(),
                timeout: Self::WATCH_AT_LEAST.mul_f64(1.0 + self.rng.f64()),
            },
        }
    }

    fn wait(&mut self, now: Instant) -> Step {
        Step::Wait(self.backoff.failed(now, &mut self.rng))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    fn check(inputs: &[(&str, Input)], expected: &Expect) {
        let mut machine = ListWatch::new(fastrand::Rng::with_seed(7));
        let now = Instant::now();
        let mut lines = String::new();
        for (name, input) in inputs {
            let step = match machine.step(input.clone(), now) {
                Step::List { continue_token: None } => "list".to_owned(),
                Step::List { continue_token: Some(token) } => format!("list from {token}"),
                Step::Watch { resource_version, timeout } => {
                    assert!((300..600).contains(&timeout.as_secs()), "{timeout:?}");
                    format!("watch from {resource_version}")
                }
                Step::Wait(_) => "wait".to_owned(),
            };
            lines += &format!("{name} -> {step}\n");
        }
        expected.assert_eq(&lines);
    }

    fn page(version: &str, token: Option<&str>) -> Input {
        Input::Page { resource_version: version.into(), continue_token: token.map(Into::into) }
    }

    #[test]
    fn pages_are_listed_to_the_end_before_the_watch() {
        check(
            &[("start", Input::Start), ("page", page("5", Some("t1"))), ("last page", page("5", None))],
            &expect![[r#"
                start -> list
                page -> list from t1
                last page -> watch from 5
            "#]],
        );
    }

    #[test]
    fn a_watch_that_ends_goes_on_from_the_last_version_seen() {
        let mut machine = ListWatch::new(fastrand::Rng::with_seed(7));
        machine.step(page("5", None), Instant::now());
        machine.saw(Some("9"));
        machine.saw(Some(""));
        machine.saw(None);
        let step = machine.step(Input::WatchEnded { progressed: true }, Instant::now());
        assert!(matches!(step, Step::Watch { resource_version, .. } if resource_version == "9"));
    }

    #[test]
    fn an_expired_version_leads_back_to_a_list_at_once() {
        check(
            &[("page", page("5", None)), ("watch gone", Input::WatchFailed(Failure::Expired))],
            &expect![[r#"
                page -> watch from 5
                watch gone -> list
            "#]],
        );
    }

    #[test]
    fn versions_that_expire_again_and_again_are_not_chased_in_a_circle() {
        check(
            &[
                ("page", page("5", None)),
                ("gone", Input::WatchFailed(Failure::Expired)),
                ("page", page("6", None)),
                ("gone again", Input::WatchFailed(Failure::Expired)),
                ("waited", Input::Waited),
            ],
            &expect![[r#"
                page -> watch from 5
                gone -> list
                page -> watch from 6
                gone again -> wait
                waited -> list
            "#]],
        );
    }

    #[test]
    fn an_expired_continue_token_starts_the_list_over() {
        check(
            &[("page", page("5", Some("t1"))), ("token gone", Input::ListFailed(Failure::Expired))],
            &expect![[r#"
                page -> list from t1
                token gone -> list
            "#]],
        );
    }

    #[test]
    fn load_waits_and_watches_on_but_a_refusal_waits_and_lists() {
        check(
            &[
                ("page", page("5", None)),
                ("overloaded", Input::WatchFailed(Failure::Transient)),
                ("waited", Input::Waited),
                ("refused", Input::WatchFailed(Failure::Refused)),
                ("waited", Input::Waited),
                ("refused", Input::ListFailed(Failure::Refused)),
                ("waited", Input::Waited),
            ],
            &expect![[r#"
                page -> watch from 5
                overloaded -> wait
                waited -> watch from 5
                refused -> wait
                waited -> list
                refused -> wait
                waited -> list
            "#]],
        );
    }

    #[test]
    fn a_watch_that_ends_at_once_waits_first() {
        check(
            &[
                ("page", page("5", None)),
                ("empty", Input::WatchEnded { progressed: false }),
                ("waited", Input::Waited),
            ],
            &expect![[r#"
                page -> watch from 5
                empty -> wait
                waited -> watch from 5
            "#]],
        );
    }

    fn inputs() -> impl Strategy<Value = Input> {
        let failure = prop_oneof![Just(Failure::Expired), Just(Failure::Transient), Just(Failure::Refused)];
        prop_oneof![
            Just(Input::Waited),
            (1..9u8, any::<bool>())
                .prop_map(|(version, more)| page(&version.to_string(), more.then_some("t"))),
            failure.clone().prop_map(Input::ListFailed),
            any::<bool>().prop_map(|progressed| Input::WatchEnded { progressed }),
            failure.prop_map(Input::WatchFailed),
        ]
    }

    proptest! {
        /// Whatever happens: a watch goes on from what was last listed or seen, a page from its token alone, and
        /// nothing but progress is followed by another request at once for ever.
        #[test]
        fn no_version_is_made_up_and_no_circle_is_tight(
            history in prop::collection::vec((inputs(), prop::option::of(1..99u8)), 1..60),
        ) {
            let mut machine = ListWatch::new(fastrand::Rng::with_seed(7));
            let (mut last, mut at_once) = (None, 0);
            for (input, seen) in history {
                let progress = matches!(input, Input::Page { .. } | Input::Waited | Input::WatchEnded { progressed: true });
                if let Input::Page { resource_version, continue_token: None } = &input {
                    last = Some(resource_version.clone());
                }
                let token = matches!(&input, Input::Page { continue_token: Some(_), .. });
                match machine.step(input, Instant::now()) {
                    Step::Watch { resource_version, .. } => prop_assert_eq!(Some(resource_version), last.clone()),
                    Step::List { continue_token } => prop_assert_eq!(continue_token.is_some(), token),
                    Step::Wait(delay) => {
                        prop_assert!(delay >= Duration::from_millis(800) && delay <= Duration::from_secs(60));
                        at_once = 0;
                        continue;
                    }
                }
                at_once = if progress { 0 } else { at_once + 1 };
                prop_assert!(at_once <= 1, "two failures in a row were answered without a wait");
                if let (Some(version), Phase::Watching { .. }) = (seen, &machine.phase) {
                    machine.saw(Some(&version.to_string()));
                    last = Some(version.to_string());
                }
            }
        }
    }
}
