//! Simulated rotations: replicas that crash, restart and lose responses, with clocks that differ, on one Secret and several
//! `caBundle`s, which API servers see late. Checks that API servers trust every certificate that they are shown.
//!
//! `cargo test` plays some dozen seeds. The long run is
//! `CERTIFICATE_SEEDS=10000 cargo test -p controller-runtime --lib webhook::managed_certificates::simulation`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fastrand::Rng;

use super::rotation::{Generation, Now, Rotation, RotationStep, SKEW, UnixTime};

/// Lifetime of a certificate.
const VALIDITY: Duration = Duration::from_secs(12 * 60 * 60);
/// Longest time in seconds until an API server uses a changed `caBundle`. API servers call a new replica only after this time, too.
const LAG: u64 = 20;
/// Propagation time of the replicas in seconds: longer than [`LAG`].
const PROPAGATION: u64 = 30;
/// Seconds simulated: five rotations.
const END: u64 = 48 * 60 * 60;
/// Seconds without faults before the end.
const QUIET: u64 = 2 * 60 * 60;
/// Number of `caBundle`s.
const BUNDLES: usize = 3;
/// Wall time at the start.
const EPOCH: Duration = Duration::from_secs(1_800_000_000);

#[test]
fn api_servers_trust_every_certificate_that_ready_replicas_show_them() {
    let seeds = std::env::var("CERTIFICATE_SEEDS")
        .map_or(60, |seeds| seeds.parse().expect("CERTIFICATE_SEEDS is a number"));
    let (mut rotations, mut faults) = (0, 0);
    for seed in 0..seeds {
        let outcome = World::new(seed, Rules::default()).play();
        assert_eq!(outcome.distrusted, None, "seed {seed}");
        assert!(outcome.all_ready, "seed {seed}: a replica is not ready two hours after the last fault");
        assert!(outcome.generations < 12, "seed {seed}: {} generations", outcome.generations);
        (rotations, faults) = (rotations + outcome.rotations, faults + outcome.faults);
    }
    println!(
        "{seeds} seeds: {rotations} switches of certificates, {faults} faults, all certificates trusted"
    );
    assert!(rotations > 4 * seeds && faults > 20 * seeds, "{rotations} switches, {faults} faults");
}

#[test]
fn replicas_that_do_not_wait_for_propagation_are_detected() {
    let rules = Rules { propagation: 0, ..Rules::default() };
    assert!(any_distrusted(rules), "the simulation would not notice a certificate that is served too early");
}

#[test]
fn bundles_without_the_old_authority_are_detected() {
    let rules = Rules { keeps_old_authorities: false, ..Rules::default() };
    assert!(any_distrusted(rules), "the simulation would not notice an authority that is removed too early");
}

fn any_distrusted(rules: Rules) -> bool {
    (0..50).any(|seed| World::new(seed, rules).play().distrusted.is_some())
}

/// Rules of the rotation, which a test breaks on purpose.
#[derive(Clone, Copy)]
struct Rules {
    propagation: u64,
    keeps_old_authorities: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { propagation: PROPAGATION, keeps_old_authorities: true }
    }
}

struct Outcome {
    distrusted: Option<String>,
    all_ready: bool,
    rotations: u64,
    faults: u64,
    generations: usize,
}

/// A `caBundle`: its states with the time of each change, newest last.
struct Bundle {
    states: Vec<(u64, BTreeSet<String>)>,
}

struct Replica {
    rotation: Rotation<()>,
    /// Difference between its wall clock and real time, in seconds.
    skew: i64,
    /// Second until which it does nothing, because it is paused, cut off, or waits for a response.
    busy_until: u64,
    /// Second of its next step, unless it is notified before.
    idle_until: u64,
    /// Second in which it was first seen ready.
    ready_since: Option<u64>,
    served: Option<String>,
    /// Generations of the running publication, and the number of bundles that it has checked.
    publishing: Option<(BTreeSet<String>, usize)>,
    /// Version of the Secret that it has read.
    read_version: u64,
}

struct World {
    rng: Rng,
    rules: Rules,
    second: u64,
    secret: Option<Vec<Generation<()>>>,
    version: u64,
    minted: u64,
    validity: BTreeMap<String, (UnixTime, UnixTime)>,
    bundles: Vec<Bundle>,
    replicas: Vec<Replica>,
    outcome: Outcome,
}

fn real_wall(second: u64) -> UnixTime {
    EPOCH + Duration::from_secs(second)
}

impl World {
    fn new(seed: u64, rules: Rules) -> Self {
        let mut rng = Rng::with_seed(seed);
        let replicas = (0..rng.usize(1..=4)).map(|_| Replica::new(rules, &mut rng)).collect();
        let bundles = (0..BUNDLES).map(|_| Bundle { states: vec![(0, BTreeSet::new())] }).collect();
        let outcome = Outcome { distrusted: None, all_ready: false, rotations: 0, faults: 0, generations: 0 };
        Self {
            rng,
            rules,
            second: 0,
            secret: None,
            version: 1,
            minted: 0,
            validity: BTreeMap::new(),
            bundles,
            replicas,
            outcome,
        }
    }

    fn play(mut self) -> Outcome {
        while self.second < END && self.outcome.distrusted.is_none() {
            self.second += 1;
            if self.second < END - QUIET && self.rng.u32(..800) == 0 {
                self.fault();
            }
            for index in 0..self.replicas.len() {
                self.step(index);
                self.call(index);
            }
        }
        self.outcome.all_ready = self.replicas.iter().all(|replica| replica.ready_since.is_some());
        self.outcome.generations = self.secret.as_ref().map_or(0, Vec::len);
        self.outcome
    }

    fn now(&self, replica: &Replica) -> Now {
        let wall = real_wall(self.second).as_secs().saturating_add_signed(replica.skew);
        Now { wall: Duration::from_secs(wall), monotonic: Duration::from_secs(self.second) }
    }

    fn fault(&mut self) {
        self.outcome.faults += 1;
        let index = self.rng.usize(..self.replicas.len());
        match self.rng.u8(..10) {
            // A crash and a restart.
            0..=2 => {
                self.replicas[index] = Replica::new(self.rules, &mut self.rng);
                self.replicas[index].busy_until = self.second + self.rng.u64(..120);
            }
            // A pause, or a cut connection.
            3..=5 => self.replicas[index].busy_until = self.second + self.rng.u64(..900),
            // Another replica starts, or one ends.
            6 if self.replicas.len() < 5 => self.replicas.push(Replica::new(self.rules, &mut self.rng)),
            7 if self.replicas.len() > 1 => drop(self.replicas.remove(index)),
            // A user deletes the Secret, or restores an older state of it.
            8 => self.change_secret(|_| None),
            _ => {
                let keep = self.rng.usize(..3);
                self.change_secret(|old| old.map(|old| old.into_iter().take(keep).collect()));
            }
        }
    }

    fn change_secret(
        &mut self,
        change: impl FnOnce(Option<Vec<Generation<()>>>) -> Option<Vec<Generation<()>>>,
    ) {
        self.secret = change(self.secret.take());
        self.version += 1;
        self.notify(Rotation::secret_changed);
    }

    /// Notifies replicas of a change. Some notifications are lost.
    fn notify(&mut self, change: impl Fn(&mut Rotation<()>)) {
        for replica in &mut self.replicas {
            if self.rng.u8(..20) > 0 {
                change(&mut replica.rotation);
                replica.idle_until = 0;
            }
        }
    }

    /// Carries out one step of a replica. Its requests take time and are sometimes lost.
    fn step(&mut self, index: usize) {
        let Replica { busy_until, idle_until, .. } = self.replicas[index];
        if self.second < busy_until.max(idle_until) {
            return;
        }
        let now = self.now(&self.replicas[index]);
        let step = match self.replicas[index].publishing.take() {
            Some((ids, checked)) => return self.publish(index, ids, checked, now),
            None => self.replicas[index].rotation.next(now),
        };
        let is_lost = self.rng.u8(..15) == 0;
        self.replicas[index].busy_until =
            self.second + if is_lost { self.rng.u64(1..90) } else { self.rng.u64(..3) };
        match step {
            RotationStep::ReadSecret if !is_lost => {
                let stored = self.secret.clone().unwrap_or_default();
                let replica = &mut self.replicas[index];
                replica.read_version = self.version;
                replica.rotation.secret_has(stored, now);
            }
            RotationStep::WriteSecret { mint } => self.write(index, mint, is_lost, now),
            RotationStep::Publish { ids } if !is_lost => self.replicas[index].publishing = Some((ids, 0)),
            RotationStep::Wait { until } => {
                let until = until.as_secs() + u64::from(until.subsec_nanos() > 0);
                self.replicas[index].idle_until = until.max(self.second + 1);
            }
            RotationStep::ReadSecret | RotationStep::Publish { .. } => {}
        }
        let replica = &mut self.replicas[index];
        let served = replica.rotation.serve(now).map(|generation| generation.id.clone());
        if served != replica.served {
            self.outcome.rotations += u64::from(replica.served.is_some());
            replica.served = served;
        }
        match replica.rotation.is_trusted(now) {
            true => _ = replica.ready_since.get_or_insert(self.second),
            false => replica.ready_since = None,
        }
    }

    fn write(&mut self, index: usize, mint: bool, is_lost: bool, now: Now) {
        let minted = mint.then(|| {
            self.minted += 1;
            let id = format!("generation-{}", self.minted);
            let (issued, not_after) = (now.wall, now.wall + VALIDITY);
            self.validity.insert(id.clone(), (issued, not_after));
            Generation { id, issued, not_after, names: BTreeSet::new(), material: () }
        });
        let proposal = self.replicas[index].rotation.proposal(minted);
        // A lost request either did not arrive, or its response was lost.
        let arrives = !is_lost || self.rng.bool();
        if arrives && self.replicas[index].read_version == self.version {
            self.change_secret(|_| Some(proposal.clone()));
            if !is_lost {
                let replica = &mut self.replicas[index];
                replica.read_version = self.version;
                return replica.rotation.secret_has(proposal, now);
            }
        }
        self.replicas[index].rotation.secret_changed();
    }

    /// Adds authorities to the next bundle of a publication, as one atomic change.
    fn publish(&mut self, index: usize, ids: BTreeSet<String>, checked: usize, now: Now) {
        let newest = &self.bundles[checked].states.last().expect("a bundle has a state").1;
        let missing: BTreeSet<String> = ids.difference(newest).cloned().collect();
        if !missing.is_empty() {
            let kept = if self.rules.keeps_old_authorities { newest.clone() } else { BTreeSet::new() };
            let wanted = if self.rules.keeps_old_authorities { ids.clone() } else { missing.clone() };
            self.bundles[checked].states.push((self.second, kept.union(&wanted).cloned().collect()));
            self.replicas[index].rotation.bundles_lacked(&missing);
            self.notify(Rotation::bundles_changed);
        }
        let replica = &mut self.replicas[index];
        replica.busy_until = self.second + self.rng.u64(..3);
        if checked + 1 < BUNDLES {
            replica.publishing = Some((ids, checked + 1));
        } else {
            replica.rotation.bundles_have(&ids, now);
        }
    }

    /// Lets an API server call a ready replica, and checks that it trusts the certificate.
    fn call(&mut self, index: usize) {
        if self.rng.u8(..20) > 0 {
            return;
        }
        let replica = &self.replicas[index];
        // A new replica receives requests when the endpoints of the Service have changed.
        let Some(since) = replica.ready_since.filter(|since| since + LAG < self.second) else { return };
        let served = replica.served.clone().expect("a ready replica serves");
        let bundle = &self.bundles[self.rng.usize(..BUNDLES)];
        let seen_at = self.second - self.rng.u64(..=LAG).min(self.second);
        let seen = bundle.states.iter().rev().find(|(at, _)| *at <= seen_at).map(|(_, ids)| ids);
        if !seen.is_some_and(|seen| seen.contains(&served)) {
            self.outcome.distrusted = Some(format!(
                "at {} s replica {index}, ready since {since} s, shows {served}; the API server trusts {seen:?}",
                self.second
            ));
            return;
        }
        // The API server has a clock of its own; a replica that is cut off may show an expired certificate.
        let generation = self.validity.get(&served);
        let wall = real_wall(self.second);
        let accepts =
            |(issued, not_after): &(UnixTime, UnixTime)| wall + SKEW >= *issued && wall < *not_after;
        if !generation.is_some_and(accepts) && self.second >= replica.busy_until {
            self.outcome.distrusted =
                Some(format!("at {} s replica {index} shows {served}, which is not valid", self.second));
        }
    }
}

impl Replica {
    fn new(rules: Rules, rng: &mut Rng) -> Self {
        // API servers have real time, so that all differences between clocks are well within the bound.
        let skew = i64::try_from(SKEW.as_secs() / 4).expect("a quarter of an hour");
        Self {
            rotation: Rotation::new(BTreeSet::new(), Duration::from_secs(rules.propagation)),
            skew: rng.i64(-skew..=skew),
            busy_until: 0,
            idle_until: 0,
            ready_since: None,
            served: None,
            publishing: None,
            read_version: 0,
        }
    }
}
