//! Predicates that drop updates without a relevant change.

use std::fmt;

use super::{EventFilter, Predicate};
use crate::{
    cache::{Event, Lazy, Meta, MetaEvent},
    object::Object,
};

/// Drops updates that do not change `metadata.generation`, such as changes of status, labels and annotations.
///
/// Do not use it for kinds without a generation (ConfigMaps, Secrets, …): it drops all their updates.
#[derive(Debug, Clone, Copy)]
#[doc(alias = "GenerationChangedPredicate")]
pub struct GenerationChanged;

/// Drops updates that do not change `metadata.resourceVersion`: those of a resync.
#[derive(Debug, Clone, Copy)]
#[doc(alias = "ResourceVersionChangedPredicate")]
pub struct ResourceVersionChanged;

/// Drops updates that do not change the labels.
#[derive(Debug, Clone, Copy)]
#[doc(alias = "LabelChangedPredicate")]
pub struct LabelChanged;

/// Drops updates that do not change the annotations.
#[derive(Debug, Clone, Copy)]
#[doc(alias = "AnnotationChangedPredicate")]
pub struct AnnotationChanged;

/// Implements a predicate on metadata for events of every kind.
macro_rules! refuse_updates_unless {
    ($($predicate:ty: $differs:expr;)*) => {$(
        impl EventFilter for $predicate {
            fn passes(&self, event: &MetaEvent<'_>) -> bool {
                let differs: fn(&Meta, &Meta) -> bool = $differs;
                match event {
                    MetaEvent::Update { old, new } => differs(old, new),
                    _ => true,
                }
            }
        }

        impl<K: Object> Predicate<K> for $predicate {
            fn test(&self, event: &Event<K>) -> bool {
                self.passes(&event.meta_event())
            }
        }
    )*};
}

refuse_updates_unless! {
    GenerationChanged: |old, new| old.generation() != new.generation();
    ResourceVersionChanged: |old, new| old.resource_version() != new.resource_version();
    LabelChanged: |old, new| old.labels() != new.labels();
    AnnotationChanged: |old, new| !old.same_annotations(new);
}

/// Drops updates that do not change a given part of the object. Creates, deletes and generic events pass.
///
/// ```
/// use controller_runtime::{Predicate, predicate::Changed};
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// fn accepted(_: impl Predicate<Deployment>) {}
///
/// accepted(Changed::of(|deployment: &Deployment| &deployment.spec));
/// accepted(Changed::by_key(|deployment: &Deployment| {
///     deployment.status.as_ref().and_then(|status| status.ready_replicas)
/// }));
/// ```
///
/// Both states of an update are decoded, unless they have the same version, as in a resync. If a state does not fit its type,
/// the event passes, so that the reconciler meets the error and reports it. If metadata suffice, [`GenerationChanged`] and the
/// other predicates on metadata are cheaper.
pub struct Changed<K: Object> {
    is_same: Box<IsSame<K>>,
}

/// Returns whether the old and the new state are equal in the relevant part.
type IsSame<K> = dyn Fn(&K, &K) -> bool + Send + Sync;

impl<K: Object> Changed<K> {
    /// Compares the part that `part` borrows from the object.
    pub fn of<T: PartialEq + ?Sized>(part: impl Fn(&K) -> &T + Send + Sync + 'static) -> Self {
        Self { is_same: Box::new(move |old, new| part(old) == part(new)) }
    }

    /// Compares a value that `key` computes from the object.
    pub fn by_key<T: PartialEq>(key: impl Fn(&K) -> T + Send + Sync + 'static) -> Self {
        Self { is_same: Box::new(move |old, new| key(old) == key(new)) }
    }

    fn differs(&self, old: &Lazy<K>, new: &Lazy<K>) -> bool {
        // A resync has equal versions, so nothing needs to be decoded.
        let version = old.meta().resource_version();
        if version.is_some() && version == new.meta().resource_version() {
            return false;
        }
        match (old.object(), new.object()) {
            (Ok(old), Ok(new)) => !(self.is_same)(&old, &new),
            _ => true, // a state does not fit its type: the reconciler reports it
        }
    }
}

impl<K: Object> Predicate<K> for Changed<K> {
    fn test(&self, event: &Event<K>) -> bool {
        match event {
            Event::Update { old, new } => self.differs(old, new),
            _ => true,
        }
    }
}

impl<K: Object> fmt::Debug for Changed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changed").finish_non_exhaustive()
    }
}
