//! Keys of objects: namespace and name.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    marker::PhantomData,
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, core::PartialObjectMeta};

use super::{KindInfo, NamespaceOf, Object, OwnableBy, Scope, meta::Meta};

/// Names one object of kind `K`.
///
/// This is the default request of a [`Reconciler`](crate::Reconciler), and the key for caches and clients.
/// Keys are cheap to clone and ordered by namespace, then name.
///
/// ```
/// use controller_runtime::ObjectKey;
/// use k8s_openapi::api::core::v1::{ConfigMap, Node};
///
/// let config = ObjectKey::<ConfigMap>::new("default", "settings");
/// assert_eq!(config.to_string(), "default/settings");
///
/// let node = ObjectKey::<Node>::new((), "worker-1"); // a cluster-scoped key has no namespace
/// assert_eq!(node.to_string(), "worker-1");
///
/// use kube::core::DynamicObject; // its scope is known at run time
/// assert_eq!(ObjectKey::<DynamicObject>::new("default", "settings").to_string(), "default/settings");
/// assert_eq!(ObjectKey::<DynamicObject>::new((), "worker-1").to_string(), "worker-1");
/// ```
#[doc(alias = "NamespacedName")]
#[doc(alias = "reconcile.Request")]
pub struct ObjectKey<K: Object> {
    namespace: Namespace<K>,
    name: Arc<str>,
    kind: PhantomData<fn() -> K>,
}

type Namespace<K> = <<K as Resource>::Scope as Scope>::Namespace;

impl<K: Object> ObjectKey<K> {
    /// The key of the object `name`, in `namespace` (`()` for cluster-scoped kinds).
    ///
    /// A superfluous namespace does not compile, and neither does a missing one:
    ///
    /// ```compile_fail,E0277
    /// # use controller_runtime::ObjectKey;
    /// # use k8s_openapi::api::core::v1::Node;
    /// ObjectKey::<Node>::new("default", "worker-1"); // a Node has no namespace: `new((), "worker-1")`
    /// ```
    ///
    /// ```compile_fail,E0277
    /// # use controller_runtime::ObjectKey;
    /// # use k8s_openapi::api::core::v1::Pod;
    /// ObjectKey::<Pod>::new((), "web"); // a Pod needs a namespace: `new("default", "web")`
    /// ```
    pub fn new(namespace: impl NamespaceOf<K::Scope>, name: impl Into<Arc<str>>) -> Self {
        Self::in_namespace(namespace.into_namespace(), name)
    }

    pub(crate) fn in_namespace(namespace: Namespace<K>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace, name: name.into(), kind: PhantomData }
    }

    /// The key of `object`.
    ///
    /// `None` if it has no name, or no namespace although its kind is namespaced. Objects read from an API server always have a
    /// key; objects made by hand may not.
    pub fn of(object: &K) -> Option<Self> {
        let ObjectMeta { namespace, name, .. } = object.meta();
        let namespace = namespace.as_deref().map(Arc::from);
        Self::from_parts(namespace.as_ref(), name.as_deref()?)
    }

    /// The key of the object `name` in `namespace`; `None` if there is no namespace and the kind is namespaced.
    pub(crate) fn from_parts(namespace: Option<&Arc<str>>, name: impl Into<Arc<str>>) -> Option<Self> {
        Some(Self::in_namespace(K::Scope::namespace(namespace)?, name))
    }

    /// The key of a text such as `default/web`, with or without the kind in front; `None` if a namespaced kind has no namespace.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let name = text.rsplit(' ').next().unwrap_or(text);
        match name.split_once('/') {
            Some((namespace, name)) => Self::from_parts(Some(&Arc::from(namespace)), name),
            None => Self::from_parts(None, name),
        }
    }

    /// The key in the given metadata; `None` if they are those of a cluster-scoped object and the kind is namespaced.
    pub(crate) fn of_meta(meta: &Meta) -> Option<Self> {
        let namespace = K::Scope::namespace(meta.shared_namespace())?;
        Some(Self::in_namespace(namespace, Arc::clone(meta.shared_name())))
    }

    /// The namespace's name; `None` for cluster-scoped kinds.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        K::Scope::as_str(&self.namespace)
    }

    /// The object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key of the same object, for reading its metadata alone.
    #[must_use]
    pub fn metadata(&self) -> ObjectKey<PartialObjectMeta<K>> {
        ObjectKey { namespace: self.namespace.clone(), name: Arc::clone(&self.name), kind: PhantomData }
    }

    /// The key of the owner `name` of this object, in its namespace if owners are namespaced.
    pub(crate) fn owner<O: Object>(&self, name: &str) -> Option<ObjectKey<O>>
    where
        K::Scope: OwnableBy<O::Scope>,
    {
        Some(ObjectKey::in_namespace(K::Scope::owner_namespace(&self.namespace)?, name))
    }
}

impl<K: Object> ObjectKey<PartialObjectMeta<K>> {
    /// The key of the same object, for reading all of it.
    #[must_use]
    pub fn whole(&self) -> ObjectKey<K> {
        ObjectKey { namespace: self.namespace.clone(), name: Arc::clone(&self.name), kind: PhantomData }
    }
}

// Implemented by hand, because derives would require the same traits of `K`.

impl<K: Object> Clone for ObjectKey<K> {
    fn clone(&self) -> Self {
        Self { namespace: self.namespace.clone(), name: Arc::clone(&self.name), kind: PhantomData }
    }
}

impl<K: Object> PartialEq for ObjectKey<K> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<K: Object> Eq for ObjectKey<K> {}

impl<K: Object> PartialOrd for ObjectKey<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Object> Ord for ObjectKey<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.namespace.cmp(&other.namespace).then_with(|| self.name.cmp(&other.name))
    }
}

impl<K: Object> Hash for ObjectKey<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.namespace.hash(state);
        self.name.hash(state);
    }
}

impl<K: Object> fmt::Display for ObjectKey<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace() {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl<K: Object> fmt::Debug for ObjectKey<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match K::DynamicType::of_type() {
            Some(info) => write!(f, "{} {self}", K::kind(&info)),
            None => write!(f, "object {self}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Node};
    use kube::core::{ApiResource, DynamicObject};

    use super::*;

    fn config_map(namespace: Option<&str>, name: Option<&str>) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                namespace: namespace.map(Into::into),
                name: name.map(Into::into),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    #[test]
    fn key_of_a_namespaced_object_needs_namespace_and_name() {
        assert_eq!(ObjectKey::of(&config_map(Some("a"), Some("b"))), Some(ObjectKey::new("a", "b")));
        assert_eq!(ObjectKey::of(&config_map(None, Some("b"))), None);
        assert_eq!(ObjectKey::of(&config_map(Some("a"), None)), None);
    }

    #[test]
    fn keys_are_ordered_by_namespace_then_name() {
        let mut keys =
            [("b", "a"), ("a", "b"), ("a", "a")].map(|(ns, name)| ObjectKey::<ConfigMap>::new(ns, name));
        keys.sort();
        assert_eq!(keys.map(|key| key.to_string()), ["a/a", "a/b", "b/a"]);
    }

    #[test]
    fn debug_names_the_kind() {
        assert_eq!(format!("{:?}", ObjectKey::<Node>::new((), "n")), "Node n");
    }

    #[test]
    fn a_kind_known_at_run_time_keeps_the_namespace_it_has() {
        let key = |namespace: Option<&str>| {
            let mut object = DynamicObject::new("x", &ApiResource::erase::<Node>(&()));
            object.metadata.namespace = namespace.map(Into::into);
            ObjectKey::of(&object).expect("it has a name")
        };
        assert_eq!(key(Some("a")), ObjectKey::new("a", "x"));
        assert_eq!(key(None), ObjectKey::new((), "x"));
        assert_eq!((key(Some("a")).namespace(), key(None).namespace()), (Some("a"), None));
        assert_eq!(format!("{:?}", key(None)), "object x");
    }

    #[test]
    fn metadata_have_the_key_of_their_object() {
        let key = ObjectKey::<ConfigMap>::new("a", "b");
        assert_eq!(key.metadata(), ObjectKey::new("a", "b"));
        assert_eq!(key.metadata().whole(), key);
    }

    #[test]
    fn a_cluster_scoped_owner_has_no_namespace() {
        let child = ObjectKey::<ConfigMap>::new("a", "b");
        assert_eq!(child.owner::<Node>("n"), Some(ObjectKey::new((), "n")));
        assert_eq!(child.owner::<ConfigMap>("n"), Some(ObjectKey::new("a", "n")));
    }

    #[test]
    fn an_object_that_turns_out_to_be_cluster_scoped_has_no_namespaced_owner() {
        let (here, nowhere) =
            (ObjectKey::<DynamicObject>::new("a", "b"), ObjectKey::<DynamicObject>::new((), "b"));
        assert_eq!(here.owner::<ConfigMap>("n"), Some(ObjectKey::new("a", "n")));
        assert_eq!(nowhere.owner::<ConfigMap>("n"), None);
        assert_eq!(nowhere.owner::<Node>("n"), Some(ObjectKey::new((), "n")));
        assert_eq!(
            ObjectKey::<ConfigMap>::new("a", "b").owner::<DynamicObject>("n"),
            Some(ObjectKey::new("a", "n"))
        );
    }
}
