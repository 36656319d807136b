//! Kinds known at run time only.

use std::{any::TypeId, fmt};

use kube::{
    core::{ApiResource, DynamicObject, NamespaceResourceScope, PartialObjectMeta},
    discovery::{ApiCapabilities, Scope as DiscoveredScope},
};

use crate::object::{Object, StaticObject};

/// A kind known at run time only: its resource and scope.
///
/// ```
/// use controller_runtime::DynamicKind;
///
/// let widgets = DynamicKind::namespaced("example.com", "v1", "Widget", "widgets");
/// assert_eq!(widgets.to_string(), "widgets.example.com");
/// ```
///
/// [`Client::discover`](crate::Client::discover) reads it from the API server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DynamicKind {
    pub(crate) resource: ApiResource,
    pub(crate) is_namespaced: bool,
}

impl DynamicKind {
    /// A namespaced kind; `group` is empty for the core group.
    #[must_use]
    pub fn namespaced(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self { resource: resource(group, version, kind, plural), is_namespaced: true }
    }

    /// A cluster-scoped kind; `group` is empty for the core group.
    #[must_use]
    pub fn cluster(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self { resource: resource(group, version, kind, plural), is_namespaced: false }
    }

    /// The kind of a type.
    #[must_use]
    pub fn of<K: StaticObject>() -> Self {
        let is_namespaced = TypeId::of::<K::Scope>() == TypeId::of::<NamespaceResourceScope>();
        Self { resource: ApiResource::erase::<K>(&()), is_namespaced }
    }

    /// The metadata of the kind's objects, as an argument of [`Caches::of_dynamic`](crate::cache::Caches::of_dynamic) and
    /// [`Builder::for_dynamic`](crate::Builder::for_dynamic).
    #[must_use]
    pub fn metadata(&self) -> MetadataOf<'_> {
        MetadataOf(self)
    }

    /// The resource, as `kube` represents it.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// Whether the kind is namespaced.
    #[must_use]
    pub fn is_namespaced(&self) -> bool {
        self.is_namespaced
    }

    /// URL path of the objects in `namespace`, or in all namespaces.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        <DynamicObject as kube::Resource>::url_path(&self.resource, namespace)
    }
}

/// Metadata of the objects of a kind known at run time. Returned by [`DynamicKind::metadata`].
#[derive(Debug, Clone, Copy)]
pub struct MetadataOf<'k>(&'k DynamicKind);

/// Objects of a kind known at run time: `&DynamicKind` for whole objects, [`DynamicKind::metadata`] for their metadata alone.
pub trait RuntimeKind: sealed::Sealed {
    /// Rust type of the objects.
    type Object: Object<DynamicType = ApiResource>;

    /// Returns the kind.
    fn into_kind(self) -> DynamicKind;
}

impl RuntimeKind for &DynamicKind {
    type Object = DynamicObject;

    fn into_kind(self) -> DynamicKind {
        self.clone()
    }
}

impl RuntimeKind for MetadataOf<'_> {
    type Object = PartialObjectMeta<DynamicObject>;

    fn into_kind(self) -> DynamicKind {
        self.0.clone()
    }
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for &super::DynamicKind {}
    impl Sealed for super::MetadataOf<'_> {}
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

impl From<(ApiResource, ApiCapabilities)> for DynamicKind {
    fn from((resource, capabilities): (ApiResource, ApiCapabilities)) -> Self {
        Self { resource, is_namespaced: capabilities.scope == DiscoveredScope::Namespaced }
    }
}

/// `deployments.apps`, or `configmaps` for the core group.
impl fmt::Display for DynamicKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.resource.group.as_str() {
            "" => f.write_str(&self.resource.plural),
            group => write!(f, "{}.{group}", self.resource.plural),
        }
    }
}
