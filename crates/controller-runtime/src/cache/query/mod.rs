//! Queries: the resource, namespaces and selectors of a cache.

pub(super) mod in_namespace;
pub(super) mod options;
pub(super) mod other_cluster;
pub(super) mod resync;
pub(super) mod selector;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use kube::core::{ApiResource, DynamicObject};
use tokio::sync::watch;

use self::{
    other_cluster::OtherCluster,
    selector::{FieldSelector, LabelSelector},
};
use crate::{
    cache::objects::{split::Split, transform::TransformFn},
    object::{
        meta::{Interner, Meta, ResourceVersion},
        resource_name_of,
    },
    rights::{RightScope, ScopeOf, Selected},
};

/// Scope of one list and watch: a namespace, or `None` for all namespaces that are not watched separately.
pub(crate) type WatchScope = Option<Arc<str>>;

/// Resource and selection of a shared watch. Equal queries share one shared watch.
#[derive(Clone, PartialEq)]
pub(crate) struct Query {
    /// The cluster, if it is not the manager's own.
    pub(crate) cluster: Option<OtherCluster>,
    pub(crate) resource: ApiResource,
    pub(crate) namespaces: NamespaceSelection,
    pub(crate) selectors: Selectors,
    /// Selectors and transforms of namespaces that differ from the others.
    pub(in crate::cache) overrides: BTreeMap<Arc<str>, NamespaceOverride>,
    /// Initial lists older than this version are rejected.
    pub(crate) floor: Option<ResourceVersion>,
}

/// Label and field selector.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Selectors {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

/// Selectors and transform of one namespace.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::cache) struct NamespaceOverride {
    pub(in crate::cache) selectors: Selectors,
    /// Transform of its objects, if it differs from the one configured for all caches.
    pub(in crate::cache) transform: Option<TransformFn>,
}

impl Query {
    /// Returns the scopes, each of which has its own list and watch; none once the cluster was removed.
    pub(in crate::cache) fn scopes(&self) -> Vec<WatchScope> {
        if self.is_removed() {
            return Vec::new();
        }
        match self.namespaces.get() {
            Some(names) => names.into_iter().map(Some).collect(),
            None => std::iter::once(None).chain(self.watched_separately().cloned().map(Some)).collect(),
        }
    }

    /// Whether the cluster was removed from the manager.
    pub(in crate::cache) fn is_removed(&self) -> bool {
        self.cluster.as_ref().is_some_and(OtherCluster::is_removed)
    }

    /// Waits until the cluster has been removed from the manager.
    pub(in crate::cache) async fn removed(&self) {
        OtherCluster::removal_of(self.cluster.as_ref()).await;
    }

    /// Returns the namespaces that the watch of all other namespaces excludes.
    pub(in crate::cache) fn watched_separately(&self) -> impl Iterator<Item = &Arc<str>> {
        let everywhere = matches!(self.namespaces, NamespaceSelection::Everywhere);
        // A namespace that differs only by its transform needs no watch of its own.
        let overrides = self
            .overrides
            .iter()
            .filter(move |(_, overrides)| everywhere && overrides.selectors != self.selectors);
        overrides.map(|(name, _)| name)
    }

    /// Returns the scope that contains the objects of a namespace.
    pub(in crate::cache) fn scope_of(&self, namespace: Option<&str>) -> WatchScope {
        match self.namespaces {
            NamespaceSelection::Everywhere => {
                self.watched_separately().find(|name| namespace == Some(&***name)).map(Arc::clone)
            }
            NamespaceSelection::In(_) | NamespaceSelection::InLive(_) => namespace.map(Arc::from),
        }
    }

    /// Returns the selectors for requests about a scope.
    pub(in crate::cache) fn selectors_of(&self, scope: &WatchScope) -> Selectors {
        match scope {
            Some(namespace) => self.selectors_in(namespace).clone(),
            None => {
                let Selectors { labels, fields } = self.selectors.clone();
                let fields = self.watched_separately().fold(fields, |fields, name| fields.outside_of(name));
                Selectors { labels, fields }
            }
        }
    }

    /// Returns the namespaces of the query.
    pub(crate) fn scope(&self) -> ScopeOf {
        match &self.namespaces {
            NamespaceSelection::Everywhere => ScopeOf::CLUSTER,
            NamespaceSelection::InLive(names) => ScopeOf::Live(Arc::clone(&names.names)),
            NamespaceSelection::In(names) => {
                let names = BTreeSet::clone(names);
                ScopeOf::Fixed(RightScope::Namespaces { names, may_change: false })
            }
        }
    }

    /// Returns the objects that lists and watches of the query request, as RBAC distinguishes them.
    pub(crate) fn selected(&self) -> Vec<Selected> {
        let names =
            |selectors: &Selectors| selectors.fields.required_name().map(str::to_owned).into_iter().collect();
        let overridden = self.overrides.iter().filter(|(_, overrides)| overrides.selectors != self.selectors);
        let overridden = overridden.map(|(namespace, overrides)| Selected {
            scope: ScopeOf::namespace(Some(namespace)),
            names: names(&overrides.selectors),
        });
        let others = Selected { scope: self.scope(), names: names(&self.selectors) };
        // A right to all names of all namespaces includes those to single namespaces.
        if others.names.is_empty() {
            vec![others]
        } else {
            std::iter::once(others).chain(overridden).collect()
        }
    }

    fn selectors_in(&self, namespace: &str) -> &Selectors {
        self.overrides.get(namespace).map_or(&self.selectors, |overrides| &overrides.selectors)
    }

    /// Restricts the query to objects that also have these labels.
    pub(in crate::cache) fn with_labels(mut self, required: &LabelSelector) -> Self {
        let all = self.overrides.values_mut().map(|overrides| &mut overrides.selectors);
        for Selectors { labels, .. } in all.chain([&mut self.selectors]) {
            *labels = std::mem::take(labels).and(required.clone());
        }
        self
    }

    /// Whether the API server would return the object for this query; `None` if that cannot be decided.
    ///
    /// Expects the object as the API server sends it, because a transform may have changed the labels of the cached
    /// object.
    pub(crate) fn selects(&self, object: &Split<'_>) -> Option<bool> {
        let raw = object.meta();
        if raw.name().is_empty() {
            return None;
        }
        let Selectors { labels, fields } = self.selectors_in(raw.namespace());
        if !self.namespaces.contain(Some(raw.namespace()).filter(|namespace| !namespace.is_empty())) {
            return Some(false);
        }
        // Most queries have no selector, and need no decoded metadata.
        if !labels.is_empty() && !labels.selects(Meta::new(raw, &mut Interner::default())?.labels()) {
            return Some(false);
        }
        if fields.is_empty() {
            return Some(true);
        }
        serde_json::from_slice(object.json()).ok().and_then(|object| fields.selects(&object))
    }

    /// Whether metadata are enough to decide which objects are selected.
    pub(in crate::cache) fn selects_by_metadata(&self) -> bool {
        let overrides = self.overrides.values().map(|overrides| &overrides.selectors);
        overrides.chain([&self.selectors]).all(|selectors| selectors.fields.is_empty())
    }

    /// Returns the resource as messages name it, after the name of another cluster: `east/secrets`.
    pub(crate) fn resource_name(&self) -> String {
        let resource = resource_name_of::<DynamicObject>(&self.resource);
        match &self.cluster {
            Some(cluster) => format!("{}/{resource}", cluster.name()),
            None => resource,
        }
    }

    /// Returns resource and selection for metrics and messages. Stable, and of bounded length.
    pub(crate) fn label(&self) -> String {
        let selection = self.selection(match self.namespaces {
            // The names may change, and the label must not.
            NamespaceSelection::InLive(_) => Some("a set of namespaces".to_owned()),
            _ => self.names(),
        });
        self.resource_name() + &shortened(selection)
    }

    /// Returns resource and selection in full, with the current namespaces.
    fn describe(&self) -> String {
        self.resource_name() + &self.selection(self.names())
    }

    fn names(&self) -> Option<String> {
        let names = self.namespaces.get()?;
        Some(names.iter().map(|name| &**name).collect::<Vec<_>>().join(", "))
    }

    fn selection(&self, namespaces: Option<String>) -> String {
        let mut text = namespaces.map_or_else(String::new, |names| format!(" in {names}"));
        text += &self.selectors.to_string();
        let overrides = self.overrides.iter().filter(|(_, overrides)| overrides.selectors != self.selectors);
        for (name, NamespaceOverride { selectors, .. }) in overrides {
            text += &format!("; in {name}{selectors}");
            if *selectors == Selectors::default() {
                text += " all";
            }
        }
        text
    }
}

/// Length in bytes up to which a selection is printed in full.
const PRINTED_IN_FULL: usize = 96;

/// Shortens a long text to its beginning and a hash of the whole.
///
/// The result is a metric label. Dashboards and alerts refer to it, so it must not change with a release of Rust or of a crate.
fn shortened(mut text: String) -> String {
    if text.len() > PRINTED_IN_FULL {
        let hash = fnv1a_64(text.as_bytes());
        text.truncate(text.floor_char_boundary(PRINTED_IN_FULL / 2));
        text += &format!("… ({:08x})", hash >> 32);
    }
    text
}

/// FNV-1a with 64 bits. Source: RFC 9923, section 2.
fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Selectors {
    /// Returns the label and field selector as parameters of a request.
    pub(in crate::cache) fn parameters(&self) -> (Option<String>, Option<String>) {
        let parameter = |text: String| Some(text).filter(|text| !text.is_empty());
        (parameter(self.labels.to_string()), parameter(self.fields.to_string()))
    }
}

/// Displays the selectors as they follow the name of a resource in messages.
impl fmt::Display for Selectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { labels, fields } = self;
        if !labels.is_empty() {
            write!(f, " with {labels}")?;
        }
        if !fields.is_empty() {
            write!(f, " where {fields}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

/// Namespaces of a query.
#[derive(Debug, Clone)]
pub(crate) enum NamespaceSelection {
    /// All namespaces, and objects of kinds without namespaces.
    Everywhere,
    /// These namespaces.
    In(Arc<BTreeSet<Arc<str>>>),
    /// A set of namespaces that may change while the manager runs.
    InLive(Namespaces),
}

impl NamespaceSelection {
    /// Returns the names in order; `None` for all namespaces.
    pub(crate) fn get(&self) -> Option<BTreeSet<Arc<str>>> {
        match self {
            Self::Everywhere => None,
            Self::In(names) => Some(BTreeSet::clone(names)),
            Self::InLive(names) => Some(names.get()),
        }
    }

    /// Whether the namespaces may change.
    pub(in crate::cache) fn may_change(&self) -> bool {
        matches!(self, Self::InLive(_))
    }

    /// Whether the query includes `namespace`, or may include it later.
    pub(in crate::cache) fn may_contain(&self, namespace: &str) -> bool {
        match self {
            Self::Everywhere | Self::InLive(_) => true,
            Self::In(names) => names.contains(namespace),
        }
    }

    /// Whether the query includes `namespace`.
    pub(crate) fn contain(&self, namespace: Option<&str>) -> bool {
        match self {
            Self::Everywhere => true,
            Self::In(names) => namespace.is_some_and(|name| names.contains(name)),
            Self::InLive(names) => namespace.is_some_and(|name| names.names.borrow().contains(name)),
        }
    }

    /// Returns a receiver of the changes from now on; namespaces that cannot change have none.
    pub(crate) fn subscribe(&self) -> NamespaceChanges {
        NamespaceChanges(match self {
            Self::Everywhere | Self::In(_) => None,
            Self::InLive(names) => Some(names.names.subscribe()),
        })
    }
}

/// Equal now and after any change: sets that can change are equal only if they are the same set.
impl PartialEq for NamespaceSelection {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Everywhere, Self::Everywhere) => true,
            (Self::In(one), Self::In(other)) => one == other,
            (Self::InLive(one), Self::InLive(other)) => Arc::ptr_eq(&one.names, &other.names),
            _ => false,
        }
    }
}

/// A set of namespaces that may change while the manager runs. Clones are handles of the same set.
///
/// ```
/// use controller_runtime::cache::Namespaces;
///
/// let tenants = Namespaces::new(["red", "blue"]);
/// // … build caches with it …
/// tenants.add("green"); // listed and watched from now on
/// tenants.remove("red"); // its objects leave the caches, and handlers receive delete events
/// assert_eq!(tenants.get().len(), 2);
/// ```
#[derive(Clone)]
pub struct Namespaces {
    names: Arc<watch::Sender<BTreeSet<Arc<str>>>>,
}

impl Namespaces {
    /// Creates a set of these namespaces. A cache of an empty set has no objects.
    pub fn new<N: Into<Arc<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { names: Arc::new(watch::Sender::new(names.into_iter().map(Into::into).collect())) }
    }

    /// Adds a namespace. [`Cached::synced`](crate::Cached::synced) waits until its objects have been listed.
    pub fn add(&self, name: impl Into<Arc<str>>) {
        self.names.send_if_modified(|names| names.insert(name.into()));
    }

    /// Removes a namespace. Its objects leave the caches, and handlers receive delete events.
    pub fn remove(&self, name: &str) {
        self.names.send_if_modified(|names| names.remove(name));
    }

    /// Returns the names in order.
    #[must_use]
    pub fn get(&self) -> BTreeSet<Arc<str>> {
        self.names.borrow().clone()
    }
}

impl fmt::Debug for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.get()).finish()
    }
}

/// Waits for changes of a set of namespaces.
pub(crate) struct NamespaceChanges(Option<watch::Receiver<BTreeSet<Arc<str>>>>);

impl NamespaceChanges {
    /// Waits for the next change; forever if the namespaces cannot change.
    pub(crate) async fn changed(&mut self) {
        let ended = match &mut self.0 {
            Some(names) => names.changed().await.is_err(),
            None => true,
        };
        if ended {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortened_label_is_the_same_in_every_release() {
        let namespaces: Vec<_> = (0..40).map(|number| format!("team-{number}")).collect();
        assert_eq!(
            shortened(format!(" in {}", namespaces.join(", "))),
            " in team-0, team-1, team-2, team-3, team-4, team… (6501189d)"
        );
        let short = " in team-0 with app=web".to_owned();
        assert_eq!(shortened(short.clone()), short);
    }

    /// Test vectors of the reference implementation.
    #[test]
    fn the_hash_is_fnv_1a() {
        for (text, hash) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(fnv1a_64(text.as_bytes()), hash, "{text}");
        }
    }
}
