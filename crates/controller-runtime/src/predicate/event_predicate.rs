//! [`Predicate`], a filter of the events of one kind.

#[cfg(doc)]
use super::{And, Not, Or};
use crate::{
    cache::{Event, LabelSelector},
    object::Object,
};

/// Decides whether an event passes to the handler.
///
/// Implemented by every `Fn(&Event<K>) -> bool`, and combined with [`And`], [`Or`] and [`Not`]. Usually a predicate drops only
/// updates: if it drops deletions, the controller never notices that an object was deleted.
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a predicate on events of `{K}`",
    note = "a predicate on events of `{K}` is a closure `|event: &Event<{K}>| -> bool`, or a type of `controller_runtime::predicate`",
    note = "a source of `PartialObjectMeta<K>` receives metadata only: a predicate that reads more needs a source of `K`"
)]
pub trait Predicate<K: Object>: Send + Sync + 'static {
    /// Returns whether the event passes.
    fn test(&self, event: &Event<K>) -> bool;

    /// Labels that an object must have, before or after the change, for its events to pass. Default: none.
    ///
    /// The watch then asks the API server for such objects only, unless an unfiltered cache of the kind exists.
    fn required_labels(&self) -> LabelSelector {
        LabelSelector::default()
    }
}

impl<K: Object, F: Fn(&Event<K>) -> bool + Send + Sync + 'static> Predicate<K> for F {
    fn test(&self, event: &Event<K>) -> bool {
        self(event)
    }
}
