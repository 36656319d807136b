use serde_json::Value;

use super::{FieldSelector, LabelSelector, transform::Change};

/// What is different in one namespace. What it does not say is as elsewhere.
///
/// Given to [`Options::in_namespace`](super::Options::in_namespace) for all kinds, or to
/// [`CacheBuilder::in_namespace`](super::CacheBuilder::in_namespace) for one cache. What is said for the cache itself goes before what
/// is said for all kinds: first its words for the namespace, then its others, then those of the options in the same order.
#[derive(Debug, Clone, Default, PartialEq)]
#[doc(alias = "DefaultNamespaces")]
#[must_use]
pub struct InNamespace {
    pub(super) labels: Option<LabelSelector>,
    pub(super) fields: Option<FieldSelector>,
    pub(super) transform: Option<Change>,
}

impl InNamespace {
    /// Only objects with such labels; the empty selector means all.
    pub fn labels(mut self, selector: LabelSelector) -> Self {
        self.labels = Some(selector);
        self
    }

    /// Only objects with such fields; the empty selector means all.
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.fields = Some(selector);
        self
    }

    /// Changes objects where they arrive, as [`Options::transform`](super::Options::transform) does.
    pub fn transform(mut self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.transform = Some(Change::new(change));
        self
    }
}
