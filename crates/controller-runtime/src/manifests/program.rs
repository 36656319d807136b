//! Facts about a program on which its manifests depend.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_apimachinery::names;

use super::{Parameters, RenderError};
use crate::{
    manager::{Manager, Shutdown},
    rights::Declarations,
    serving::{Endpoint, Listen, Serving},
    webhook::Webhooks,
};

/// Length of the longest suffix that the name of a Service adds to the name of the program.
const SUFFIX: usize = "-webhooks".len();

/// Time after the shutdown timeout of the reconciles in which the pod can stop its servers and release the lease.
const AFTER_DRAIN: Duration = Duration::from_secs(15);

/// Grace period of a program that waits for its reconciles without a limit.
const UNBOUNDED: Duration = Duration::from_secs(60 * 60);

/// Facts about a program on which its manifests depend.
#[derive(Debug, Clone)]
pub struct Program {
    pub(super) name: String,
    pub(super) definitions: Vec<CustomResourceDefinition>,
    pub(super) declarations: Declarations,
    pub(super) ports: Ports,
    /// Whether the program has a leader election, so that more than one replica can run.
    pub(super) elects: bool,
    /// Path of the liveness probe.
    pub(super) liveness: String,
    /// Path of the readiness probe.
    pub(super) readiness: String,
    /// Grace period of the pod's termination.
    pub(super) grace: Duration,
    pub(super) webhooks: Webhooks,
    /// Service in front of the webhooks, if the options name it.
    pub(super) webhook_service: Option<Service>,
    pub(super) metrics_certificate: MetricsCertificate,
    /// Folder of the webhook server's certificate; `None` if the program manages its own certificate.
    pub(super) webhook_certificate: Option<PathBuf>,
}

/// A Service that the options of a program name.
#[derive(Debug, Clone)]
pub(super) struct Service {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Certificate of the metrics server.
#[derive(Debug, Clone)]
pub(super) enum MetricsCertificate {
    None,
    SelfSigned,
    InFolder(Option<PathBuf>),
}

/// Ports that other hosts can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Ports {
    /// Port of the metrics server.
    pub metrics: Option<MetricsPort>,
    /// Port of liveness and readiness.
    pub probes: Option<u16>,
    /// Port of the webhook server.
    pub webhooks: Option<u16>,
}

/// Port of the metrics server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricsPort {
    /// The port.
    pub port: u16,
    /// Whether it uses HTTPS.
    pub https: bool,
    /// Whether it authorizes each client with the API server.
    pub authorized: bool,
}

impl Program {
    /// The program of a manager on which everything is registered. Its name is that of the manager's options.
    #[must_use]
    pub fn of(manager: &Manager) -> Self {
        let options = manager.options();
        let webhooks = manager.registered_webhooks().clone();
        let grace = match options.graceful_shutdown_timeout {
            Shutdown::Immediate => AFTER_DRAIN,
            Shutdown::Within(drain) => drain.saturating_add(AFTER_DRAIN),
            Shutdown::Unbounded => UNBOUNDED,
        };
        let metrics = &options.metrics;
        let ports = Ports {
            metrics: port(&metrics.listen).map(|port| MetricsPort {
                port,
                https: !matches!(metrics.serving, Serving::Plain),
                authorized: metrics.is_guarded(),
            }),
            probes: port(&Listen::At(options.health_probe)),
            webhooks: if webhooks.is_empty() { None } else { port(&options.webhooks.listen) },
        };
        let metrics_certificate = match &metrics.serving {
            Serving::Plain => MetricsCertificate::None,
            Serving::SelfSigned => MetricsCertificate::SelfSigned,
            Serving::Files(files) => MetricsCertificate::InFolder(files.folder().map(Path::to_owned)),
        };
        let webhook_options = &options.webhooks;
        let service = webhook_options.service().filter(|_| !webhooks.is_empty());
        // Certificates in files are mounted from a Secret. Self-managed ones are read from their Secret by the program itself.
        let webhook_certificate = match &webhook_options.serving {
            Serving::Files(files) if webhook_options.certificates.is_none() => {
                files.folder().map(Path::to_owned)
            }
            _ => None,
        };
        Self {
            webhook_service: service
                .map(|(namespace, name)| Service { namespace: namespace.to_owned(), name: name.to_owned() }),
            metrics_certificate,
            webhook_certificate,
            name: options.name.to_string(),
            definitions: Vec::new(),
            declarations: manager.declarations(),
            ports,
            elects: options.leader_election.is_some(),
            liveness: options.liveness.clone(),
            readiness: options.readiness.clone(),
            grace,
            webhooks,
        }
    }

    /// Adds a CustomResourceDefinition.
    #[must_use]
    pub fn definition(mut self, definition: CustomResourceDefinition) -> Self {
        self.definitions.push(definition);
        self
    }

    /// Returns whether there is a metrics server, without a certificate or with one that Prometheus can verify.
    pub(super) fn has_verifiable_metrics(&self) -> bool {
        self.ports.metrics.is_some() && !matches!(self.metrics_certificate, MetricsCertificate::SelfSigned)
    }

    /// Name of the program.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Rights of the program.
    #[must_use]
    pub fn declarations(&self) -> &Declarations {
        &self.declarations
    }

    /// Ports that other hosts can reach.
    #[must_use]
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// Namespace of the operator: that of the parameters, or else of the webhooks' Service, or else the name of the program.
    pub(super) fn namespace<'n>(&'n self, parameters: &'n Parameters) -> &'n str {
        let of_service = || self.webhook_service.as_ref().map(|service| &*service.namespace);
        parameters.namespace.as_deref().or_else(of_service).unwrap_or(&self.name)
    }

    /// Checks that the names are valid, the ports known, and the parameters possible for this program.
    pub(super) fn check(&self, parameters: &Parameters) -> Result<(), RenderError> {
        let name = &self.name;
        // The name of a Service begins with a letter.
        let mut faults = names::label(name);
        if name.starts_with(|first: char| first.is_ascii_digit()) {
            faults.push("must begin with a letter".to_owned());
        }
        if name.len() + SUFFIX > 63 {
            faults.push(format!("must be no more than {} characters", 63 - SUFFIX));
        }
        if let Some(reason) = faults.into_iter().next() {
            return Err(RenderError::Name { name: name.clone(), reason });
        }
        let namespace = self.namespace(parameters);
        let of_service = self.webhook_service.as_ref().map(|service| &service.namespace);
        if let Some(service) = of_service.filter(|service| *service != namespace) {
            let (service, namespace) = (service.clone(), namespace.to_owned());
            return Err(RenderError::ServiceNamespace { service, namespace });
        }
        if let Some(reason) = names::label(namespace).into_iter().next() {
            return Err(RenderError::Namespace { namespace: namespace.to_owned(), reason });
        }
        let Ports { metrics, probes, webhooks } = self.ports;
        let ports = [
            ("the metrics server", metrics.map(|metrics| metrics.port), 8443),
            ("the health probes", probes, 8081),
            ("the webhook server", webhooks, 9443),
        ];
        for (server, port, example) in ports {
            if port == Some(0) {
                return Err(RenderError::Port { server, example });
            }
        }
        if parameters.service_monitor && metrics.is_some() && !self.has_verifiable_metrics() {
            return Err(RenderError::SelfSigned);
        }
        if parameters.replicas > 1 && !self.elects {
            return Err(RenderError::Replicas { replicas: parameters.replicas });
        }
        Ok(())
    }
}

/// Port of a server; `None` if it does not listen, or only on a loopback address, which other hosts cannot reach.
fn port(listen: &Listen) -> Option<u16> {
    let reachable = |address: SocketAddr| (!address.ip().is_loopback()).then(|| address.port());
    match listen {
        Listen::At(Endpoint::Disabled) => None,
        Listen::At(Endpoint::Port(port)) => Some(*port),
        Listen::At(Endpoint::At(address)) => reachable(*address),
        Listen::On(socket) => socket.local_addr().ok().and_then(reachable),
    }
}
