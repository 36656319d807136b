//! Owned objects as a source, with predicates.

use std::{fmt, marker::PhantomData, panic::Location, sync::Arc};

use kube::core::{ApiResource, PartialObjectMeta};

use super::{Attachment, DynSource, Kind};
use crate::{
    cache::{Event, LabelSelector},
    handler::ForOwner,
    object::{DynamicKind, Object, ObjectKey, OwnableBy, StaticObject},
    predicate::{EventFilter, Predicate},
    rights::CodeLine,
};

/// Source of the events of owned objects of kind `C`, which enqueue the owner. Passed to
/// [`ControllerBuilder::owns_with`](crate::ControllerBuilder::owns_with).
///
/// ```
/// # use controller_runtime::{Action, Builder, Context, Manager, ObjectKey, ReconcileError, reconcile};
/// use controller_runtime::{Owns, predicate::{Changed, GenerationChanged}};
/// use k8s_openapi::api::{apps::v1::{Deployment, ReplicaSet}, core::v1::{Pod, Service}};
///
/// # async fn nothing(_: &ObjectKey<Deployment>, _: &Context) -> Result<Action, ReconcileError> { Ok(Action::done()) }
/// # fn example(manager: &Manager) -> Result<(), controller_runtime::manager::AddError> {
/// Builder::managed_by(manager)
///     .for_kind::<Deployment>()
///     // Watches metadata, which suffice for this predicate.
///     .owns_with(Owns::<ReplicaSet>::new().with_predicate(GenerationChanged))
///     // Watches whole objects, because the predicate reads the spec.
///     .owns_with(Owns::<Service>::new().whole().with_predicate(Changed::of(|service: &Service| &service.spec)))
///     // Enqueues all owners, not only the controller.
///     .owns_with(Owns::<Pod>::new().every_owner())
///     .complete(reconcile::from_fn(nothing))?;
/// # Ok(())
/// # }
/// ```
///
/// By default the API server sends, and the cache holds, only the metadata of `C`, unless a [`Cached<C>`](crate::Cached) has
/// been made before the controller is added to its manager. Predicates are then those on metadata ([`EventFilter`]): a
/// predicate that reads more does not compile.
///
/// ```compile_fail,E0277
/// # use controller_runtime::{Owns, predicate::Changed};
/// # use k8s_openapi::api::core::v1::Service;
/// Owns::<Service>::new().with_predicate(Changed::of(|service: &Service| &service.spec)); // needs `.whole()`
/// ```
#[must_use = "pass it to `ControllerBuilder::owns_with`"]
#[doc(alias = "OwnsOption")]
pub struct Owns<C: Object, Form = MetadataOnly> {
    kind: DynamicKind,
    info: C::DynamicType,
    every_owner: bool,
    predicates: Predicates<C>,
    place: CodeLine,
    form: PhantomData<fn() -> Form>,
}

/// Marks an [`Owns`] that watches metadata only.
#[derive(Debug, Clone, Copy)]
pub enum MetadataOnly {}

/// Marks an [`Owns`] that watches whole objects.
#[derive(Debug, Clone, Copy)]
pub enum Whole {}

/// Predicates, by the part of the objects they read, which must be watched.
enum Predicates<C: Object> {
    OfMetadata(Vec<Box<dyn EventFilter>>),
    OfObjects(Vec<Box<dyn Predicate<C>>>),
}

impl<C: StaticObject> Owns<C> {
    /// Creates a source that enqueues the owner marked as the controller, as with
    /// [`owns`](crate::ControllerBuilder::owns).
    #[track_caller]
    pub fn new() -> Self {
        Self::of(DynamicKind::of::<C>(), ())
    }
}

impl<C: StaticObject> Default for Owns<C> {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Object<DynamicType = ApiResource>> Owns<C> {
    /// Like [`Owns::new`], but of a kind known at run time: `C` is `kube::core::DynamicObject`.
    #[track_caller]
    pub fn dynamic(kind: &DynamicKind) -> Self {
        Self::of(kind.clone(), kind.resource().clone())
    }
}

impl<C: Object> Owns<C> {
    #[track_caller]
    fn of(kind: DynamicKind, info: C::DynamicType) -> Self {
        let (predicates, place) = (Predicates::OfMetadata(Vec::new()), Location::caller());
        Self { kind, info, every_owner: false, predicates, place, form: PhantomData }
    }

    /// Passes only events that `predicate` passes, in addition to the predicates given before.
    ///
    /// With a [`LabelSelector`], the API server sends only the objects that it selects, unless an unfiltered cache of the kind
    /// exists.
    #[doc(alias = "WithPredicates")]
    pub fn with_predicate(mut self, predicate: impl EventFilter) -> Self {
        if let Predicates::OfMetadata(predicates) = &mut self.predicates {
            predicates.push(Box::new(predicate));
        }
        self
    }

    /// Watches and caches whole objects, so that predicates may read spec and status.
    pub fn whole(self) -> Owns<C, Whole> {
        let Self { kind, info, every_owner, predicates, place, .. } = self;
        // Predicates added so far read metadata, which whole objects have as well.
        let predicates = Predicates::OfObjects(predicates.on_objects());
        Owns { kind, info, every_owner, predicates, place, form: PhantomData }
    }
}

impl<C: Object> Owns<C, Whole> {
    /// Passes only events that `predicate` passes, in addition to the predicates given before.
    ///
    /// With a [`LabelSelector`], the API server sends only the objects that it selects, unless an unfiltered cache of the kind
    /// exists.
    #[doc(alias = "WithPredicates")]
    pub fn with_predicate(mut self, predicate: impl Predicate<C>) -> Self {
        if let Predicates::OfObjects(predicates) = &mut self.predicates {
            predicates.push(Box::new(predicate));
        }
        self
    }
}

impl<C: Object, Form> Owns<C, Form> {
    /// Enqueues every owner of the controller's kind, not only the one that is marked as the controller.
    #[doc(alias = "MatchEveryOwner")]
    pub fn every_owner(mut self) -> Self {
        self.every_owner = true;
        self
    }

    /// Declares the kind to the cache, as metadata unless whole objects are needed.
    pub(crate) fn attach<O: Object>(
        self,
        owner: ForOwner<O>,
        to: &Attachment<'_>,
    ) -> Arc<dyn DynSource<ObjectKey<O>>>
    where
        C::Scope: OwnableBy<O::Scope>,
    {
        let Self { kind, info, every_owner, predicates, place, .. } = self;
        to.declare_owned(&kind, place);
        let owner = if every_owner { owner.every_owner() } else { owner };
        match predicates {
            // If whole objects are cached for other readers, an additional watch of metadata would cost more than it saves.
            Predicates::OfMetadata(filters) if !to.cache.is_read_as::<C>(&kind) => {
                let predicates = filters.into_iter().map(of_metadata);
                let source = Kind::<PartialObjectMeta<C>, _>::of_resource(kind, info, owner);
                Arc::new(source.registered_by("owns", place).with_predicates(predicates).attach(to))
            }
            predicates => {
                let source = Kind::<C, _>::of_resource(kind, info, owner);
                let source = source.registered_by("owns", place);
                Arc::new(source.with_predicates(predicates.on_objects()).attach(to))
            }
        }
    }
}

impl<C: Object> Predicates<C> {
    fn on_objects(self) -> Vec<Box<dyn Predicate<C>>> {
        match self {
            Self::OfMetadata(filters) => filters.into_iter().map(of_metadata).collect(),
            Self::OfObjects(predicates) => predicates,
        }
    }
}

/// Turns a filter of metadata into a predicate on any kind.
fn of_metadata<K: Object>(filter: Box<dyn EventFilter>) -> Box<dyn Predicate<K>> {
    Box::new(OfMetadata(filter))
}

struct OfMetadata(Box<dyn EventFilter>);

impl<K: Object> Predicate<K> for OfMetadata {
    fn test(&self, event: &Event<K>) -> bool {
        self.0.passes(&event.meta_event())
    }

    fn required_labels(&self) -> LabelSelector {
        self.0.required_labels()
    }
}

impl<C: Object, Form> fmt::Debug for Owns<C, Form> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owns").field("kind", &self.kind.resource().kind).finish_non_exhaustive()
    }
}
