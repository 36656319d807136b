//! Record of declarations while an operator is set up and runs.

use std::{collections::BTreeSet, fmt, sync::Arc};

use kube_apimachinery::rbac::{Action, PolicyRule};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{declaration::Declaration, declarations::Declarations, right::RightScope};

/// The declarations of one cluster. They are never removed: roles are rendered before the program runs, so they must
/// also grant the rights of controllers that the program adds and removes later.
#[derive(Default)]
pub(crate) struct DeclarationLog {
    /// Without duplicates, so that the size depends on the number of registrations in the program's source, not on how often they run.
    all: Mutex<Vec<Recorded>>,
}

#[derive(Clone)]
struct Recorded {
    declaration: Declaration,
    /// Namespaces that replace those of the declaration, if they may change.
    live: Option<LiveNamespaces>,
    /// The declared right, for comparisons with requests.
    rule: PolicyRule,
}

/// Set of namespaces that may change while the operator runs.
pub(crate) type LiveNamespaces = Arc<watch::Sender<BTreeSet<Arc<str>>>>;

/// Namespaces of a registration.
#[derive(Clone)]
pub(crate) enum ScopeOf {
    Fixed(RightScope),
    Live(LiveNamespaces),
}

impl DeclarationLog {
    /// Records a declaration, unless it is known.
    pub(crate) fn record(&self, mut declaration: Declaration, scope: &ScopeOf) {
        let live = match scope {
            ScopeOf::Fixed(scope) => {
                declaration.right.scope = scope.clone();
                None
            }
            ScopeOf::Live(names) => Some(Arc::clone(names)),
        };
        let mut all = self.all.lock();
        let is_same = |known: &Recorded| {
            let same_namespaces = match (&known.live, &live) {
                (None, None) => true,
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                _ => false,
            };
            // The place is compared first, because it is cheap to compare and usually differs.
            same_namespaces
                && known.declaration.place == declaration.place
                && known.declaration == declaration
        };
        if !all.iter().any(is_same) {
            let rule = declaration.right.rule();
            all.push(Recorded { declaration, live, rule });
        }
    }

    /// Returns whether a declaration permits an action of an operator that runs in `namespace`.
    pub(crate) fn allows(&self, action: &Action<'_>, namespace: &str) -> bool {
        self.all.lock().iter().any(|Recorded { declaration, live, rule }| {
            let in_scope = match live {
                Some(names) => names.borrow().contains(action.namespace()),
                None => declaration.right.scope.covers(action.namespace(), namespace),
            };
            in_scope && rule.allows(action)
        })
    }

    /// Returns all declarations, with their current namespaces.
    pub(crate) fn all(&self) -> Declarations {
        let all = self.all.lock().clone();
        let current = |Recorded { mut declaration, live, .. }| {
            if let Some(names) = live {
                let names = names.borrow().clone();
                declaration.right.scope = RightScope::Namespaces { names, may_change: true };
            }
            declaration
        };
        all.into_iter().map(current).collect()
    }
}

impl ScopeOf {
    /// All namespaces, and kinds without namespaces.
    pub(crate) const CLUSTER: Self = Self::Fixed(RightScope::Cluster);

    /// One namespace; without a name, that of the operator.
    pub(crate) fn namespace(name: Option<&str>) -> Self {
        Self::Fixed(match name {
            Some(name) => {
                RightScope::Namespaces { names: BTreeSet::from([Arc::from(name)]), may_change: false }
            }
            None => RightScope::OwnNamespace,
        })
    }

    /// Returns whether these are all namespaces.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Fixed(RightScope::Cluster))
    }
}

impl fmt::Debug for DeclarationLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}
