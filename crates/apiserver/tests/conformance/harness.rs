//! Tests of the player itself, against synthetic answers.

mod bindings;
mod comparison;
mod player;
mod template;
mod transcript;
mod transport;
