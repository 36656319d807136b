//! Choices of a deployment.

use serde_json::{Value, json};

use super::Program;

/// Choices of a deployment that do not follow from the program.
///
/// ```
/// use controller_runtime::manifests::Parameters;
///
/// let parameters = Parameters::default().namespace("shop").image("registry.example.com/guestbook:1.2.0").replicas(2);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Parameters {
    pub(super) namespace: Option<String>,
    pub(super) image: Option<String>,
    pub(super) replicas: u32,
    pub(super) arguments: Vec<String>,
    pub(super) resources: Value,
    pub(super) service_monitor: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            namespace: None,
            image: None,
            replicas: 1,
            arguments: Vec::new(),
            resources: json!({ "requests": { "cpu": "10m", "memory": "64Mi" } }),
            service_monitor: false,
        }
    }
}

impl Parameters {
    /// Sets the namespace of the operator. Default: the one of its webhooks' Service, or else its name.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets the image. Default: `<name>:latest`.
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.image = Some(image.into());
        self
    }

    /// Sets the number of replicas. Default: 1. More need leader election.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// Sets the arguments of the program in its container: those with which the [`Program`](super::Program) was set up, because flags
    /// change ports and registrations.
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Sets `resources` of the container. Default: requests of 10m CPU and 64Mi memory, and no limits: a CPU limit can delay the
    /// renewal of the lease.
    pub fn resources(mut self, resources: Value) -> Self {
        self.resources = resources;
        self
    }

    /// Sets whether there is a ServiceMonitor, which needs the Prometheus operator in the cluster. Default: no.
    pub fn service_monitor(mut self, wanted: bool) -> Self {
        self.service_monitor = wanted;
        self
    }

    /// The image of the container, or its default.
    pub(super) fn image_of(&self, program: &Program) -> String {
        self.image.clone().unwrap_or_else(|| format!("{}:latest", program.name))
    }
}
