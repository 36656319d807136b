//! The public handle that a test builds and explores.

use std::{collections::BTreeMap, fmt, rc::Rc, sync::Arc};

use controller_runtime::{BoxError, Manager, ManagerOptions};
use kube::CustomResourceExt;
use kube_envtest::Rights;
use parking_lot::Mutex;
use serde::Serialize;

use crate::{
    definition::{Check, Definition, Now, When},
    explore::{Explore, Finding, Reference, Report, search},
    plan::{Plan, PlanError},
    remote::{AnyRemote, System},
    user::{Step, User},
};

/// An operator and the world in which it is tested: kinds, steps of a user, remote systems and checks.
///
/// See the [crate](crate) for an example.
#[derive(Clone)]
#[must_use]
pub struct Simulation {
    definition: Definition,
}

impl Simulation {
    /// A simulation of the operator that `add` sets up on a manager named `name`: the function that `main` calls.
    ///
    /// It is called once for each start of the operator, so it must create everything again. State in statics, or in values
    /// that `add` captured, survives a crash, which the memory of a process does not.
    pub fn new<E: Into<BoxError>>(name: &str, add: impl Fn(&Manager) -> Result<(), E> + 'static) -> Self {
        let manager = name.to_owned();
        Self::made(name, move |client| {
            let manager = Manager::new(client, ManagerOptions::new(&*manager));
            add(&manager).map_err(Into::<BoxError>::into)?;
            Ok(manager)
        })
    }

    /// Like [`new`](Self::new), but the function also makes the manager, with options of its own. Servers of the manager must be
    /// off, because a simulation has no sockets. It must not set a seed or an epoch, which the simulation sets.
    pub fn of(name: &str, operator: impl Fn(kube::Client) -> Manager + 'static) -> Self {
        Self::made(name, move |client| Ok(operator(client)))
    }

    fn made(name: &str, operator: impl Fn(kube::Client) -> Result<Manager, BoxError> + 'static) -> Self {
        Self {
            definition: Definition {
                name: Rc::from(name),
                operator: Rc::new(operator),
                crds: Vec::new(),
                rights: None,
                steps: Vec::new(),
                remotes: BTreeMap::new(),
                checks: Vec::new(),
            },
        }
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
        self.definition.rights =
            Some(rights.unwrap_or_else(|error| panic!("rights of the simulation: {error}")));
        self
    }

    /// Adds an action of the user. A step begins when the world is quiet after the one before, and is tried again each virtual
    /// second while it fails, for ten minutes. The closure is called for each attempt.
    pub fn step<T, E, F>(mut self, name: impl Into<String>, step: F) -> Self
    where
        F: AsyncFn(User) -> Result<T, E> + 'static,
        E: Into<BoxError>,
    {
        self.definition.steps.push(Step::new(&name.into(), step));
        self
    }

    /// Adds a remote system, which `initial` makes for each run. The operator reaches it through a
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

    fn check(mut self, name: &str, when: When, holds: impl Fn(&Now<'_>) -> bool + 'static) -> Self {
        self.definition.checks.push(Check { name: Rc::from(name), when, holds: Rc::new(holds) });
        self
    }

    /// Searches for a run that violates a rule, and returns how far the search came.
    ///
    /// # Panics
    ///
    /// With the story of the first run that violates a rule; if the operator changes nothing, or no plan was played within the
    /// budget, so that the test would show nothing.
    #[expect(clippy::must_use_candidate, reason = "most tests need only the panic")]
    pub fn explore(self, explore: Explore) -> Report {
        let name = Rc::clone(&self.definition.name);
        match search(&self.definition, explore) {
            Ok(report) => {
                assert!(
                    report.played > 0,
                    "the simulation {name:?} tests nothing: its budget ended before the first of {} plans",
                    report.plans
                );
                println!("simulation {name:?}: {report}");
                report
            }
            Err(finding) => panic!("simulation {name:?}: {finding}\n"),
        }
    }

    /// Like [`explore`](Self::explore), but returns the finding.
    ///
    /// # Panics
    ///
    /// If the operator changes nothing, so that no fault has a place.
    #[must_use]
    pub fn find(self, explore: Explore) -> Option<Finding> {
        search(&self.definition, explore).err().map(|finding| *finding)
    }

    /// Plays one plan: lines as the `replay` lines of a [`Finding`]. The empty plan is the run without faults.
    ///
    /// # Errors
    ///
    /// A line is not a deviation.
    ///
    /// # Panics
    ///
    /// If a deviation finds no place, because the operator does not make this call: the run would show nothing.
    pub fn replay(self, plan: &str) -> Result<Option<Finding>, PlanError> {
        let plan: Plan = plan.parse()?;
        let reference = match Reference::new(&self.definition) {
            Ok(reference) => reference,
            Err(finding) => return Ok(Some(*finding)),
        };
        let (finding, happened) = reference.try_plan(&self.definition, &plan, "replayed");
        assert!(
            happened || finding.is_some(),
            "simulation {:?}: a deviation of the plan did not happen, because the operator does not make this call:\n{plan}",
            self.definition.name
        );
        Ok(finding)
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
