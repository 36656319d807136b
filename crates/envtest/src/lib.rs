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
//! Environments share nothing. Make one per test, and let the tests run in parallel. Tests that share one, because it is a
//! real cluster, take a [namespace](Environment::namespace) each.
//!
//! [`Builder::cluster`] runs a test elsewhere: on the binaries of `KUBEBUILDER_ASSETS` ([`Assets`]), or on a cluster
//! that is there ([`Cluster::Existing`]). With [`Cluster::from_env`], the environment variables of Go's envtest decide.
//! Both need time that is not paused, and a TLS feature of `kube`, which your crate chooses.
//!
//! [`Operator`] runs what is tested: it starts, stops and crashes a manager, also at a [`CrashPoint`]: before or after one of its
//! writes. [`faults`] of the embedded server ([`Environment::server`]) refuse, delay or lose requests.
//!
//! [`eventually_object`], [`eventually_list`], [`consistently_object`] and [`eventually_gone`] wait for what an operator does, and
//! print the object when it does not; [`eventually_update`] changes one that others change too, and [`EqualObject`] tells how one
//! differs from what it is to be.
//!
//! # From Go's envtest and komega
//!
//! | Go | here |
//! |---|---|
//! | `Environment{…}.Start()`, `Stop()` | [`Environment::builder`], [`Builder::start`], [`Environment::stop`] or a drop |
//! | `UseExistingCluster`, `USE_EXISTING_CLUSTER` | [`Cluster::Existing`], [`Cluster::from_env`] |
//! | `BinaryAssetsDirectory`, `KUBEBUILDER_ASSETS`, `TEST_ASSET_…` | [`Assets::in_folder`], [`Assets::from_env`] |
//! | `ControlPlaneStartTimeout`, `…StopTimeout`, `KUBEBUILDER_CONTROLPLANE_…_TIMEOUT` | [`Assets::start_timeout`], [`Assets::stop_timeout`] |
//! | `AttachControlPlaneOutput`, `KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT` | [`Assets::attach_output`] |
//! | `ControlPlane.GetAPIServer().Configure()` | [`Assets::api_server_flag`]; of the embedded server, [`Builder::server_options`] |
//! | `ControlPlane.KubectlPath`, `TEST_ASSET_KUBECTL` | [`Assets::kubectl`], with [`Environment::kubeconfig`] |
//! | `CRDs`, `CRDDirectoryPaths` | [`Builder::crd`], [`Builder::crds`], [`Builder::crds_from`]: what is not there is an error |
//! | `CRDInstallOptions`, `InstallCRDs`, `UninstallCRDs` | [`Builder::clean_up`], [`install_crds`], [`uninstall_crds`] |
//! | `CRDInstallOptions.MaxTime`, `PollInterval` | [`Builder::crds_within`], [`InstallCrds::within`]; it is looked every 10 ms |
//! | `AddUser`, `AuthenticatedUser` | [`Builder::user`], [`User`] |
//! | `komega.Get`, `Object` | [`eventually_object`] |
//! | `komega.List`, `ObjectList` | [`eventually_list`] |
//! | `komega.Update`, `UpdateStatus` | [`eventually_update`], [`eventually_update_status`] |
//! | `komega.EqualObject` | [`EqualObject`] |
//! | `WithContext` | a wait ends when its future is dropped |
//! | Gomega's `Eventually`, `Consistently` | [`eventually`], [`consistently`] |
//!
//! The guide `docs/testing.md` of the repository shows all of it on one operator.
//!
//! # What is left
//!
//! Nothing, after a drop or a panic: tasks end, processes are killed and waited for, their files removed. Objects in an
//! existing cluster stay, unless [`Environment::stop`] and [`TestNamespace::delete`] remove them; a test process that is
//! itself killed cannot kill its own.
//!
//! # What is not here
//!
//! Webhooks; the download of binaries (`setup-envtest` does that); rights of users of the embedded server, but [`Rights`] are held against a
//! client's requests; and workloads: Deployments are stored, but no pods come of them.

mod control_plane;
mod crd;
mod environment;
mod equal_object;
mod eventually;
mod eventually_list;
mod eventually_update;
mod namespace;
mod operator;
mod rights;
mod user;

pub use kube_apiserver_embedded::{Epoch, faults};

pub use self::{
    control_plane::{Assets, AssetsError, ControlPlaneError, ProcessError},
    crd::{CrdError, InstallCrds, install_crds, read_crds, uninstall_crds},
    environment::{Builder, Cluster, Environment, StartError, StopError, Transport},
    equal_object::EqualObject,
    eventually::{Unmet, consistently, consistently_object, eventually, eventually_gone, eventually_object},
    eventually_list::eventually_list,
    eventually_update::{eventually_update, eventually_update_status},
    namespace::{DeleteError, TestNamespace},
    operator::{CrashPoint, Instance, Operator, OperatorError},
    rights::{ManifestError, Rights},
    user::User,
};
