//! Test environments for Kubernetes controllers: an API server per test, started in milliseconds, stopped by a drop.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{Api, api::PostParams};
//! use kube_envtest::Environment;
//!
//! let env = Environment::builder().start().await?;
//! let config_maps: Api<ConfigMap> = Api::namespaced(env.client(), "default");
//! let mut settings = ConfigMap::default();
//! settings.metadata.name = Some("settings".to_owned());
//! config_maps.create(&PostParams::default(), &settings).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Mental model
//!
//! An [`Environment`] is a cluster of your own: the embedded API server (`kube-apiserver-embedded`), the
//! CustomResourceDefinitions you asked for, and a [`kube::Client`]. By default the client calls the server in process,
//! so that a test may pause time (`#[tokio::test(start_paused = true)]`) and see exact delays; [`Transport::Tcp`]
//! puts a real socket in between, for clients of other processes.
//!
//! Environments share nothing. Make one per test, and let the tests run in parallel.
//!
//! # What is not here
//!
//! The binaries of `KUBEBUILDER_ASSETS`, webhooks, users other than the administrator, and workloads: Deployments are
//! stored, but no pods come of them.

mod crd;
mod environment;
mod eventually;

pub use self::{
    crd::{CrdError, install_crds, read_crds},
    environment::{Builder, Environment, StartError, Transport},
    eventually::{Unmet, eventually},
};
