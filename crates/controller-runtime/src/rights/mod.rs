//! Rights that an operator needs, computed from its registrations.
//!
//! A registration says what the API server must allow: a controller of a kind lists and watches it, an owned kind is created and
//! patched, a lease is updated. The manager [declares](crate::Manager::declarations) these rights with the line of the program
//! that needs each, and makes the smallest [roles](Declarations::roles) that grant them. Only requests that no
//! registration implies are declared by hand, beside the registrations: [`needs`](crate::ControllerBuilder::needs).
//!
//! ```
//! # use controller_runtime::{Action, Builder, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, Reconciler};
//! use controller_runtime::{Verb, rights::Right};
//! use k8s_openapi::api::{apps::v1::Deployment, core::v1::{ConfigMap, Pod}};
//!
//! # struct Web;
//! # impl Reconciler for Web {
//! #     type Request = ObjectKey<Deployment>;
//! #     async fn reconcile(&self, _: &ObjectKey<Deployment>, _: &Context) -> Result<Action, ReconcileError> {
//! #         Ok(Action::done())
//! #     }
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let env = kube_envtest::Environment::builder().start().await?;
//! # let manager = Manager::new(env.client(), ManagerOptions::new("web"));
//! Builder::managed_by(&manager)
//!     .for_kind::<Deployment>()
//!     .owns::<ConfigMap>()
//!     .needs::<ConfigMap>([Verb::Delete])
//!     .needs_subresource::<Pod>("eviction", [Verb::Create])
//!     .complete(Web)?;
//!
//! let table = manager.declarations().to_string();
//! assert!(table.contains("list watch    configmaps"), "{table}");
//! assert!(table.contains("create        pods/eviction"), "{table}");
//! # Ok(())
//! # }
//! ```
//!
//! # Rights of each registration
//!
//! | registration | rights |
//! |---|---|
//! | a cache: `for_kind`, `watches`, `owns`, `cached` | `list` and `watch`, in the namespaces of its selection; with the field selector `metadata.name=x`, only for this name |
//! | a controller of a custom kind with a status type | `patch` of `status`, unless [`without_status`](crate::ControllerBuilder::without_status) |
//! | [`with_finalizer`](crate::ControllerBuilder::with_finalizer) | `patch` of the kind |
//! | `owns` | `create` and `patch` of the owned kind; `update` of the owner's `finalizers`, which some clusters require for `blockOwnerDeletion` |
//! | a controller | `create` and `patch` of Events, unless [`without_events`](crate::ControllerBuilder::without_events) |
//! | leader election | `get`, `watch` and `update` of the lease, `create` of leases; `create` and `patch` of Events; in the operator's namespace |
//! | metrics for authorized clients | `create` of TokenReviews and SubjectAccessReviews |
//! | self-managed certificates of webhooks | `get`, `watch` and `update` of the Secret, `create` of Secrets; `get`, `watch` and `patch` of the configurations and definitions |
//!
//! `get` is never implied, because reads come from the caches. Nor are `delete` and `update`, subresources other than the status,
//! writes of kinds that are only watched, and paths outside of the resource API.

mod declaration;
mod declarations;
mod implied;
mod needed;
mod right;
mod rights_log;
mod roles;
mod status_field;
#[cfg(test)]
mod tests;
pub(crate) mod verb;

pub use self::{
    declaration::Declaration,
    declarations::Declarations,
    right::{Right, RightScope, Target},
    roles::{Bindings, Roles},
};
pub(crate) use self::{
    implied::{
        CodeLine, Selected, cached, certificates, election, events, finalizer, is_custom, own_status, owned,
        owner, reviews, webhook_configurations,
    },
    needed::Needed,
    rights_log::{DeclarationLog, ScopeOf},
    status_field::has_status,
    verb::Verb,
};
