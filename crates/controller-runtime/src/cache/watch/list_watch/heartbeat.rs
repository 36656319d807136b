//! Liveness of one open watch: when a silent one is probed, and when it counts as dead. Pure.
//!
//! TCP reports a lost peer only if data are outstanding, and a proxy may keep a connection open although its API server
//! is gone. A watch lost in this way looks like a watch of a kind that does not change. API servers send a bookmark
//! about once a minute, which is too seldom to detect the loss within 45 s. So a watch that has been silent for 30 s is
//! probed: a second, short watch starts at the last version of the first one. The API server sends it each event that the first
//! watch missed, then a bookmark, and ends it.
//!
//! | probe | first watch |
//! |---|---|
//! | ends, or receives bookmarks alone | works: the first watch has missed nothing |
//! | receives an event | has 15 s from the start of the probe to deliver something, and is dead otherwise |
//! | neither receives anything nor ends within 15 s | dead |
//! | cannot be sent, or breaks off | dead |
//! | is answered with 410 | ends: its version cannot be verified, so the objects are listed again |
//! | is refused for another reason | unknown: stays open until three probes in a row are refused |
//!
//! A refusal is an answer: the API server works, and would refuse a reopened watch as well. Reopening it after the
//! third refusal makes the refusal visible in the log, the metrics and readiness.
//!
//! Cost: a watch of a server that sends a bookmark every minute is probed once a minute while its kind does not change.
//! Watches that begin together are probed at different times.
//!
//! While the initial events of a watch arrive there is no version to probe from. A server that does not know
//! `sendInitialEvents` never marks their end. It is recognised by 45 s of silence, or by 45 s without the mark after something
//! other than an initial event arrived.

use std::time::Duration;

use tokio::time::Instant;

/// Liveness of one open watch.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    state: LivenessState,
    /// Silence after which this watch is probed.
    probe_after: Duration,
    /// Probes refused in a row.
    refusals: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LivenessState {
    /// Initial events arrive.
    Initial {
        heard: Instant,
        /// Arrival of the first event that is not an initial one.
        changed: Option<Instant>,
    },
    /// The watch was known to work at `since`. It is probed after `probe_after` of silence.
    Alive {
        since: Instant,
        probe_after: Duration,
    },
    /// A probe is under way. If it has received an event, `missed` is set.
    Probing {
        since: Instant,
        missed: bool,
    },
    Dead(Death),
}

/// First events of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchStart {
    /// All existing objects, up to a bookmark that marks their end.
    InitialEvents,
    /// Changes after a version.
    Version,
}

/// Data that arrived before the mark of the end of the initial events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InitialData {
    /// Initial events alone.
    Objects,
    /// Other events as well. A server that does not send the mark sends them after its last initial event.
    Changes,
}

/// Next action for an open watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LivenessCheck {
    /// None before this time.
    Wait(Instant),
    /// Probe the watch, and report the outcome to [`Heartbeat::probed`].
    Probe,
    /// Close the watch.
    Dead(Death),
}

/// Reason why a watch counts as dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// The end of the initial events did not arrive.
    EndlessInitialEvents,
    /// A probe received an event that the watch did not deliver.
    MissedEvent,
    /// A probe was not answered in time.
    Unanswered,
    /// A probe could not be sent, or its answer broke off.
    Unreachable,
    /// Several probes in a row were refused.
    Refused,
    /// The version of the watch is too old to be probed from.
    Expired,
}

/// Outcome of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probed {
    /// The probe ended without an event.
    Nothing,
    /// The probe received an event.
    Event,
    /// The probe could not be sent, or its answer broke off.
    Unreachable,
    /// The version is too old.
    Expired,
    /// The probe was refused for another reason.
    Refused { retry_after: Option<Duration> },
}

impl Heartbeat {
    /// Duration that the API server is asked to keep a probe open. It sends a bookmark 2 s before the end.
    pub(crate) const PROBE_LASTS: Duration = Duration::from_secs(8);

    /// Longest silence before a probe.
    ///
    /// A probe verifies the watch up to the end of the probe, 8 s after its start. The next probe would be due 30 s later, 62 s
    /// or more after the last bookmark. An API server sends the next bookmark before that, so one probe a minute is enough.
    const PROBE_AFTER: Duration = Duration::from_secs(30);

    /// Largest random reduction of [`Self::PROBE_AFTER`], which differs between watches, so that watches that begin together
    /// are not probed together.
    const SPREAD: Duration = Duration::from_secs(6);

    /// Time from the start of a probe until its outcome counts against the watch.
    const VERDICT_WITHIN: Duration = Duration::from_secs(15);

    /// Number of refused probes in a row after which the watch counts as dead.
    const REFUSALS: u32 = 3;

    /// Longest wait that a refusal may ask for.
    const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

    /// Longest silence of a watch without any sign of life: 45 s.
    pub(crate) const SILENCE: Duration = Self::PROBE_AFTER.saturating_add(Self::VERDICT_WITHIN);

    /// Returns the state of a watch that was opened at `now`.
    pub(crate) fn opened(now: Instant, start: WatchStart, rng: &mut fastrand::Rng) -> Self {
        let probe_after = Self::PROBE_AFTER - Self::SPREAD.mul_f64(rng.f64());
        let state = match start {
            WatchStart::InitialEvents => LivenessState::Initial { heard: now, changed: None },
            WatchStart::Version => LivenessState::Alive { since: now, probe_after },
        };
        Self { state, probe_after, refusals: 0 }
    }

    /// Records that data arrived before the mark of the end of the initial events.
    pub(crate) fn heard_initial(&mut self, now: Instant, data: InitialData) {
        if let LivenessState::Initial { heard, changed } = &mut self.state {
            *heard = now;
            if data == InitialData::Changes {
                changed.get_or_insert(now);
            }
        }
    }

    /// Records that the watch delivered an event or a bookmark. A probe that is under way is not needed any more.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.refusals = 0;
        self.state = LivenessState::Alive { since: now, probe_after: self.probe_after };
    }

    /// Records the outcome of a probe.
    pub(crate) fn probed(&mut self, outcome: Probed, now: Instant) {
        let LivenessState::Probing { missed, .. } = &mut self.state else { return };
        let mut probe_after = Self::PROBE_AFTER;
        match outcome {
            Probed::Event => {
                // The watch may still deliver the event, until the time for a verdict is over.
                *missed = true;
                return;
            }
            Probed::Nothing => self.refusals = 0,
            Probed::Refused { retry_after } => {
                self.refusals += 1;
                if self.refusals >= Self::REFUSALS {
                    self.state = LivenessState::Dead(Death::Refused);
                    return;
                }
                let asked = retry_after.unwrap_or_default().min(Self::LONGEST_RETRY_AFTER);
                // Only the next probe is postponed. The watch stays open.
                probe_after = probe_after.max(asked);
            }
            Probed::Unreachable => {
                self.state = LivenessState::Dead(Death::Unreachable);
                return;
            }
            Probed::Expired => {
                self.state = LivenessState::Dead(Death::Expired);
                return;
            }
        }
        self.state = LivenessState::Alive { since: now, probe_after };
    }

    /// Returns the next action at `now`.
    pub(crate) fn check(&mut self, now: Instant) -> LivenessCheck {
        match self.state {
            LivenessState::Initial { heard, changed } => {
                // Once something other than an initial event has arrived, later data do not extend the time for the mark.
                let limit = changed.unwrap_or(heard) + Self::SILENCE;
                if now < limit { LivenessCheck::Wait(limit) } else { self.dead(Death::EndlessInitialEvents) }
            }
            LivenessState::Alive { since, probe_after } => {
                if now < since + probe_after {
                    return LivenessCheck::Wait(since + probe_after);
                }
                self.state = LivenessState::Probing { since: now, missed: false };
                LivenessCheck::Probe
            }
            LivenessState::Probing { since, .. } if now < since + Self::VERDICT_WITHIN => {
                LivenessCheck::Wait(since + Self::VERDICT_WITHIN)
            }
            LivenessState::Probing { missed: true, .. } => self.dead(Death::MissedEvent),
            LivenessState::Probing { missed: false, .. } => self.dead(Death::Unanswered),
            LivenessState::Dead(death) => LivenessCheck::Dead(death),
        }
    }

    fn dead(&mut self, death: Death) -> LivenessCheck {
        self.state = LivenessState::Dead(death);
        LivenessCheck::Dead(death)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn watch(now: Instant, seed: u64) -> Heartbeat {
        Heartbeat::opened(now, WatchStart::Version, &mut fastrand::Rng::with_seed(seed))
    }

    /// Waits as long as the heartbeat asks for. Returns the time of its next action, and the action.
    fn until_action(heartbeat: &mut Heartbeat, mut now: Instant) -> (Instant, LivenessCheck) {
        loop {
            match heartbeat.check(now) {
                LivenessCheck::Wait(until) => {
                    assert!(until > now, "a wait leads on");
                    now = until;
                }
                action => return (now, action),
            }
        }
    }

    #[test]
    fn a_silent_watch_is_probed_after_24_to_30_seconds_and_dead_15_seconds_later() {
        for seed in 0..100 {
            let start = Instant::now();
            let mut heartbeat = watch(start, seed);
            let (probed, action) = until_action(&mut heartbeat, start);
            assert_eq!(action, LivenessCheck::Probe);
            assert!((seconds(24.0)..=seconds(30.0)).contains(&(probed - start)), "{:?}", probed - start);
            let (died, action) = until_action(&mut heartbeat, probed);
            assert_eq!((died - probed, action), (seconds(15.0), LivenessCheck::Dead(Death::Unanswered)));
        }
    }

    #[test]
    fn an_event_that_only_the_probe_receives_ends_the_watch_unless_it_follows_within_15_seconds() {
        let start = Instant::now();
        for follows in [false, true] {
            let mut heartbeat = watch(start, 1);
            let (probed, _) = until_action(&mut heartbeat, start);
            heartbeat.probed(Probed::Event, probed + seconds(1.0));
            if follows {
                heartbeat.heard(probed + seconds(14.0));
                assert_eq!(until_action(&mut heartbeat, probed + seconds(15.0)).1, LivenessCheck::Probe);
            } else {
                let died = (probed + seconds(15.0), LivenessCheck::Dead(Death::MissedEvent));
                assert_eq!(until_action(&mut heartbeat, probed + seconds(1.0)), died);
            }
        }
    }

    #[test]
    fn refused_probes_are_repeated_as_the_server_asks_and_the_third_in_a_row_ends_the_watch() {
        let start = Instant::now();
        let mut heartbeat = watch(start, 1);
        let mut now = start;
        for (retry_after, waits) in [(None, 30.0), (Some(70), 70.0), (Some(1000), 0.0)] {
            let (probed, action) = until_action(&mut heartbeat, now);
            assert_eq!(action, LivenessCheck::Probe);
            let retry_after = retry_after.map(Duration::from_secs);
            heartbeat.probed(Probed::Refused { retry_after }, probed);
            now = probed;
            if waits > 0.0 {
                assert_eq!(heartbeat.check(now), LivenessCheck::Wait(now + seconds(waits)));
            }
        }
        assert_eq!(heartbeat.check(now), LivenessCheck::Dead(Death::Refused));
        let mut heartbeat = watch(start, 1);
        for _ in 0..10 {
            let (probed, action) = until_action(&mut heartbeat, start);
            assert_eq!(action, LivenessCheck::Probe, "a sign of life in between forgives refusals");
            heartbeat.probed(Probed::Refused { retry_after: None }, probed);
            heartbeat.heard(probed);
        }
    }

    #[test]
    fn initial_events_may_take_long_but_not_be_silent_for_45_seconds() {
        let start = Instant::now();
        let mut heartbeat =
            Heartbeat::opened(start, WatchStart::InitialEvents, &mut fastrand::Rng::with_seed(1));
        for minute in 0..10 {
            let now = start + seconds(44.0) * minute;
            assert!(matches!(heartbeat.check(now), LivenessCheck::Wait(_)));
            heartbeat.heard_initial(now, InitialData::Objects);
        }
        let last = start + seconds(44.0) * 9;
        let dead = (last + seconds(45.0), LivenessCheck::Dead(Death::EndlessInitialEvents));
        assert_eq!(until_action(&mut heartbeat, last), dead);
    }

    #[test]
    fn initial_events_must_end_45_seconds_after_something_else_arrived_however_much_follows() {
        let start = Instant::now();
        let mut heartbeat =
            Heartbeat::opened(start, WatchStart::InitialEvents, &mut fastrand::Rng::with_seed(1));
        for second in 0..45 {
            assert!(matches!(heartbeat.check(start + seconds(1.0) * second), LivenessCheck::Wait(_)));
            heartbeat.heard_initial(start + seconds(1.0) * second, InitialData::Changes);
        }
        assert_eq!(heartbeat.check(start + seconds(45.0)), LivenessCheck::Dead(Death::EndlessInitialEvents));
    }

    /// A bookmark every 60 to 61.25 s, as a kube-apiserver sends them.
    #[test]
    fn a_watch_with_a_bookmark_a_minute_is_probed_once_a_minute() {
        for seed in 0..50 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let start = Instant::now();
            let (mut heartbeat, mut now, mut probes) = (watch(start, seed), start, 0);
            let mut bookmark = start + seconds(60.0 + rng.f64() * 1.25);
            while now < start + MINUTE * 60 {
                match heartbeat.check(now) {
                    LivenessCheck::Wait(until) if until > bookmark => {
                        now = bookmark;
                        bookmark = now + seconds(60.0 + rng.f64() * 1.25);
                        heartbeat.heard(now);
                    }
                    LivenessCheck::Wait(until) => now = until,
                    LivenessCheck::Probe => {
                        probes += 1;
                        now += Heartbeat::PROBE_LASTS;
                        heartbeat.probed(Probed::Nothing, now);
                    }
                    LivenessCheck::Dead(death) => panic!("{death:?}"),
                }
            }
            assert!((58..=60).contains(&probes), "{probes} probes in an hour");
        }
    }

    #[test]
    fn a_thousand_watches_that_begin_together_are_not_probed_together() {
        let start = Instant::now();
        let mut rng = fastrand::Rng::with_seed(7);
        let mut in_second = [0; 60];
        for _ in 0..1000 {
            let mut heartbeat = Heartbeat::opened(start, WatchStart::Version, &mut rng.fork());
            let (probed, _) = until_action(&mut heartbeat, start);
            in_second[usize::try_from((probed - start).as_secs()).unwrap()] += 1;
        }
        assert!(in_second.iter().all(|probes| *probes < 220), "{in_second:?}");
    }

    #[derive(Debug, Clone, Copy)]
    enum Happens {
        Heard,
        Probe(Probed),
        Nothing,
    }

    fn happenings() -> impl Strategy<Value = (u64, Happens)> {
        let refused = prop::option::of(0..90u64)
            .prop_map(|seconds| Probed::Refused { retry_after: seconds.map(Duration::from_secs) });
        let outcome = prop_oneof![
            4 => Just(Probed::Nothing),
            1 => Just(Probed::Event),
            1 => Just(Probed::Unreachable),
            1 => Just(Probed::Expired),
            2 => refused,
        ];
        let happens =
            prop_oneof![Just(Happens::Heard), outcome.prop_map(Happens::Probe), Just(Happens::Nothing),];
        (0..40_000u64, happens)
    }

    proptest! {
        /// For every history: 45 s without a sign of life end a watch. A watch with a sign of life within 15 s ends
        /// only by the outcome of a probe. Probes start at least 24 s after the last sign of life and 15 s after each
        /// other.
        #[test]
        fn a_silent_watch_dies_in_time_and_a_living_one_does_not(
            seed in any::<u64>(),
            history in prop::collection::vec(happenings(), 1..60),
        ) {
            let start = Instant::now();
            let mut heartbeat = watch(start, seed);
            let (mut now, mut answered, mut probing, mut refusals) = (start, start, None, 0);
            'history: for (milliseconds, happens) in history {
                let next = now + Duration::from_millis(milliseconds);
                loop {
                    match heartbeat.check(now) {
                        LivenessCheck::Wait(until) if until <= next => {
                            prop_assert!(until > now);
                            now = until;
                        }
                        LivenessCheck::Wait(until) => {
                            prop_assert!(until <= answered + Heartbeat::SILENCE);
                            break;
                        }
                        LivenessCheck::Probe => {
                            prop_assert!(now - answered >= seconds(24.0));
                            prop_assert!(probing.is_none());
                            probing = Some(now);
                        }
                        LivenessCheck::Dead(death) => {
                            prop_assert!(matches!(death, Death::MissedEvent | Death::Unanswered));
                            let probed = probing.expect("a watch is probed before it is given up");
                            prop_assert_eq!(now - probed, seconds(15.0));
                            prop_assert!(now - answered <= Heartbeat::SILENCE);
                            break 'history;
                        }
                    }
                }
                now = next;
                match happens {
                    Happens::Heard => {
                        heartbeat.heard(now);
                        (answered, probing, refusals) = (now, None, 0);
                    }
                    Happens::Probe(outcome) if probing.is_some() => {
                        heartbeat.probed(outcome, now);
                        match outcome {
                            Probed::Nothing => (answered, probing, refusals) = (now, None, 0),
                            Probed::Event => {}
                            Probed::Refused { retry_after } => {
                                refusals += 1;
                                let waits = retry_after.unwrap_or_default().saturating_sub(seconds(30.0));
                                // The server has answered, and asks for the wait.
                                (answered, probing) = (now + waits, None);
                                if refusals == 3 {
                                    prop_assert_eq!(heartbeat.check(now), LivenessCheck::Dead(Death::Refused));
                                    break;
                                }
                            }
                            Probed::Unreachable => {
                                prop_assert_eq!(heartbeat.check(now), LivenessCheck::Dead(Death::Unreachable));
                                break;
                            }
                            Probed::Expired => {
                                prop_assert_eq!(heartbeat.check(now), LivenessCheck::Dead(Death::Expired));
                                break;
                            }
                        }
                    }
                    Happens::Probe(_) | Happens::Nothing => {}
                }
            }
        }
    }
}
