//! Registry of the served resources: builtin kinds and established custom kinds.
//!
//! A registry is immutable. When definitions change, a new registry replaces it and shares the unchanged resources. A watch can therefore
//! compare identities to find out whether its resource is still served unchanged.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;

use super::resource::StorageKey;
pub(crate) use super::served_kind::{CustomKind, ServedKind};

/// Returns the name of a resource in a [`Registry`]. The separators, which no part contains, order names part by part, and one comparison
/// of texts compares all parts.
fn name_of(group: &str, version: &str, plural: &str) -> String {
    [group, "\0", version, "\0", plural].concat()
}

/// All served resources by group, version and plural. Copies share the unchanged parts.
#[derive(Debug, Default, Clone)]
pub(crate) struct Registry {
    served: OrdMap<String, Arc<ServedKind>>,
    builtin_groups: BTreeSet<String>,
    /// Kinds that are no longer served, the oldest first.
    retired: Vec<Retired>,
}

/// A kind that is no longer served, and the storage key of its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Retired {
    kind: String,
    storage: StorageKey,
    namespaced: bool,
}

impl Retired {
    fn is_of(&self, served: &ServedKind) -> bool {
        *served.storage() == self.storage && served.resource.kind == self.kind
    }
}

/// Maximum number of retired kinds that are remembered; the oldest are dropped first.
const RETIRED: usize = 1000;

impl Registry {
    /// Creates a registry of the builtin resources.
    pub(crate) fn builtin(resources: Vec<ServedKind>) -> Self {
        let mut registry = Self::default();
        for served in resources {
            registry.builtin_groups.insert(served.resource.group.clone());
            registry.add(Arc::new(served));
        }
        registry
    }

    pub(crate) fn add(&mut self, served: Arc<ServedKind>) {
        let resource = &served.resource;
        let name = name_of(&resource.group, &resource.version, &resource.plural);
        self.served.insert(name, served);
    }

    /// Removes a resource, unless another resource has replaced it.
    pub(crate) fn remove(&mut self, served: &Arc<ServedKind>) {
        if self.serves(served) {
            let resource = &served.resource;
            self.served.remove(&name_of(&resource.group, &resource.version, &resource.plural));
        }
    }

    /// Records the kinds of `removed` that are no longer served, and removes the records of kinds in `added`.
    pub(crate) fn retire(&mut self, removed: &[Arc<ServedKind>], added: &[Arc<ServedKind>]) {
        for resource in removed.iter().map(|served| &served.resource) {
            let kind = Retired {
                kind: resource.kind.clone(),
                storage: resource.storage.clone(),
                namespaced: resource.namespaced,
            };
            let is_served = self.of_group(&kind.storage.group).any(|now| kind.is_of(now));
            if !is_served {
                // A kind has one record: that of its last storage key.
                self.retired
                    .retain(|known| known.kind != kind.kind || known.storage.group != kind.storage.group);
                self.retired.push(kind);
            }
        }
        self.retired.retain(|kind| !added.iter().any(|now| kind.is_of(now)));
        self.retired.drain(..self.retired.len().saturating_sub(RETIRED));
    }

    /// Returns the resources of a group.
    fn of_group<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a Arc<ServedKind>> {
        let rest = self.served.range(name_of(group, "", "")..).map(|(_, served)| served);
        rest.take_while(move |served| served.resource.group == group)
    }

    /// Whether a resource of the table's group has its objects in this table.
    pub(crate) fn serves_table(&self, table: &StorageKey) -> bool {
        self.of_group(&table.group).any(|served| served.storage() == table)
    }

    /// Whether a custom resource of this group and version is served.
    pub(crate) fn defines(&self, group: &str, version: &str) -> bool {
        self.of_group(group).any(|served| served.resource.version == version && served.is_custom())
    }

    /// Returns the storage key of a kind that is no longer served, and whether it was namespaced.
    pub(crate) fn retired(&self, group: &str, kind: &str) -> Option<(StorageKey, bool)> {
        let retired =
            self.retired.iter().find(|retired| retired.kind == kind && retired.storage.group == group)?;
        Some((retired.storage.clone(), retired.namespaced))
    }

    pub(crate) fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ServedKind>> {
        self.served.get(&name_of(group, version, plural))
    }

    /// Returns the resource with this kind. A builtin kind takes precedence over a custom one of the same name.
    pub(crate) fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<ServedKind>> {
        let mut found = None;
        for served in self.all() {
            let resource = &served.resource;
            if resource.group == group && resource.version == version && resource.kind == kind {
                if !served.is_custom() {
                    return Some(served);
                }
                found = found.or(Some(served));
            }
        }
        found
    }

    /// Whether the name is that of a builtin resource or of its table. A definition with such a name is accepted but serves
    /// nothing: requests and objects belong to the builtin resource.
    pub(crate) fn is_builtin(&self, group: &str, plural: &str) -> bool {
        self.is_builtin_group(group)
            && self.all().any(|served| {
                let (resource, table) = (&served.resource, served.storage());
                let named = |known: &str, name: &str| known == group && name == plural;
                !served.is_custom()
                    && (named(&resource.group, &resource.plural) || named(&table.group, &table.plural))
            })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<ServedKind>> {
        self.served.values()
    }

    /// Returns one resource per table, the one with the first version.
    pub(crate) fn one_per_table(&self) -> Vec<Arc<ServedKind>> {
        let mut seen = BTreeSet::new();
        self.all().filter(|served| seen.insert(served.storage().clone())).cloned().collect()
    }

    pub(crate) fn tables(&self) -> BTreeSet<&StorageKey> {
        self.all().map(|served| served.storage()).collect()
    }

    /// Whether the group has builtin kinds. Responses for unknown paths depend on that.
    pub(crate) fn is_builtin_group(&self, group: &str) -> bool {
        self.builtin_groups.contains(group)
    }

    /// Whether `served` is still the resource that is served under its name.
    pub(crate) fn serves(&self, served: &Arc<ServedKind>) -> bool {
        let resource = &served.resource;
        self.get(&resource.group, &resource.version, &resource.plural)
            .is_some_and(|now| Arc::ptr_eq(now, served))
    }
}
