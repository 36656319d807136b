//! Source of the events of a cached kind.

use std::{fmt, panic::Location, pin::pin, sync::Arc};

use futures::FutureExt;
use kube::core::ApiResource;

use super::{Attachment, Sink, Source, delivery::Delivery, event_rules::Rules};
use crate::{
    cache::{Cache, Cached, Delivered, ForbiddenError, LabelSelector},
    error::BoxError,
    handler::EventHandler,
    object::{DynamicKind, Object, StaticObject},
    pace::Pace,
    predicate::Predicate,
    reconcile::Request,
    rights::CodeLine,
};

/// Events of one kind, from a cache.
///
/// All controllers share one watch of the kind. If a predicate or handler panics on an event, or a handler
/// [fails](crate::request_queue::Enqueue::fail), the event is delivered again after 1 s, doubling to 5 minutes, until it is handled or a newer
/// event of the object replaces it. Other events do not wait for it. `controller_runtime_failed_events` and
/// [`Manager::overview`](crate::Manager::overview) show the events that wait for redelivery.
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
/// With `kube::core::PartialObjectMeta<K>` in place of `K`, only metadata are watched and cached.
pub struct Kind<K: Object, R: Request> {
    open: Box<Open<K>>,
    /// Registration that opens the cache; `None` for a cache that was declared before.
    declared: Option<(&'static str, CodeLine)>,
    name: Option<String>,
    rules: Rules<K, R>,
}

/// Opens a cache; may narrow it to objects with the given labels.
type Open<K> = dyn FnOnce(&Cache, &LabelSelector) -> Cached<K> + Send;

impl<K: StaticObject, R: Request> Kind<K, R> {
    /// Passes every event of the kind in the manager's cache to `handler`. The cache holds all objects, unless the kind has
    /// another default ([`CacheBuilder::as_default`](crate::cache::CacheBuilder::as_default)).
    #[track_caller]
    pub fn new(handler: impl EventHandler<K, R>) -> Self {
        Self::of_resource(DynamicKind::of::<K>(), (), handler)
    }
}

impl<K: Object<DynamicType = ApiResource>, R: Request> Kind<K, R> {
    /// Like [`Kind::new`], for a kind known at run time: `K` is `kube::core::DynamicObject`, or
    /// `PartialObjectMeta<DynamicObject>` for metadata alone.
    #[track_caller]
    pub fn dynamic(kind: &DynamicKind, handler: impl EventHandler<K, R>) -> Self {
        Self::of_resource(kind.clone(), kind.resource.clone(), handler)
    }
}

impl<K: Object, R: Request> Kind<K, R> {
    /// Passes every event of the objects in `cached` to `handler`: for example of some namespaces, of a selection, or of
    /// another cluster.
    ///
    /// The cache of another cluster belongs to a [`Cluster`](crate::manager::Cluster) of the manager, or to another manager,
    /// which must run as well. A controller does not wait at its start for the cache of a `Cluster`, which may be down. When the
    /// cluster is removed, `handler` receives a deletion for each of its objects, and then the source ends.
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
        Self { open: Box::new(|_, _| cached), declared: None, name: None, rules: Rules::new(handler) }
    }

    /// Passes every event of the kind described by `kind` and `info` to `handler`.
    #[track_caller]
    pub(super) fn of_resource(
        kind: DynamicKind,
        info: K::DynamicType,
        handler: impl EventHandler<K, R>,
    ) -> Self {
        Self {
            open: Box::new(move |cache, required| cache.of_kind_with::<K>(&info, &kind, required)),
            declared: Some(("watches", Location::caller())),
            name: None,
            rules: Rules::new(handler),
        }
    }

    /// Names the registration, in declarations of rights.
    pub(crate) fn registered_by(mut self, registration: &'static str, place: CodeLine) -> Self {
        self.declared = Some((registration, place));
        self
    }

    /// Watches through `cached` instead, as [`Kind::of`] does.
    #[must_use]
    pub(crate) fn through(mut self, cached: &Cached<K>) -> Self {
        let cached = cached.clone();
        self.open = Box::new(|_, _| cached);
        self.declared = None;
        self
    }

    /// Adds a predicate: an event must pass all of them.
    ///
    /// With a [`LabelSelector`] as predicate, the API server sends only the selected objects, unless an unfiltered cache of the
    /// kind exists by the time the source is added to a controller.
    #[must_use]
    pub fn with_predicate(mut self, predicate: impl Predicate<K>) -> Self {
        self.rules.add(Box::new(predicate));
        self
    }

    /// Like [`Kind::with_predicate`], for several predicates.
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

    /// Declares the kind to the cache, which holds it from now on.
    pub(crate) fn attach(self, to: &Attachment<'_>) -> Attached<K, R> {
        let Self { open, declared, name, rules } = self;
        let cached = open(to.cache, &rules.required_labels().and(to.required.clone()));
        if let Some((registration, place)) = declared {
            to.declare_cached(cached.query(), registration, place);
        }
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
    pub(crate) cached: Cached<K>,
    name: Arc<str>,
    rules: Rules<K, R>,
}

impl<K: Object, R: Request> Source<R> for Attached<K, R> {
    fn name(&self) -> String {
        self.name.to_string()
    }

    async fn run(&self, sink: Sink<R>) -> Result<(), BoxError> {
        let readable = self.cached.readable().await;
        readable.map_err(|missing| ForbiddenError { missing })?;
        // Only now, because a subscription reports the end of the initial list even if the cache is not
        // complete.
        let (mut events, mut pace) = (self.cached.subscribe(), Pace::begin());
        let mut delivery = Delivery::new(&sink, &self.rules);
        let (mut closed, mut has_ended) = (pin!(self.cached.closed()), false);
        loop {
            tokio::select! {
                // Failed events come first: new events may never pause.
                biased;
                () = delivery.due(), if delivery.is_retrying() => {
                    delivery.retry();
                }
                next = pace.wait_for(events.next()), if !has_ended => process(next, &sink, &mut delivery),
                () = &mut closed, if !has_ended => {
                    // The last events may have arrived after the poll of `events`.
                    while let Some(next) = events.next().now_or_never() {
                        process(next, &sink, &mut delivery);
                        pace.step().await;
                    }
                    has_ended = true;
                }
                else => return Ok(()),
            }
            pace.step().await;
        }
    }

    fn signals_synced(&self) -> bool {
        true
    }

    fn delivers_again(&self) -> bool {
        true
    }

    fn is_required(&self) -> bool {
        !self.cached.is_of_other_cluster()
    }

    fn trouble(&self) -> Option<String> {
        Some(self.cached.trouble().unwrap_or_else(|| "the API server has not answered yet".to_owned()))
    }
}

/// Delivers an event, or reports that the initial list is complete.
fn process<K: Object, R: Request>(next: Delivered<K>, sink: &Sink<R>, delivery: &mut Delivery<'_, K, R>) {
    match next {
        Delivered::Event(event) => delivery.deliver(event),
        Delivered::Synced => sink.set_synced(),
    }
}
