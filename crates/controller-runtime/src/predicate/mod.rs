//! Predicates: filters of events between cache and handler.
//!
//! A predicate receives the event with the old and the new state, and must not block. Predicates run after the cache has
//! stored the change: objects of dropped events are not reconciled, but they are still watched and held in memory.
//!
//! The predicates of this module read only metadata ([`Meta`](crate::cache::Meta)), so that objects of dropped events are never
//! decoded. The exception is [`Changed`], which compares any part of an object. Your own predicates may decode the object with
//! [`Lazy::object`](crate::Lazy::object). Such a predicate must handle the error of an object that does not fit its type, and
//! pass or drop the event.
//!
//! A [`LabelSelector`] as predicate also filters on the API server: unless an unfiltered cache of the kind exists, the API server
//! sends only objects that the selector matches.

mod changed;
mod combine;
pub(crate) mod event_predicate;
mod labels;
mod predicate_funcs;

pub(crate) use self::event_predicate::Predicate;
pub use self::{
    changed::{AnnotationChanged, Changed, GenerationChanged, LabelChanged, ResourceVersionChanged},
    combine::{And, Not, Or},
    predicate_funcs::PredicateFuncs,
};
use crate::cache::{LabelSelector, MetaEvent};

/// A predicate on events of any kind, for [`with_event_filter`](crate::ControllerBuilder::with_event_filter).
///
/// Implemented by every `Fn(&MetaEvent) -> bool`, by the predicates on metadata in this module, and by combinations of these.
///
/// ```
/// use controller_runtime::{MetaEvent, predicate::{And, EventFilter, ResourceVersionChanged}};
///
/// fn accepted(_: impl EventFilter) {}
///
/// // Drops events of objects that are being deleted, and resyncs.
/// accepted(And(ResourceVersionChanged, |event: &MetaEvent<'_>| !event.latest().is_deleting()));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a predicate on metadata",
    note = "a predicate on metadata is a closure `|event: &MetaEvent<'_>| -> bool`, or a type of `controller_runtime::predicate` \
            that reads metadata only",
    note = "for a predicate that reads spec or status of an owned object: `Owns::<C>::new().whole().with_predicate(..)`"
)]
pub trait EventFilter: Send + Sync + 'static {
    /// Returns whether the event passes.
    fn passes(&self, event: &MetaEvent<'_>) -> bool;

    /// Labels that an object must have, before or after the change, for its events to pass. Default: none.
    ///
    /// Each watch of the controller then asks the API server for such objects only, unless an unfiltered cache of the kind
    /// exists.
    fn required_labels(&self) -> LabelSelector {
        LabelSelector::default()
    }
}

impl<F: Fn(&MetaEvent<'_>) -> bool + Send + Sync + 'static> EventFilter for F {
    fn passes(&self, event: &MetaEvent<'_>) -> bool {
        self(event)
    }
}

/// Labels that an object must have for its events to pass all of `filters`.
pub(crate) fn required_labels(filters: &[Box<dyn EventFilter>]) -> LabelSelector {
    let required = filters.iter().map(|filter| filter.required_labels());
    required.fold(LabelSelector::default(), LabelSelector::and)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use serde_json::json;

    use super::*;
    use crate::cache::{Event, Lazy};

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

    #[test]
    fn a_part_has_changed_if_its_two_values_differ() {
        let replicas = |replicas: u32, version: &str| -> Lazy<Deployment> {
            let metadata = json!({ "namespace": "default", "name": "web", "resourceVersion": version });
            let spec = json!({ "replicas": replicas, "selector": {}, "template": {} });
            let deployment = json!({ "metadata": metadata, "spec": spec });
            Lazy::of(serde_json::from_value::<Deployment>(deployment).expect("a deployment")).expect("a name")
        };
        let update = |old, new| Event::Update { old, new };
        let spec = Changed::of(|deployment: &Deployment| &deployment.spec);
        let count = Changed::by_key(|deployment: &Deployment| deployment.spec.as_ref()?.replicas);
        for predicate in [&spec, &count] {
            assert!(predicate.test(&update(replicas(1, "1"), replicas(2, "2"))));
            assert!(!predicate.test(&update(replicas(1, "1"), replicas(1, "2"))));
            assert!(predicate.test(&Event::Create { object: replicas(1, "1"), in_initial_list: true }));
            assert!(predicate.test(&Event::Delete { object: replicas(1, "1"), state_unknown: false }));
        }
        assert!(!And(spec, LabelChanged).test(&update(replicas(1, "1"), replicas(2, "2"))));
    }

    #[test]
    fn an_event_filter_decides_like_the_predicate() {
        let event = update(&json!({ "generation": 1 }), &json!({ "generation": 2 }));
        assert!(And(GenerationChanged, Not(LabelChanged)).passes(&event.meta_event()));
        assert!(!Or(AnnotationChanged, LabelChanged).passes(&event.meta_event()));
        assert!(!And(GenerationChanged, |_: &MetaEvent<'_>| false).passes(&event.meta_event()));
    }

    #[test]
    fn a_selector_passes_events_of_objects_that_match_before_or_after() {
        let selector: LabelSelector = "app=web".parse().expect("a selector");
        let (web, other) = (json!({ "labels": { "app": "web" } }), json!({ "labels": { "app": "db" } }));
        assert!(selector.test(&update(&other, &web)));
        assert!(selector.test(&update(&web, &other)));
        assert!(!selector.test(&update(&other, &other)));
        assert!(!selector.test(&Event::Delete { object: deployment(&other), state_unknown: false }));
        assert!(selector.test(&Event::Create { object: deployment(&web), in_initial_list: true }));
    }

    #[test]
    fn required_labels_are_those_that_every_event_needs() {
        let labels = |text: &str| text.parse::<LabelSelector>().expect("a selector");
        let required = |predicate: &dyn Predicate<Deployment>| predicate.required_labels().to_string();
        assert_eq!(required(&labels("a=1")), "a=1");
        assert_eq!(required(&And(labels("a=1"), And(GenerationChanged, labels("b")))), "a=1,b");
        assert_eq!(required(&Or(labels("a=1"), labels("b"))), "");
        assert_eq!(required(&Not(labels("a=1"))), "");
        let required = |filter: &dyn EventFilter| filter.required_labels().to_string();
        assert_eq!(required(&And(labels("a=1"), And(GenerationChanged, labels("b")))), "a=1,b");
        assert_eq!(required(&Or(labels("a=1"), Not(labels("b")))), "");
    }

    #[test]
    fn functions_decide_on_their_kind_of_event_and_others_pass() {
        let object = deployment(&json!({ "generation": 1 }));
        let funcs = PredicateFuncs::new()
            .on_create(|_, in_initial_list| !in_initial_list)
            .on_update(|old: &Lazy<Deployment>, new| old.meta().generation() != new.meta().generation());
        assert!(!funcs.test(&Event::Create { object: object.clone(), in_initial_list: true }));
        assert!(funcs.test(&Event::Create { object: object.clone(), in_initial_list: false }));
        assert!(!funcs.test(&Event::Update { old: object.clone(), new: object.clone() }));
        assert!(funcs.test(&Event::Delete { object: object.clone(), state_unknown: false }));
        assert!(funcs.test(&Event::Generic { object }));
    }
}
