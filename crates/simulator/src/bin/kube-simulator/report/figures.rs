//! Determinism and speed, measured in processor time of this thread.

use std::{
    collections::BTreeMap,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    process::{ExitCode, Stdio},
    time::Duration,
};

use kube_simulator::{Explore, Simulation};

use super::{creates, mutations, processor_time::processor_time, workloads};
use crate::cargo::cargo;

/// Number of traces of one plan that must be equal, and number of processes of each profile that produce them.
const TRACES: usize = 1000;
const PROCESSES: usize = 4;

/// Runs of a replay: the run without faults three times, and the plan.
const RUNS_OF_A_REPLAY: u32 = 4;

/// A measured figure and its goal.
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) measured: String,
    pub(crate) goal: String,
    pub(crate) is_met: bool,
    pub(crate) is_determinism: bool,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = if self.is_met { "yes" } else { "**no**" };
        write!(f, "| {} | {} | {} | {met} |", self.name, self.measured, self.goal)
    }
}

/// Measures a figure.
type Measure = fn() -> Result<Figure, String>;

/// Names of the figures, as arguments of the program.
const FIGURES: [(&str, Measure); 7] = [
    ("determinism", determinism),
    ("mutations", mutations::play),
    ("start", start),
    ("reconciles", reconciles),
    ("reconciles-in-creates", reconciles_in_creates),
    ("idle-day", idle_day),
    ("sweep", sweep),
];

/// Measures the figures with these names, or all of them.
pub(crate) fn measure(names: &[String]) -> Result<Vec<Figure>, String> {
    let is_known = |name: &&String| FIGURES.iter().any(|(known, _)| known == name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let known = FIGURES.map(|(name, _)| name).join(", ");
        return Err(format!("no figure is named {unknown:?}; the figures are: {known}"));
    }
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let mut figures = Vec::new();
    for (_, measure) in FIGURES.iter().filter(|(name, _)| is_wanted(name)) {
        let figure = measure()?;
        eprintln!("{figure}");
        figures.push(figure);
    }
    Ok(figures)
}

/// Plays the plan `number` times, and prints each hash of a trace with the number of traces that have it.
pub(crate) fn print_traces(number: usize) -> Result<ExitCode, String> {
    let mut hashes: BTreeMap<u64, usize> = BTreeMap::new();
    for _ in 0..number {
        let finding = workloads::doubling().replay(workloads::PLAN).map_err(|error| error.to_string())?;
        // Without a finding there would be no trace to compare.
        let finding = finding.ok_or_else(|| format!("the plan {:?} found nothing", workloads::PLAN))?;
        let trace = finding.trace().join("\n");
        let mut hasher = DefaultHasher::new();
        trace.hash(&mut hasher);
        *hashes.entry(hasher.finish()).or_default() += 1;
    }
    for (hash, number) in hashes {
        println!("{hash:016x} {number}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Plays one plan in several processes of the profiles `dev` and `bench`, and compares the traces.
fn determinism() -> Result<Figure, String> {
    let mut hashes: BTreeMap<String, usize> = BTreeMap::new();
    for profile in [None, Some("--profile=bench")] {
        for _ in 0..PROCESSES {
            // Separate processes, because addresses and statics are alike within one.
            let mut command = cargo();
            command.args(["run", "-q", "-p", "kube-simulator", "--features", "report"]).args(profile);
            command.args(["--", "traces", &(TRACES / (2 * PROCESSES)).to_string()]);
            let output = command.stderr(Stdio::inherit()).output();
            let output = output.map_err(|error| format!("cargo cannot be run: {error}"))?;
            if !output.status.success() {
                return Err("the program for traces failed".to_owned());
            }
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                let (hash, number) = line.split_once(' ').ok_or("the program for traces printed no hash")?;
                *hashes.entry(hash.to_owned()).or_default() += number.parse::<usize>().unwrap_or_default();
            }
        }
    }
    let equal = hashes.values().max().copied().unwrap_or_default();
    Ok(Figure {
        name: format!("equal traces of one plan, in {PROCESSES} processes each of debug and optimised"),
        measured: format!("{equal} of {TRACES}"),
        goal: "all".to_owned(),
        is_met: equal == TRACES,
        is_determinism: true,
    })
}

fn took(work: impl FnOnce()) -> Result<Duration, String> {
    let before = processor_time()?;
    work();
    Ok(processor_time()?.saturating_sub(before))
}

/// Processor time of one run without faults.
fn one_run(simulation: Simulation) -> Result<Duration, String> {
    let all = took(|| {
        let found = simulation.replay("").expect("an empty plan is a plan");
        assert!(found.is_none(), "{}", found.expect("a finding"));
    })?;
    Ok(all / RUNS_OF_A_REPLAY)
}

fn at_most(name: &str, measured: Duration, goal: Duration) -> Figure {
    Figure {
        name: name.to_owned(),
        measured: format!("{measured:.1?}"),
        goal: format!("≤ {goal:?}"),
        is_met: measured <= goal,
        is_determinism: false,
    }
}

fn start() -> Result<Figure, String> {
    let runs = 25;
    let all: Duration = (0..runs).map(|_| one_run(workloads::nothing())).sum::<Result<_, _>>()?;
    Ok(at_most("a run in which nothing happens", all / runs, Duration::from_millis(10)))
}

/// Goal of reconciles a second.
const RATE: f64 = 10_000.0;

/// Numbers of objects, and of writes to each of them, in the measurement of reconciles.
const OBJECTS: u32 = 100;
const WRITES: u32 = 25;

/// Number of measurements of a reconcile, because the speed of a machine that others use changes.
const ROUNDS: usize = 5;

fn reconciles() -> Result<Figure, String> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.push(time_of_a_reconcile()?.as_secs_f64());
    }
    let rate = 1.0 / median(times);
    Ok(Figure {
        name: format!(
            "reconciles with a cached read and one write each, {WRITES} of each of {OBJECTS} objects, median of {ROUNDS} times"
        ),
        measured: format!("{rate:.0} a second"),
        goal: format!("≥ {RATE} a second"),
        is_met: rate >= RATE,
        is_determinism: false,
    })
}

/// Processor time of a create over HTTP on an earlier machine: `bench/REPORT.md` has 23,810 creates per CPU second.
const CREATE: Duration = Duration::from_micros(42);

/// Measures the same reconciles in creates over HTTP, each of which is measured just before. A slow machine takes longer for both.
fn reconciles_in_creates() -> Result<Figure, String> {
    let mut creates = Vec::new();
    for _ in 0..ROUNDS {
        let create =
            creates::processor_time_of_one().map_err(|error| format!("creates over HTTP: {error}"))?;
        creates.push(time_of_a_reconcile()?.as_secs_f64() / create.as_secs_f64());
    }
    let (measured, goal) = (median(creates), 1.0 / RATE / CREATE.as_secs_f64());
    Ok(Figure {
        name: format!(
            "one of these reconciles, in creates of a ConfigMap over HTTP in turn, median of {ROUNDS} times"
        ),
        measured: format!("{measured:.1} creates"),
        goal: format!("≤ {goal:.1} creates, as {RATE} a second where one takes {CREATE:?}"),
        is_met: measured <= goal,
        is_determinism: false,
    })
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Processor time of a reconcile alone: that of a run in which the operator leaves the objects as they are is subtracted.
fn time_of_a_reconcile() -> Result<Duration, String> {
    let of = |writes| one_run(workloads::writes_to_each(OBJECTS as usize, writes));
    Ok(of(WRITES)?.saturating_sub(of(0)?) / (OBJECTS * WRITES))
}

fn idle_day() -> Result<Figure, String> {
    let name = "a run with a day in which nothing happens to 1,000 objects";
    Ok(at_most(name, one_run(workloads::idle_day(1000))?, Duration::from_secs(5)))
}

fn sweep() -> Result<Figure, String> {
    let mut plans = 0;
    let time = took(|| {
        let explore = Explore::crashes().budget(Duration::from_secs(3600));
        let report = workloads::many_writes(25).explore(explore);
        assert!(report.is_complete(), "the budget ended before the sweep");
        plans = report.plans;
    })?;
    let name = format!("crash sweep of 1,750 writes: {plans} plans");
    Ok(at_most(&name, time, Duration::from_secs(300)))
}
