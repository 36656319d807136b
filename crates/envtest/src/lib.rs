//! Test environments for Kubernetes controllers: one API server per test, started in milliseconds and stopped when dropped.
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
//! An [`Environment`] is a cluster for one test: the embedded API server (`kube-apiserver-embedded`), the
//! CustomResourceDefinitions of the test, and a [`kube::Client`]. By default the client calls the server in process,
//! so that a test can pause time (`#[tokio::test(start_paused = true)]`) and observe exact delays. [`Transport::Tcp`]
//! uses a real socket, which other processes can reach.
//!
//! Environments share nothing. Start one per test, and run the tests in parallel. If several tests use the same real cluster, give
//! each test its own [namespace](Environment::namespace).
//!
//! [`Builder::cluster`] runs a test on another cluster: the binaries of `KUBEBUILDER_ASSETS` ([`Assets`]), or an existing
//! cluster ([`Cluster::Existing`]). [`Cluster::from_env`] selects the cluster by the environment variables of Go's envtest.
//! On such clusters time must not be paused, and your crate must enable a TLS feature of `kube`.
//!
//! [`Operator`] starts, stops and crashes the manager under test. A [`CrashPoint`] selects a request of the manager, before or
//! after which it crashes. [`faults`] of the embedded server ([`Environment::server`]) refuse, delay or lose requests.
//!
//! [`Environment::user`] and [`Environment::service_account`] create users with exactly the rights (RBAC permissions) of the
//! roles in manifests. [`User::rights`] reports rights that the test did not use, and rights that were missing.
//!
//! [`Instance::serve_webhooks`] installs webhook configurations: those computed from the manager's registrations, or files
//! ([`Builder::webhooks_from`]). It replaces their Service by the address of the operator under test. [`Operator::start`] waits
//! until the webhooks answer.
//!
//! [`eventually_object`], [`eventually_list`], [`consistently_object`] and [`eventually_gone`] wait for the effects of an
//! operator, and print the object when they fail. [`eventually_update`] retries an update on conflict, and [`EqualObject`]
//! reports the differences between two objects.
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
//! | `CRDs`, `CRDDirectoryPaths` | [`Builder::crd`], [`Builder::crds`], [`Builder::crds_from`]: a missing path is an error |
//! | `CRDInstallOptions`, `InstallCRDs`, `UninstallCRDs` | [`Builder::clean_up`], [`install_crds`], [`uninstall_crds`] |
//! | `CRDInstallOptions.MaxTime`, `PollInterval` | [`Builder::crds_within`], [`InstallCrds::within`]; checked every 10 ms |
//! | `AddUser`, `AuthenticatedUser` | [`Environment::user`]; with credentials of its own, [`Builder::user`] |
//! | `WebhookInstallOptions.Paths`, `MaxTime` | [`Builder::webhooks_from`], [`Builder::webhooks_within`] |
//! | `WebhookInstallOptions.MutatingWebhooks`, `ValidatingWebhooks` | the manifests of [`Instance::serve_webhooks`] |
//! | `LocalServingHost`, `LocalServingPort`, `LocalServingCertDir` | [`Instance::webhook_socket`], [`Builder::webhooks_at`]; none in process |
//! | a dial in `BeforeSuite` until the webhook server listens | [`Operator::start`] |
//! | `komega.Get`, `Object` | [`eventually_object`] |
//! | `komega.List`, `ObjectList` | [`eventually_list`] |
//! | `komega.Update`, `UpdateStatus` | [`eventually_update`], [`eventually_update_status`] |
//! | `komega.EqualObject` | [`EqualObject`] |
//! | `WithContext` | a wait ends when its future is dropped |
//! | Gomega's `Eventually`, `Consistently` | [`eventually`], [`consistently`] |
//!
//! The page `docs/book/src/guides/testing.md` of the repository applies all of this to one operator.
//!
//! # Cleanup
//!
//! Dropping an environment ends its tasks, kills its processes and waits for them, and removes their files, also during a panic.
//! Objects in an existing cluster remain, unless [`Environment::stop`] and [`TestNamespace::delete`] remove them. If the test
//! process itself is killed, processes of a control plane keep running.
//!
//! # Limitations
//!
//! - The crate does not download binaries; `setup-envtest` does.
//! - Workloads do not run: Deployments are stored, but no pods are created.
//! - Environments on one existing cluster share its CustomResourceDefinitions, and so their conversion webhooks. Admission webhooks
//!   are called only for the [namespaces](Environment::namespace) of their environment, and for cluster-scoped objects.
//!   [`Environment::stop`] removes them. After a drop they remain in an existing cluster, and requests that they match fail.

mod control_plane;
mod crd;
#[cfg(feature = "dev")]
pub mod dev;
mod documents;
mod environment;
mod equal_object;
mod eventually;
mod eventually_list;
mod eventually_update;
mod impersonation;
mod namespace;
mod operator;
mod rights;
mod user;
mod webhooks;

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
    user::{MissingPermissions, Permission, PermissionTarget, RightsReport, User, UserBuilder, UserError},
    webhooks::{AnswerWebhooks, ServedWebhooks, WebhookError, WebhookHost},
};
