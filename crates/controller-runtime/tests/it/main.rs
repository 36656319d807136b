//! Tests of the runtime against an embedded API server, in process and with paused time.
#![expect(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod acceptance;
mod access;
mod back_off;
mod builder;
mod cache;
mod cache_life;
mod cache_options;
mod cache_reads;
mod cache_trouble;
mod cache_views;
mod client;
mod client_deadlines;
mod client_helpers;
mod client_options;
mod client_patches;
mod client_reads;
mod client_requests;
mod clusters;
mod controller;
mod declarations;
mod dynamic_watches;
mod events;
mod explain;
mod explain_api;
mod failed_events;
mod failures;
mod fault_run;
mod faults;
mod findings;
mod genuine;
mod go_defects;
mod gzip;
mod histories;
mod http2;
mod kube_runtime;
mod leader_election;
mod leader_election_options;
mod manager;
mod manager_client;
mod manifests;
mod operator;
mod own_writes;
mod pieces;
mod probes;
mod rights;
mod rotations;
mod servers;
mod signals;
mod sources;
mod support;
mod telemetry;
mod transport;
mod undeclared_requests;
mod unknown_reads;
mod user_code;
mod wall_clock;
mod warm_up;
mod watch_silence;
mod watches;
mod webhooks;
mod workers;

/// Counts heap memory, for tests in [their own process](support::alone).
#[global_allocator]
static ALLOCATOR: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;
