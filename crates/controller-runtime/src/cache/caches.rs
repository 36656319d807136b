//! Saying which objects are to be cached.

use std::{fmt, marker::PhantomData, sync::Arc};

use kube::core::{DynamicObject, NamespaceScope, PartialObjectMeta};

use super::{
    Cached, FieldSelector, InNamespace, InvalidSelector, LabelSelector, Namespaces, ResourceVersion,
    options::OfCache, query::Whereabouts, registry::Cache,
};
use crate::{
    client::DynamicKind,
    object::{Object, StaticObject, resource_name},
};

/// The caches of a manager. Made by [`Manager::cache`](crate::Manager::cache).
///
/// ```no_run
/// # use controller_runtime::Manager;
/// # use k8s_openapi::api::core::v1::{Pod, Secret};
/// # fn example(manager: &Manager) -> Result<(), controller_runtime::cache::BuildError> {
/// // The pods of one node:
/// let mine = manager.cache().of::<Pod>().fields("spec.nodeName=worker-1").build()?;
///
/// // Of all secrets, only these are ever listed and watched, by controllers as well:
/// manager.cache().of::<Secret>().namespaces(["a", "b"]).labels("app=web").as_default().build()?;
/// let secrets = manager.cached::<Secret>();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Caches<'m> {
    cache: &'m Cache,
}

impl<'m> Caches<'m> {
    pub(crate) fn new(cache: &'m Cache) -> Self {
        Self { cache }
    }

    /// Begins a cache of kind `K`.
    ///
    /// `kube::core::PartialObjectMeta<K>` caches metadata alone. If nobody else reads the kind otherwise with the same
    /// selection, the API server sends no more than that.
    #[doc(alias = "ByObject")]
    pub fn of<K: StaticObject>(&self) -> CacheBuilder<'m, K> {
        CacheBuilder::new(self.cache, (), DynamicKind::of::<K>())
    }

    /// What [`Manager::cached`](crate::Manager::cached) gives, if somebody reads that already: never begins a list and
    /// watch that nobody has declared.
    ///
    /// # Errors
    ///
    /// Nobody does.
    #[doc(alias = "ReaderFailOnMissingInformer")]
    pub fn declared<K: StaticObject>(&self) -> Result<Cached<K>, NotDeclared> {
        let declared = self.cache.is_declared::<K>();
        declared.then(|| self.cache.of_kind()).ok_or_else(|| NotDeclared { resource: resource_name::<K>() })
    }

    /// Begins a cache of a kind that is known at run time.
    ///
    /// ```no_run
    /// # use controller_runtime::{Manager, ObjectKey, client::DynamicKind};
    /// # fn example(manager: &Manager) -> Result<(), Box<dyn std::error::Error>> {
    /// let widgets = DynamicKind::namespaced("example.com", "v1", "Widget", "widgets");
    /// let widgets = manager.cache().of_dynamic(&widgets).namespaces(["a"]).build()?;
    /// let widget = widgets.get(&ObjectKey::new("a", "w"))?; // an Option<Arc<DynamicObject>>
    /// # Ok(())
    /// # }
    /// ```
    pub fn of_dynamic(&self, kind: &DynamicKind) -> CacheBuilder<'m, DynamicObject> {
        CacheBuilder::new(self.cache, kind.resource.clone(), kind.clone())
    }

    /// The same with metadata alone. If nobody else reads the kind otherwise with the same selection, the API server sends no
    /// more than that.
    ///
    /// ```no_run
    /// # use controller_runtime::{Manager, ObjectKey};
    /// # async fn example(manager: &Manager) -> Result<(), Box<dyn std::error::Error>> {
    /// let widgets = manager.client().discover("example.com", "v1", "Widget").await?;
    /// let widgets = manager.cache().of_dynamic_metadata(&widgets).labels("team=red").build()?;
    /// let labels = widgets.get_lazy(&ObjectKey::new("a", "w"))?.map(|widget| widget.meta().labels().clone());
    /// # Ok(())
    /// # }
    /// ```
    pub fn of_dynamic_metadata(
        &self,
        kind: &DynamicKind,
    ) -> CacheBuilder<'m, PartialObjectMeta<DynamicObject>> {
        CacheBuilder::new(self.cache, kind.resource.clone(), kind.clone())
    }
}

impl fmt::Debug for Caches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caches").finish_non_exhaustive()
    }
}

/// Says which objects of a kind are cached. Made by [`Caches`].
///
/// Caches of the same selection share one list and watch, whatever their Rust types. To the selection belongs
/// [`CacheBuilder::not_older_than`].
#[must_use = "a cache exists once `build` has been called"]
pub struct CacheBuilder<'m, K: Object> {
    cache: &'m Cache,
    info: K::DynamicType,
    kind: DynamicKind,
    chosen: OfCache,
    floor: Option<ResourceVersion>,
    invalid: Option<InvalidSelector>,
    is_default: bool,
    objects: PhantomData<fn() -> K>,
}

impl<'m, K: Object> CacheBuilder<'m, K> {
    fn new(cache: &'m Cache, info: K::DynamicType, kind: DynamicKind) -> Self {
        let (chosen, floor, invalid) = (OfCache::default(), None, None);
        Self { cache, info, kind, chosen, floor, invalid, is_default: false, objects: PhantomData }
    }

    /// Only objects in these namespaces, each of which is listed and watched by itself.
    pub fn namespaces<N: Into<Arc<str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self
    where
        K::Scope: NamespaceScope,
    {
        let names = names.into_iter().map(Into::into).collect();
        self.chosen.namespaces = Some(Whereabouts::In(Arc::new(names)));
        self
    }

    /// Only objects in the namespaces of a set, as it is and as it changes.
    pub fn namespace_set(mut self, names: &Namespaces) -> Self
    where
        K::Scope: NamespaceScope,
    {
        self.chosen.namespaces = Some(Whereabouts::InLive(names.clone()));
        self
    }

    /// Objects in all namespaces, whatever [`Options::namespaces`](super::Options::namespaces) says.
    pub fn all_namespaces(mut self) -> Self {
        self.chosen.namespaces = Some(Whereabouts::Everywhere);
        self
    }

    /// Makes a difference in one namespace, whatever [`Options::in_namespace`](super::Options::in_namespace) says of it; picks no
    /// namespace.
    ///
    /// ```no_run
    /// # use controller_runtime::{Manager, cache::InNamespace};
    /// # use k8s_openapi::api::core::v1::Secret;
    /// # fn example(manager: &Manager) -> Result<(), Box<dyn std::error::Error>> {
    /// let certificates = InNamespace::default().fields("type=kubernetes.io/tls".parse()?);
    /// let secrets = manager.cache().of::<Secret>().namespaces(["ours", "ingress"]).in_namespace("ingress", certificates);
    /// let secrets = secrets.as_default().build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn in_namespace(mut self, name: impl Into<Arc<str>>, choices: InNamespace) -> Self
    where
        K::Scope: NamespaceScope,
    {
        self.chosen.in_namespace.insert(name.into(), choices);
        self
    }

    /// Only objects with such labels, in the form of a [`LabelSelector`]; the empty text means all. Default: as
    /// [`Options::labels`](super::Options::labels) says.
    pub fn labels(mut self, selector: &str) -> Self {
        match selector.parse::<LabelSelector>() {
            Ok(labels) => self.chosen.labels = Some(labels),
            Err(invalid) => self.invalid = Some(invalid),
        }
        self
    }

    /// Only objects with such fields, in the form of a [`FieldSelector`]; the empty text means all. The API server says which fields it can select
    /// by: of every kind `metadata.name` and `metadata.namespace`.
    pub fn fields(mut self, selector: &str) -> Self {
        match selector.parse::<FieldSelector>() {
            Ok(fields) => self.chosen.fields = Some(fields),
            Err(invalid) => self.invalid = Some(invalid),
        }
        self
    }

    /// Takes over no present that is older than this version, such as the last one seen before a restart.
    ///
    /// An API server that is behind is waited for. One that says five times in a row that it knows nothing newer is
    /// believed: it has been restored from a backup.
    ///
    /// Who reads the same objects without this, or with another version, has a list and watch of its own. With
    /// [`CacheBuilder::as_default`] controllers share this one.
    pub fn not_older_than(mut self, version: &ResourceVersion) -> Self {
        self.floor = Some(version.clone());
        self
    }

    /// Makes this what [`Manager::cached`](crate::Manager::cached) and controllers read of the resource from now on.
    pub fn as_default(mut self) -> Self {
        self.is_default = true;
        self
    }

    /// The cache. It is listed and watched from the start of the manager on; at once if that runs.
    ///
    /// # Errors
    ///
    /// A selector is none; the resource has another default; namespaces were chosen of a kind known at run time that has none.
    pub fn build(self) -> Result<Cached<K>, BuildError> {
        if let Some(invalid) = self.invalid {
            return Err(BuildError::Selector(invalid));
        }
        let OfCache { namespaces, in_namespace, .. } = &self.chosen;
        let everywhere =
            matches!(namespaces, None | Some(Whereabouts::Everywhere)) && in_namespace.is_empty();
        if !self.kind.is_namespaced && !everywhere {
            return Err(BuildError::NotNamespaced { resource: self.kind.to_string() });
        }
        let mut query = self.cache.query(&self.kind, &self.chosen);
        query.floor = self.floor;
        if self.is_default && !self.cache.set_default(&query) {
            return Err(BuildError::DefaultTaken { resource: query.resource_name() });
        }
        Ok(self.cache.cached(&self.info, query))
    }
}

impl<K: Object> fmt::Debug for CacheBuilder<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, chosen, .. } = self;
        f.debug_struct("CacheBuilder").field("kind", kind).field("chosen", chosen).finish_non_exhaustive()
    }
}

/// Why there is no such cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A text is no selector.
    #[error(transparent)]
    Selector(#[from] InvalidSelector),
    /// Objects of the kind live in the cluster, and those of some namespaces were asked for.
    #[error("{resource} have no namespaces: leave out what was chosen by namespace")]
    NotNamespaced {
        /// The resource.
        resource: String,
    },
    /// The resource has another default selection.
    #[error("{resource} has another default selection already: only one can be what controllers read")]
    DefaultTaken {
        /// The resource.
        resource: String,
    },
}

/// Nobody has declared that the kind is read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{resource} is not cached: make a handle of it (Manager::cached) before the manager runs")]
#[doc(alias = "ErrResourceNotCached")]
#[non_exhaustive]
pub struct NotDeclared {
    /// The resource.
    pub resource: String,
}
