//! Reads of many objects.

use std::sync::Arc;

use super::{DecodeError, lazy::Lazy, reads::Readers};
use crate::object::Object;

/// Returns the objects in the same order.
///
/// Objects of repeated lists are kept decoded, if the budget has room for a whole list.
pub(super) fn objects<'a, K: Object, I: Iterator<Item = &'a Lazy<K>>>(
    states: impl Fn() -> I,
) -> Result<Vec<Arc<K>>, DecodeError> {
    let readers = if fit(states()) { Readers::Many } else { Readers::TooMany };
    states().map(|state| state.object_among(readers)).collect()
}

/// Whether the budget has room for all of them.
fn fit<'a, K: Object>(states: impl Iterator<Item = &'a Lazy<K>>) -> bool {
    let mut states = states.peekable();
    let Some(budget) = states.peek().and_then(|state| state.budget()) else { return true };
    let room = budget.lock().room();
    let mut bytes = 0;
    states.all(|state| {
        bytes += state.to_keep();
        bytes <= room
    })
}
