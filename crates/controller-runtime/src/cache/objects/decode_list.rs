//! Decoding of many objects, on several threads.

use std::{num::NonZero, panic::resume_unwind, sync::Arc, thread};

use super::{decode_error::DecodeError, lazy::Lazy, reads::ReadPattern};
use crate::object::Object;

/// Number of objects per thread: about 20 ms of work, compared with less than 0.1 ms for starting a thread.
const PER_THREAD: usize = 1024;

/// Decodes states, and returns the objects in the same order. Several threads decode a long list.
///
/// Objects of repeated lists are kept decoded, if the budget has room for a whole list.
pub(in crate::cache) fn decode_all<'a, K: Object, I: Iterator<Item = &'a Lazy<K>>>(
    states: impl Fn() -> I,
) -> Result<Vec<Arc<K>>, DecodeError> {
    let pattern = if fit_budget(states()) { ReadPattern::Iteration } else { ReadPattern::LargeIteration };
    let states: Vec<_> = states().collect();
    let threads = states.len().div_ceil(PER_THREAD).min(cores());
    if threads <= 1 {
        return decode(&states, pattern);
    }
    let mut parts = states.chunks(states.len().div_ceil(threads));
    let first = parts.next().unwrap_or_default(); // for the calling thread
    thread::scope(|scope| {
        let others: Vec<_> = parts
            .map(|part| {
                let helper = thread::Builder::new().name("decode-list".to_owned());
                (part, helper.spawn_scoped(scope, move || decode(part, pattern)))
            })
            .collect();
        let mut objects = decode(first, pattern)?;
        objects.reserve_exact(states.len() - objects.len());
        for (part, helper) in others {
            objects.extend(match helper {
                Ok(helper) => helper.join().unwrap_or_else(|panic| resume_unwind(panic))?,
                Err(_no_thread) => decode(part, pattern)?,
            });
        }
        Ok(objects)
    })
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

fn decode<K: Object>(states: &[&Lazy<K>], pattern: ReadPattern) -> Result<Vec<Arc<K>>, DecodeError> {
    states.iter().map(|state| state.object_for(pattern)).collect()
}

/// Whether the budget has room for all these states in decoded form.
fn fit_budget<'a, K: Object>(states: impl Iterator<Item = &'a Lazy<K>>) -> bool {
    let mut states = states.peekable();
    let Some(budget) = states.peek().and_then(|state| state.budget()) else { return true };
    let room = budget.lock().room();
    let mut bytes = 0;
    states.all(|state| {
        bytes += state.bytes_to_keep();
        bytes <= room
    })
}
