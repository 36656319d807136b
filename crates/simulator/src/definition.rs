//! Parts of a simulation, before it runs.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use controller_runtime::{BoxError, Manager, StaticObject};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_envtest::Rights;
use serde_json::Value;

use crate::{
    gate::Gate,
    oracle::Oracle,
    remote::AnyRemote,
    similar::{Masks, World},
    stepping::Stepping,
    user::Step,
};

/// Parts of a simulation. Each run makes its own world of them.
#[derive(Clone)]
pub(crate) struct Definition {
    pub(crate) name: Rc<str>,
    /// The operator, and then other programs.
    pub(crate) programs: Vec<Program>,
    pub(crate) crds: Vec<CustomResourceDefinition>,
    pub(crate) steps: Vec<Step>,
    pub(crate) remotes: BTreeMap<Arc<str>, MakeRemote>,
    pub(crate) checks: Vec<Check>,
    /// Rules that are not judged, with the reason.
    pub(crate) allowed: Vec<(Oracle, Rc<str>)>,
    /// Fields that are not compared.
    pub(crate) masks: Masks,
    /// Whether runs look for real time in which their thread is blocked, which costs time.
    pub(crate) looks_at_real_time: bool,
    /// Stops before each action, in a replay through which the user steps.
    pub(crate) stepping: Option<Rc<Stepping>>,
}

impl Definition {
    /// Whether violations of a rule do not count.
    pub(crate) fn allows(&self, oracle: Oracle) -> bool {
        self.allowed.iter().any(|(allowed, _)| *allowed == oracle)
    }
}

/// A program that runs in one or more processes.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// Whether faults happen to it, and its writes are judged.
    pub(crate) is_tested: bool,
    /// Makes one process, as its `main` does.
    pub(crate) make: MakeProcess,
    pub(crate) rights: Option<Rights>,
    pub(crate) replicas: u8,
    /// Whether `make` turns on leader election if there is more than one replica.
    pub(crate) has_election: bool,
}

impl Program {
    /// A tested program with one replica, without rights of its own or leader election.
    pub(crate) fn new(name: &'static str, make: MakeProcess) -> Self {
        Self { name, is_tested: true, make, rights: None, replicas: 1, has_election: false }
    }
}

/// One life of one process: which of its program's `replicas` it is, and how often it has been started before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instance {
    pub(crate) replica: u8,
    pub(crate) life: u32,
    pub(crate) replicas: u8,
}

/// Makes one process of a program, which reaches the API server through the gate.
pub(crate) type MakeProcess = Rc<dyn Fn(Gate, Instance) -> Result<Manager, BoxError>>;

/// Makes the remote system of this name for a run.
pub(crate) type MakeRemote = Rc<dyn Fn(Arc<str>) -> Arc<dyn AnyRemote>>;

/// A condition on the state of the world that the test states.
#[derive(Clone)]
pub(crate) struct Check {
    pub(crate) name: Rc<str>,
    pub(crate) when: When,
    pub(crate) holds: Rc<dyn Fn(&Now<'_>) -> bool>,
}

/// When a [`Check`] must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// After each change.
    Always,
    /// Whenever the world is quiet.
    Quiet,
    /// After each change that follows one after which it held.
    Lasting,
    /// After one change of one run of the search.
    Sometimes,
}

/// Name of the resource of a kind, such as `deployments.apps`.
pub(crate) fn resource_of<K: StaticObject>() -> String {
    let (group, plural) = (K::group(&()), K::plural(&()));
    if group.is_empty() { plural.into_owned() } else { format!("{plural}.{group}") }
}

/// State of the world at one moment, for checks. Reading it does not disturb the run.
#[derive(Debug)]
pub struct Now<'w> {
    pub(crate) world: &'w World,
}

impl Now<'_> {
    /// All objects of a kind, in the order of their namespaces and names. Objects that cannot be decoded are left out.
    #[must_use]
    pub fn all<K: StaticObject>(&self) -> Vec<K> {
        let resource = resource_of::<K>();
        let objects = self.world.objects.iter().chain(&self.world.uncompared);
        let objects = objects.filter(|(id, _)| *id.resource == *resource);
        objects
            .filter_map(|(_, object)| {
                let mut object = object.whole().clone();
                // Commits lack both fields, without which some kinds cannot be decoded.
                object["apiVersion"] = Value::String(K::api_version(&()).into_owned());
                object["kind"] = Value::String(K::kind(&()).into_owned());
                serde_json::from_value(object).ok()
            })
            .collect()
    }

    /// State of a remote system as JSON; `None` if there is none of this name.
    #[must_use]
    pub fn remote(&self, name: &str) -> Option<&Value> {
        self.world.remotes.get(name)
    }
}
