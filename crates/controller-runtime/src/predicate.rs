//! Predicates: which events are worth a reconcile.
//!
//! A predicate sees the event with the old and the new state and answers at once. Predicates are evaluated after the
//! cache: what they refuse is not reconciled, but it is still watched and held in memory.

use crate::{event::Event, object::Object};

/// Decides whether an event passes on to the handler.
///
/// Implemented by every `Fn(&Event<K>) -> bool`, and combined with [`And`], [`Or`] and [`Not`]. Refuse updates, and other
/// events only with a good reason: a predicate that swallows deletes makes a controller miss them for good.
///
/// ```
/// use controller_runtime::{Event, Predicate, predicate::{GenerationChanged, LabelChanged, Or}};
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// fn accepted(_: impl Predicate<Deployment>) {}
///
/// accepted(|event: &Event<Deployment>| event.object().spec.is_some());
/// accepted(Or(GenerationChanged, LabelChanged));
/// ```
pub trait Predicate<K: Object>: Send + Sync + 'static {
    /// Whether the event passes.
    fn test(&self, event: &Event<K>) -> bool;
}

impl<K: Object, F: Fn(&Event<K>) -> bool + Send + Sync + 'static> Predicate<K> for F {
    fn test(&self, event: &Event<K>) -> bool {
        self(event)
    }
}

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

impl<K: Object> Predicate<K> for GenerationChanged {
    fn test(&self, event: &Event<K>) -> bool {
        changed(event, |object| object.meta().generation)
    }
}

impl<K: Object> Predicate<K> for ResourceVersionChanged {
    fn test(&self, event: &Event<K>) -> bool {
        changed(event, |object| object.meta().resource_version.as_deref())
    }
}

impl<K: Object> Predicate<K> for LabelChanged {
    fn test(&self, event: &Event<K>) -> bool {
        changed(event, |object| object.meta().labels.as_ref())
    }
}

impl<K: Object> Predicate<K> for AnnotationChanged {
    fn test(&self, event: &Event<K>) -> bool {
        changed(event, |object| object.meta().annotations.as_ref())
    }
}

/// Whether `part` differs between the two states of an update; anything but an update passes.
fn changed<'a, K: Object, T: PartialEq>(event: &'a Event<K>, part: impl Fn(&'a K) -> T) -> bool {
    match event {
        Event::Update { old, new } => part(old) != part(new),
        _ => true,
    }
}

/// Passes what both pass.
#[derive(Debug, Clone, Copy)]
pub struct And<A, B>(pub A, pub B);

/// Passes what either passes.
#[derive(Debug, Clone, Copy)]
pub struct Or<A, B>(pub A, pub B);

/// Passes what the other refuses.
#[derive(Debug, Clone, Copy)]
pub struct Not<A>(pub A);

impl<K: Object, A: Predicate<K>, B: Predicate<K>> Predicate<K> for And<A, B> {
    fn test(&self, event: &Event<K>) -> bool {
        self.0.test(event) && self.1.test(event)
    }
}

impl<K: Object, A: Predicate<K>, B: Predicate<K>> Predicate<K> for Or<A, B> {
    fn test(&self, event: &Event<K>) -> bool {
        self.0.test(event) || self.1.test(event)
    }
}

impl<K: Object, A: Predicate<K>> Predicate<K> for Not<A> {
    fn test(&self, event: &Event<K>) -> bool {
        !self.0.test(event)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::apps::v1::Deployment;
    use serde_json::json;

    use super::*;

    fn deployment(metadata: &serde_json::Value) -> Arc<Deployment> {
        Arc::new(serde_json::from_value(json!({ "metadata": metadata })).expect("a deployment"))
    }

    fn update(old: &serde_json::Value, new: &serde_json::Value) -> Event<Deployment> {
        Event::Update { old: deployment(old), new: deployment(new) }
    }

    #[test]
    fn each_predicate_passes_only_updates_of_its_own_part() {
        let status = update(
            &json!({ "generation": 1, "resourceVersion": "1" }),
            &json!({ "generation": 1, "resourceVersion": "2" }),
        );
        assert!(!GenerationChanged.test(&status));
        assert!(ResourceVersionChanged.test(&status));
        assert!(!LabelChanged.test(&status));
        assert!(!AnnotationChanged.test(&status));

        let spec = update(&json!({ "generation": 1 }), &json!({ "generation": 2 }));
        assert!(GenerationChanged.test(&spec));

        let labels = update(&json!({}), &json!({ "labels": { "a": "b" } }));
        assert!(LabelChanged.test(&labels));
        assert!(!AnnotationChanged.test(&labels));

        let annotations = update(&json!({ "annotations": { "a": "b" } }), &json!({}));
        assert!(AnnotationChanged.test(&annotations));
        assert!(!LabelChanged.test(&annotations));
    }

    #[test]
    fn creates_deletes_and_generics_always_pass() {
        let object = deployment(&json!({ "generation": 1 }));
        for event in [
            Event::Create { object: Arc::clone(&object), in_initial_list: true },
            Event::Delete { object: Arc::clone(&object), state_unknown: false },
            Event::Generic { object },
        ] {
            assert!(GenerationChanged.test(&event), "{event:?}");
            assert!(LabelChanged.test(&event), "{event:?}");
        }
    }

    #[test]
    fn and_or_not_combine() {
        let event = update(&json!({ "generation": 1 }), &json!({ "generation": 2 }));
        assert!(!And(GenerationChanged, LabelChanged).test(&event));
        assert!(Or(GenerationChanged, LabelChanged).test(&event));
        assert!(Not(LabelChanged).test(&event));
    }
}
