//! What must hold whatever a client sends, as functions of its bytes.
//!
//! `cargo +nightly fuzz run bodies` (or `protobuf`, `selectors`, `patches`, `paths`) in `crates/apiserver` looks for
//! bytes that break it; `tests/any_input.rs` includes this file and looks with proptest whenever tests run.

mod target;

use std::cell::RefCell;

pub use target::Target;

/// Calls `check` with the target of this thread, which is made once: a server takes longer to start than to answer.
pub fn with_target(check: impl FnOnce(&mut Target)) {
    thread_local! {
        static TARGET: RefCell<Target> = RefCell::new(Target::start());
    }
    TARGET.with_borrow_mut(check);
}
