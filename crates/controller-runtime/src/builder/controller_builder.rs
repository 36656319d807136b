//! Controllers under construction.

use std::{fmt, panic::Location, sync::Arc};

use kube::core::PartialObjectMeta;

use crate::{
    cache::Cache,
    controller::{Controller, ControllerHandle, ControllerOptions, ControllerSettings, Log, Parts},
    handler::EventHandler,
    manager::{AddError, Manager, UnmanagedController},
    metrics::Metrics,
    object::{DynamicKind, Object, StaticObject},
    predicate::{EventFilter, required_labels},
    reconcile::{Reconciler, Request},
    rights::{CodeLine, Needed, Right, Verb},
    source::{Attachment, DynSource, Kind, Source},
    webhook::Registration,
};

/// A controller under construction: its sources, predicates, name and options. Made by [`Builder`](super::Builder).
///
/// `S` is [`ForKind<K>`](super::ForKind) for a controller of kind `K`, and [`ForRequests`] for a controller without a kind.
#[must_use = "a controller exists once `complete` has been called"]
pub struct ControllerBuilder<'m, R: Request, S = ForRequests> {
    pub(super) manager: &'m Manager,
    pub(super) name: String,
    pub(super) options: ControllerOptions<R>,
    pub(super) subject: S,
    /// Makes the source that watches the controller's own kind, if it has one.
    pub(super) own_source: Option<AttachSubject<R, S>>,
    pub(super) log: fn(&S, &str) -> Log<R>,
    pub(super) parse: Option<fn(&str) -> Option<R>>,
    pub(super) filters: Vec<Box<dyn EventFilter>>,
    pub(super) sources: Vec<Attach<R>>,
    pub(super) webhooks: Vec<Registration>,
    /// Place in the program where the controller was begun, unless its reconciler records no Kubernetes Events.
    pub(super) events: Option<CodeLine>,
    pub(super) needs: Vec<Needed>,
}

/// Makes the source of the controller's own kind, and declares the kind to the cache and to the attachment.
pub(super) type AttachSubject<R, S> = fn(S, &mut Attachment<'_>) -> Arc<dyn DynSource<R>>;

/// Makes a source and declares its kind to the cache. Called once the manager has accepted the controller.
pub(super) type Attach<R> = Box<dyn FnOnce(&Attachment<'_>) -> Arc<dyn DynSource<R>> + Send>;

/// Marks a controller that has no kind of its own.
#[derive(Debug, Clone, Copy)]
pub struct ForRequests;

impl<R: Request, S> ControllerBuilder<'_, R, S> {
    /// Reconciles the requests that `source` enqueues for the changes of a kind.
    ///
    /// ```
    /// # use controller_runtime::{Action, Builder, Context, Manager, ObjectKey, ReconcileError, reconcile};
    /// use controller_runtime::{Kind, MapFn};
    /// use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
    ///
    /// # async fn nothing(_: &ObjectKey<Deployment>, _: &Context) -> Result<Action, ReconcileError> { Ok(Action::done()) }
    /// # fn example(manager: &Manager) -> Result<(), controller_runtime::manager::AddError> {
    /// // A change of a ConfigMap reconciles the Deployment of the same name.
    /// let of_same_name = MapFn(|map: &ConfigMap| {
    ///     Some(ObjectKey::<Deployment>::new(map.metadata.namespace.as_deref()?, map.metadata.name.as_deref()?))
    /// });
    /// Builder::managed_by(manager)
    ///     .for_kind::<Deployment>()
    ///     .watches(Kind::new(of_same_name))
    ///     .complete(reconcile::from_fn(nothing))?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "Watches")]
    pub fn watches<C: Object>(mut self, source: Kind<C, R>) -> Self {
        self.sources.push(Box::new(|to| Arc::new(source.attach(to))));
        self
    }

    /// Reconciles the requests that `handler` enqueues for each `C` that changes. Watches and caches only the metadata of `C`.
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
    /// The right applies to the namespaces of the default cache of `C`. For other namespaces, or single objects, use
    /// [`needs_right`](Self::needs_right).
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

    /// Like [`needs`](Self::needs), for any right: for single objects, in single namespaces, or with a verb that no request uses,
    /// such as `bind`.
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

    /// Adds a filter of events for all sources of the controller, including those added before. An event must pass all filters, and
    /// then the predicates of its source.
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

    /// Names the controller in logs and metrics, and as the reporter of its Kubernetes Events. Default: the kind in lower case, or the
    /// name given to [`Builder::for_requests`](super::Builder::for_requests).
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Replaces the controller's options.
    pub fn with_options(mut self, options: ControllerOptions<R>) -> Self {
        self.options = options;
        self
    }

    /// Adds the controller to the manager, which runs it. If the manager is already running its controllers, the new one starts at
    /// once, and waits only for its own sources.
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
        let clock = self.manager.clock();
        let log = (self.log)(&self.subject, &self.name);
        // Labels that all filters require narrow every watch of the controller.
        let required = required_labels(&self.filters);
        let mut to = Attachment { cache, required: &required, controller: &self.name, owner: None };
        // The own kind comes first: it sets `to.owner`, from which the rights of owned kinds and of Kubernetes Events follow.
        let own = self.own_source.map(|attach| attach(self.subject, &mut to));
        let sources = self.sources.into_iter().map(|attach| attach(&to));
        let sources = own.into_iter().chain(sources).collect();
        if let Some(place) = self.events {
            to.declare_events(place);
        }
        for needed in self.needs {
            to.declare_needed(needed);
        }
        // A controller without leader election also runs on standbys, where a client with a write gate would refuse its
        // writes.
        let client = if settings.needs_leader_election {
            self.manager.client()
        } else {
            self.manager.ungated_client()
        };
        let (name, options, parse, filters) = (self.name, self.options, self.parse, self.filters);
        let parts =
            Parts { name, options, settings, log, parse, filters, sources, clock, reconciler, client };
        Controller::new(parts, metrics)
    }
}

impl<R: Request, S> fmt::Debug for ControllerBuilder<'_, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}
