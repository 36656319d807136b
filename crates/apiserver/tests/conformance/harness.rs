//! Tests of the player, against synthetic responses.
//!
//! They are separate from the modules under test, because the conformance test has no libtest harness that could run
//! them, although it compiles those modules with `cfg(test)`.

mod bindings;
mod comparison;
mod entry_order;
mod lists;
mod player;
mod template;
mod transcript;
mod transport;
mod webhooks;

#[cfg(test)]
mod tests {
    mod bindings;
    mod comparison;
    mod lists;
    mod player;
    mod recording;
    mod template;
    mod transcript;
    mod transport;
    mod webhooks;
}
