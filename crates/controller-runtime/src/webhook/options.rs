//! Options of the webhook server.

use std::{fmt, net::SocketAddr, panic::Location, path::PathBuf};

use tokio_rustls::rustls::ServerConfig;

use super::{SelfManagedCertificates, WebhookService, Webhooks};
use crate::{
    rights::{self, CodeLine, DeclarationLog, ScopeOf},
    serving::{AdaptTls, CertFiles, Endpoint, Listen, Serving},
};

/// Options of the webhook server, which a manager starts when the first webhook is registered.
///
/// ```
/// use controller_runtime::{ManagerOptions, serving::{CertFiles, Serving}, webhook::WebhookOptions};
///
/// let webhooks = WebhookOptions::default().serving(Serving::Files(CertFiles::in_dir("/certs")));
/// let options = ManagerOptions::new("guestbook-operator").webhooks(webhooks);
/// ```
#[derive(Clone)]
#[must_use]
pub struct WebhookOptions {
    pub(crate) listen: Listen,
    pub(crate) serving: Serving,
    pub(crate) certificates: Option<SelfManagedCertificates>,
    pub(crate) apply: Option<WebhookService>,
    /// Line of the program that called [`certificates`](Self::certificates) or
    /// [`apply_configurations`](Self::apply_configurations), for the declarations of the rights that they need.
    place: Option<CodeLine>,
    pub(crate) client_ca: Option<PathBuf>,
    pub(crate) enable_http2: bool,
    pub(crate) adapt_tls: AdaptTls,
    pub(crate) max_conversion_bytes: usize,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        let folder = std::env::temp_dir().join("k8s-webhook-server/serving-certs");
        Self {
            listen: Listen::At(Endpoint::Port(9443)),
            serving: Serving::Files(CertFiles::in_dir(folder)),
            certificates: None,
            apply: None,
            place: None,
            client_ca: None,
            enable_http2: false,
            adapt_tls: AdaptTls::default(),
            max_conversion_bytes: 3 << 20,
        }
    }
}

impl WebhookOptions {
    /// Makes the options for a test. With an address and a folder, the server listens at the address with `tls.crt` and `tls.key` of
    /// the folder. With `None` there is no server, because the API server calls [`Webhooks`](super::Webhooks) in process. Pass the
    /// result of kube-envtest's `Instance::webhook_socket`.
    ///
    /// ```
    /// use controller_runtime::{ManagerOptions, webhook::WebhookOptions};
    ///
    /// let options = ManagerOptions::new("guestbook-operator").webhooks(WebhookOptions::local(None));
    /// ```
    pub fn local(socket: Option<(SocketAddr, PathBuf)>) -> Self {
        match socket {
            None => Self::default().bind_address(Endpoint::Disabled),
            Some((address, folder)) => {
                let serving = Serving::Files(CertFiles::in_dir(folder));
                Self::default().bind_address(Endpoint::At(address)).serving(serving)
            }
        }
    }

    /// Namespace and name of the Service, if the options name it.
    #[cfg(feature = "manifests")]
    pub(crate) fn service(&self) -> Option<(&str, &str)> {
        let applied = self.apply.as_ref().map(WebhookService::place);
        applied.or_else(|| self.certificates.as_ref().map(SelfManagedCertificates::service))
    }

    /// Turns off the webhooks that are called through the Service which the options name: their configurations are not applied, and a
    /// server with self-managed certificates does not start. A server with certificates in files does. Returns namespace and name of the
    /// Service, if there is one.
    #[cfg(feature = "clap")]
    pub(crate) fn leave_service(&mut self) -> Option<String> {
        let (namespace, name) = self.service()?;
        let service = format!("{namespace}/{name}");
        self.apply = None;
        if self.certificates.take().is_some() {
            self.listen = Listen::At(Endpoint::Disabled);
        }
        self.place = None;
        Some(service)
    }

    /// Sets the address of the server. Default: `:9443`, as in Go. [`Endpoint::Disabled`] starts no server;
    /// [`Webhooks::answer`](super::Webhooks::answer) works without one.
    #[doc(alias = "Port")]
    #[doc(alias = "Host")]
    pub fn bind_address(mut self, address: Endpoint) -> Self {
        self.listen = Listen::At(address);
        self
    }

    /// Sets the certificate. Default: `tls.crt` and `tls.key` in `k8s-webhook-server/serving-certs` below the folder for
    /// temporary files, as in Go. The files are read again when they change.
    #[doc(alias = "CertDir")]
    pub fn serving(mut self, serving: Serving) -> Self {
        self.serving = serving;
        self
    }

    /// Makes, rotates and publishes certificates, instead of reading them from files.
    #[doc(alias = "cert-manager")]
    #[track_caller]
    pub fn certificates(mut self, certificates: SelfManagedCertificates) -> Self {
        self.place = Some(Location::caller());
        self.certificates = Some(certificates);
        self
    }

    /// Applies the [configurations](super::Webhooks::configurations) of the registered webhooks when the manager starts, and when a
    /// webhook is registered later, with `<operator>-webhooks` as field manager: the ValidatingWebhookConfiguration and the
    /// MutatingWebhookConfiguration `<namespace>-<service>`, and `spec.conversion` of the CustomResourceDefinitions, which must exist. Entries
    /// for the Service that are not registered any more are removed; a configuration that is deleted is applied again.
    /// Default: the configurations must be applied by other means, such as manifests.
    ///
    /// Each replica applies its own registrations, so that the configurations are those of the replica that started
    /// last. Without [`certificates`](Self::certificates), another program must set `caBundle`, unless the Service has
    /// a [`ca_bundle`](WebhookService::ca_bundle).
    #[track_caller]
    pub fn apply_configurations(mut self, service: &WebhookService) -> Self {
        self.place = Some(Location::caller());
        self.apply = Some(service.clone());
        self
    }

    /// Records the rights to keep certificates and configurations up to date, for the webhooks that are registered now.
    pub(crate) fn declare(&self, webhooks: &Webhooks, log: &DeclarationLog) {
        // Set only if the server keeps certificates or configurations up to date.
        let Some(place) = self.place.filter(|_| !webhooks.is_empty() && !self.listen.is_nowhere()) else {
            return;
        };
        if let Some(certificates) = &self.certificates {
            let scope = ScopeOf::namespace(Some(&certificates.namespace));
            for declaration in rights::certificates(&certificates.secret, place) {
                log.record(declaration, &scope);
            }
        }
        let configuration = self.apply.as_ref().map(WebhookService::configuration_name);
        let definitions = webhooks.converted();
        for declaration in rights::webhook_configurations(configuration.as_deref(), &definitions, place) {
            log.record(declaration, &ScopeOf::CLUSTER);
        }
    }

    /// Accepts only clients with a certificate of this authority: a PEM file, which is read again within 10 s of a change.
    /// Default: every client.
    #[doc(alias = "ClientCAName")]
    pub fn client_ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.client_ca = Some(file.into());
        self
    }

    /// Sets whether clients may negotiate HTTP/2. Default: HTTP/1.1 only, as in kubebuilder's scaffold.
    #[cfg(feature = "http2")]
    pub fn enable_http2(mut self, enable: bool) -> Self {
        self.enable_http2 = enable;
        self
    }

    /// Changes the TLS configuration after all other options. Several functions run in the order in which they were added.
    #[doc(alias = "TLSOpts")]
    pub fn tls(mut self, adapt: impl Fn(&mut ServerConfig) + Send + Sync + 'static) -> Self {
        self.adapt_tls = self.adapt_tls.and(adapt);
        self
    }

    /// Sets the largest body of a conversion request. Default: 3 MiB. The API server sends all objects of a list in one request,
    /// so a kind with many large objects needs more; Go has no limit.
    pub fn max_conversion_bytes(mut self, bytes: usize) -> Self {
        self.max_conversion_bytes = bytes;
        self
    }
}

impl fmt::Debug for WebhookOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookOptions")
            .field("listen", &self.listen)
            .field("serving", &self.serving)
            .field("certificates", &self.certificates)
            .field("apply", &self.apply)
            .field("client_ca", &self.client_ca)
            .field("enable_http2", &self.enable_http2)
            .field("max_conversion_bytes", &self.max_conversion_bytes)
            .finish_non_exhaustive()
    }
}
