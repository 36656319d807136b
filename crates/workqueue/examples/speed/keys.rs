//! The keys that are worked with.

use std::sync::Arc;

/// A namespace and a name, as controllers have them: shared strings, because watch events and caches share them too.
pub(crate) type Key = (Arc<str>, Arc<str>);

/// Keys of a hundred namespaces, all different; the name of each is its number.
pub(crate) fn keys(count: usize) -> Vec<Key> {
    let namespaces: Vec<Arc<str>> = (0..100).map(|number| format!("namespace-{number}").into()).collect();
    (0..count).map(|number| (namespaces[number % 100].clone(), number.to_string().into())).collect()
}
