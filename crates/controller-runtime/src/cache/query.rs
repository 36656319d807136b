//! Which objects of a resource a cache is about.

use std::{collections::BTreeSet, fmt, sync::Arc};

use kube::core::{ApiResource, DynamicObject};
use tokio::sync::watch;

use super::{
    FieldSelector, LabelSelector,
    meta::{Interner, Meta},
    split::Split,
    store::Part,
};
use crate::object::resource_name_of;

/// What a feed asks the API server for. Two that are equal share one feed.
#[derive(Clone, PartialEq)]
pub(crate) struct Query {
    pub(crate) resource: ApiResource,
    pub(crate) namespaces: Whereabouts,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    /// The present must not be older than this.
    pub(crate) floor: Option<super::ResourceVersion>,
}

impl Query {
    /// All objects of a resource.
    pub(crate) fn all(resource: ApiResource) -> Self {
        let (labels, fields) = (LabelSelector::default(), FieldSelector::default());
        Self { resource, namespaces: Whereabouts::Everywhere, labels, fields, floor: None }
    }

    /// Whether the API server would show the object; `None` if that cannot be told.
    ///
    /// Asks the object as the server has it: what is held of it may have other labels.
    pub(crate) fn selects(&self, object: &Split<'_>) -> Option<bool> {
        let meta = Meta::new(object.meta(), &mut Interner::default())?;
        if !self.namespaces.contain(meta.namespace()) || !self.labels.selects(meta.labels()) {
            return Some(false);
        }
        if self.fields.is_empty() {
            return Some(true);
        }
        serde_json::from_slice(object.json()).ok().and_then(|object| self.fields.selects(&object))
    }

    /// The resource as messages name it.
    pub(crate) fn resource_name(&self) -> String {
        resource_name_of::<DynamicObject>(&self.resource)
    }

    /// The same with the selection.
    pub(crate) fn describe(&self) -> String {
        let mut text = self.resource_name();
        if let Some(names) = self.namespaces.get() {
            let names: Vec<_> = names.iter().map(|name| &**name).collect();
            text += &format!(" in {}", names.join(", "));
        }
        if !self.labels.is_empty() {
            text += &format!(" with {}", self.labels);
        }
        if !self.fields.is_empty() {
            text += &format!(" where {}", self.fields);
        }
        text
    }
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

/// Where the objects of a query live.
#[derive(Clone)]
pub(crate) enum Whereabouts {
    Everywhere,
    In(Arc<BTreeSet<Arc<str>>>),
    InLive(Namespaces),
}

impl Whereabouts {
    /// The names, in order; `None` for all namespaces.
    pub(crate) fn get(&self) -> Option<BTreeSet<Arc<str>>> {
        match self {
            Self::Everywhere => None,
            Self::In(names) => Some(BTreeSet::clone(names)),
            Self::InLive(names) => Some(names.get()),
        }
    }

    /// Whether objects of `namespace` are meant.
    pub(crate) fn contain(&self, namespace: Option<&str>) -> bool {
        match self {
            Self::Everywhere => true,
            Self::In(names) => namespace.is_some_and(|name| names.contains(name)),
            Self::InLive(names) => namespace.is_some_and(|name| names.names.borrow().contains(name)),
        }
    }

    /// What is listed and watched.
    pub(crate) fn parts(&self) -> Vec<Part> {
        self.get().map_or_else(|| vec![None], |names| names.into_iter().map(Some).collect())
    }

    pub(crate) fn subscribe(&self) -> Changes {
        Changes(match self {
            Self::Everywhere | Self::In(_) => None,
            Self::InLive(names) => Some(names.names.subscribe()),
        })
    }
}

/// Sets that are the same now and always will be.
impl PartialEq for Whereabouts {
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
/// tenants.remove("red"); // its objects leave the caches, and handlers are told so as if they were deleted
/// assert_eq!(tenants.get().len(), 2);
/// ```
#[derive(Clone)]
pub struct Namespaces {
    names: Arc<watch::Sender<BTreeSet<Arc<str>>>>,
}

impl Namespaces {
    /// These namespaces, to begin with.
    pub fn new<N: Into<Arc<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        Self { names: Arc::new(watch::Sender::new(names.into_iter().map(Into::into).collect())) }
    }

    /// Adds a namespace.
    pub fn add(&self, name: impl Into<Arc<str>>) {
        self.names.send_if_modified(|names| names.insert(name.into()));
    }

    /// Takes a namespace away.
    pub fn remove(&self, name: &str) {
        self.names.send_if_modified(|names| names.remove(name));
    }

    /// The names, in order.
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

/// Tells when a set changes.
pub(crate) struct Changes(Option<watch::Receiver<BTreeSet<Arc<str>>>>);

impl Changes {
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
