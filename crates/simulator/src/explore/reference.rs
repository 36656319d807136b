//! The run without faults, by which other runs are judged.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tokio::time::Duration;

use super::finding::Finding;
use crate::{
    definition::Definition,
    judge::{CountsOfSteps, Violation, judge, judge_end, judge_last_world, judge_writes},
    oracle::Oracle,
    plan::Plan,
    run::{
        Beginning, Circumstances, CrashPoints, End, Expected, Limits, Outcome, Pace, Seed, Start, only_crash,
        play,
    },
    similar::{Learned, learn},
    trace::{Suspect, first_difference},
};

/// Seed of all runs but one.
const SEED: Seed = Seed(0);
/// Seed of the run that shows which values differ from run to run.
const OTHER_SEED: Seed = Seed(1);

/// Number of additional runs that must show the same if the thread was blocked at one action in the first three.
const CHECKS: usize = 3;

/// The run without faults, and the values that may differ from it.
pub(crate) struct Reference {
    expected: Expected,
    start: Arc<Start>,
    /// Crashes at which runs begin.
    crash_points: CrashPoints,
    limits: Limits,
    /// Counts with a slower and a faster user, counted when a plan first needs them.
    at_other_paces: OnceCell<Vec<CountsOfSteps>>,
}

/// Result of a plan.
pub(crate) struct Tried {
    pub(crate) finding: Option<Finding>,
    /// Whether all its deviations happened.
    pub(crate) happened: bool,
    /// Conditions on changes that have held, as indices of the definition's checks.
    pub(crate) held: BTreeSet<usize>,
    /// Whether the operator wrote something, or tried to.
    pub(crate) writes: bool,
}

impl Reference {
    /// Plays the run without faults three times: twice with one seed, which must repeat, and once with another.
    ///
    /// # Errors
    ///
    /// The run itself violates a rule, or does not repeat.
    pub(crate) fn new(definition: &Definition) -> Result<Self, Box<Finding>> {
        Self::play_without_faults(definition, Beginning::Start)
    }

    /// Like [`new`](Self::new), and notes the crashes at which runs can begin.
    ///
    /// # Errors
    ///
    /// Like [`new`](Self::new).
    pub(crate) fn with_crash_points(definition: &Definition) -> Result<Self, Box<Finding>> {
        Self::play_without_faults(definition, Beginning::StartAndNote)
    }

    fn play_without_faults(definition: &Definition, second: Beginning<'_>) -> Result<Self, Box<Finding>> {
        // Only the runs without faults look for blocked time, because a look costs system calls.
        let definition = &Definition { looks_at_real_time: true, ..definition.clone() };
        let (plan, none) = (Plan::default(), Limits::default());
        let (start, other_start) = match (Start::new(definition, SEED), Start::new(definition, OTHER_SEED)) {
            (Ok(start), Ok(other_start)) => (start, other_start),
            (Err(end), _) | (_, Err(end)) => {
                let run = Outcome { end, ..Outcome::default() };
                let violation = judge_end(&run.end).expect("a run that cannot begin violates a rule");
                return Err(Box::new(Finding::new("the run has no faults", &violation, &plan, &run, None)));
            }
        };
        let (beginning, pace) = (Beginning::Start, Pace::Usual);
        let same =
            Circumstances { seed: SEED, start: &start, limits: &none, expected: None, beginning, pace };
        let other = Circumstances { seed: OTHER_SEED, start: &other_start, ..same };
        let find = |violation: &Violation, run: &Outcome, other: Option<&Outcome>| {
            Box::new(Finding::new("the run has no faults", violation, &plan, run, other))
        };
        // There is no other run to compare with yet, so only rules that need one run apply.
        let judge_alone = |run: &Outcome| {
            let violations =
                [judge_end(&run.end), judge_writes(&run.trace), judge_last_world(run)].into_iter().flatten();
            violations.into_iter().find(|violation| !definition.allows(violation.oracle))
        };
        let outcome = play(definition, &plan, same);
        if let Some(violation) = judge_alone(&outcome) {
            return Err(find(&violation, &outcome, None));
        }
        // An operator that waits in real time blocks the thread in every run. If this run was not blocked, the others need not look.
        let looks_at_real_time = !outcome.blocked.is_empty();
        let definition = &Definition { looks_at_real_time, ..definition.clone() };
        let mut again = play(definition, &plan, Circumstances { beginning: second, ..same });
        // If the second run notes crashes, an equal trace also shows that noting them changes nothing.
        if let Some((line, one, other)) = first_difference(&outcome.trace, &again.trace) {
            let violation = Violation {
                oracle: Oracle::Repeats,
                title: format!(
                    "two equal runs differ at line {line}: the operator depends on something other than the API server, \
                     its remote systems and tokio's time, such as hash order, random numbers, the system's clock or threads"
                ),
                suspect: Suspect::Unknown,
                details: vec![format!("first run:  {one}"), format!("second run: {other}")],
            };
            return Err(find(&violation, &again, Some(&outcome)));
        }
        let other = play(definition, &plan, other);
        if let Some(violation) = judge_alone(&other) {
            return Err(find(&violation, &other, Some(&outcome)));
        }
        if let Some(violation) = judge_real_time(definition, same, &[&outcome, &again, &other])
            && !definition.allows(violation.oracle)
        {
            return Err(find(&violation, &outcome, None));
        }
        // Worlds of all steps teach: a value may be generated in one step and deleted in the next.
        let mut learned = Learned::default();
        for (step, one) in &outcome.quiet {
            let Some(other_world) = other.quiet.get(step) else { continue };
            match learn(&one.world, &other_world.world) {
                Ok(more) => learned.extend(more),
                Err(differences) => {
                    let violation = Violation {
                        oracle: Oracle::Repeats,
                        title: "two runs without faults, with different seeds and dates, end differently"
                            .to_owned(),
                        suspect: Suspect::Unknown,
                        details: differences.iter().take(3).map(ToString::to_string).collect(),
                    };
                    return Err(find(&violation, &other, Some(&outcome)));
                }
            }
        }
        let limits = Limits::by(&outcome);
        let crash_points = std::mem::take(&mut again.crash_points);
        let (expected, at_other_paces) = (Expected::new(outcome, learned), OnceCell::new());
        Ok(Self { expected, start, limits, crash_points, at_other_paces })
    }

    fn play(&self, definition: &Definition, plan: &Plan, beginning: Beginning<'_>) -> Outcome {
        let (start, limits, expected) = (&self.start, &self.limits, Some(&self.expected));
        let pace = Pace::Usual;
        play(definition, plan, Circumstances { seed: SEED, start, limits, expected, beginning, pace })
    }

    /// Counts the creations and deletions of runs without faults in which the user is slower and faster. A run whose
    /// steps fail at this speed is left out.
    fn counts_at_other_paces(&self, definition: &Definition) -> &[CountsOfSteps] {
        let count = || {
            let (start, limits) = (&self.start, &Limits::default());
            let definition = Definition { stepping: None, ..definition.clone() };
            let run = |pace| {
                let beginning = Beginning::Start;
                let same = Circumstances { seed: SEED, start, limits, expected: None, beginning, pace };
                play(&definition, &Plan::default(), same)
            };
            let runs = [Pace::Slow, Pace::Fast].map(run).into_iter();
            runs.filter(|run| run.end == End::Quiet).map(CountsOfSteps::of).collect()
        };
        self.at_other_paces.get_or_init(count)
    }

    pub(super) fn outcome(&self) -> &Outcome {
        &self.expected.outcome
    }

    /// Plays a plan, and judges the run. `place` says in a finding which plan it was.
    pub(crate) fn try_plan(&self, definition: &Definition, plan: &Plan, place: &str) -> Tried {
        let is_allowed = |oracle| definition.allows(oracle);
        let at_other_paces = || self.counts_at_other_paces(definition);
        if let Some((place, restart)) = only_crash(plan)
            && let Some(point) = self.crash_points.get(&place)
            // The user wants to step through the whole run, not from the crash on.
            && definition.stepping.is_none()
        {
            let outcome = self.play(definition, plan, Beginning::Crash(point, restart));
            if judge(&self.expected, &outcome, plan, &is_allowed, &at_other_paces).is_none() {
                let writes = !outcome.writes.is_empty();
                return Tried { finding: None, happened: true, held: outcome.held, writes };
            }
        }
        // A violation in a run that began at a crash is confirmed by a run from the start, which has the whole story.
        let outcome = self.play(definition, plan, Beginning::Start);
        let violation = judge(&self.expected, &outcome, plan, &is_allowed, &at_other_paces);
        let finding =
            violation.map(|violation| Finding::new(place, &violation, plan, &outcome, Some(self.outcome())));
        let (happened, writes) = (outcome.did_not_happen.is_empty(), !outcome.writes.is_empty());
        Tried { finding, happened, held: outcome.held, writes }
    }
}

/// Finds an operator that waits in real time: the thread is blocked after the same action in each run. A busy machine may block it
/// anywhere, so the runs are repeated to be sure.
fn judge_real_time(
    definition: &Definition,
    circumstances: Circumstances<'_>,
    runs: &[&Outcome],
) -> Option<Violation> {
    let mut places = runs.first()?.blocked.clone();
    let stays_blocked = |places: &mut BTreeMap<usize, Duration>, run: &Outcome| {
        places.retain(|place, time| {
            run.blocked.get(place).is_some_and(|other| {
                // The shortest time is the operator's own: whatever a run took longer may be due to the
                // machine.
                *time = (*time).min(*other);
                true
            })
        });
    };
    runs.iter().for_each(|run| stays_blocked(&mut places, run));
    // A place at which one run is not blocked is no wait of the operator, so most simulations need no further
    // run.
    for _ in 0..CHECKS {
        if places.is_empty() {
            return None;
        }
        let run = play(definition, &Plan::default(), circumstances);
        stays_blocked(&mut places, &run);
    }
    let (place, time) = places.into_iter().max_by_key(|(_, time)| *time)?;
    let entry = place.checked_sub(1).and_then(|last| runs.first()?.trace.get(last));
    let after = entry.map(|entry| entry.to_string().trim().to_owned()).unwrap_or_default();
    Some(Violation {
        oracle: Oracle::Runs,
        title: format!(
            "the operator blocks its thread for {} ms of real time in each run, after: {after}",
            time.as_millis()
        ),
        suspect: Suspect::Unknown,
        details: vec![
            "use tokio::time::sleep instead of std::thread::sleep, and a Remote for other systems".to_owned(),
        ],
    })
}

#[cfg(test)]
mod tests {
    use controller_runtime::{
        Action, Builder, Cached, ClientError, Context, Manager, ObjectKey, ReconcileError, Reconciler,
        manager::AddError,
    };
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use serde_json::json;

    use super::*;
    use crate::{Simulation, plan::Restart, similar::Difference};

    /// Creates two Secrets with generated names for each ConfigMap that the cache shows without, and copies the text into them.
    struct Copies {
        maps: Cached<ConfigMap>,
        secrets: Cached<Secret>,
    }

    impl Reconciler for Copies {
        type Request = ObjectKey<ConfigMap>;

        async fn reconcile(
            &self,
            key: &ObjectKey<ConfigMap>,
            cx: &Context,
        ) -> Result<Action, ReconcileError> {
            let Some(map) = self.maps.get(key)? else { return Ok(Action::done()) };
            let owned = self.secrets.owned_by(&*map)?;
            for index in owned.len()..2 {
                let mut secret = Secret::default();
                secret.metadata.namespace = map.metadata.namespace.clone();
                secret.metadata.generate_name = Some(format!("{}-{index}-", key.name()));
                secret.metadata.owner_references = Some(vec![serde_json::from_value(json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "name": key.name(), "controller": true,
                    "uid": map.metadata.uid,
                }))?]);
                cx.client().create(&secret).await?;
            }
            for secret in owned {
                let name = secret.metadata.name.clone().unwrap_or_default();
                let key = ObjectKey::<Secret>::new("default", name);
                cx.client().merge_patch(&key, &json!({ "stringData": map.data })).await?;
            }
            Ok(Action::done())
        }
    }

    fn copies() -> Simulation {
        let add = |manager: &Manager| -> Result<(), AddError> {
            let copies = Copies { maps: manager.cached(), secrets: manager.cached() };
            Builder::managed_by(manager).for_kind::<ConfigMap>().owns::<Secret>().complete(copies)?;
            Ok(())
        };
        (0..4).fold(Simulation::new("copies", add), |simulation, step| {
            simulation.step(format!("text {step}"), async move |user| {
                for name in ["a", "b"] {
                    let mut map = ConfigMap::default();
                    (map.metadata.name, map.metadata.namespace) =
                        (Some(name.to_owned()), Some("default".to_owned()));
                    map.data = Some([("text".to_owned(), step.to_string())].into());
                    user.apply(&map).await?;
                }
                if step == 2 {
                    user.delete_key(&ObjectKey::<ConfigMap>::new("default", "b")).await?;
                }
                Ok::<_, ClientError>(())
            })
        })
    }

    #[test]
    fn a_run_that_begins_at_a_crash_equals_one_from_the_start() {
        let simulation = copies();
        let definition = simulation.definition();
        let reference =
            Reference::with_crash_points(definition).unwrap_or_else(|finding| panic!("{finding}"));
        assert!(reference.crash_points.len() > 10, "{:?}", reference.crash_points.keys());
        for (place, point) in &reference.crash_points {
            for restart in [Restart::AtOnce, Restart::AfterNextStep] {
                let plan = Plan::of(place.crash(restart));
                let whole = reference.play(definition, &plan, Beginning::Start);
                let part = reference.play(definition, &plan, Beginning::Crash(point, restart));
                assert!(whole.did_not_happen.is_empty(), "{plan}");
                // Watches of one resource may receive an event in another order, because the other server has had more of them.
                let results = |outcome: &Outcome| -> Vec<(usize, Vec<Difference>, BTreeMap<_, _>)> {
                    let later = outcome.quiet.range(point.begun()..).map(|(step, quiet)| {
                        let differences = reference.expected.differences(*step, &quiet.world);
                        (*step, differences, quiet.counts.clone())
                    });
                    later.collect()
                };
                assert_eq!(results(&part), results(&whole), "{plan}");
                let crash = |outcome: &Outcome| {
                    let place = outcome.trace.iter().position(|entry| entry.action.is_deviation());
                    place.map(|place| {
                        outcome.trace[..=place].iter().map(ToString::to_string).collect::<Vec<_>>()
                    })
                };
                assert_eq!(crash(&part), crash(&whole), "{plan}");
                assert_eq!((part.merged_after, &part.end), (whole.merged_after, &whole.end), "{plan}");
            }
        }
    }

    #[test]
    fn a_run_after_a_crash_ends_when_nothing_of_it_is_left() {
        let simulation = copies();
        let definition = simulation.definition();
        let reference =
            Reference::with_crash_points(definition).unwrap_or_else(|finding| panic!("{finding}"));
        let merged = reference.crash_points.keys().filter_map(|place| {
            let plan = Plan::of(place.crash(Restart::AtOnce));
            reference.play(definition, &plan, Beginning::Start).merged_after
        });
        assert!(merged.clone().any(|step| step < 4) && merged.count() > 5);
    }

    /// Keeps a Secret for each ConfigMap with the text `on`.
    struct Switched {
        maps: Cached<ConfigMap>,
        secrets: Cached<Secret>,
    }

    impl Reconciler for Switched {
        type Request = ObjectKey<ConfigMap>;

        async fn reconcile(
            &self,
            key: &ObjectKey<ConfigMap>,
            cx: &Context,
        ) -> Result<Action, ReconcileError> {
            let Some(map) = self.maps.get(key)? else { return Ok(Action::done()) };
            let is_on = map.data.as_ref().is_some_and(|data| data["text"] == "on");
            let of_map = ObjectKey::<Secret>::new("default", key.name());
            match (is_on, self.secrets.get(&of_map)?) {
                (true, None) => {
                    let mut secret = Secret::default();
                    secret.metadata.namespace = map.metadata.namespace.clone();
                    secret.metadata.name = Some(key.name().to_owned());
                    cx.client().create(&secret).await?;
                }
                (false, Some(secret)) => cx.client().delete(&*secret).await.map(drop)?,
                _ => {}
            }
            Ok(Action::done())
        }
    }

    #[test]
    fn a_slow_user_shows_every_state_and_a_fast_one_only_the_last() {
        let add = |manager: &Manager| -> Result<(), AddError> {
            let switched = Switched { maps: manager.cached(), secrets: manager.cached() };
            Builder::managed_by(manager).for_kind::<ConfigMap>().complete(switched)?;
            Ok(())
        };
        let simulation = Simulation::new("switched", add).step("it is turned on twice", async |user| {
            for text in ["on", "off", "on"] {
                let mut map = ConfigMap::default();
                map.metadata.name = Some("a".to_owned());
                map.metadata.namespace = Some("default".to_owned());
                map.data = Some([("text".to_owned(), text.to_owned())].into());
                user.apply(&map).await?;
            }
            Ok::<_, ClientError>(())
        });
        let definition = simulation.definition();
        let reference = Reference::new(definition).unwrap_or_else(|finding| panic!("{finding}"));
        let counts = reference.counts_at_other_paces(definition);
        let of_secret = |counts: &CountsOfSteps| {
            let secret = counts.after(None).iter().find(|(id, _)| &*id.resource == "secrets");
            secret.map(|(_, counts)| (counts.created, counts.deleted))
        };
        assert_eq!(counts.iter().map(of_secret).collect::<Vec<_>>(), [Some((2, 1)), Some((1, 0))]);
    }
}
