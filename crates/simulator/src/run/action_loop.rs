//! The loop of a run: takes the next action whenever no task can run, until the world is quiet after the last step.

use std::{fmt, future::poll_fn, pin::pin, sync::atomic::Ordering};

use tokio::time::{Duration, Instant};

use super::{
    Run,
    attempt::Attempt,
    holds::Hold,
    outcome::End,
    process::Alive,
    quiet::Rest,
    real_time::{BLOCKED, RealTime},
};
use crate::{
    names::Actor,
    plan::{Deviation, DeviationKind},
    trace::{Action, Entry},
    user::Step,
};

/// Virtual time that an attempt of a step may take: a user can wait for days.
const LONGEST_STEP: Duration = Duration::from_secs(7 * 86_400);

/// Maximum number of actions in a run.
const ACTIONS: usize = 2_000_000;

/// Maximum number of calls about one object without time passing: more is a loop.
const SAME_CALLS_AT_ONCE: usize = 150;

/// Number of such calls after which events that a plan keeps back arrive. An operator that creates a child for an owner whose deletion it has not
/// seen yet, and the garbage collector, which deletes the child, follow each other until the event arrives. In a cluster this takes a few
/// rounds, because both need time for them.
const SAME_CALLS_BEFORE_EVENTS: usize = 10;

impl Run<'_> {
    /// Takes actions until the world is quiet after the last step.
    ///
    /// Each pass through the loop waits until no task can run, records the events since the last pass, and takes one action: the first
    /// possible one in the order of the branches, which the documentation of [`super`] lists.
    ///
    /// # Errors
    /// The reason why the run ends early.
    pub(super) async fn act_until_done(&mut self) -> Result<(), End> {
        let steps = self.definition.steps.clone();
        let mut step: Option<Attempt> = None;
        loop {
            self.settle(&mut step).await?;
            // Commits come first, so that a hold that begins at a line stands after the commit in the trace.
            self.take_news()?;
            self.take_lines();
            self.take_reconciles()?;
            self.note_leads();
            self.note_blocked();
            if self.look_at_processes()? {
                // A process that was just started runs before anything else happens.
                continue;
            }
            // Holds and pauses end before the next action is chosen, so that the hub offers the lines and
            // calls that they kept back.
            self.end_holds(Rest::No);
            self.end_pauses();
            if self.collect_early {
                // A deviation lets the collector act before an answer is delivered.
                self.collect(&mut step).await?;
                continue;
            }
            if self.end_step(&mut step)? {
                continue;
            }
            self.check_limits()?;
            if self.end_repetition(&mut step).await {
                continue;
            }
            let next = steps.get(self.begun);
            if let Some(next) = next.filter(|_| step.is_none() && self.is_early_step_due()) {
                self.early_step_begins();
                step = Some(self.begin_step(next));
                continue;
            }
            self.limit_delay();
            if let Some(possible) = self.hub.next() {
                self.before(&possible);
                self.at_once += 1;
                self.take_action(possible).await?;
                continue;
            }
            if self.collect_late {
                self.collect(&mut step).await?;
                continue;
            }
            if self.end_delay_at_rest() {
                continue;
            }
            // A step may begin while an operator waits for its end. After the last step all processes must run again, because the end
            // of the run is judged with all of them.
            let all_run = self.processes.iter().all(|process| process.state == Alive::Running);
            if step.is_none() && (next.is_some() || all_run) && self.is_quiet() {
                if self.end_holds(if next.is_none() { Rest::Forever } else { Rest::Quiet }) {
                    // The released lines may lead to more actions.
                    continue;
                }
                self.note_quiet(all_run)?;
                if self.crash_at_rest().await {
                    continue;
                }
                // After a merge the remaining steps would repeat the run without faults.
                let Some(next) = next.filter(|_| self.merge.merged_after().is_none()) else { return Ok(()) };
                step = Some(self.begin_step(next));
                continue;
            }
            if self.end_long_holds() {
                continue;
            }
            let unrest = self.unrest_since.elapsed();
            match &step {
                Some(step) if unrest > LONGEST_STEP => return Err(step.took_too_long()),
                None if self.is_restless() => return Err(self.never_quiet()),
                _ => {}
            }
            self.pass_time(&mut step).await;
        }
    }

    /// Ends the run if its actions follow each other without end.
    fn check_limits(&mut self) -> Result<(), End> {
        self.most_at_once = self.most_at_once.max(self.at_once);
        // No time passes in an endless series of actions, so the limits of virtual time never end it.
        let is_endless = self.at_once > self.limits.at_once()
            || self.most_calls_at_once > SAME_CALLS_AT_ONCE
            || self.trace.len() > ACTIONS;
        if is_endless { Err(End::Loop { actions: self.last_actions() }) } else { Ok(()) }
    }

    /// Lets the events arrive that the plan keeps back, if calls repeat themselves meanwhile, and returns whether there was one.
    async fn end_repetition(&mut self, step: &mut Option<Attempt>) -> bool {
        if self.most_calls_at_once < SAME_CALLS_BEFORE_EVENTS {
            return false;
        }
        if self.end_holds_of_the_active() {
            self.no_calls_at_once();
            return true;
        }
        let began = Instant::now();
        let Some(due) = self.hub.next_late().filter(|due| *due > began) else { return false };
        let mut now = began;
        while now < due {
            self.pass_time(step).await;
            // Only the watchdog ends a wait without a later time.
            if Instant::now() == now {
                break;
            }
            now = Instant::now();
        }
        true
    }

    fn no_calls_at_once(&mut self) {
        self.calls_at_once.clear();
        self.most_calls_at_once = 0;
    }

    /// Ends the step, if its attempt has a result, and returns whether it did.
    fn end_step(&mut self, step: &mut Option<Attempt>) -> Result<bool, End> {
        let Some(Attempt { result: Some(result), name, .. }) = &*step else { return Ok(false) };
        if let Err(reason) = result {
            return Err(End::StepFailed { step: name.clone(), reason: reason.clone() });
        }
        self.log(Action::StepDone(name.clone()));
        self.unrest_since = Instant::now();
        *step = None;
        self.step_runs = false;
        self.early_step_ends();
        // An operator that waited for this step starts before any other action, so that it finds the world as
        // the step left it.
        self.restart_after_step()?;
        Ok(true)
    }

    fn begin_step(&mut self, step: &Step) -> Attempt {
        self.before(format_args!("the user takes the step {:?}", step.name));
        self.begun += 1;
        self.step_runs = true;
        // Plans refuse the first read of each name in a step.
        self.reads_of_step.clear();
        (self.long_wait, self.wakes) = (None, 0);
        self.log(Action::Step(step.name.to_string()));
        self.unrest_since = Instant::now();
        Attempt::begin(step, &self.user)
    }

    /// Stops before an action if the user steps through the run.
    fn before(&self, action: impl fmt::Display) {
        if let Some(stepping) = &self.definition.stepping {
            // The user may take as long as they like.
            self.watched.while_paused(|| stepping.wait(&action));
        }
    }

    /// Waits until no task can run.
    async fn settle(&mut self, step: &mut Option<Attempt>) -> Result<(), End> {
        let began = self.real_time.as_mut().map(RealTime::begin);
        {
            let mut idle = pin!(self.idle.reached());
            poll_fn(|context| {
                // The step is part of this future, so an idle report may come before its next poll: poll it first.
                if let Some(step) = step {
                    step.poll(context);
                }
                idle.as_mut().poll(context)
            })
            .await;
        }
        if let (Some(real_time), Some(began)) = (&mut self.real_time, began) {
            self.blocked_now += real_time.blocked_since(began);
        }
        if self.idle.was_kicked() {
            return Err(End::Stuck { actions: self.last_actions() });
        }
        if self.has_threads.load(Ordering::Relaxed) {
            return Err(End::Threads);
        }
        // Calls that are done do not keep the world from being quiet.
        while self.working.try_join_next().is_some() {}
        Ok(())
    }

    /// Records for how long the thread was blocked.
    fn note_blocked(&mut self) {
        let time = std::mem::take(&mut self.blocked_now);
        if time >= BLOCKED {
            self.blocked.insert(self.trace.len(), time);
        }
    }

    pub(super) fn last_actions(&self) -> Vec<String> {
        let mut last: Vec<String> = self.trace.iter().rev().take(6).map(ToString::to_string).collect();
        last.reverse();
        last
    }

    /// Lets the garbage collector act.
    async fn collect(&mut self, step: &mut Option<Attempt>) -> Result<(), End> {
        self.before("the garbage collector and the protection of volumes act");
        (self.collect_early, self.collect_late) = (false, false);
        let last = self.trace.len();
        self.server.release_controllers();
        // The controllers are held again even if the run ends here, because tasks still run at its end.
        let settled = self.settle(step).await;
        self.server.hold_controllers();
        settled?;
        self.take_news()?;
        let is_collected = |entry: &Entry| matches!(&entry.action, Action::Committed(change) if change.actor == Actor::Server);
        if self.trace[last..].iter().any(is_collected) {
            self.collected.push(self.begun);
        }
        Ok(())
    }

    /// Crashes the operator if the plan says so.
    async fn crash_at_rest(&mut self) -> bool {
        let restart_now = |deviation: &Deviation| match deviation.what {
            DeviationKind::CrashAtRest(restart) if usize::try_from(deviation.number) == Ok(self.begun) => {
                Some(restart)
            }
            _ => None,
        };
        let mut places = self.plan.iter().enumerate();
        let now = places.find_map(|(place, deviation)| Some((place, restart_now(deviation)?)));
        let (Some((place, restart)), Some(actor)) = (now, self.active_operator()) else { return false };
        // Otherwise the crash would happen again when the world is next quiet after this step.
        self.plan.remove(place);
        self.crash(actor, "while the world is quiet", restart).await;
        true
    }

    /// Lets time pass until the next timer or the next deadline of the run.
    async fn pass_time(&mut self, step: &mut Option<Attempt>) {
        let before = Instant::now();
        let down = self.processes.iter().filter_map(|process| match process.state {
            Alive::Down { until, .. } => Some(until),
            Alive::Running => None,
        });
        let deadlines = down
            .chain(self.holds.iter().map(Hold::deadline))
            .chain(self.paused.iter().map(|paused| paused.until))
            .chain(self.delay_deadline())
            .chain(self.hub.next_late());
        let next = deadlines.filter(|deadline| *deadline > before).min();
        // Time must not jump over a deadline of the run: tokio knows only the timers of tasks.
        let limit = next.map_or(Duration::MAX, |next| next.duration_since(before));
        {
            let mut passed = pin!(self.idle.time_passed(limit));
            poll_fn(|context| {
                if let Some(step) = step {
                    step.poll(context);
                }
                passed.as_mut().poll(context)
            })
            .await;
        }
        // The wait ends without a later time only if the watchdog ended it.
        if Instant::now() > before {
            self.at_once = 0;
            self.no_calls_at_once();
        }
    }
}
