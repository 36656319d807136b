use std::{fmt, sync::Arc};

use kube::core::ApiResource;

use super::{Sink, Source, delivery::Delivery, rules::Rules};
use crate::{
    cache::{Cache, Cached, Delivered, LabelSelector},
    client::DynamicKind,
    handler::EventHandler,
    manager::{self, BoxError},
    object::{Object, StaticObject},
    pace::Pace,
    predicate::Predicate,
    reconcile::Request,
};

/// All changes of one kind, through a cache.
///
/// Any number of controllers share one watch of the kind. An event on which a predicate or handler panics is delivered again, after a
/// second doubling to five minutes, until it is handled or a newer event of the object takes its place; everything else goes
/// on. `controller_runtime_failed_events` and [`Manager::overview`](crate::Manager::overview) show what waits.
///
/// ```
/// use controller_runtime::{Kind, MapFn, ObjectKey, predicate::LabelChanged};
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
///
/// // ConfigMaps named like a Deployment reconcile it, when their labels change.
/// let source: Kind<ConfigMap, ObjectKey<Deployment>> =
///     Kind::new(MapFn(|map: &ConfigMap| {
///         ObjectKey::of(map).map(|key| ObjectKey::new(key.namespace().unwrap_or_default(), key.name()))
///     }))
///     .with_predicate(LabelChanged);
/// ```
///
/// Of `kube::core::PartialObjectMeta<K>` in place of `K` only metadata are watched and held.
pub struct Kind<K: Object, R: Request> {
    open: Box<Open<K>>,
    name: Option<String>,
    rules: Rules<K, R>,
}

/// Takes a cache, of objects with such labels if those are enough.
type Open<K> = dyn FnOnce(&Cache, &LabelSelector) -> Cached<K> + Send;

impl<K: StaticObject, R: Request> Kind<K, R> {
    /// Hands every change of the kind to `handler`, as the manager's cache tells of it: of all objects, unless the kind has
    /// another default ([`CacheBuilder::as_default`](crate::cache::CacheBuilder::as_default)).
    pub fn new(handler: impl EventHandler<K, R>) -> Self {
        Self::of_resource(DynamicKind::of::<K>(), (), handler)
    }
}

impl<K: Object<DynamicType = ApiResource>, R: Request> Kind<K, R> {
    /// The same of a kind known at run time: `K` is `kube::core::DynamicObject`, or `PartialObjectMeta<DynamicObject>` for
    /// metadata alone.
    pub fn dynamic(kind: &DynamicKind, handler: impl EventHandler<K, R>) -> Self {
        Self::of_resource(kind.clone(), kind.resource.clone(), handler)
    }
}

impl<K: Object, R: Request> Kind<K, R> {
    /// Hands every change of what `cached` holds to `handler`: of some namespaces, of what a selector selects, or of
    /// another cluster.
    ///
    /// The cache of another cluster is one of a [`Cluster`](crate::manager::Cluster) of the manager, or of another manager,
    /// which has to run as well.
    ///
    /// ```no_run
    /// # use controller_runtime::{ForObject, Kind, Manager, ObjectKey};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(manager: &Manager) -> Result<(), controller_runtime::cache::BuildError> {
    /// let mine = manager.cache().of::<Pod>().fields("spec.nodeName=worker-1").build()?;
    /// let source: Kind<Pod, ObjectKey<Pod>> = Kind::of(&mine, ForObject);
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(cached: &Cached<K>, handler: impl EventHandler<K, R>) -> Self {
        let cached = cached.clone();
        Self::opened_by(|_, _| cached, handler)
    }

    /// Hands every change of the kind that `kind` and `info` name to `handler`.
    pub(super) fn of_resource(
        kind: DynamicKind,
        info: K::DynamicType,
        handler: impl EventHandler<K, R>,
    ) -> Self {
        Self::opened_by(move |cache, required| cache.of_kind_with::<K>(&info, &kind, required), handler)
    }

    fn opened_by(
        open: impl FnOnce(&Cache, &LabelSelector) -> Cached<K> + Send + 'static,
        handler: impl EventHandler<K, R>,
    ) -> Self {
        Self { open: Box::new(open), name: None, rules: Rules::new(handler) }
    }

    /// Watches through `cached` instead, as [`Kind::of`] does.
    #[must_use]
    pub(crate) fn through(mut self, cached: &Cached<K>) -> Self {
        let cached = cached.clone();
        self.open = Box::new(|_, _| cached);
        self
    }

    /// Hands on only what `predicate` passes, in addition to the predicates given before.
    ///
    /// Of what a [`LabelSelector`] selects the API server sends nothing else, if nobody else reads the kind as a whole by
    /// the time the source is given to a controller.
    #[must_use]
    pub fn with_predicate(mut self, predicate: impl Predicate<K>) -> Self {
        self.rules.add(Box::new(predicate));
        self
    }

    /// Like [`Kind::with_predicate`], for several.
    pub(super) fn with_predicates(
        mut self,
        predicates: impl IntoIterator<Item = Box<dyn Predicate<K>>>,
    ) -> Self {
        predicates.into_iter().for_each(|predicate| self.rules.add(predicate));
        self
    }

    /// Names the source, in messages and causes. Default: the resource, e.g. `deployments.apps`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Declares the kind to the cache, which from now on holds it. No event counts of objects without the labels that are
    /// `required`.
    pub(crate) fn attach(self, cache: &Cache, required: &LabelSelector) -> Attached<K, R> {
        let Self { open, name, rules } = self;
        let cached = open(cache, &rules.required_labels().and(required.clone()));
        let name = name.unwrap_or_else(|| cached.resource_name());
        Attached { cached, name: Arc::from(name), rules }
    }
}

impl<K: Object, R: Request> fmt::Debug for Kind<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A kind that a cache holds.
pub(crate) struct Attached<K: Object, R: Request> {
    cached: Cached<K>,
    name: Arc<str>,
    rules: Rules<K, R>,
}

impl<K: Object, R: Request> Source<R> for Attached<K, R> {
    fn name(&self) -> String {
        self.name.to_string()
    }

    async fn run(&self, sink: Sink<R>) -> Result<(), BoxError> {
        let readable = self.cached.readable().await;
        readable.map_err(|missing| manager::Error::Forbidden { missing })?;
        let (mut events, mut pace) = (self.cached.subscribe(), Pace::begin());
        let mut delivery = Delivery::new(&sink, &self.rules);
        loop {
            tokio::select! {
                // What is due first: events may never pause.
                biased;
                () = delivery.due() => {
                    delivery.retry();
                }
                next = events.next() => match next {
                    Delivered::Event(event) => delivery.deliver(event),
                    Delivered::Synced => sink.set_synced(),
                },
            }
            pace.step().await;
        }
    }

    fn signals_synced(&self) -> bool {
        true
    }

    fn trouble(&self) -> Option<String> {
        Some(self.cached.trouble().unwrap_or_else(|| "the API server has not answered yet".to_owned()))
    }
}
