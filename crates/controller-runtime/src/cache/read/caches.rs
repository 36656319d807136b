//! Declaration of caches: kinds, namespaces and selectors.

use std::{fmt, marker::PhantomData, panic::Location, sync::Arc};

use kube::core::NamespaceScope;

use super::cached::Cached;
use crate::{
    cache::{
        query::{
            NamespaceSelection, Namespaces,
            in_namespace::InNamespace,
            options::CacheSelection,
            selector::{FieldSelector, LabelSelector, SelectorError},
        },
        state::registry::Cache,
    },
    object::{DynamicKind, Object, RuntimeKind, StaticObject, meta::ResourceVersion, resource_name},
};

/// Declares the caches of a manager. Returned by [`Manager::cache`](crate::Manager::cache).
///
/// ```no_run
/// # use controller_runtime::Manager;
/// # use k8s_openapi::api::core::v1::{Pod, Secret};
/// # fn example(manager: &Manager) -> Result<(), controller_runtime::cache::BuildError> {
/// // The pods of one node:
/// let mine = manager.cache().of::<Pod>().fields("spec.nodeName=worker-1").build()?;
///
/// // Of all secrets, only these are ever listed and watched, also for controllers:
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

    /// Starts the declaration of a cache of kind `K`.
    ///
    /// `kube::core::PartialObjectMeta<K>` caches metadata alone. If all readers of the kind with this selection read
    /// metadata alone, the API server sends nothing else.
    #[doc(alias = "ByObject")]
    pub fn of<K: StaticObject>(&self) -> CacheBuilder<'m, K> {
        CacheBuilder::new(self.cache, (), DynamicKind::of::<K>())
    }

    /// Like [`Manager::cached`](crate::Manager::cached), but fails instead of starting a list and watch of a kind that
    /// is not read yet.
    ///
    /// # Errors
    ///
    /// The kind is not read yet.
    #[doc(alias = "ReaderFailOnMissingInformer")]
    pub fn declared<K: StaticObject>(&self) -> Result<Cached<K>, NotDeclaredError> {
        let declared = self.cache.is_declared::<K>();
        declared
            .then(|| self.cache.of_kind())
            .ok_or_else(|| NotDeclaredError { resource: resource_name::<K>() })
    }

    /// Starts the declaration of a cache of a kind that is known at run time.
    ///
    /// ```no_run
    /// # use controller_runtime::{DynamicKind, Manager, ObjectKey};
    /// # fn example(manager: &Manager) -> Result<(), Box<dyn std::error::Error>> {
    /// let widgets = DynamicKind::namespaced("example.com", "v1", "Widget", "widgets");
    /// let widgets = manager.cache().of_dynamic(&widgets).namespaces(["a"]).build()?;
    /// let widget = widgets.get(&ObjectKey::new("a", "w"))?; // an Option<Arc<DynamicObject>>
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// With [`DynamicKind::metadata`] the cache holds metadata alone. If all readers of the kind with this selection
    /// read metadata alone, the API server sends nothing else.
    ///
    /// ```no_run
    /// # use controller_runtime::{Manager, ObjectKey};
    /// # async fn example(manager: &Manager) -> Result<(), Box<dyn std::error::Error>> {
    /// let widgets = manager.client().discover("example.com", "v1", "Widget").await?;
    /// let widgets = manager.cache().of_dynamic(widgets.metadata()).labels("team=red").build()?;
    /// let labels = widgets.get_lazy(&ObjectKey::new("a", "w"))?.map(|widget| widget.meta().labels().clone());
    /// # Ok(())
    /// # }
    /// ```
    pub fn of_dynamic<D: RuntimeKind>(&self, objects: D) -> CacheBuilder<'m, D::Object> {
        let kind = objects.into_kind();
        CacheBuilder::new(self.cache, kind.resource.clone(), kind)
    }
}

impl fmt::Debug for Caches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caches").finish_non_exhaustive()
    }
}

/// Declaration of a cache: selects objects of a kind. Returned by [`Caches`].
///
/// Caches with the same selection share one list and watch, whatever their Rust types. [`CacheBuilder::not_older_than`]
/// is part of the selection.
#[must_use = "a cache exists once `build` has been called"]
pub struct CacheBuilder<'m, K: Object> {
    cache: &'m Cache,
    info: K::DynamicType,
    kind: DynamicKind,
    chosen: CacheSelection,
    floor: Option<ResourceVersion>,
    invalid: Option<SelectorError>,
    is_default: bool,
    objects: PhantomData<fn() -> K>,
}

impl<'m, K: Object> CacheBuilder<'m, K> {
    fn new(cache: &'m Cache, info: K::DynamicType, kind: DynamicKind) -> Self {
        let (chosen, floor, invalid) = (CacheSelection::default(), None, None);
        Self { cache, info, kind, chosen, floor, invalid, is_default: false, objects: PhantomData }
    }

    /// Restricts the cache to these namespaces. Each is listed and watched separately.
    pub fn namespaces<N: Into<Arc<str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self
    where
        K::Scope: NamespaceScope,
    {
        let names = names.into_iter().map(Into::into).collect();
        self.chosen.namespaces = Some(NamespaceSelection::In(Arc::new(names)));
        self
    }

    /// Restricts the cache to the namespaces of a set, and follows changes of the set.
    pub fn namespace_set(mut self, names: &Namespaces) -> Self
    where
        K::Scope: NamespaceScope,
    {
        self.chosen.namespaces = Some(NamespaceSelection::InLive(names.clone()));
        self
    }

    /// Caches objects in all namespaces, regardless of [`CacheOptions::namespaces`](crate::cache::CacheOptions::namespaces).
    pub fn all_namespaces(mut self) -> Self {
        self.chosen.namespaces = Some(NamespaceSelection::Everywhere);
        self
    }

    /// Sets different options for one namespace, in place of
    /// [`CacheOptions::in_namespace`](crate::cache::CacheOptions::in_namespace). Does not restrict the cache to the
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

    /// Restricts the cache to objects with matching labels, in the syntax of a [`LabelSelector`]; the empty string
    /// matches all. Default: [`CacheOptions::labels`](crate::cache::CacheOptions::labels).
    pub fn labels(mut self, selector: &str) -> Self {
        match selector.parse::<LabelSelector>() {
            Ok(labels) => self.chosen.labels = Some(labels),
            Err(invalid) => self.invalid = Some(invalid),
        }
        self
    }

    /// Restricts the cache to objects with matching fields, in the syntax of a [`FieldSelector`]; the empty string
    /// matches all. The API server supports `metadata.name` and `metadata.namespace` for every kind, and some fields of
    /// some kinds.
    pub fn fields(mut self, selector: &str) -> Self {
        match selector.parse::<FieldSelector>() {
            Ok(fields) => self.chosen.fields = Some(fields),
            Err(invalid) => self.invalid = Some(invalid),
        }
        self
    }

    /// Rejects an initial list that is older than this version, such as the last version read before a restart.
    ///
    /// If the API server is behind, the cache waits for it. If its version is too old five times in a row, the cache
    /// accepts it: the API server was probably restored from a backup.
    ///
    /// A cache with this option shares its list and watch only with caches of the same version. To let controllers
    /// share it, call [`CacheBuilder::as_default`].
    pub fn not_older_than(mut self, version: &ResourceVersion) -> Self {
        self.floor = Some(version.clone());
        self
    }

    /// Makes this the selection of the resource that [`Manager::cached`](crate::Manager::cached) and controllers read
    /// from now on.
    pub fn as_default(mut self) -> Self {
        self.is_default = true;
        self
    }

    /// Returns the cache. Its objects are listed and watched as soon as the manager runs.
    ///
    /// # Errors
    ///
    /// A selector is invalid, the resource already has another default selection, or namespaces were set for a kind
    /// known at run time that has none.
    #[track_caller]
    pub fn build(self) -> Result<Cached<K>, BuildError> {
        let place = Location::caller();
        if let Some(invalid) = self.invalid {
            return Err(BuildError::Selector(invalid));
        }
        let CacheSelection { namespaces, in_namespace, .. } = &self.chosen;
        let everywhere =
            matches!(namespaces, None | Some(NamespaceSelection::Everywhere)) && in_namespace.is_empty();
        if !self.kind.is_namespaced && !everywhere {
            return Err(BuildError::NotNamespaced { resource: self.kind.to_string() });
        }
        let mut query = self.cache.query(&self.kind, &self.chosen);
        query.floor = self.floor;
        if self.is_default && !self.cache.set_default(&query) {
            return Err(BuildError::DefaultTaken { resource: query.resource_name() });
        }
        self.cache.declare(&query, "cached", place);
        Ok(self.cache.cached(&self.info, query))
    }
}

impl<K: Object> fmt::Debug for CacheBuilder<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, chosen, .. } = self;
        f.debug_struct("CacheBuilder").field("kind", kind).field("chosen", chosen).finish_non_exhaustive()
    }
}

/// Error of [`CacheBuilder::build`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A selector is invalid.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// Namespaces were set for a kind that has none.
    #[error("{resource} are cluster-scoped: remove the options of this cache that name namespaces")]
    NotNamespaced {
        /// The resource.
        resource: String,
    },
    /// The resource has another default selection.
    #[error(
        "{resource} already has another default selection: call CacheBuilder::as_default for only one cache of the resource"
    )]
    DefaultTaken {
        /// The resource.
        resource: String,
    },
}

/// Error of [`Caches::declared`]: the kind is not read yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{resource} is not cached: call Manager::cached for it before the manager runs")]
#[doc(alias = "ErrResourceNotCached")]
#[non_exhaustive]
pub struct NotDeclaredError {
    /// The resource.
    pub resource: String,
}
