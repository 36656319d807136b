//! [`InNamespace`], options for one namespace.

use serde_json::Value;

use super::selector::{FieldSelector, LabelSelector};
use crate::cache::objects::transform::TransformFn;

/// Options for one namespace. Options that are not set apply as in other namespaces.
///
/// Passed to [`CacheOptions::in_namespace`](crate::cache::CacheOptions::in_namespace) for all kinds, or to
/// [`CacheBuilder::in_namespace`](crate::cache::CacheBuilder::in_namespace) for one cache. The first option that is set
/// applies: the cache's option for the namespace, the cache's option, the manager's option for the namespace, the
/// manager's option.
#[derive(Debug, Clone, Default, PartialEq)]
#[doc(alias = "DefaultNamespaces")]
#[must_use]
pub struct InNamespace {
    pub(in crate::cache) labels: Option<LabelSelector>,
    pub(in crate::cache) fields: Option<FieldSelector>,
    pub(in crate::cache) transform: Option<TransformFn>,
}

impl InNamespace {
    /// Selects objects with matching labels; the empty selector matches all.
    pub fn labels(mut self, selector: LabelSelector) -> Self {
        self.labels = Some(selector);
        self
    }

    /// Selects objects with matching fields; the empty selector matches all.
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.fields = Some(selector);
        self
    }

    /// Transforms objects when they arrive, see [`CacheOptions::transform`](crate::cache::CacheOptions::transform).
    pub fn transform(mut self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.transform = Some(TransformFn::new(change));
        self
    }
}
