//! Admission and conversion webhooks: defaults, validation and versions of a kind.
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use controller_runtime::{
//!     Action, Builder, Context, Manager, ManagerOptions, ObjectKey, ReconcileError, reconcile, serving::Endpoint,
//!     webhook::{Admission, Defaulter, FieldErrors, Operation, Rejection, Validator, Verdict},
//! };
//! use http::Request;
//! use kube::CustomResource;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! # mod v1 {
//! #     use kube::CustomResource;
//! #     use schemars::JsonSchema;
//! #     use serde::{Deserialize, Serialize};
//! #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! #[kube(group = "example.com", version = "v1", kind = "Guestbook", namespaced)]
//! pub struct GuestbookSpec {
//!     pub size: Option<u32>,
//! }
//! # }
//!
//! #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! #[kube(group = "example.com", version = "v2", kind = "Guestbook", namespaced)]
//! pub struct GuestbookSpec {
//!     pub replicas: Option<u32>,
//! }
//!
//! impl Defaulter for Guestbook {
//!     async fn set_defaults(&mut self, _: &Admission) -> Verdict {
//!         self.spec.replicas.get_or_insert(3);
//!         Ok(())
//!     }
//! }
//!
//! impl Validator for Guestbook {
//!     const OPERATIONS: &'static [Operation] = &[Operation::Create, Operation::Update, Operation::Delete];
//!
//!     async fn validate_create(&self, cx: &Admission) -> Verdict {
//!         let mut errors = FieldErrors::new();
//!         match self.spec.replicas.unwrap_or_default() {
//!             0 => cx.warn("a guestbook without replicas answers no requests"),
//!             1..=10 => {}
//!             replicas => errors.invalid("spec.replicas", replicas, "must be at most 10"),
//!         }
//!         errors.into_verdict()
//!     }
//!
//!     async fn validate_update(&self, _old: &Self, cx: &Admission) -> Verdict {
//!         self.validate_create(cx).await
//!     }
//!
//!     async fn validate_delete(&self, _: &Admission) -> Verdict {
//!         match self.spec.replicas {
//!             Some(0) | None => Ok(()),
//!             Some(_) => Err(Rejection::forbidden("scale the guestbook to 0 first")),
//!         }
//!     }
//! }
//!
//! // v2 is the hub; every other version converts to and from it.
//! impl From<v1::Guestbook> for Guestbook {
//!     fn from(v1: v1::Guestbook) -> Self {
//!         Guestbook { metadata: v1.metadata, spec: GuestbookSpec { replicas: v1.spec.size } }
//!     }
//! }
//!
//! impl From<Guestbook> for v1::Guestbook {
//!     fn from(hub: Guestbook) -> Self {
//!         v1::Guestbook { metadata: hub.metadata, spec: v1::GuestbookSpec { size: hub.spec.replicas } }
//!     }
//! }
//!
//! async fn reconcile(_: &ObjectKey<Guestbook>, _: &Context) -> Result<Action, ReconcileError> {
//!     Ok(Action::done())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let env = kube_envtest::Environment::builder().start().await?;
//! # let client = env.client();
//! let manager = Manager::new(client, ManagerOptions::new("guestbook-operator"));
//! Builder::managed_by(&manager)
//!     .for_kind::<Guestbook>()
//!     .defaulted()
//!     .validated()
//!     .converted::<(v1::Guestbook,)>()
//!     .complete(reconcile::from_fn(reconcile))?;
//!
//! // A test needs no server and no certificate:
//! let review = r#"{ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
//!     "uid": "1", "operation": "CREATE", "name": "a",
//!     "kind": { "group": "example.com", "version": "v2", "kind": "Guestbook" },
//!     "object": { "apiVersion": "example.com/v2", "kind": "Guestbook", "metadata": { "name": "a" }, "spec": { "replicas": 11 } }
//! } }"#;
//! let request = Request::post("/validate-example-com-v2-guestbook")
//!     .header("content-type", "application/json")
//!     .body(review.into())?;
//! let response: serde_json::Value = serde_json::from_slice(manager.webhooks().answer(request).await.body())?;
//! assert_eq!(
//!     response["response"]["status"]["message"],
//!     r#"Guestbook.example.com "a" is invalid: spec.replicas: Invalid value: 11: must be at most 10"#
//! );
//! # Ok(())
//! # }
//! ```
//!
//! # Server
//!
//! A manager with webhooks serves them over HTTPS on port 9443 ([`WebhookOptions`]), at the paths of Go's controller-runtime
//! (`/mutate-<group>-<version>-<kind>`, `/validate-…`, `/convert`). The server listens before caches start, because a list of a
//! kind may need its conversion webhook, and stops after the controllers. It runs on each replica, whether the replica leads or
//! not.
//!
//! [`Webhooks::configurations`] returns the webhook configurations and conversion stanzas for the registered webhooks;
//! [`WebhookOptions::apply_configurations`] applies them. Certificates come from files, which cert-manager may write,
//! or the operator creates and rotates them itself ([`SelfManagedCertificates`]).
//!
//! # Answers
//!
//! Mutating handlers change a typed object. The server applies the difference to the raw object, so fields that the Rust type does
//! not have are kept.
//!
//! The answer to a review has HTTP status 200. The code of a refusal or failure is inside of the answer:
//!
//! - the code of a [`Rejection`], such as 403 or 422;
//! - 400 if the object is not of the kind;
//! - 500 after a panic, which affects no other request;
//! - 504 if the handlers exceed the `timeout` in the request's query.
//!
//! The answer to a request that is not a review has an HTTP status: 400 if the body is not an AdmissionReview, ConversionReview or
//! TokenReview, 404 if no webhook has the path, 413 if the body exceeds 7 MiB (3 MiB for conversions, 1 MiB for TokenReviews). Go
//! answers malformed reviews with status 200.

mod admission;
mod admission_review;
mod answer;
mod authentication;
mod client_ca;
mod configurations;
mod conversion;
mod envelope;
mod field_errors;
mod in_process;
mod managed_certificates;
mod options;
mod registration;
mod rejection;
mod rule;
mod server;
mod timeout;
mod typed;
mod typed_change;
mod webhook_manifests;
mod webhooks;

use std::sync::Arc;

pub use self::{
    admission::{Admission, AdmissionKind, AdmissionResource, Operation},
    authentication::{Authenticated, TokenRequest},
    configurations::{Configurations, WebhookService},
    conversion::{RoundTripError, Spoke, Spokes, check_generated_round_trips, check_round_trip},
    field_errors::{FieldErrors, FieldPath},
    managed_certificates::SelfManagedCertificates,
    options::WebhookOptions,
    registration::RegisterError,
    rejection::{Rejection, Verdict},
    rule::{FailurePolicy, MatchPolicy, ReinvocationPolicy, Rule, SideEffects},
    typed::{Defaulter, Validator},
    webhooks::Webhooks,
};
use self::{
    conversion::AnyConverter,
    registration::Hook,
    rule::AdmissionPhase,
    typed::{defaulter, validator},
};
pub(crate) use self::{managed_certificates::KeeperState, registration::Registration, server::WebhookServer};
use crate::object::StaticObject;

/// Registrations of typed handlers, for the builder.
impl Registration {
    pub(crate) fn defaulter<K: Defaulter>(adapt: impl FnOnce(Rule) -> Rule) -> Self {
        let rule = adapt(Rule::of::<K>().operations(K::OPERATIONS));
        Self::Admission(Arc::new(Hook {
            phase: AdmissionPhase::Mutating,
            rule,
            role: Some("defaulter"),
            admit: defaulter::<K>(),
        }))
    }

    pub(crate) fn validator<K: Validator>(adapt: impl FnOnce(Rule) -> Rule) -> Self {
        let rule = adapt(Rule::of::<K>().operations(K::OPERATIONS));
        Self::Admission(Arc::new(Hook {
            phase: AdmissionPhase::Validating,
            rule,
            role: Some("validator"),
            admit: validator::<K>(),
        }))
    }

    pub(crate) fn converter<Hub: StaticObject, S: Spokes<Hub>>() -> Self {
        Self::Conversion(AnyConverter::new::<Hub, S>())
    }
}

#[cfg(test)]
mod tests;
