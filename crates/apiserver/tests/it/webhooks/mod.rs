//! Admission webhooks that misbehave, and connections to them. `tests/conformance` compares ordinary webhooks with recorded answers of
//! a kube-apiserver.

mod cluster;
mod empty_lists;
mod hostile;
mod large_numbers;
mod options;
mod second_round;
mod sockets;
