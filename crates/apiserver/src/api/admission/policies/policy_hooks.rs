//! Policies with their bindings. A policy is compiled, and a binding parsed, when it changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use super::compiled_policy::CompiledPolicy;
use super::policy_binding::PolicyBinding;
use crate::kind::resource::StorageKey;
use crate::kinds::builtin::admission_policy::PolicyKind;
use crate::state::{ClusterState, CommitObserver};
use crate::store::{Key, TypeMeta};

const GROUP: &str = "admissionregistration.k8s.io";

/// A policy that has bindings.
#[derive(Debug)]
pub(super) struct PolicyHook {
    pub(super) policy: Arc<CompiledPolicy>,
    pub(super) bindings: Vec<Arc<PolicyBinding>>,
}

/// Observer of commits that holds the compiled policies of a kind.
pub(crate) struct PolicyHooks {
    kind: PolicyKind,
    policies: (StorageKey, TypeMeta),
    bindings: (StorageKey, TypeMeta),
    hooks: RwLock<Arc<[PolicyHook]>>,
    /// Whether there is a hook. Read without the lock, so that requests cost little without policies.
    has_hooks: AtomicBool,
    /// Compiled policies and parsed bindings. The lock is held while the store is read, so that the latest state is compiled last.
    parsed: Mutex<ParsedPolicies>,
}

/// Parsed objects by name, each with the revision of the stored object.
#[derive(Default)]
struct ParsedPolicies {
    policies: BTreeMap<String, (u64, Arc<CompiledPolicy>)>,
    bindings: BTreeMap<String, (u64, Arc<PolicyBinding>)>,
}

impl PolicyHooks {
    /// Creates an observer of MutatingAdmissionPolicies and their bindings.
    pub(super) fn mutating() -> Self {
        Self::of(PolicyKind::Mutating, "mutating", "Mutating")
    }

    /// Creates an observer of ValidatingAdmissionPolicies and their bindings.
    pub(super) fn validating() -> Self {
        Self::of(PolicyKind::Validating, "validating", "Validating")
    }

    fn of(kind: PolicyKind, plural: &str, prefix: &str) -> Self {
        let table = |plural: String| StorageKey { group: GROUP.to_owned(), plural };
        let kind_of = |suffix: &str| TypeMeta::new(&format!("{GROUP}/v1"), &format!("{prefix}{suffix}"));
        Self {
            kind,
            policies: (table(format!("{plural}admissionpolicies")), kind_of("AdmissionPolicy")),
            bindings: (table(format!("{plural}admissionpolicybindings")), kind_of("AdmissionPolicyBinding")),
            hooks: RwLock::new(Arc::new([])),
            has_hooks: AtomicBool::new(false),
            parsed: Mutex::default(),
        }
    }

    /// Whether there is a policy with a binding.
    pub(super) fn has_hooks(&self) -> bool {
        self.has_hooks.load(Ordering::Acquire)
    }

    /// Returns the current policies, ordered by name.
    pub(super) fn hooks(&self) -> Arc<[PolicyHook]> {
        Arc::clone(&self.hooks.read())
    }

    /// Compiles the policies, and parses the bindings, that have changed. A policy without a binding is not compiled.
    pub(crate) fn refresh(&self, cluster: &ClusterState) {
        let mut parsed = self.parsed.lock();
        // Under one lock, so that both tables are at the same revision.
        let (policies, bindings) =
            cluster.read(|store| (store.snapshot(&self.policies.0), store.snapshot(&self.bindings.0)));
        let mut former = std::mem::take(&mut *parsed);
        let mut bound: BTreeMap<String, Vec<Arc<PolicyBinding>>> = BTreeMap::new();
        for (key, stored) in bindings.range("", None) {
            let name = key.name().to_owned();
            let known = former.bindings.remove(&name).filter(|(revision, _)| *revision == stored.revision);
            let current = known.unwrap_or_else(|| {
                let object = stored.document.to_value(&self.bindings.1, stored.revision);
                (stored.revision, Arc::new(PolicyBinding::read(&name, &object)))
            });
            bound.entry(current.1.policy.clone()).or_default().push(Arc::clone(&current.1));
            parsed.bindings.insert(name, current);
        }
        let mut hooks = Vec::new();
        for (key, stored) in policies.range("", None) {
            let name = key.name().to_owned();
            let Some(bindings) = bound.remove(&name) else { continue };
            let known = former.policies.remove(&name).filter(|(revision, _)| *revision == stored.revision);
            let current = known.unwrap_or_else(|| {
                let object = stored.document.to_value(&self.policies.1, stored.revision);
                (stored.revision, Arc::new(CompiledPolicy::read(self.kind, &name, &object)))
            });
            hooks.push(PolicyHook { policy: Arc::clone(&current.1), bindings });
            parsed.policies.insert(name, current);
        }
        // Under the lock of `parsed`, so that a later state is not replaced by an earlier one.
        self.has_hooks.store(!hooks.is_empty(), Ordering::Release);
        *self.hooks.write() = hooks.into();
    }
}

impl CommitObserver for Arc<PolicyHooks> {
    fn committed(&self, cluster: &ClusterState, storage: &StorageKey, _key: &Key) {
        if *storage == self.policies.0 || *storage == self.bindings.0 {
            self.refresh(cluster);
        }
    }
}
