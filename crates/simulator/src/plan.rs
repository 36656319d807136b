//! Plans: lists of deviations from the run without faults, as text and back.

use std::{fmt, str::FromStr};

/// Deviations from the run without faults. The empty plan is that run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub(crate) deviations: Vec<Deviation>,
}

/// One deviation, at one call of the operator or at one line of its watches.
///
/// Deviations name calls by their request and by the count of calls of that name, not by position or time, so a plan still fits
/// after small changes of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deviation {
    pub(crate) what: DeviationKind,
    /// Name of the place, by [`DeviationKind::place`]: a call, such as `create configmaps default/page-*`; a line, such as
    /// `configmaps MODIFIED default/page`; a stream, such as `configmaps`; a step: [`STEP`]; the whole run: [`ACTIONS`].
    pub(crate) call: String,
    /// For a call or line: its number among those of this name since the start of the run, from 1, over all lives of the operator.
    /// For a step: its number. For [`DeviationKind::Shuffle`]: the seed of the order.
    pub(crate) number: u32,
}

/// Place of a [`DeviationKind::Shuffle`].
pub(crate) const ACTIONS: &str = "the order of actions";

/// Place of a [`DeviationKind::CrashAgain`].
pub(crate) const OWN_WRITE: &str = "its write";

/// Place of a [`DeviationKind::CrashAtRest`].
pub(crate) const STEP: &str = "step";

/// Kind of a deviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviationKind {
    /// The operator dies with the call unsent.
    CrashBefore(Restart),
    /// The call is carried out, and the operator dies without the answer.
    CrashAfter(Restart),
    /// The operator that leads dies when the world is quiet after a step.
    CrashAtRest(Restart),
    /// After a crash the operator dies again, without the answer to the write of its new life that the number counts.
    CrashAgain,
    /// The call is carried out, and the connection breaks before the answer.
    LoseAnswer,
    /// Like [`LoseAnswer`](Self::LoseAnswer), and lines about the call's resource are held back until the retry is over.
    LoseAnswerAndEvents,
    /// The call is refused.
    Refuse(Refusal),
    /// The call is refused, and all other calls of the process to the same resource or remote system for a minute.
    Outage,
    /// From a line of a watch on, the operator receives nothing about the line's resource for a while.
    Hold(Until),
    /// Like [`Hold`](Self::Hold), and then the watch ends with 410, so that the operator lists again and never sees the lines.
    Relist(Until),
    /// The lines about a resource are delivered one by one.
    Apart,
    /// Each line about a resource is delivered a second after its arrival.
    Late,
    /// The user's next step begins, and the call is carried out when that is done.
    StepBefore,
    /// Like [`StepBefore`](Self::StepBefore), but the call is carried out when nothing else happens after the step: other reconciles of the
    /// process write first.
    StepAround,
    /// The call is carried out when nothing else happens: other reconciles of the process write first.
    Delay,
    /// The garbage collector acts between the call and its answer. Without a fault it acts last.
    CollectAfter,
    /// Requests, answers and events between the process and the world wait for this many seconds.
    Pause(u32),
    /// Like [`Pause`](Self::Pause) for longer than a lease, and the call is carried out afterwards even if its process has died.
    CutOff,
    /// The order of actions at one moment is drawn from the number of the deviation.
    Shuffle,
}

/// How long the lines about a resource are held back. Afterwards they are delivered as one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Another line about the resource has arrived.
    NextEvent,
    /// Lines about another resource were delivered.
    OtherEvents,
    /// That many reconciles have ended.
    Reconciles(u32),
    /// The user's next step is done and nothing else changes.
    NextStep,
    /// A second has passed.
    Second,
    /// The process leads, and nothing else changes.
    Leading,
}

/// When an operator starts again after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    AtOnce,
    /// When the user's next step is done, or cannot be done without the operator.
    AfterNextStep,
    /// A minute later than that.
    LongAfterNextStep,
}

impl Restart {
    const ALL: [Self; 3] = [Self::AtOnce, Self::AfterNextStep, Self::LongAfterNextStep];

    /// Returns the restarts that come earlier than this one.
    fn earlier(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().take_while(move |restart| *restart != self)
    }
}

/// Answer of a call that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Conflict,
    TooManyRequests,
    InternalError,
    Unavailable,
    /// The connection breaks before the call is carried out.
    Reset,
}

/// Kind of the place that [`Deviation::call`] names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Call,
    Line,
    Stream,
    Step,
    Run,
}

impl DeviationKind {
    pub(crate) fn place(self) -> Place {
        match self {
            Self::CrashBefore(_)
            | Self::CrashAfter(_)
            | Self::LoseAnswer
            | Self::LoseAnswerAndEvents
            | Self::Refuse(_)
            | Self::Outage
            | Self::StepBefore
            | Self::StepAround
            | Self::Delay
            | Self::CollectAfter
            | Self::Pause(_)
            | Self::CutOff => Place::Call,
            Self::Hold(_) | Self::Relist(_) => Place::Line,
            Self::Apart | Self::Late => Place::Stream,
            Self::CrashAtRest(_) => Place::Step,
            Self::Shuffle | Self::CrashAgain => Place::Run,
        }
    }

    /// Whether it happens before its call is carried out, which may then never happen.
    pub(crate) fn precedes_its_call(self) -> bool {
        match self {
            Self::CrashBefore(_)
            | Self::StepBefore
            | Self::StepAround
            | Self::Delay
            | Self::Pause(_)
            | Self::CutOff => true,
            Self::CrashAfter(_)
            | Self::CrashAtRest(_)
            | Self::CrashAgain
            | Self::LoseAnswer
            | Self::LoseAnswerAndEvents
            | Self::Refuse(_)
            | Self::Outage
            | Self::Hold(_)
            | Self::Relist(_)
            | Self::Apart
            | Self::Late
            | Self::CollectAfter
            | Self::Shuffle => false,
        }
    }

    /// Whether an operator may be down, late or overtaken during a step, so that states between steps may differ and changes may
    /// be merged.
    pub(crate) fn reaches_over_a_step(self) -> bool {
        matches!(
            self,
            Self::CrashBefore(Restart::AfterNextStep | Restart::LongAfterNextStep)
                | Self::CrashAfter(Restart::AfterNextStep | Restart::LongAfterNextStep)
                | Self::CrashAtRest(Restart::AfterNextStep | Restart::LongAfterNextStep)
                | Self::Hold(_)
                | Self::Relist(_)
                | Self::StepBefore
                | Self::StepAround
                | Self::LoseAnswerAndEvents
        )
    }

    /// Whether lines of a watch are held back, so that the operator acts on an old view.
    pub(crate) fn holds_lines_back(self) -> bool {
        matches!(self, Self::Hold(_) | Self::Relist(_) | Self::LoseAnswerAndEvents)
    }

    /// Returns milder deviations at the same place, the mildest first.
    pub(crate) fn milder(self) -> Vec<Self> {
        match self {
            Self::CrashBefore(restart) => restart.earlier().map(Self::CrashBefore).collect(),
            Self::CrashAfter(restart) => restart.earlier().map(Self::CrashAfter).collect(),
            Self::CrashAtRest(restart) => restart.earlier().map(Self::CrashAtRest).collect(),
            Self::LoseAnswerAndEvents => vec![Self::LoseAnswer],
            Self::StepAround => vec![Self::StepBefore],
            Self::Outage => vec![Self::Refuse(Refusal::Reset)],
            Self::Hold(Until::NextStep) => {
                vec![
                    Self::Hold(Until::NextEvent),
                    Self::Hold(Until::Reconciles(1)),
                    Self::Hold(Until::Second),
                ]
            }
            Self::Hold(Until::Reconciles(count)) if count > 1 => {
                vec![Self::Hold(Until::Reconciles(count - 1))]
            }
            Self::Relist(Until::NextStep) => {
                vec![Self::Hold(Until::NextEvent), Self::Relist(Until::NextEvent)]
            }
            Self::Relist(_) => vec![Self::Hold(Until::NextEvent)],
            Self::Pause(61) => vec![Self::Pause(11), Self::Pause(16)],
            Self::Pause(16) => vec![Self::Pause(11)],
            _ => Vec::new(),
        }
    }
}

impl Plan {
    pub(crate) fn of(deviation: Deviation) -> Self {
        Self { deviations: vec![deviation] }
    }
}

const REFUSALS: [(Refusal, &str); 5] = [
    (Refusal::Conflict, "409"),
    (Refusal::TooManyRequests, "429"),
    (Refusal::InternalError, "500"),
    (Refusal::Unavailable, "503"),
    (Refusal::Reset, "reset"),
];

const KINDS: [(DeviationKind, &str); 34] = [
    (
        DeviationKind::CrashBefore(Restart::LongAfterNextStep),
        "crash, restart a minute after the next step, before",
    ),
    (
        DeviationKind::CrashAfter(Restart::LongAfterNextStep),
        "crash, restart a minute after the next step, after",
    ),
    (
        DeviationKind::CrashAtRest(Restart::LongAfterNextStep),
        "crash at rest, restart a minute after the next step, after",
    ),
    (DeviationKind::CrashBefore(Restart::AfterNextStep), "crash, restart after the next step, before"),
    (DeviationKind::CrashAfter(Restart::AfterNextStep), "crash, restart after the next step, after"),
    (DeviationKind::CrashBefore(Restart::AtOnce), "crash before"),
    (DeviationKind::CrashAfter(Restart::AtOnce), "crash after"),
    (DeviationKind::CrashAtRest(Restart::AfterNextStep), "crash at rest, restart after the next step, after"),
    (DeviationKind::CrashAtRest(Restart::AtOnce), "crash at rest after"),
    (DeviationKind::CrashAgain, "crash again after"),
    (DeviationKind::LoseAnswer, "lose the answer of"),
    (DeviationKind::LoseAnswerAndEvents, "lose the answer and hold the events of"),
    (DeviationKind::Outage, "refuse for a minute, from"),
    (DeviationKind::Hold(Until::NextEvent), "hold for one event, from"),
    (DeviationKind::Hold(Until::OtherEvents), "hold for events of another resource, from"),
    (DeviationKind::Hold(Until::Reconciles(1)), "hold for 1 reconcile, from"),
    (DeviationKind::Hold(Until::Reconciles(2)), "hold for 2 reconciles, from"),
    (DeviationKind::Hold(Until::Reconciles(3)), "hold for 3 reconciles, from"),
    (DeviationKind::Hold(Until::NextStep), "hold until the next step is done, from"),
    (DeviationKind::Hold(Until::Second), "hold for a second, from"),
    (DeviationKind::Hold(Until::Leading), "hold until it leads, from"),
    (DeviationKind::Relist(Until::NextEvent), "skip one event and list again, from"),
    (DeviationKind::Relist(Until::NextStep), "skip until the next step is done and list again, from"),
    (DeviationKind::Apart, "hand over one by one:"),
    (DeviationKind::Late, "hand over a second late:"),
    (DeviationKind::StepBefore, "begin the next step before"),
    (DeviationKind::StepAround, "let the next step pass before"),
    (DeviationKind::Delay, "delay until nothing else happens:"),
    (DeviationKind::CollectAfter, "collect garbage at once after"),
    (DeviationKind::Pause(11), "pause for 11 seconds before"),
    (DeviationKind::Pause(16), "pause for 16 seconds before"),
    (DeviationKind::Pause(61), "pause for 61 seconds before"),
    (DeviationKind::CutOff, "cut off, and carry out late:"),
    (DeviationKind::Shuffle, "shuffle"),
];

impl fmt::Display for DeviationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Refuse(refusal) = self {
            let text = REFUSALS.iter().find(|(known, _)| known == refusal).map_or("", |(_, text)| *text);
            return write!(f, "refuse with {text}");
        }
        f.write_str(KINDS.iter().find(|(known, _)| known == self).map_or("", |(_, text)| *text))
    }
}

/// Formats as `crash after create configmaps default/page-* #1`.
impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} #{}", self.what, self.call, self.number)
    }
}

/// One deviation a line.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deviations.iter().try_for_each(|deviation| writeln!(f, "{deviation}"))
    }
}

/// A line is not a deviation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError {
    line: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "not a deviation: {:?}; one is, for example, `crash after create configmaps default/page #1`",
            self.line
        )
    }
}

impl std::error::Error for PlanError {}

impl FromStr for Deviation {
    type Err = PlanError;

    fn from_str(line: &str) -> Result<Self, PlanError> {
        let parse = || {
            // The last one, because the name of a call may contain the mark as well.
            let (rest, number) = line.rsplit_once(" #")?;
            let refusals = REFUSALS
                .iter()
                .map(|(refusal, text)| (DeviationKind::Refuse(*refusal), format!("refuse with {text}")));
            let kinds = KINDS.iter().map(|(what, text)| (*what, (*text).to_owned())).chain(refusals);
            let (what, call) = kinds
                // The space keeps `crash after` from matching a longer name of the same beginning.
                .filter_map(|(what, text)| Some((what, rest.strip_prefix(&*text)?.strip_prefix(' ')?)))
                .next()?;
            Some(Self { what, call: call.to_owned(), number: number.parse().ok()? })
        };
        parse()
            .filter(|deviation| !deviation.call.is_empty())
            .ok_or_else(|| PlanError { line: line.to_owned() })
    }
}

impl FromStr for Plan {
    type Err = PlanError;

    /// Reads one deviation a line; empty lines are skipped.
    fn from_str(text: &str) -> Result<Self, PlanError> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        Ok(Self { deviations: lines.map(str::parse).collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, sample::select};

    use super::*;

    proptest! {
        #[test]
        fn a_plan_parses_back_from_its_text(
            deviations in prop::collection::vec(
                (select(all()), "[a-z]{3,8} [a-z.]{3,12}( [a-z/*-]{1,12})?( to operator-2)?", 1_u32..100),
                0..4,
            ),
        ) {
            let deviations =
                deviations.into_iter().map(|(what, call, number)| Deviation { what, call, number }).collect();
            let plan = Plan { deviations };
            prop_assert_eq!(plan.to_string().parse(), Ok(plan));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,80}") {
            let _ = text.parse::<Plan>();
        }
    }

    fn all() -> Vec<DeviationKind> {
        let refusals = REFUSALS.iter().map(|(refusal, _)| DeviationKind::Refuse(*refusal));
        KINDS.iter().map(|(what, _)| *what).chain(refusals).collect()
    }

    #[test]
    fn a_line_that_is_not_a_deviation_is_quoted() {
        for line in ["crash", "crash after #1", "crash after create x #", "explode before create x #1"] {
            let error = line.parse::<Plan>().unwrap_err();
            assert!(error.to_string().starts_with(&format!("not a deviation: {line:?}; ")), "{error}");
        }
    }
}
