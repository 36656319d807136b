//! Goals for the figures of this repository, and whether they are met.

use serde::Serialize;

use crate::figures;
use crate::number::{shown, with_unit};
use crate::samples::Samples;
use crate::workloads::server;

/// ID of a figure, and name of a contender.
type Side = (&'static str, &'static str);

/// Condition of a goal.
#[derive(Debug, Clone, Copy)]
enum Goal {
    /// The first figure is at least this many times the second.
    TimesAtLeast(Side, Side, f64),
    /// The first figure is at most this many times the second.
    TimesAtMost(Side, Side, f64),
    /// The figure is at most this value.
    AtMost(Side, f64),
}

use Goal::{AtMost, TimesAtLeast, TimesAtMost};

const OURS: &str = "ours";
const DECODED: &str = "ours, `Decoded`";
const GO: &str = "controller-runtime";
const TYPED: &str = "client-go typed";
const PRIORITY: &str = "controller-runtime priority";
const KUBE: &str = "kube-rs";

/// Goals by name.
const GOALS: [(&str, Goal); 35] = [
    (
        "queue: one at a time, against the typed queue",
        TimesAtLeast(("queue.one_at_a_time", TYPED), ("queue.one_at_a_time", OURS), 2.0),
    ),
    (
        "queue: one at a time, against the priority queue",
        TimesAtLeast(("queue.one_at_a_time", PRIORITY), ("queue.one_at_a_time", OURS), 10.0),
    ),
    (
        "queue: filled and drained, against the typed queue",
        TimesAtLeast(("queue.fill_then_drain", TYPED), ("queue.fill_then_drain", OURS), 2.0),
    ),
    (
        "queue: filled and drained, against the priority queue",
        TimesAtLeast(("queue.fill_then_drain", PRIORITY), ("queue.fill_then_drain", OURS), 10.0),
    ),
    (
        "queue: 8 × 8, against the typed queue",
        TimesAtLeast(("queue.eight_by_eight", TYPED), ("queue.eight_by_eight", OURS), 2.0),
    ),
    (
        "queue: 8 × 8, against the priority queue",
        TimesAtLeast(("queue.eight_by_eight", PRIORITY), ("queue.eight_by_eight", OURS), 10.0),
    ),
    ("queue: heap per ready key", AtMost(("queue.heap_ready", OURS), 126.0)),
    ("queue: heap per delayed key", AtMost(("queue.heap_delayed", OURS), 126.0)),
    (
        "queue: lateness p99, against the typed queue",
        TimesAtMost(("queue.lateness_p99", OURS), ("queue.lateness_p99", TYPED), 1.0),
    ),
    (
        "queue: lateness p99, against the priority queue",
        TimesAtMost(("queue.lateness_p99", OURS), ("queue.lateness_p99", PRIORITY), 1.0),
    ),
    (
        "cache: resident memory, against controller-runtime",
        TimesAtLeast(("cache.resident", GO), ("cache.resident", OURS), 6.0),
    ),
    (
        "cache: resident memory, against kube-rs",
        TimesAtLeast(("cache.resident", KUBE), ("cache.resident", OURS), 12.0),
    ),
    (
        "cache: resident memory of `Decoded`, against controller-runtime",
        TimesAtMost(("cache.resident", DECODED), ("cache.resident", GO), 1.3),
    ),
    ("cache: peak over steady memory", TimesAtMost(("cache.peak", OURS), ("cache.resident", OURS), 1.3)),
    (
        "cache: time to synced, against controller-runtime",
        TimesAtLeast(("cache.synced", GO), ("cache.synced", OURS), 2.0),
    ),
    (
        "cache: CPU per refused watch event, against controller-runtime",
        TimesAtLeast(("cache.event_cpu", GO), ("cache.event_cpu", OURS), 3.0),
    ),
    (
        "cache: hot get, against controller-runtime",
        TimesAtLeast(("cache.hot_get", GO), ("cache.hot_get", OURS), 50.0),
    ),
    (
        "cache: cold get, against controller-runtime",
        TimesAtMost(("cache.cold_get", OURS), ("cache.cold_get", GO), 1.5),
    ),
    (
        "cache: list of 10,000 by index, `Decoded`, against controller-runtime",
        TimesAtLeast(("cache.index", GO), ("cache.index", DECODED), 20.0),
    ),
    (
        "controller: events per CPU second, against controller-runtime",
        TimesAtLeast(("reconciles.per_cpu_second", OURS), ("reconciles.per_cpu_second", GO), 3.0),
    ),
    (
        "controller: events per CPU second, against kube-rs",
        TimesAtLeast(("reconciles.per_cpu_second", OURS), ("reconciles.per_cpu_second", KUBE), 2.0),
    ),
    (
        "controller: event to reconcile p50, against controller-runtime",
        TimesAtMost(("reconciles.latency_p50", OURS), ("reconciles.latency_p50", GO), 0.5),
    ),
    (
        "controller: event to reconcile p99, against controller-runtime",
        TimesAtMost(("reconciles.latency_p99", OURS), ("reconciles.latency_p99", GO), 0.5),
    ),
    (
        "controller: idle memory of the guestbook operator, against controller-runtime",
        TimesAtMost(("idle.resident", OURS), ("idle.resident", GO), 1.0 / 3.0),
    ),
    (
        "cache: list of all pods, cold, against controller-runtime",
        TimesAtLeast(("cache.list", GO), ("cache.list", OURS), 1.0),
    ),
    (
        "controller: process start to convergence of 1,000 guestbooks, against kube-rs",
        TimesAtLeast(("guestbooks.seconds", KUBE), ("guestbooks.seconds", OURS), 1.0),
    ),
    ("controller: recovery of 10,000 keys after an outage", AtMost(("outage.recovery", OURS), 30.0)),
    // A dead watch is found within 45 s; the rest is for reopening it.
    ("cache: a silently dead watch is noticed", AtMost(("silence.watch", OURS), 46.0)),
    ("client: a silent request ends", AtMost(("silence.request", OURS), 60.0)),
    (
        "webhooks: reviews per CPU second, against controller-runtime",
        TimesAtLeast(("webhooks.per_cpu_second", OURS), ("webhooks.per_cpu_second", GO), 3.0),
    ),
    (
        "webhooks: create with two webhooks under load p99, against controller-runtime",
        TimesAtMost(("webhooks.round_trip_p99", OURS), ("webhooks.round_trip_p99", GO), 0.5),
    ),
    (
        "webhooks: create with two webhooks at an even pace p99, against controller-runtime",
        TimesAtMost(("webhooks.paced_p99", OURS), ("webhooks.paced_p99", GO), 0.5),
    ),
    (
        "webhooks: conversion of a list of 10,000, against controller-runtime",
        TimesAtLeast(("webhooks.conversion", GO), ("webhooks.conversion", OURS), 3.0),
    ),
    (
        "webhooks: conversion of 10,000 objects by the webhook alone, against controller-runtime",
        TimesAtLeast(("webhooks.reviews", GO), ("webhooks.reviews", OURS), 3.0),
    ),
    (
        "webhooks: CPU for the conversion of 10,000 objects, against controller-runtime",
        TimesAtLeast(("webhooks.reviews_cpu", GO), ("webhooks.reviews_cpu", OURS), 3.0),
    ),
];

/// A goal and its measured figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Verdict {
    pub(crate) name: String,
    pub(crate) goal: String,
    pub(crate) figure: Option<f64>,
    pub(crate) unit: String,
    pub(crate) met: bool,
    /// Confidence of the figure, or the reason why there is none.
    pub(crate) reason: String,
}

impl Verdict {
    /// Formats the verdict for the terminal.
    pub(crate) fn line(&self) -> String {
        let figure =
            self.figure.map_or_else(|| "not measured".to_owned(), |figure| with_unit(figure, &self.unit));
        format!("{}: {figure}, goal {} ({})", self.name, self.goal, self.reason)
    }
}

/// Verdicts on all goals, including those that were not measured.
pub(crate) fn verdicts(samples: &Samples) -> Vec<Verdict> {
    GOALS.iter().map(|(name, goal)| verdict(name, *goal, samples)).chain(server::verdicts(samples)).collect()
}

fn verdict(name: &str, goal: Goal, samples: &Samples) -> Verdict {
    let (summary, text, unit, met): (_, _, _, fn(f64, f64) -> bool) = match goal {
        TimesAtLeast(one, other, _) => {
            (samples.ratio(one, other), "≥", "times", |figure, bound| figure >= bound)
        }
        TimesAtMost(one, other, _) => {
            (samples.ratio(one, other), "≤", "times", |figure, bound| figure <= bound)
        }
        AtMost((figure, contender), _) => {
            let unit = figures::find(figure).map_or("", |figure| figure.unit);
            (samples.summary(figure, contender), "≤", unit, |figure, bound| figure <= bound)
        }
    };
    let (TimesAtLeast(.., bound) | TimesAtMost(.., bound) | AtMost(_, bound)) = goal;
    let bound_text = if unit == "times" { shown(bound) } else { with_unit(bound, unit) };
    let text = format!("{text} {bound_text}");
    Verdict::new(name, text, unit, summary.map(|summary| (summary, met(summary.median, bound))))
}

impl Verdict {
    pub(crate) fn new(
        name: &str,
        goal: String,
        unit: &str,
        measured: Result<(crate::stats::Summary, bool), String>,
    ) -> Self {
        let (figure, met, reason) = match measured {
            Ok((summary, met)) => (Some(summary.median), met, sureness(&summary)),
            Err(reason) => (None, false, reason),
        };
        Self { name: name.to_owned(), goal, figure, unit: unit.to_owned(), met, reason }
    }
}

/// Formats the confidence interval of a median.
pub(crate) fn sureness(summary: &crate::stats::Summary) -> String {
    let (low, high) = (shown(summary.low), shown(summary.high));
    let percent = summary.confidence * 100.0;
    let rounds = if summary.samples == 1 { "round" } else { "rounds" };
    format!("{low} to {high}, {percent:.0} % confidence, {} {rounds}", summary.samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'v>(verdicts: &'v [Verdict], name: &str) -> &'v Verdict {
        verdicts.iter().find(|verdict| verdict.name == name).expect("there is such a goal")
    }

    #[test]
    fn a_goal_that_was_not_measured_is_not_met_and_says_why() {
        let mut samples = Samples::default();
        samples.add("queue.one_at_a_time", OURS, 0, 80.0);
        samples.miss("queue.one_at_a_time", TYPED, "Go is not installed");
        let verdicts = verdicts(&samples);
        let verdict = of(&verdicts, "queue: one at a time, against the typed queue");
        assert_eq!((verdict.figure, verdict.met), (None, false));
        assert_eq!(verdict.reason, "client-go typed: Go is not installed");
        assert!(verdicts.iter().all(|verdict| !verdict.met), "nothing else was measured");
    }

    #[test]
    fn goals_are_judged_by_the_median_of_the_rounds() {
        let mut samples = Samples::default();
        for (round, (ours, theirs)) in [(80.0, 170.0), (80.0, 150.0), (80.0, 180.0)].into_iter().enumerate() {
            samples.add("queue.one_at_a_time", OURS, round, ours);
            samples.add("queue.one_at_a_time", TYPED, round, theirs);
            samples.add("queue.heap_ready", OURS, round, 127.0);
        }
        let verdicts = verdicts(&samples);
        let verdict = of(&verdicts, "queue: one at a time, against the typed queue");
        assert_eq!((verdict.figure, verdict.met), (Some(2.125), true));
        assert_eq!(verdict.reason, "1.88 to 2.25, 75 % confidence, 3 rounds");
        assert!(!of(&verdicts, "queue: heap per ready key").met);
    }

    #[test]
    fn goals_are_about_figures_that_are_measured() {
        for (name, goal) in GOALS {
            let sides = match goal {
                TimesAtLeast(one, other, _) | TimesAtMost(one, other, _) => vec![one, other],
                AtMost(one, _) => vec![one],
            };
            for (figure, _) in sides {
                assert!(figures::find(figure).is_some(), "{name}: unknown figure {figure}");
            }
        }
    }
}
