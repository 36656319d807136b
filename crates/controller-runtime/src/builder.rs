//! The builder: says which events lead to which reconciler.

use std::fmt;

use crate::{
    controller::{Controller, Handle, Options},
    handler::{ForObject, ForOwner},
    manager::{AddError, Manager},
    object::{ObjectKey, OwnableBy, StaticObject},
    predicate::Predicate,
    reconcile::Reconciler,
    source::{Attach, Kind},
};

/// Begins a controller.
///
/// ```
/// # use controller_runtime::{Action, Builder, Context, Manager, ObjectKey, Reconciler, predicate, reconcile};
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::{ConfigMap, Secret}};
/// # struct MyReconciler;
/// # impl Reconciler for MyReconciler {
/// #     type Request = ObjectKey<Deployment>;
/// #     async fn reconcile(&self, _: &ObjectKey<Deployment>, _: &Context) -> Result<Action, reconcile::Error> {
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
/// What cannot work does not compile. A namespaced object cannot own a cluster-scoped one:
///
/// ```compile_fail,E0277
/// # use controller_runtime::{Builder, Manager};
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node};
/// # fn example(manager: &Manager) {
/// Builder::managed_by(manager).for_kind::<Deployment>().owns::<Node>();
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Builder<'m> {
    manager: &'m Manager,
}

impl<'m> Builder<'m> {
    /// Begins a controller that `manager` is to run.
    #[must_use]
    #[doc(alias = "NewControllerManagedBy")]
    pub fn managed_by(manager: &'m Manager) -> Self {
        Self { manager }
    }

    /// A controller of kind `K`, whose every change is reconciled.
    ///
    /// Its name is the kind in lower case, unless [`ControllerBuilder::named`] says otherwise.
    #[doc(alias = "For")]
    pub fn for_kind<K: StaticObject>(self) -> ControllerBuilder<'m, K> {
        ControllerBuilder {
            manager: self.manager,
            name: K::kind(&()).to_lowercase(),
            options: Options::default(),
            own_kind: Kind::new(ForObject),
            sources: Vec::new(),
        }
    }
}

/// Says what leads to a reconcile of a `K`, and with which reconciler. Made by [`Builder::for_kind`].
#[must_use = "a controller exists once `complete` has been called"]
pub struct ControllerBuilder<'m, K: StaticObject> {
    manager: &'m Manager,
    name: String,
    options: Options<ObjectKey<K>>,
    own_kind: Kind<K, ObjectKey<K>>,
    sources: Vec<Attach<ObjectKey<K>>>,
}

impl<K: StaticObject> ControllerBuilder<'_, K> {
    /// Reconciles only what `predicate` passes of the changes of `K` itself, in addition to the predicates given
    /// before.
    pub fn with_predicate(mut self, predicate: impl Predicate<K>) -> Self {
        self.own_kind = self.own_kind.with_predicate(predicate);
        self
    }

    /// Reconciles the controlling `K` of each `C` that changes.
    #[doc(alias = "Owns")]
    pub fn owns<C: StaticObject>(self) -> Self
    where
        C::Scope: OwnableBy<K::Scope>,
    {
        self.watches(Kind::<C, _>::new(ForOwner::<K>::controller()))
    }

    /// Reconciles what `source` asks for.
    #[doc(alias = "Watches")]
    pub fn watches<C: StaticObject>(mut self, source: Kind<C, ObjectKey<K>>) -> Self {
        self.sources.push(Box::new(|cache| source.attach(cache)));
        self
    }

    /// Names the controller, in logs and as the reporter of events.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Replaces the controller's options.
    pub fn with_options(mut self, options: Options<ObjectKey<K>>) -> Self {
        self.options = options;
        self
    }

    /// Gives the controller to the manager, which runs it. The handle takes it back.
    ///
    /// # Errors
    ///
    /// The manager has a controller of that name, or stops.
    pub fn complete(
        self,
        reconciler: impl Reconciler<Request = ObjectKey<K>>,
    ) -> Result<Handle<ObjectKey<K>>, AddError> {
        let Self { manager, name, options, own_kind, sources } = self;
        let needs_leader_election = options.needs_leader_election;
        manager.add_controller(&name, needs_leader_election, |cache, metrics| {
            let own_kind = own_kind.attach(cache);
            let sources = sources.into_iter().map(|attach| attach(cache));
            let sources = [own_kind].into_iter().chain(sources).collect();
            Controller::new(&name, options, reconciler, sources, metrics)
        })
    }
}

impl<K: StaticObject> fmt::Debug for ControllerBuilder<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").finish_non_exhaustive()
    }
}
