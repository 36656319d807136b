//! Builder of controllers: connects sources of events with a reconciler.

use std::{fmt, panic::Location, sync::Arc};

use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};

use crate::{
    cache::{Cache, Cached},
    controller::{
        Controller, ControllerHandle, ControllerOptions, ControllerSettings, GroupKind, Log, Parts,
    },
    handler::{EventHandler, ForObject, ForOwner},
    manager::{AddError, Manager, UnmanagedController},
    metrics::Metrics,
    object::{DynamicKind, Object, ObjectKey, OwnableBy, RuntimeKind, StaticObject},
    predicate::{EventFilter, Predicate, required_labels},
    reconcile::{Reconciler, Request},
    rights::{self, Needed, Place, Right, Verb, has_status},
    source::{Attachment, DynSource, Kind, OwnerKind, Owns, Source},
    webhook::{Defaulter, Registration, Rule, Spokes, Validator},
};

/// Starts the definition of a controller.
///
/// ```
/// # use controller_runtime::{Action, Builder, Context, Manager, ObjectKey, ReconcileError, Reconciler, predicate};
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::{ConfigMap, Secret}};
/// # struct MyReconciler;
/// # impl Reconciler for MyReconciler {
/// #     type Request = ObjectKey<Deployment>;
/// #     async fn reconcile(&self, _: &ObjectKey<Deployment>, _: &Context) -> Result<Action, ReconcileError> {
/// #         Ok(Action::done())
/// #     }
/// # }
/// # fn example(manager: &Manager) -> Result<(), controller_runtime::manager::AddError> {
/// Builder::managed_by(manager)
///     .for_kind::<Deployment>()
///     .with_predicate(predicate::GenerationChanged)
///     .owns::<ConfigMap>()
///     .owns::<Secret>()
///     .complete(MyReconciler)?;
/// # Ok(())
/// # }
/// ```
///
/// Requests need not be keys of objects: any type that can be compared, ordered and hashed will do. Sources enqueue
/// them:
///
/// ```
/// # use controller_runtime::{
/// #     Builder, Kind, Manager, MapMeta, ReconcileError, cache::Meta, manager::Cluster, source::Requests,
/// # };
/// # use k8s_openapi::api::core::v1::{Namespace, Secret};
/// # use controller_runtime::{Action, Context, Reconciler};
/// #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
/// struct Tenant(String);
///
/// fn tenant(meta: &Meta) -> Option<Tenant> {
///     meta.labels().get("example.com/tenant").map(|name| Tenant(name.to_owned()))
/// }
///
/// # struct Quotas;
/// # impl Reconciler for Quotas {
/// #     type Request = Tenant;
/// #     async fn reconcile(&self, _: &Tenant, _: &Context) -> Result<Action, ReconcileError> { Ok(Action::done()) }
/// # }
/// # fn example(
/// #     manager: &Manager, other_cluster: &Cluster, receiver: tokio::sync::mpsc::Receiver<Tenant>
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// Builder::managed_by(manager)
///     .for_requests::<Tenant>("quotas")
///     .watches_metadata::<Namespace>(MapMeta(tenant)) // watches metadata only
///     .watches(Kind::of(&manager.cache().of::<Secret>().namespaces(["vault"]).build()?, MapMeta(tenant)))
///     .watches(Kind::of(&other_cluster.cached::<Namespace>(), MapMeta(tenant)))
///     .watches_raw_source(Requests::channel("sales", receiver)) // a channel, or a source of your own
///     .complete(Quotas)?;
/// # Ok(())
/// # }
/// ```
///
/// Invalid combinations do not compile. A namespaced object cannot own a cluster-scoped one:
///
/// ```compile_fail,E0277
/// # use controller_runtime::{Builder, Manager};
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node};
/// # fn example(manager: &Manager) {
/// Builder::managed_by(manager).for_kind::<Deployment>().owns::<Node>();
/// # }
/// ```
///
/// Only a controller of a kind can own objects, or have predicates on its own kind:
///
/// ```compile_fail,E0599
/// # use controller_runtime::{Builder, Manager};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # fn example(manager: &Manager) {
/// Builder::managed_by(manager).for_requests::<String>("names").owns::<ConfigMap>();
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Builder<'m> {
    manager: &'m Manager,
}

impl<'m> Builder<'m> {
    /// Starts a controller that `manager` will run.
    #[must_use]
    #[doc(alias = "NewControllerManagedBy")]
    #[doc(alias = "TypedControllerManagedBy")]
    pub fn managed_by(manager: &'m Manager) -> Self {
        Self { manager }
    }

    /// Starts a controller of kind `K`, which reconciles each object of `K` that changes.
    ///
    /// Its name is the kind in lower case, unless [`ControllerBuilder::named`] sets another.
    #[doc(alias = "For")]
    #[track_caller]
    pub fn for_kind<K: StaticObject>(self) -> ControllerBuilder<'m, ObjectKey<K>, ForKind<K>> {
        self.of(DynamicKind::of::<K>(), Kind::new(ForObject), ForOwner::controller())
    }

    /// Starts a controller of a kind known at run time, for example one found by [`Client::discover`](crate::Client::discover).
    ///
    /// ```
    /// # use controller_runtime::{Builder, DynamicKind, Manager, reconcile};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # fn example(manager: &Manager) -> Result<(), controller_runtime::manager::AddError> {
    /// let widgets = DynamicKind::namespaced("example.com", "v1", "Widget", "widgets");
    /// let cached = manager.cache().of_dynamic(&widgets);
    /// Builder::managed_by(manager)
    ///     .for_dynamic(&widgets)
    ///     .owns::<ConfigMap>()
    ///     .complete(reconcile::from_fn(async |key, _| {
    ///         println!("{key}");
    ///         Ok(controller_runtime::Action::done())
    ///     }))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// With [`DynamicKind::metadata`], only the metadata of the kind are watched and cached, unless another controller
    /// or cache of the manager reads whole objects of it.
    ///
    /// ```
    /// use kube::core::{DynamicObject, PartialObjectMeta};
    /// # use controller_runtime::{Action, Builder, Context, DynamicKind, Manager, ObjectKey, reconcile};
    ///
    /// type Key = ObjectKey<PartialObjectMeta<DynamicObject>>;
    ///
    /// # fn example(manager: &Manager, kind: &DynamicKind) -> Result<(), Box<dyn std::error::Error>> {
    /// Builder::managed_by(manager).for_dynamic(kind.metadata()).complete(reconcile::from_fn_with(
    ///     kind.clone(),
    ///     async |kind: &DynamicKind, key: &Key, cx: &Context| {
    ///         let whole = cx.client().of(kind.clone()).get(&key.whole()).await?; // if metadata do not suffice
    ///         Ok(Action::done())
    ///     },
    /// ))?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn for_dynamic<D: RuntimeKind>(
        self,
        objects: D,
    ) -> ControllerBuilder<'m, ObjectKey<D::Object>, ForKind<D::Object>> {
        let kind = objects.into_kind();
        let (own, owner) = (Kind::dynamic(&kind, ForObject), ForOwner::dynamic_controller(&kind));
        self.of(kind, own, owner)
    }

    #[track_caller]
    fn of<K: Object>(
        self,
        kind: DynamicKind,
        own: Kind<K, ObjectKey<K>>,
        owner: ForOwner<K>,
    ) -> ControllerBuilder<'m, ObjectKey<K>, ForKind<K>> {
        let place = Location::caller();
        let own = own.registered_by("for_kind", place);
        let name = kind.resource().kind.to_lowercase();
        let subject =
            ForKind { kind, place, own, owner, has_status: has_status::<K>(), finalizers: Vec::new() };
        self.begin(name, subject, Some(ForKind::attach), ForKind::log, Some(ObjectKey::parse))
    }

    /// Starts a controller of requests of any type, called `name`. Its sources decide which requests it reconciles.
    #[doc(alias = "TypedControllerManagedBy")]
    #[track_caller]
    pub fn for_requests<R: Request>(self, name: impl Into<String>) -> ControllerBuilder<'m, R, ForRequests> {
        self.begin(name.into(), ForRequests, None, |_, name| Log::of_requests(name), None)
    }

    #[track_caller]
    fn begin<R: Request, S>(
        self,
        name: String,
        subject: S,
        own_source: Option<AttachSubject<R, S>>,
        log: fn(&S, &str) -> Log<R>,
        parse: Option<fn(&str) -> Option<R>>,
    ) -> ControllerBuilder<'m, R, S> {
        let (options, filters, sources, webhooks) =
            (ControllerOptions::default(), Vec::new(), Vec::new(), Vec::new());
        let (manager, events, needs) = (self.manager, Some(Location::caller()), Vec::new());
        ControllerBuilder {
            manager,
            name,
            options,
            subject,
            own_source,
            log,
            parse,
            filters,
            sources,
            webhooks,
            events,
            needs,
        }
    }
}

/// A controller under construction: its sources, predicates, name and options. Made by [`Builder`].
///
/// `S` is [`ForKind<K>`](ForKind) for a controller of kind `K`, and [`ForRequests`] for a controller of requests alone.
#[must_use = "a controller exists once `complete` has been called"]
pub struct ControllerBuilder<'m, R: Request, S = ForRequests> {
    manager: &'m Manager,
    name: String,
    options: ControllerOptions<R>,
    subject: S,
    /// Starts the source that watches the controller's own kind, if it has one.
    own_source: Option<AttachSubject<R, S>>,
    log: fn(&S, &str) -> Log<R>,
    parse: Option<fn(&str) -> Option<R>>,
    filters: Vec<Box<dyn EventFilter>>,
    sources: Vec<Attach<R>>,
    webhooks: Vec<Registration>,
    /// Place in the program where the controller was begun, unless its reconciler records no Kubernetes Events.
    events: Option<Place>,
    needs: Vec<Needed>,
}

/// Declares the controller's own kind to the cache and to the attachment.
type AttachSubject<R, S> = fn(S, &mut Attachment<'_>) -> Arc<dyn DynSource<R>>;

/// Declares a source to the cache, once the controller has been accepted.
type Attach<R> = Box<dyn FnOnce(&Attachment<'_>) -> Arc<dyn DynSource<R>> + Send>;

/// Marks a controller of kind `K`.
pub struct ForKind<K: Object> {
    kind: DynamicKind,
    /// Place in the program where the controller was begun.
    place: Place,
    /// Whether the controller writes the status of its kind. Ignored for builtin kinds, whose status Kubernetes writes.
    has_status: bool,
    /// Finalizers that the controller adds, with the places of their declarations.
    finalizers: Vec<(String, Place)>,
    own: Kind<K, ObjectKey<K>>,
    owner: ForOwner<K>,
}

/// Marks a controller that has no kind of its own.
#[derive(Debug, Clone, Copy)]
pub struct ForRequests;

/// Methods of a controller of a kind.
impl<K: Object> ControllerBuilder<'_, ObjectKey<K>, ForKind<K>> {
    /// Reconciles only changes of `K` itself that `predicate` passes, in addition to the predicates given before.
    #[doc(alias = "WithPredicates")]
    pub fn with_predicate(mut self, predicate: impl Predicate<K>) -> Self {
        self.subject.own = self.subject.own.with_predicate(predicate);
        self
    }

    /// Declares that the controller adds and removes the finalizer `name` of `K`, for its [rights](crate::rights).
    ///
    /// [`Client::add_finalizer`](crate::Client::add_finalizer) and [`Finalizers`](crate::finalizer::Finalizers) add it.
    #[track_caller]
    pub fn with_finalizer(mut self, name: impl Into<String>) -> Self {
        self.subject.finalizers.push((name.into(), Location::caller()));
        self
    }

    /// Declares that the controller does not write the status of `K`, so that its [rights](crate::rights) do not include it.
    pub fn without_status(mut self) -> Self {
        self.subject.has_status = false;
        self
    }

    /// Watches `K` itself through `cached`, for example a selection of its objects, or those of another cluster.
    pub fn through(mut self, cached: &Cached<K>) -> Self {
        self.subject.own = self.subject.own.through(cached);
        self
    }

    /// Reconciles the controlling `K` of each `C` that changes.
    ///
    /// The API server sends, and the cache holds, only the metadata of `C`, unless a [`Cached<C>`](crate::Cached) was
    /// created before [`complete`](Self::complete). [`owns_with`](Self::owns_with) takes predicates.
    #[doc(alias = "Owns")]
    #[track_caller]
    pub fn owns<C: StaticObject>(self) -> Self
    where
        C::Scope: OwnableBy<K::Scope>,
    {
        self.owns_with(Owns::<C>::new())
    }

    /// Like [`owns`](Self::owns), with the options of [`Owns`]: predicates, every owner instead of the controlling one, or
    /// whole objects instead of metadata.
    ///
    /// ```
    /// # use controller_runtime::{Action, Builder, Context, Manager, ObjectKey, ReconcileError, reconcile};
    /// use controller_runtime::{Owns, predicate::GenerationChanged};
    /// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    ///
    /// # async fn nothing(_: &ObjectKey<Deployment>, _: &Context) -> Result<Action, ReconcileError> { Ok(Action::done()) }
    /// # fn example(manager: &Manager) -> Result<(), controller_runtime::manager::AddError> {
    /// Builder::managed_by(manager)
    ///     .for_kind::<Deployment>()
    ///     .owns_with(Owns::<ReplicaSet>::new().with_predicate(GenerationChanged))
    ///     .complete(reconcile::from_fn(nothing))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn owns_with<C: Object, Form: 'static>(mut self, owned: Owns<C, Form>) -> Self
    where
        C::Scope: OwnableBy<K::Scope>,
    {
        let owner = self.subject.owner.clone();
        self.sources.push(Box::new(|to| owned.attach(owner, to)));
        self
    }

    /// Like [`owns`](Self::owns), but of a kind known at run time.
    #[track_caller]
    pub fn owns_dynamic(self, kind: &DynamicKind) -> Self
    where
        <DynamicObject as kube::Resource>::Scope: OwnableBy<K::Scope>,
    {
        self.owns_with(Owns::<DynamicObject>::dynamic(kind))
    }
}

/// Webhooks of the controller's kind: see [`webhook`](crate::webhook).
impl<K: StaticObject> ControllerBuilder<'_, ObjectKey<K>, ForKind<K>> {
    /// Sets defaults of `K` in a mutating webhook.
    #[doc(alias = "WithDefaulter")]
    pub fn defaulted(self) -> Self
    where
        K: Defaulter,
    {
        self.defaulted_with(|rule| rule)
    }

    /// Like [`defaulted`](Self::defaulted), with a changed rule: path, failure policy, selectors or timeout.
    #[doc(alias = "WithDefaulterCustomPath")]
    pub fn defaulted_with(mut self, adapt: impl FnOnce(Rule) -> Rule) -> Self
    where
        K: Defaulter,
    {
        self.webhooks.push(Registration::defaulter::<K>(adapt));
        self
    }

    /// Validates `K` in a validating webhook.
    #[doc(alias = "WithValidator")]
    pub fn validated(self) -> Self
    where
        K: Validator,
    {
        self.validated_with(|rule| rule)
    }

    /// Like [`validated`](Self::validated), with a changed rule: path, failure policy, selectors or timeout.
    #[doc(alias = "WithValidatorCustomPath")]
    pub fn validated_with(mut self, adapt: impl FnOnce(Rule) -> Rule) -> Self
    where
        K: Validator,
    {
        self.webhooks.push(Registration::validator::<K>(adapt));
        self
    }

    /// Converts between `K`, the hub, and other versions of its kind, in a tuple: `converted::<(v1::Guestbook,)>()`.
    #[doc(alias = "WithConverter")]
    pub fn converted<S: Spokes<K>>(mut self) -> Self {
        self.webhooks.push(Registration::converter::<K, S>());
        self
    }
}

impl<R: Request, S> ControllerBuilder<'_, R, S> {
    /// Reconciles the requests of `source`.
    #[doc(alias = "Watches")]
    pub fn watches<C: Object>(mut self, source: Kind<C, R>) -> Self {
        self.sources.push(Box::new(|to| Arc::new(source.attach(to))));
        self
    }

    /// Reconciles the requests that `handler` returns for each `C` that changes. Watches and caches only the metadata of `C`.
    ///
    /// For a kind known at run time, [`watches`](Self::watches) takes a [`Kind::dynamic`] of `PartialObjectMeta<DynamicObject>`.
    #[doc(alias = "WatchesMetadata")]
    #[doc(alias = "OnlyMetadata")]
    #[track_caller]
    pub fn watches_metadata<C: StaticObject>(
        self,
        handler: impl EventHandler<PartialObjectMeta<C>, R>,
    ) -> Self {
        self.watches(Kind::<PartialObjectMeta<C>, R>::new(handler))
    }

    /// Reconciles the requests of a source of any type.
    #[doc(alias = "WatchesRawSource")]
    pub fn watches_raw_source(mut self, source: impl Source<R>) -> Self {
        self.sources.push(Box::new(|_| Arc::new(source)));
        self
    }

    /// Declares requests that the reconciler sends for objects of kind `C` and that no registration implies, for its
    /// [rights](crate::rights): for example to delete an owned object, or to read an object that is not cached.
    ///
    /// The right is needed in the namespaces of the default cache of `C`. [`needs_right`](Self::needs_right) takes any other.
    ///
    /// ```
    /// # use controller_runtime::{Action, Builder, Context, Manager, ObjectKey, ReconcileError, reconcile};
    /// use controller_runtime::Verb;
    /// use k8s_openapi::api::{apps::v1::Deployment, core::v1::{ConfigMap, Secret}};
    ///
    /// # async fn nothing(_: &ObjectKey<Deployment>, _: &Context) -> Result<Action, ReconcileError> { Ok(Action::done()) }
    /// # fn example(manager: &Manager) -> Result<(), controller_runtime::manager::AddError> {
    /// Builder::managed_by(manager)
    ///     .for_kind::<Deployment>()
    ///     .owns::<ConfigMap>()
    ///     .needs::<ConfigMap>([Verb::Delete])
    ///     .needs::<Secret>([Verb::Get])
    ///     .complete(reconcile::from_fn(nothing))?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "+kubebuilder:rbac")]
    #[track_caller]
    pub fn needs<C: StaticObject>(self, verbs: impl IntoIterator<Item = Verb>) -> Self {
        self.need(Needed::of_kind(DynamicKind::of::<C>(), verbs, Location::caller()))
    }

    /// Like [`needs`](Self::needs), for a subresource such as `eviction` or `scale`.
    #[track_caller]
    pub fn needs_subresource<C: StaticObject>(
        self,
        name: &str,
        verbs: impl IntoIterator<Item = Verb>,
    ) -> Self {
        let needed = Needed::of_kind(DynamicKind::of::<C>(), verbs, Location::caller());
        self.need(needed.on_subresource(name))
    }

    /// Like [`needs`](Self::needs), for a kind known at run time.
    #[track_caller]
    pub fn needs_dynamic(self, kind: &DynamicKind, verbs: impl IntoIterator<Item = Verb>) -> Self {
        self.need(Needed::of_kind(kind.clone(), verbs, Location::caller()))
    }

    /// Like [`needs`](Self::needs), for any right: of single objects, in single namespaces, or with a verb that has no request of its
    /// own.
    #[track_caller]
    pub fn needs_right(self, right: Right) -> Self {
        self.need(Needed::of_right(right, Location::caller()))
    }

    fn need(mut self, needed: Needed) -> Self {
        self.needs.push(needed);
        self
    }

    /// Declares that the reconciler records no Kubernetes Events, so that its [rights](crate::rights) do not include them.
    pub fn without_events(mut self) -> Self {
        self.events = None;
        self
    }

    /// Passes only events that `filter` passes, for all sources of the controller, including those added before. Several
    /// filters must all pass. Filters run before the predicates of a source.
    ///
    /// With a [`LabelSelector`](crate::cache::LabelSelector) as filter, the API server sends only the selected objects of each
    /// kind, unless an unfiltered cache of the kind exists by the time the controller is added to the manager.
    ///
    /// Requests that a source adds without an event ([`Sink::add`](crate::source::Sink::add)) are not filtered.
    #[doc(alias = "WithEventFilter")]
    pub fn with_event_filter(mut self, filter: impl EventFilter) -> Self {
        self.filters.push(Box::new(filter));
        self
    }

    /// Names the controller in logs and metrics, and as the reporter of its Kubernetes Events.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Replaces the controller's options.
    pub fn with_options(mut self, options: ControllerOptions<R>) -> Self {
        self.options = options;
        self
    }

    /// Adds the controller to the manager, which runs it: at once, if the manager is already running its controllers. A
    /// controller added later waits for its own sources only.
    ///
    /// The returned handle adds sources while the controller runs, and removes the controller.
    ///
    /// # Errors
    ///
    /// The manager already has a controller of that name, or is stopping; the name is empty; there is no source; the
    /// number of workers is zero or above 10,000; or the registration of a webhook is invalid.
    pub fn complete(self, reconciler: impl Reconciler<Request = R>) -> Result<ControllerHandle<R>, AddError> {
        let (manager, name, settings) = (self.manager, self.name.clone(), self.settle()?);
        self.with_webhooks(|builder| {
            manager.add_controller(&name, &settings.clone(), |cache, metrics| {
                builder.make(settings, reconciler, cache, metrics)
            })
        })
    }

    /// Creates the controller without adding it to the manager. The caller runs it with
    /// [`UnmanagedController::run`](crate::manager::UnmanagedController::run).
    ///
    /// # Errors
    ///
    /// The manager already has a controller of that name; the name is empty; there is no source; or the number of
    /// workers is zero or above 10,000.
    pub fn complete_unmanaged(
        self,
        reconciler: impl Reconciler<Request = R>,
    ) -> Result<UnmanagedController<R>, AddError> {
        let (manager, name, settings) = (self.manager, self.name.clone(), self.settle()?);
        self.with_webhooks(|builder| {
            manager.unmanaged(&name, &settings.clone(), |cache, metrics| {
                builder.make(settings, reconciler, cache, metrics)
            })
        })
    }

    /// Registers the webhooks of the kind, and removes them again if `add` fails.
    fn with_webhooks<T>(mut self, add: impl FnOnce(Self) -> Result<T, AddError>) -> Result<T, AddError> {
        let webhooks = std::mem::take(&mut self.webhooks);
        if webhooks.is_empty() {
            return add(self);
        }
        let all = self.manager.webhooks();
        let registered = all.register(webhooks)?;
        add(self).inspect_err(|_| all.unregister(registered))
    }

    fn settle(&self) -> Result<ControllerSettings, AddError> {
        // Checked before the manager registers the controller, so that a refused controller leaves nothing behind.
        if self.name.is_empty() {
            return Err(AddError::NoName);
        }
        if self.sources.is_empty() && self.own_source.is_none() {
            return Err(AddError::NoSource { name: self.name.clone() });
        }
        let log = (self.log)(&self.subject, &self.name);
        self.manager.settle(&self.name, &self.options.config, log.kind())
    }

    fn make(
        self,
        settings: ControllerSettings,
        reconciler: impl Reconciler<Request = R>,
        cache: &Cache,
        metrics: &Metrics,
    ) -> Controller<R> {
        let Self {
            manager,
            name,
            options,
            subject,
            own_source,
            log,
            parse,
            filters,
            sources,
            events,
            needs,
            ..
        } = self;
        let clock = manager.clock();
        let log = log(&subject, &name);
        // Labels that all filters require narrow every watch of the controller.
        let required = required_labels(&filters);
        let mut to = Attachment { cache, required: &required, controller: &name, owner: None };
        let own = own_source.map(|attach| attach(subject, &mut to));
        let sources = sources.into_iter().map(|attach| attach(&to));
        let sources = own.into_iter().chain(sources).collect();
        if let Some(place) = events {
            to.declare_events(place);
        }
        for needed in needs {
            to.declare_needed(needed);
        }
        // A controller without leader election also runs on standbys, where a client with a write gate would refuse its
        // writes.
        let client = if settings.needs_leader_election { manager.client() } else { manager.ungated_client() };
        let parts =
            Parts { name, options, settings, log, parse, filters, sources, clock, reconciler, client };
        Controller::new(parts, metrics)
    }
}

impl<K: Object> ForKind<K> {
    fn log(&self, controller: &str) -> Log<ObjectKey<K>> {
        let ApiResource { group, kind, .. } = self.kind.resource();
        Log::of_kind(controller, GroupKind { group: group.clone(), kind: kind.clone() })
    }

    fn attach(self, to: &mut Attachment<'_>) -> Arc<dyn DynSource<ObjectKey<K>>> {
        let Self { kind, place, has_status, finalizers, own, .. } = self;
        let own = own.attach(to);
        let query = own.cached.query();
        if query.cluster.is_none() {
            let scope = query.scope();
            if has_status && rights::is_custom(kind.resource()) {
                to.declare(rights::own_status(kind.resource(), place), &scope);
            }
            for (name, place) in finalizers {
                to.declare(rights::finalizer(kind.resource(), &name, place), &scope);
            }
            to.owner = Some(OwnerKind { kind, scope });
        }
        Arc::new(own)
    }
}

impl<R: Request, S> fmt::Debug for ControllerBuilder<'_, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}

impl<K: Object> fmt::Debug for ForKind<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForKind").field(&self.kind.to_string()).finish()
    }
}
