//! Options of self-managed certificates.

use std::{collections::BTreeSet, time::Duration};

use super::rotation::SKEW;
use crate::webhook::WebhookService;

/// Shortest lifetime of a certificate: a rotation takes place in its last third, which must be longer than the differences between
/// clocks.
const SHORTEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Certificates that the operator makes, rotates and publishes itself, without cert-manager.
///
/// ```
/// use controller_runtime::{ManagerOptions, webhook::{SelfManagedCertificates, WebhookOptions, WebhookService}};
///
/// let service = WebhookService::new("guestbook-system", "webhook-service");
/// let certificates = SelfManagedCertificates::new(&service).secret("webhook-certificates");
/// let options = ManagerOptions::new("guestbook-operator")
///     .webhooks(WebhookOptions::default().certificates(certificates).apply_configurations(&service));
/// ```
///
/// A Secret in the namespace of the Service contains an authority and a certificate. The first replica creates them; the other
/// replicas use them. The operator adds the authority to the `caBundle` of every webhook configuration whose
/// `clientConfig` names the Service, and of the CustomResourceDefinitions that it converts. Of the webhook configurations, an operator
/// that [applies](crate::webhook::WebhookOptions::apply_configurations) its own handles only these. If another program changes a
/// `caBundle`, the operator restores it.
///
/// After two thirds of the lifetime, one of the replicas adds a second authority with its certificate to the Secret and
/// the `caBundle`s. Each replica changes to the new certificate when the authority has been in all `caBundle`s for the
/// [propagation time](Self::propagation). The old authority stays in them until it has expired. The authority's key is
/// never stored: an authority signs one certificate.
///
/// The check `webhooks` of `/readyz` fails until a replica serves a certificate that API servers trust. The metric
/// `controller_runtime_webhook_certificate_expiry_timestamp_seconds` shows when it expires.
///
/// # Permissions
///
/// | resource | verbs |
/// |---|---|
/// | `secrets` in the namespace of the Service | `get`, `watch`, `update` of the Secret; `create`, unless an empty Secret exists |
/// | `validatingwebhookconfigurations`, `mutatingwebhookconfigurations` | `get`, `list`, `watch`, `patch`; `create` to [apply](crate::webhook::WebhookOptions::apply_configurations) them |
/// | `customresourcedefinitions`, for conversions | `get`, `watch`, `patch` |
///
/// # Limitations
///
/// Clocks of replicas and API servers may differ by an hour. To replace a key before its time, stop all replicas, delete the Secret
/// and start them again; while one runs, it writes back a Secret that is deleted.
#[derive(Debug, Clone)]
#[must_use]
pub struct SelfManagedCertificates {
    pub(in crate::webhook) namespace: String,
    pub(in crate::webhook) secret: String,
    pub(super) service: String,
    pub(super) names: BTreeSet<String>,
    pub(super) validity: Duration,
    pub(super) propagation: Duration,
}

impl SelfManagedCertificates {
    /// Namespace and name of the Service.
    #[cfg(feature = "manifests")]
    pub(crate) fn service(&self) -> (&str, &str) {
        (&self.namespace, &self.service)
    }

    /// Certificates for a Service, in the Secret `<service>-certificates` of its namespace.
    pub fn new(service: &WebhookService) -> Self {
        let (namespace, name) = (service.namespace.clone(), service.name.clone());
        let host = format!("{name}.{namespace}.svc");
        Self {
            secret: format!("{name}-certificates"),
            names: BTreeSet::from([host.clone(), format!("{host}.cluster.local")]),
            validity: Duration::from_secs(90 * 24 * 60 * 60),
            propagation: Duration::from_secs(60),
            namespace,
            service: name,
        }
    }

    /// Sets the name of the Secret. Default: `<service>-certificates`.
    pub fn secret(self, name: impl Into<String>) -> Self {
        Self { secret: name.into(), ..self }
    }

    /// Adds a DNS name to the certificates. Default: `<service>.<namespace>.svc`, which API servers use, and the same with
    /// `.cluster.local`.
    pub fn dns_name(mut self, name: impl Into<String>) -> Self {
        self.names.insert(name.into());
        self
    }

    /// Sets the lifetime of certificates and authorities; at least a day. Default: 90 days. They are replaced after two thirds of it.
    pub fn valid_for(self, validity: Duration) -> Self {
        Self { validity: validity.max(SHORTEST), ..self }
    }

    /// Sets how long a new authority has to be in all `caBundle`s before its certificate is served; at most an hour. Default: 1
    /// minute. It must be longer than the time after which API servers use a changed configuration.
    pub fn propagation(self, propagation: Duration) -> Self {
        Self { propagation: propagation.min(SKEW), ..self }
    }
}
