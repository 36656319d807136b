//! Controllers of a kind: the kind's own source, owned objects, finalizers and webhooks.

use std::{fmt, panic::Location, sync::Arc};

use kube::core::{ApiResource, DynamicObject};

use super::ControllerBuilder;
use crate::{
    cache::Cached,
    controller::{GroupKind, Log},
    handler::ForOwner,
    object::{DynamicKind, Object, ObjectKey, OwnableBy, StaticObject},
    predicate::Predicate,
    rights::{self, CodeLine},
    source::{Attachment, DynSource, Kind, OwnerKind, Owns},
    webhook::{Defaulter, Registration, Rule, Spokes, Validator},
};

/// Marks a controller of kind `K`.
pub struct ForKind<K: Object> {
    pub(super) kind: DynamicKind,
    /// Place in the program where the controller was begun.
    pub(super) place: CodeLine,
    /// Whether the controller writes the status of its kind. Ignored for builtin kinds: Kubernetes writes their status.
    pub(super) has_status: bool,
    /// Finalizers that the controller adds, with the places of their declarations.
    pub(super) finalizers: Vec<(String, CodeLine)>,
    pub(super) own: Kind<K, ObjectKey<K>>,
    pub(super) owner: ForOwner<K>,
}

/// Methods of a controller of a kind.
impl<K: Object> ControllerBuilder<'_, ObjectKey<K>, ForKind<K>> {
    /// Adds a predicate on changes of `K` itself; changes of owned and watched objects are not affected. A change must pass all
    /// predicates.
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
    /// created before [`complete`](Self::complete). For predicates, use [`owns_with`](Self::owns_with).
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
    /// Registers a mutating webhook that sets defaults of `K`.
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

    /// Registers a validating webhook for `K`.
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

    /// Registers a conversion webhook between `K`, the hub, and other versions of its kind, given as a tuple:
    /// `converted::<(v1::Guestbook,)>()`.
    #[doc(alias = "WithConverter")]
    pub fn converted<S: Spokes<K>>(mut self) -> Self {
        self.webhooks.push(Registration::converter::<K, S>());
        self
    }
}

impl<K: Object> ForKind<K> {
    pub(super) fn log(&self, controller: &str) -> Log<ObjectKey<K>> {
        let ApiResource { group, kind, .. } = self.kind.resource();
        Log::of_kind(controller, GroupKind { group: group.clone(), kind: kind.clone() })
    }

    pub(super) fn attach(self, to: &mut Attachment<'_>) -> Arc<dyn DynSource<ObjectKey<K>>> {
        let Self { kind, place, has_status, finalizers, own, .. } = self;
        let own = own.attach(to);
        let query = own.cached.query();
        // Calls to other clusters are neither declared nor checked.
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

impl<K: Object> fmt::Debug for ForKind<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForKind").field(&self.kind.to_string()).finish()
    }
}
