//! Keys of the workloads.

use std::sync::Arc;

/// Namespace and name, like a controller's keys: shared strings, because watch events and caches share them too.
pub(crate) type Key = (Arc<str>, Arc<str>);

/// Returns distinct keys in a hundred namespaces. The name of each is its number.
pub(crate) fn keys(count: usize) -> Vec<Key> {
    let namespaces: Vec<Arc<str>> = (0..100).map(|number| format!("namespace-{number}").into()).collect();
    (0..count).map(|number| (namespaces[number % 100].clone(), number.to_string().into())).collect()
}
