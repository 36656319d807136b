//! Model test of the lifecycle: explores every interleaving of inputs.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// The lifecycle and the state of its shell, from which every interleaving of events is tried.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    lifecycle: Lifecycle,
    groups: BTreeMap<Id, Group>,
    running: BTreeSet<Id>,
    ready: BTreeSet<Id>,
    asked_to_stop: BTreeSet<Id>,
    leads: bool,
    stands: bool,
    stepping_down: bool,
    shut_down: bool,
    aborted: bool,
    /// Remaining additions, failures, losses and removals, which bound the search.
    adds: Vec<Group>,
    failures: u8,
    losses: u8,
    removals: u8,
    /// Runnables that were removed.
    removed: BTreeSet<Id>,
    /// Number of runs that may follow the first one.
    runs: u8,
}

impl World {
    fn new(elects: bool, before: &[Group], later: &[Group], runs: u8) -> Self {
        let mut world = Self {
            lifecycle: if elects { Lifecycle::with_election() } else { Lifecycle::new() },
            groups: BTreeMap::new(),
            running: BTreeSet::new(),
            ready: BTreeSet::new(),
            asked_to_stop: BTreeSet::new(),
            leads: false,
            stands: false,
            stepping_down: false,
            shut_down: false,
            aborted: false,
            adds: later.to_vec(),
            failures: 1,
            losses: 2,
            removals: 1,
            removed: BTreeSet::new(),
            runs,
        };
        for group in before {
            world.add(*group);
        }
        world
    }

    /// Every possible successor.
    fn moves(&self) -> Vec<World> {
        let mut next = Vec::new();
        let mut try_it = |change: &dyn Fn(&mut World)| {
            let mut world = self.clone();
            change(&mut world);
            next.push(world);
        };
        let state = self.lifecycle.state();
        if state == State::Built {
            try_it(&|world| {
                let effects = world.lifecycle.run().expect("it does not run yet");
                world.carry_out(effects);
            });
        }
        if self.runs > 0 {
            if state == State::Stopped {
                try_it(&|world| {
                    world.runs -= 1;
                    (world.shut_down, world.aborted) = (false, false);
                    let effects = world.lifecycle.run().expect("it does not run any more");
                    world.carry_out(effects);
                });
            } else if state != State::Built {
                try_it(&World::drop_run);
            }
        }
        if let Some(group) = self.adds.last().copied() {
            try_it(&|world| {
                world.adds.pop();
                world.add(group);
            });
        }
        if !self.shut_down {
            try_it(&|world| {
                world.shut_down = true;
                world.step(LifecycleInput::Shutdown);
            });
        } else if state == State::Draining && !self.aborted {
            try_it(&|world| {
                world.aborted = true;
                world.step(LifecycleInput::GraceOver);
            });
        }
        for id in self.running.iter().copied() {
            if !self.ready.contains(&id) {
                try_it(&|world| {
                    world.ready.insert(id);
                    world.step(LifecycleInput::Ready(id));
                });
            }
            if self.asked_to_stop.contains(&id) {
                try_it(&|world| world.end(id, Ok(())));
            } else if self.failures > 0 {
                try_it(&|world| {
                    world.failures -= 1;
                    world.shut_down = true;
                    world.end(id, Err(RunnableFailed));
                });
                try_it(&|world| {
                    world.failures -= 1;
                    world.end(id, Ok(()));
                });
            }
        }
        if self.removals > 0 {
            for id in self.groups.keys().copied() {
                try_it(&|world| {
                    world.removals -= 1;
                    world.removed.insert(id);
                    world.step(LifecycleInput::Remove(id));
                });
            }
        }
        // An election may be won while the candidate is already asked to step down.
        if (self.stands || self.stepping_down) && !self.leads {
            try_it(&|world| {
                world.leads = true;
                world.stands = false;
                world.step(LifecycleInput::Elected);
            });
        }
        if self.leads && self.losses > 0 && !self.stepping_down {
            try_it(&|world| {
                world.losses -= 1;
                world.leads = false;
                world.step(LifecycleInput::Lost);
            });
        }
        if self.stepping_down {
            try_it(&|world| {
                (world.leads, world.stepping_down) = (false, false);
                world.step(LifecycleInput::ElectionOver);
            });
        }
        next
    }

    fn add(&mut self, group: Group) {
        match self
            .lifecycle
            .add(group, if group == Group::Others { ReadyWhen::Started } else { ReadyWhen::Signalled })
        {
            Ok((id, effects)) => {
                assert!(!self.shut_down, "refused after the stop");
                self.groups.insert(id, group);
                self.carry_out(effects);
            }
            Err(Refused) => assert!(self.shut_down, "refused only after the stop"),
        }
    }

    fn end(&mut self, id: Id, result: Result<(), RunnableFailed>) {
        self.running.remove(&id);
        self.asked_to_stop.remove(&id);
        self.step(LifecycleInput::Ended(id, result));
    }

    /// Drops the run, and with it everything that it has started.
    fn drop_run(&mut self) {
        self.lifecycle.stop();
        self.running.clear();
        self.asked_to_stop.clear();
        (self.leads, self.stands, self.stepping_down) = (false, false, false);
        self.shut_down = true;
    }

    fn step(&mut self, input: LifecycleInput) {
        let effects = self.lifecycle.step(input);
        self.carry_out(effects);
    }

    fn led(&self) -> impl Iterator<Item = Id> {
        self.running.iter().copied().filter(|id| self.groups[id] == Group::LeaderElected)
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Spawn(id) => {
                    let group =
                        *self.groups.entry(id).or_insert_with(|| self.lifecycle.group(id).expect("known"));
                    assert!(self.running.insert(id), "started once");
                    assert!(!self.shut_down, "nothing starts after the stop");
                    assert!(!self.removed.contains(&id), "a removed runnable never starts again");
                    if group == Group::LeaderElected && self.lifecycle.election.is_some() {
                        assert!(self.leads, "leads first");
                    }
                    let signals = group != Group::Others;
                    if signals {
                        self.ready.remove(&id);
                    } else {
                        self.ready.insert(id);
                    }
                    if self.lifecycle.state() == State::Starting {
                        let earlier = self.running.iter().filter(|other| self.groups[other] < group);
                        for other in earlier.filter(|other| !self.asked_to_stop.contains(other)) {
                            assert!(
                                self.ready.contains(other),
                                "{other} is not ready before {group:?} starts"
                            );
                        }
                    }
                }
                Effect::Drain(id) => {
                    assert!(
                        self.running.contains(&id) && self.asked_to_stop.insert(id),
                        "drained once, while it runs"
                    );
                    if self.shut_down {
                        let later = self.running.iter().find(|other| self.groups[other] > self.groups[&id]);
                        assert_eq!(later, None, "runnables of later groups have ended before");
                    }
                }
                Effect::Abort(id) => {
                    assert!(self.running.contains(&id));
                    self.asked_to_stop.insert(id);
                }
                Effect::Stand => {
                    assert_eq!(self.led().next(), None, "a candidate again only when nothing leads");
                    assert!(!self.leads && !self.shut_down);
                    self.stands = true;
                }
                Effect::StepDown => {
                    assert_eq!(self.led().next(), None, "the lease is given back when nothing leads");
                    (self.stands, self.stepping_down) = (false, true);
                }
            }
        }
    }
}

/// Visits every reachable state, and checks from each that the lifecycle can still end.
fn explore(world: World) -> usize {
    let mut seen = BTreeSet::new();
    let mut open = vec![world];
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        if world.lifecycle.state() == State::Stopped {
            assert!(world.running.is_empty(), "stopped means that nothing runs");
            let mut removed = world.removed.iter();
            assert_eq!(removed.find(|id| world.lifecycle.group(**id).is_some()), None, "removed and known");
        } else if world.shut_down {
            assert_ends(&world);
        }
        open.extend(world.moves());
    }
    seen.len()
}

/// Checks that after a shutdown, if everything that was asked to end does, the lifecycle stops without more inputs.
fn assert_ends(world: &World) {
    let mut world = world.clone();
    while world.lifecycle.state() != State::Stopped {
        if let Some(id) = world.asked_to_stop.first().copied() {
            world.end(id, Ok(()));
        } else if world.stepping_down {
            world.stepping_down = false;
            world.step(LifecycleInput::ElectionOver);
        } else {
            panic!("the stop hangs: {:?}", world.lifecycle);
        }
    }
    assert!(world.running.is_empty());
}

#[test]
fn groups_behave_under_every_interleaving() {
    use Group::*;
    let states = explore(World::new(false, &[Caches, LeaderElected], &[Others, LeaderElected], 0));
    println!("without election: {states} states");
    assert!(states > 1000, "{states}");
}

#[test]
fn elections_behave_under_every_interleaving() {
    use Group::*;
    let states = explore(World::new(true, &[Caches, LeaderElected], &[LeaderElected], 0));
    println!("with election: {states} states");
    assert!(states > 1000, "{states}");
}

/// A run may end in order, be given up or be dropped; runnables removed meanwhile or afterwards are absent from the next.
#[test]
fn runs_follow_each_other_under_every_interleaving() {
    use Group::*;
    for elects in [false, true] {
        let states = explore(World::new(elects, &[Caches, LeaderElected], &[], 1));
        println!("two runs, election {elects}: {states} states");
        assert!(states > 400, "{states}");
    }
}

#[test]
fn a_stop_while_starting_starts_nothing_more() {
    let mut lifecycle = Lifecycle::new();
    let (caches, _) = lifecycle.add(Group::Caches, ReadyWhen::Signalled).unwrap();
    lifecycle.add(Group::LeaderElected, ReadyWhen::Started).unwrap();
    assert_eq!(lifecycle.run(), Ok(vec![Effect::Spawn(caches)]));
    assert_eq!(lifecycle.step(LifecycleInput::Shutdown), [Effect::Drain(caches)]);
    assert_eq!(lifecycle.step(LifecycleInput::Ready(caches)), [], "too late");
    assert_eq!(lifecycle.step(LifecycleInput::Ended(caches, Ok(()))), []);
    assert_eq!(lifecycle.state(), State::Stopped);
}

#[test]
fn runnables_start_again_in_the_next_run() {
    let mut lifecycle = Lifecycle::new();
    let (id, _) = lifecycle.add(Group::Others, ReadyWhen::Started).unwrap();
    for _ in 0..2 {
        assert_eq!(lifecycle.run(), Ok(vec![Effect::Spawn(id)]));
        assert_eq!(lifecycle.run(), Err(AlreadyRunning));
        lifecycle.step(LifecycleInput::Shutdown);
        lifecycle.step(LifecycleInput::Ended(id, Ok(())));
        assert_eq!(lifecycle.state(), State::Stopped);
        assert_eq!(lifecycle.add(Group::Others, ReadyWhen::Started), Err(Refused));
    }
}

#[test]
fn a_lost_lease_is_being_lost_until_the_last_leader_elected_runnable_has_ended() {
    let mut lifecycle = Lifecycle::with_election();
    let (id, _) = lifecycle.add(Group::LeaderElected, ReadyWhen::Started).expect("it is not stopping");
    assert_eq!(lifecycle.run(), Ok(vec![Effect::Stand]));
    assert_eq!(lifecycle.step(LifecycleInput::Elected), [Effect::Spawn(id)]);
    assert!(!lifecycle.is_losing());
    assert_eq!(lifecycle.step(LifecycleInput::Lost), [Effect::Abort(id)]);
    assert!(lifecycle.is_losing());
    assert_eq!(lifecycle.step(LifecycleInput::Ended(id, Ok(()))), [Effect::Stand]);
    assert!(!lifecycle.is_losing());
}

#[test]
fn an_election_won_while_the_last_leadership_winds_down_starts_nothing() {
    let mut lifecycle = Lifecycle::with_election();
    let (id, _) = lifecycle.add(Group::LeaderElected, ReadyWhen::Started).expect("it is not stopping");
    assert_eq!(lifecycle.run(), Ok(vec![Effect::Stand]));
    assert_eq!(lifecycle.step(LifecycleInput::Elected), [Effect::Spawn(id)]);
    assert_eq!(lifecycle.step(LifecycleInput::Lost), [Effect::Abort(id)]);
    assert_eq!(lifecycle.step(LifecycleInput::Elected), []);
    assert!(lifecycle.is_losing());
    assert_eq!(lifecycle.step(LifecycleInput::Ended(id, Ok(()))), [Effect::Stand]);
    assert_eq!(lifecycle.step(LifecycleInput::Elected), [Effect::Spawn(id)]);
}

#[test]
fn a_runnable_added_during_a_run_starts_at_once_if_its_group_has_started() {
    let mut lifecycle = Lifecycle::with_election();
    let add = |lifecycle: &mut Lifecycle, group| {
        let (id, effects) = lifecycle.add(group, ReadyWhen::Started).expect("it is not stopping");
        assert_eq!(lifecycle.group(id), Some(group));
        assert!(effects.is_empty() || effects == [Effect::Spawn(id)], "{effects:?}");
        (id, !effects.is_empty())
    };
    let (caches, _) = lifecycle.add(Group::Caches, ReadyWhen::Signalled).expect("it is not stopping");
    assert_eq!(lifecycle.run(), Ok(vec![Effect::Spawn(caches)]));
    assert!(add(&mut lifecycle, Group::Webhooks).1);
    assert!(add(&mut lifecycle, Group::Caches).1);
    let (others, starts) = add(&mut lifecycle, Group::Others);
    assert!(!starts, "its group waits for the caches");
    assert_eq!(lifecycle.step(LifecycleInput::Ready(caches)), [Effect::Spawn(others), Effect::Stand]);
    assert!(add(&mut lifecycle, Group::Others).1);
    let (led, starts) = add(&mut lifecycle, Group::LeaderElected);
    assert!(!starts, "its group waits for the election");
    assert_eq!(lifecycle.step(LifecycleInput::Elected), [Effect::Spawn(led)]);
    assert!(add(&mut lifecycle, Group::LeaderElected).1);
}

#[test]
fn a_removed_runnable_is_asked_to_finish_and_forgotten_when_it_has_ended() {
    let mut lifecycle = Lifecycle::new();
    let (id, _) = lifecycle.add(Group::Others, ReadyWhen::Started).expect("it is not stopping");
    let (waits, _) = lifecycle.add(Group::Others, ReadyWhen::Started).expect("it is not stopping");
    assert_eq!(lifecycle.step(LifecycleInput::Remove(waits)), []);
    assert_eq!(lifecycle.group(waits), None, "it never ran");
    assert_eq!(lifecycle.run(), Ok(vec![Effect::Spawn(id)]));
    assert_eq!(lifecycle.step(LifecycleInput::Remove(id)), [Effect::Drain(id)]);
    assert_eq!(lifecycle.step(LifecycleInput::Remove(id)), [], "it is asked once");
    assert_eq!(lifecycle.group(id), Some(Group::Others), "it still runs");
    assert_eq!(
        lifecycle.step(LifecycleInput::Ended(id, Err(RunnableFailed))),
        [],
        "its error ends nothing else"
    );
    assert_eq!((lifecycle.group(id), lifecycle.state()), (None, State::Ready));
}
