use std::{any::TypeId, collections::BTreeMap};

use kube::core::ApiResource;
use serde_json::Value;

use super::{
    FieldSelector, LabelSelector, Namespaces, Resync, Retain,
    arrival::Intake,
    query::{Query, Whereabouts},
    transform::Transform,
};
use crate::object::Object;

/// What a manager's caches are about and how they hold it, unless [`Caches`](super::Caches) is told otherwise for one of
/// them.
///
/// ```
/// use controller_runtime::{cache, cache::{Namespaces, Retain}, manager};
/// use k8s_openapi::api::core::v1::{Node, Pod};
///
/// # fn example() -> Result<manager::Options, Box<dyn std::error::Error>> {
/// let cache = cache::Options::default()
///     .namespaces(&Namespaces::new(["red", "blue"]))
///     .labels("team!=legacy".parse()?)
///     .retain(Retain::Budget(128 << 20))
///     .retain_kind::<Node>(Retain::Decoded)
///     .transform_kind::<Pod>(|pod| pod["spec"] = serde_json::json!({ "nodeName": pod["spec"]["nodeName"] }));
/// Ok(manager::Options::new("scheduler").cache(cache))
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Options {
    retain: Retain,
    resync: Resync,
    transform: Option<Transform>,
    namespaces: Option<Namespaces>,
    labels: LabelSelector,
    fields: FieldSelector,
    by_kind: BTreeMap<TypeId, OfKind>,
}

/// The choices for one kind.
#[derive(Debug, Clone, Default)]
struct OfKind {
    retain: Option<Retain>,
    resync: Option<Resync>,
    transform: Option<Transform>,
    managed_fields: bool,
}

/// Which objects.
impl Options {
    /// Only namespaced objects in these namespaces. Default: all of them. Kinds known at run time are not restricted: their
    /// scope is not known.
    #[doc(alias = "DefaultNamespaces")]
    pub fn namespaces(mut self, namespaces: &Namespaces) -> Self {
        self.namespaces = Some(namespaces.clone());
        self
    }

    /// Only objects with such labels. Default: all.
    #[doc(alias = "DefaultLabelSelector")]
    pub fn labels(mut self, selector: LabelSelector) -> Self {
        self.labels = selector;
        self
    }

    /// Only objects with such fields, which the API server must be able to select every cached kind by. Default: all.
    #[doc(alias = "DefaultFieldSelector")]
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.fields = selector;
        self
    }
}

/// How they are held.
impl Options {
    /// What is kept decoded, unless [`Options::retain_kind`] says otherwise. Default: 64 MiB of what is read often.
    pub fn retain(mut self, retain: Retain) -> Self {
        self.retain = retain;
        self
    }

    /// What is kept decoded of the objects read as type `K`.
    pub fn retain_kind<K: Object>(mut self, retain: Retain) -> Self {
        self.of_kind::<K>().retain = Some(retain);
        self
    }

    /// Keeps `metadata.managedFields` of the objects read as type `K`. Default: they are dropped where they arrive, as
    /// controller-runtime's `TransformStripManagedFields` does when asked.
    pub fn keep_managed_fields<K: Object>(mut self) -> Self {
        self.of_kind::<K>().managed_fields = true;
        self
    }

    /// Changes every object where it arrives: what `change` takes away is never held, and nobody who reads the cache knows
    /// of it. Default: objects are held as they are.
    ///
    /// `change` must make the same of the same object each time. It is called where events are delivered, for each version of
    /// each object, and our own writes pass it too. Namespace, name, uid and version stay whatever it does; an object on
    /// which it panics is held as it came. It costs a decode and an encode of the object.
    #[doc(alias = "DefaultTransform")]
    pub fn transform(mut self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.transform = Some(Transform::new(change));
        self
    }

    /// Changes the objects read as type `K` where they arrive, in place of [`Options::transform`].
    pub fn transform_kind<K: Object>(mut self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.of_kind::<K>().transform = Some(Transform::new(change));
        self
    }

    /// Whether handlers are told again of what is there. Default: never.
    #[doc(alias = "SyncPeriod")]
    pub fn resync(mut self, resync: Resync) -> Self {
        self.resync = resync;
        self
    }

    /// The same for the objects read as type `K`.
    pub fn resync_kind<K: Object>(mut self, resync: Resync) -> Self {
        self.of_kind::<K>().resync = Some(resync);
        self
    }

    fn of_kind<K: Object>(&mut self) -> &mut OfKind {
        self.by_kind.entry(TypeId::of::<K>()).or_default()
    }
}

/// What was chosen.
impl Options {
    /// What is read of a resource unless somebody asks for something else.
    pub(super) fn query(&self, resource: ApiResource, is_namespaced: bool) -> Query {
        let namespaces = self.namespaces.clone().filter(|_| is_namespaced);
        Query {
            namespaces: namespaces.map_or(Whereabouts::Everywhere, Whereabouts::InLive),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            ..Query::all(resource)
        }
    }

    pub(super) fn default_retain(&self) -> Retain {
        self.retain
    }

    /// The choice for a kind, if it has its own.
    pub(super) fn retain_of<K: Object>(&self) -> Option<Retain> {
        self.chosen::<K>()?.retain
    }

    pub(super) fn resync_of<K: Object>(&self) -> Resync {
        self.chosen::<K>().and_then(|kind| kind.resync).unwrap_or(self.resync)
    }

    /// What is done to objects of a kind before they are held.
    pub(super) fn intake_of<K: Object>(&self) -> Intake {
        let kind = self.chosen::<K>();
        let transform = kind.and_then(|kind| kind.transform.as_ref()).or(self.transform.as_ref());
        Intake { managed_fields: kind.is_some_and(|kind| kind.managed_fields), transform: transform.cloned() }
    }

    fn chosen<K: Object>(&self) -> Option<&OfKind> {
        self.by_kind.get(&TypeId::of::<K>())
    }
}
