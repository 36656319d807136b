//! Predicates: which events are worth a reconcile.
//!
//! A predicate sees the event with the old and the new state and answers at once. Predicates are evaluated after the
//! cache: what they refuse is not reconciled, but it is still watched and held in memory.
//!
//! Those here look at metadata alone ([`Meta`]), so that what they refuse is never decoded. Yours may decode
//! ([`Lazy::object`](crate::Lazy::object)), and then decide what an object that does not fit its type is worth.

use crate::{cache::Meta, event::Event, object::Object};

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
/// accepted(|event: &Event<Deployment>| event.meta().labels().get("app").is_some());
/// accepted(|event: &Event<Deployment>| event.latest().object().is_ok_and(|deployment| deployment.spec.is_some()));
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
        changed(event, |old, new| old.generation() != new.generation())
    }
}

impl<K: Object> Predicate<K> for ResourceVersionChanged {
    fn test(&self, event: &Event<K>) -> bool {
        changed(event, |old, new| old.resource_version() != new.resource_version())
    }
}

impl<K: Object> Predicate<K> for LabelChanged {
    fn test(&self, event: &Event<K>) -> bool {
        changed(event, |old, new| old.labels() != new.labels())
    }
}

impl<K: Object> Predicate<K> for AnnotationChanged {
    fn test(&self, event: &Event<K>) -> bool {
        changed(event, |old, new| !old.same_annotations(new))
    }
}

/// Whether an update made a difference; anything but an update passes.
fn changed<K: Object>(event: &Event<K>, differs: impl Fn(&Meta, &Meta) -> bool) -> bool {
    match event {
        Event::Update { old, new } => differs(old.meta(), new.meta()),
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
    use k8s_openapi::api::apps::v1::Deployment;
    use serde_json::json;

    use super::*;
    use crate::cache::Lazy;

    fn deployment(metadata: &serde_json::Value) -> Lazy<Deployment> {
        let mut deployment: Deployment =
            serde_json::from_value(json!({ "metadata": metadata })).expect("a deployment");
        deployment.metadata.namespace = Some("default".to_owned());
        deployment.metadata.name = Some("web".to_owned());
        Lazy::of(deployment).expect("it has a name")
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
            Event::Create { object: object.clone(), in_initial_list: true },
            Event::Delete { object: object.clone(), state_unknown: false },
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
