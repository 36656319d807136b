//! The public handle that a test builds and explores.

use std::{
    collections::BTreeMap, fmt, fs::OpenOptions, io::Write as _, path::Path, rc::Rc, sync::Arc,
    time::Duration,
};

use controller_runtime::{
    BoxError, Manager, ManagerOptions, StaticObject, leader_election::LeaderElectionOptions,
};
use kube::CustomResourceExt;
use kube_envtest::Rights;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;

use crate::{
    definition::{Check, Definition, MakeProcess, Now, Program, When, resource_of},
    explore::{Explore, Finding, Reference, Report, Settings, Tried, jobs, search},
    gate::Gate,
    names::{OPERATOR, is_replica},
    oracle::Oracle,
    picture,
    plan::{Plan, PlanError},
    remote::{AnyRemote, System},
    similar::Masks,
    stepping::Stepping,
    trace_file::{self, TraceFile},
    user::{Step, User},
    watchdog::ThreadTimes,
};

/// An operator under test, and its world: kinds, steps of a user, remote systems and checks.
///
/// The [crate docs](crate) have an example.
#[derive(Clone)]
#[must_use]
pub struct Simulation {
    definition: Definition,
}

impl Simulation {
    /// A simulation of the operator that `add` sets up on a manager named `name`: the function that `main` calls.
    ///
    /// It is called once for each start of the operator, so it must create everything again. State in statics, or in values
    /// that `add` captured, would survive a simulated crash. A real crash loses it, so the simulation would hide bugs.
    pub fn new<E: Into<BoxError>>(name: &str, add: impl Fn(&Manager) -> Result<(), E> + 'static) -> Self {
        let make = made_by(name, add);
        Self::with_operator(name, Program { has_election: true, ..Program::new(OPERATOR, make) })
    }

    /// Like [`new`](Self::new), but the function also makes the manager, with options of its own. Servers of the manager must be
    /// off, because a simulation has no sockets. It must not set a seed or an epoch, which the simulation sets.
    pub fn of(name: &str, operator: impl Fn(kube::Client) -> Manager + 'static) -> Self {
        let make = Rc::new(move |gate: Gate, _| Ok(operator(gate.client())));
        Self::with_operator(name, Program::new(OPERATOR, make))
    }

    #[cfg(test)]
    pub(crate) fn definition(&self) -> &Definition {
        &self.definition
    }

    fn with_operator(name: &str, operator: Program) -> Self {
        Self {
            definition: Definition {
                name: Rc::from(name),
                programs: vec![operator],
                crds: Vec::new(),
                steps: Vec::new(),
                remotes: BTreeMap::new(),
                checks: Vec::new(),
                allowed: Vec::new(),
                masks: Masks::default(),
                looks_at_real_time: false,
                stepping: None,
            },
        }
    }

    /// Runs the operator in this many processes with leader election. Default: one process without leader election. The lease has the
    /// name of the manager, in the namespace `default`; [`rights`](Self::rights) must allow it. With [`of`](Self::of) the function
    /// must enable leader election itself.
    ///
    /// # Panics
    ///
    /// `number` is 0.
    pub fn replicas(mut self, number: u8) -> Self {
        assert!(number > 0, "a simulation has at least one replica of the operator");
        self.definition.programs[0].replicas = number;
        self
    }

    /// Runs another operator on the same API server. It is tested as well. Reports and plans call it `name`.
    pub fn also<E: Into<BoxError>>(
        self,
        name: &'static str,
        add: impl Fn(&Manager) -> Result<(), E> + 'static,
    ) -> Self {
        self.add_program(Program::new(name, made_by(name, add)))
    }

    /// Runs a controller of the cluster, such as [`actors::kubelet`](crate::actors::kubelet). It suffers no faults, and its writes
    /// are not checked.
    pub fn actor<E: Into<BoxError>>(
        self,
        name: &'static str,
        add: impl Fn(&Manager) -> Result<(), E> + 'static,
    ) -> Self {
        self.add_program(Program { is_tested: false, ..Program::new(name, made_by(name, add)) })
    }

    fn add_program(mut self, program: Program) -> Self {
        let name = program.name;
        let known = self.definition.programs.iter().any(|program| program.name == name);
        assert!(!known, "the simulation {:?} has two programs with the name {name:?}", self.definition.name);
        assert!(
            !is_replica(name),
            "the simulation {:?} has a program with the name {name:?}, which is that of a replica of the operator",
            self.definition.name
        );
        self.definition.programs.push(program);
        self
    }

    /// Turns off a rule. Reports print the reason.
    pub fn allow(mut self, oracle: Oracle, reason: &str) -> Self {
        self.definition.allowed.push((oracle, Rc::from(reason)));
        self
    }

    /// Excludes a field of a kind, such as `/status/lastProbe`, from all comparisons: it may differ between runs, and a write that
    /// changes only this field counts as no change. Reports list the masks. Times, and values that differ between two runs without
    /// faults, need no mask.
    ///
    /// # Panics
    ///
    /// `pointer` is not a JSON pointer to a field.
    pub fn mask<K: StaticObject>(mut self, pointer: &str) -> Self {
        let added = self.definition.masks.add(resource_of::<K>(), pointer);
        added.unwrap_or_else(|error| panic!("mask of the simulation {:?}: {error}", self.definition.name));
        self
    }

    /// Installs the CustomResourceDefinition of a kind before the operator starts.
    pub fn crd<K: CustomResourceExt>(mut self) -> Self {
        self.definition.crds.push(K::crd());
        self
    }

    /// Restricts the operator to the permissions of the roles in `manifests`, as [`Rights`] does. Default: it may do everything.
    ///
    /// # Panics
    ///
    /// `manifests` is not YAML of Kubernetes objects, or a role or binding is invalid.
    pub fn rights(mut self, manifests: &str) -> Self {
        let rights = Rights::of_manifests(manifests, "default");
        self.definition.programs[0].rights =
            Some(rights.unwrap_or_else(|error| panic!("rights of the simulation: {error}")));
        self
    }

    /// Adds an action of the user. A step begins when nothing has changed for a while after the previous step. While it fails, it is
    /// tried again each virtual second for ten minutes. The closure is called for each attempt.
    pub fn step<T, E, F>(mut self, name: impl Into<String>, step: F) -> Self
    where
        F: AsyncFn(User) -> Result<T, E> + 'static,
        E: Into<BoxError>,
    {
        self.definition.steps.push(Step::new(&name.into(), step));
        self
    }

    /// Adds a remote system; `initial` makes its state at the start of each run. The operator reaches it through a
    /// [`Remote`](crate::Remote) with the same type of state, so two systems need two types.
    pub fn remote<T: Serialize + Send + 'static>(
        mut self,
        name: &str,
        initial: impl Fn() -> T + 'static,
    ) -> Self {
        let make = move |name: Arc<str>| -> Arc<dyn AnyRemote> {
            Arc::new(System { name, state: Mutex::new(initial()) })
        };
        self.definition.remotes.insert(Arc::from(name), Rc::new(make));
        self
    }

    /// Adds a condition that must hold after each change of the world.
    pub fn always(self, name: &str, holds: impl Fn(&Now<'_>) -> bool + 'static) -> Self {
        self.check(name, When::Always, holds)
    }

    /// Adds a condition that must hold whenever the world is quiet: before the first step, and after each.
    pub fn eventually(self, name: &str, holds: impl Fn(&Now<'_>) -> bool + 'static) -> Self {
        self.check(name, When::Quiet, holds)
    }

    /// Adds a condition that, once it holds, must hold after each later change of the run.
    pub fn lasting(self, name: &str, holds: impl Fn(&Now<'_>) -> bool + 'static) -> Self {
        self.check(name, When::Lasting, holds)
    }

    /// Adds a condition that must hold after at least one change in one run of a search: it proves that the search reaches a
    /// situation, such as a failover while a page is missing. [`explore`](Self::explore) fails if all plans were played and the
    /// condition never held.
    pub fn sometimes(self, name: &str, holds: impl Fn(&Now<'_>) -> bool + 'static) -> Self {
        self.check(name, When::Sometimes, holds)
    }

    fn check(mut self, name: &str, when: When, holds: impl Fn(&Now<'_>) -> bool + 'static) -> Self {
        self.definition.checks.push(Check { name: Rc::from(name), when, holds: Rc::new(holds) });
        self
    }

    /// Plays one plan after the other until a run violates a rule or the budget ends, and returns the number of played plans.
    ///
    /// Trace files of this test in the folder `tests/simulation` of the package are played first. Environment variables change the
    /// search:
    ///
    /// - `SIMULATION=FILE` plays only the plan of a trace file; with `SIMULATION_STEP=1` it waits for a line of input before each action.
    /// - `SIMULATION_REPORT=FILE` appends the report to a file, a line of JSON for each search.
    /// - `SIMULATION_JOBS=4` plays the plans in four processes, each of which runs the whole test.
    /// - `SIMULATION_SHARE=1/4` plays the first of every four plans.
    /// - `SIMULATION_SEEDS=0..1000` adds a random plan for each seed.
    ///
    /// # Panics
    ///
    /// - A run violates a rule. The message is the story of the first such run: its steps, with the write that broke the rule. The run
    ///   is also written to `target/simulation` as a trace file and as a picture.
    /// - The test would show nothing: the operator changes nothing, or no plan was played within the budget.
    /// - An environment variable has an invalid value.
    /// - A trace file is invalid or of another test, or a deviation of its plan did not happen.
    #[expect(clippy::must_use_candidate, reason = "most tests need only the panic")]
    pub fn explore(self, explore: Explore) -> Report {
        let (name, test) = (Rc::clone(&self.definition.name), trace_file::test_name());
        if let Some(path) = std::env::var_os("SIMULATION") {
            return self.replay_saved(Path::new(&path), &test);
        }
        let (began, settings) = (Stopwatch::start(), Settings::of_environment());
        // A process with a share is itself one of the jobs.
        if let Some(jobs) = settings.jobs.filter(|jobs| *jobs > 1 && settings.share.is_none()) {
            let report = jobs::run(&test, jobs).unwrap_or_else(|output| panic!("{output}"));
            println!(
                "simulation {name:?}, in {jobs} processes: {} of {} plans played",
                report.played, report.plans
            );
            report.check_conditions(&name);
            return report;
        }
        let result = search(&self.definition, explore, &trace_file::saved(&test, &name), &settings);
        // Before the panic of a finding, which the report must contain.
        self.add_to_report(&test, &result, &began);
        match result {
            Ok(report) => {
                assert!(
                    report.played > 0 || report.plans == 0,
                    "the simulation {name:?} tests nothing: its budget ended before the first of {} plans",
                    report.plans
                );
                println!("simulation {name:?}: {report}");
                // A share with a finding writes no part: the panic ends its process with a failure, which the
                // parent reports.
                if let Some(part) = std::env::var_os("SIMULATION_PART") {
                    jobs::add_part(Path::new(&part), &report)
                        .unwrap_or_else(|error| panic!("SIMULATION_PART: {error}"));
                }
                for field in self.definition.masks.texts() {
                    println!("simulation {name:?}: not compared: {field}");
                }
                for (oracle, reason) in &self.definition.allowed {
                    println!("simulation {name:?}: not judged by {oracle}: {reason}");
                }
                // A condition may hold in the share of another process.
                if settings.share.is_none() {
                    report.check_conditions(&name);
                }
                report
            }
            Err(mut finding) => {
                self.save(&mut finding, &test);
                panic!("simulation {name:?}: {finding}\n")
            }
        }
    }

    /// Plays the plan of a trace file.
    fn replay_saved(self, path: &Path, test: &str) -> Report {
        let name = Rc::clone(&self.definition.name);
        let file = TraceFile::read(path).unwrap_or_else(|error| panic!("SIMULATION: {error}"));
        assert!(
            file.is_of(test, &name),
            "SIMULATION: {} belongs to the test {:?} and the simulation {:?}, but this is the test {test:?} and the simulation \
             {name:?}: run `cargo test {}`",
            path.display(),
            file.test,
            file.simulation,
            file.test
        );
        if let Some(finding) = self.replay_plan(&file.plan, Stepping::of_environment()) {
            panic!("simulation {name:?}: {finding}\n  {}\n", file.compare(&finding))
        }
        println!("simulation {name:?}: the plan of {} no longer violates a rule", path.display());
        Report::of_one_plan()
    }

    /// Writes the trace file and the picture of a finding. A test that cannot write files reports its finding all the same.
    fn save(&self, finding: &mut Finding, test: &str) {
        let Some(folder) = trace_file::folder() else { return };
        let file = TraceFile::of(finding, test, &self.definition.name);
        // The trace file comes first: it replays the finding, and the picture only shows it.
        let written = file.write(&folder).and_then(|path| {
            let picture = picture::html(finding, &self.definition.name);
            std::fs::write(path.with_extension("html"), picture).map(|()| path)
        });
        match written {
            Ok(path) => finding.save_as(path, test),
            Err(error) => eprintln!("simulation: no trace file in {}: {error}", folder.display()),
        }
    }

    /// Adds a line to the file of `SIMULATION_REPORT`.
    fn add_to_report(&self, test: &str, result: &Result<Report, Box<Finding>>, took: &Stopwatch) {
        let Some(path) = std::env::var_os("SIMULATION_REPORT") else { return };
        let mut line = match result {
            Ok(report) => report.to_json(),
            Err(finding) => json!({
                "found": finding.oracle().to_string(),
                "title": finding.title(),
                "deviations": finding.plan().deviations.len(),
                "lines": finding.to_string().lines().count(),
                "guilty": finding.guilty(),
            }),
        };
        line["test"] = json!(test);
        line["simulation"] = json!(&*self.definition.name);
        line["seconds"] = json!(took.elapsed().as_secs_f64());
        line["processorSeconds"] = json!(took.ran().as_secs_f64());
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| writeln!(file, "{line}"));
        if let Err(error) = written {
            eprintln!("SIMULATION_REPORT: {} cannot be written: {error}", Path::new(&path).display());
        }
    }

    /// Like [`explore`](Self::explore), but returns the finding. Trace files are neither read nor written.
    ///
    /// # Panics
    ///
    /// The operator changes nothing, so that the search shows nothing.
    #[must_use]
    pub fn find(self, explore: Explore) -> Option<Finding> {
        let began = Stopwatch::start();
        let result = search(&self.definition, explore, &[], &Settings::of_environment());
        self.add_to_report(&trace_file::test_name(), &result, &began);
        result.err().map(|finding| *finding)
    }

    /// Plays one plan. Its lines are those that a [`Finding`] prints after `replay:`. The empty plan is the run without faults.
    ///
    /// # Errors
    ///
    /// A line is not a deviation.
    ///
    /// # Panics
    ///
    /// A deviation did not happen, because the operator does not make its call: the run would show nothing.
    pub fn replay(self, plan: &str) -> Result<Option<Finding>, PlanError> {
        let plan: Plan = plan.parse()?;
        Ok(self.replay_plan(&plan, None))
    }

    fn replay_plan(&self, plan: &Plan, stepping: Option<Rc<Stepping>>) -> Option<Finding> {
        let reference = match Reference::new(&self.definition) {
            Ok(reference) => reference,
            Err(finding) => return Some(*finding),
        };
        // The runs without faults are not stepped through.
        let definition = &Definition { stepping, ..self.definition.clone() };
        let Tried { finding, happened, .. } = reference.try_plan(definition, plan, "replayed");
        assert!(
            happened || finding.is_some(),
            "simulation {:?}: a deviation of the plan did not happen, because the operator does not make this call:\n{plan}",
            self.definition.name
        );
        finding
    }
}

/// Returns the function that makes a manager named `name` and sets it up.
fn made_by<E: Into<BoxError>>(name: &str, add: impl Fn(&Manager) -> Result<(), E> + 'static) -> MakeProcess {
    let name = name.to_owned();
    Rc::new(move |gate, instance| {
        let client = gate.client();
        // Requests of the operator then pass no queue of a `kube` client.
        let mut options = ManagerOptions::new(&*name).client(move |client| client.service(gate.clone()));
        if instance.replicas > 1 {
            // Each life has an identity of its own, like a new pod, so that it must wait for the lease of its
            // previous life.
            let identity = format!("{name}-{}.{}", instance.replica, instance.life);
            let election = LeaderElectionOptions::new(&*name).namespace("default").identity(identity);
            options = options.leader_election(election);
        }
        let manager = Manager::new(client, options);
        add(&manager).map_err(Into::<BoxError>::into)?;
        Ok(manager)
    })
}

/// Time that a search took, for reports; no run depends on it.
struct Stopwatch {
    began: std::time::Instant,
    ran: Option<Duration>,
}

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "reports say how long a search took; no run depends on it")]
    fn start() -> Self {
        Self { began: std::time::Instant::now(), ran: ThreadTimes::now().map(|times| times.ran) }
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Time for which the thread had a processor, which other programs do not change. Elsewhere than on Linux, the elapsed time.
    fn ran(&self) -> Duration {
        let ran = self.ran.and_then(|before| Some(ThreadTimes::now()?.ran.saturating_sub(before)));
        ran.unwrap_or_else(|| self.elapsed())
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<&str> = self.definition.steps.iter().map(|step| &*step.name).collect();
        f.debug_struct("Simulation")
            .field("name", &self.definition.name)
            .field("steps", &steps)
            .finish_non_exhaustive()
    }
}
