//! Predicates that refuse updates of what does not matter.

use super::{EventFilter, Predicate};
use crate::{
    cache::Meta,
    event::{Event, MetaEvent},
    object::Object,
};

/// Refuses updates that leave `metadata.generation` as it was: changes of status, labels and annotations.
///
/// Kinds without a generation (ConfigMaps, Secrets, …) never pass an update.
#[derive(Debug, Clone, Copy)]
#[doc(alias = "GenerationChangedPredicate")]
pub struct GenerationChanged;

/// Refuses updates that leave `metadata.resourceVersion` as it was.
#[derive(Debug, Clone, Copy)]
#[doc(alias = "ResourceVersionChangedPredicate")]
pub struct ResourceVersionChanged;

/// Refuses updates that leave the labels as they were.
#[derive(Debug, Clone, Copy)]
#[doc(alias = "LabelChangedPredicate")]
pub struct LabelChanged;

/// Refuses updates that leave the annotations as they were.
#[derive(Debug, Clone, Copy)]
#[doc(alias = "AnnotationChangedPredicate")]
pub struct AnnotationChanged;

/// A predicate on metadata is one on events of every kind.
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
