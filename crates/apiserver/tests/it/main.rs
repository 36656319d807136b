//! Tests of the server as its clients see it: in process and in paused time where that shows the claim, otherwise over sockets, with the
//! program or with kubectl. One program, so that the code of clients is compiled and linked once.
#![expect(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod admission_plugins;
mod admission_policies;
#[cfg(feature = "gzip")]
mod answers;
mod any_input;
mod audit;
#[cfg(feature = "tls")]
mod bad_credentials;
mod bootstrap;
mod conversion;
#[cfg(feature = "program")]
mod data_file;
mod definitions;
mod deletions;
mod dev_profile;
mod discovery;
#[cfg(all(unix, feature = "program"))]
mod drop_in;
mod equal_requests;
mod faults;
mod flow_control;
mod hostile;
mod in_process;
#[cfg(feature = "program")]
mod kubectl;
mod lifetimes;
mod metrics;
mod numbers;
mod observed;
mod openapi;
#[cfg(feature = "program")]
mod over_tcp;
#[cfg(feature = "tls")]
mod over_tls;
mod pods;
mod priority;
mod protobuf;
mod protocol;
mod reviews;
mod rules;
mod scales;
#[cfg(feature = "tls")]
mod webhooks;
#[cfg(feature = "websocket")]
mod websockets;
