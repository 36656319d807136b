//! Builder of controllers: connects sources of events with a reconciler.

mod controller_builder;
mod for_kind;

use std::{fmt, panic::Location};

use self::controller_builder::AttachSubject;
pub use self::{
    controller_builder::{ControllerBuilder, ForRequests},
    for_kind::ForKind,
};
use crate::{
    controller::{ControllerOptions, Log},
    handler::{ForObject, ForOwner},
    manager::Manager,
    object::{DynamicKind, Object, ObjectKey, RuntimeKind, StaticObject},
    reconcile::Request,
    rights::has_status,
    source::Kind,
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
/// A request need not be the key of an object. It can have any type that implements [`Request`], such as the name of a tenant.
/// Sources enqueue such requests:
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
    /// With [`DynamicKind::metadata`], the manager watches and caches only the metadata of the objects, unless another of its
    /// controllers or caches reads whole objects of the kind.
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
        ControllerBuilder {
            manager: self.manager,
            name,
            options: ControllerOptions::default(),
            subject,
            own_source,
            log,
            parse,
            filters: Vec::new(),
            sources: Vec::new(),
            webhooks: Vec::new(),
            events: Some(Location::caller()),
            needs: Vec::new(),
        }
    }
}

impl fmt::Debug for Builder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}
