//! Tests of the player itself, against synthetic answers.
//!
//! They stand apart from the modules that they test: the conformance test has no libtest harness to run them, though it
//! compiles those modules with `cfg(test)`.

mod bindings;
mod comparison;
mod entry_order;
mod lists;
mod player;
mod template;
mod transcript;
mod transport;

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
}
