//! Properties that hold for any input of a client, as functions of bytes.
//!
//! `cargo +nightly fuzz run bodies` (or `protobuf`, `selectors`, `patches`, `paths`, `definitions`, `bulk`) in `crates/apiserver` searches
//! for inputs that violate them. `tests/it/any_input.rs` includes this file and uses proptest in ordinary test runs.

mod target;

use std::cell::RefCell;

pub use target::Target;

/// Calls `check` with the target of this thread, which is created once: a server takes longer to start than to
/// respond.
pub fn with_target(check: impl FnOnce(&mut Target)) {
    thread_local! {
        static TARGET: RefCell<Target> = RefCell::new(Target::start());
    }
    TARGET.with_borrow_mut(check);
}
