//! Manifests of an operator, computed from its registrations, with the feature `manifests`.
//!
//! A [`Program`] is read from a [`Manager`](crate::Manager) on which controllers and webhooks are registered. Together with
//! [`Parameters`], the choices of a deployment, it gives [`Manifests`]: a list of objects, which a layout turns into text. This module
//! sends no requests, and reads neither files nor a clock. `operator::Operator` (feature `clap`) is its command line.
//!
//! ```
//! use controller_runtime::{Manager, manifests::{Parameters, Program}};
//!
//! fn yaml(manager: &Manager) -> Result<String, Box<dyn std::error::Error>> {
//!     let program = Program::of(manager);
//!     let parameters = Parameters::default().namespace("shop").image("registry.example.com/guestbook:1.2.0");
//!     Ok(program.render(&parameters)?.to_yaml())
//! }
//! ```
//!
//! # Objects
//!
//! | part | objects |
//! |---|---|
//! | [`Part::Namespace`] | the namespace, with the Pod Security level `restricted`; none for `default` and `kube-*` |
//! | [`Part::Definitions`] | the CustomResourceDefinitions, with the conversion webhooks of their kinds |
//! | [`Part::Rbac`] | the ServiceAccount; roles with the [declared](crate::rights) rights, and their bindings; ClusterRoles for users of the kinds, aggregated into `view`, `edit` and `admin`; one for readers of metrics |
//! | [`Part::Services`] | Services of metrics and webhooks |
//! | [`Part::Deployment`] | the Deployment |
//! | [`Part::Webhooks`] | the webhook configurations |
//! | [`Part::Network`] | a NetworkPolicy: metrics for namespaces with the label `metrics: enabled`, webhooks for everyone |
//! | [`Part::Monitoring`] | a ServiceMonitor, [if wanted](Parameters::service_monitor) |
//!
//! Each has the annotation [`RENDERED_BY`]. Equal input gives equal bytes.
//!
//! # Certificates
//!
//! Webhooks with [`SelfManagedCertificates`](crate::webhook::SelfManagedCertificates) need nothing else. For a server
//! whose certificate is in files, the Secret `<name>-metrics-certificate` or `<name>-webhooks-certificate` is mounted
//! at their folder. Another tool, such as cert-manager, writes the Secret, and the `caBundle` of the webhooks.

mod access;
mod check;
mod deployment;
mod error;
mod layout;
mod monitoring;
mod network;
mod parameters;
mod program;
mod rendered_object;
mod risks;
mod services;
mod webhook_objects;

#[cfg(feature = "clap")]
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_apimachinery::yaml;
use serde_json::Value;

#[cfg(feature = "clap")]
pub(crate) use self::check::differences;
pub use self::{
    check::{Difference, FileChange, objects_of},
    error::RenderError,
    layout::{Files, Layout, Owner, RELEASE_NAMESPACE, RenderedFile},
    parameters::Parameters,
    program::{MetricsPort, Ports, Program},
    rendered_object::{ManifestObject, Part, RENDERED_BY},
    risks::{Risk, risks},
};

/// Rendered objects, in the order in which they are to be applied.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifests {
    objects: Vec<ManifestObject>,
}

impl Program {
    /// Renders the objects of this program.
    ///
    /// # Errors
    ///
    /// A name is not valid, or a port is not known before the program runs.
    pub fn render(&self, parameters: &Parameters) -> Result<Manifests, RenderError> {
        self.check(parameters)?;
        let namespace = self.namespace(parameters);
        let target = RenderInput { program: self, parameters, namespace };
        let mut objects = Vec::new();
        objects.extend(access::namespace(&target));
        objects.extend(webhook_objects::definitions(&target));
        objects.extend(access::objects(&target));
        objects.extend(services::objects(&target));
        objects.push(deployment::object(&target));
        objects.extend(webhook_objects::configurations(&target));
        objects.extend(network::policy(&target));
        objects.extend(monitoring::monitor(&target));
        Ok(Manifests { objects })
    }
}

impl Manifests {
    /// CustomResourceDefinitions as they are, without conversion webhooks.
    #[cfg(feature = "clap")]
    pub(crate) fn of_definitions<'d>(
        definitions: impl IntoIterator<Item = &'d CustomResourceDefinition>,
    ) -> Self {
        Self { objects: definitions.into_iter().map(webhook_objects::definition).collect() }
    }

    /// The objects, in the order in which they are to be applied.
    #[must_use]
    pub fn objects(&self) -> &[ManifestObject] {
        &self.objects
    }

    /// Keeps the objects of these parts.
    #[must_use]
    pub fn only(mut self, parts: &[Part]) -> Self {
        self.objects.retain(|object| parts.contains(&object.part()));
        self
    }

    /// The objects as documents of one YAML file.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let documents: Vec<String> = self.objects.iter().map(|object| text(object.value())).collect();
        documents.join("---\n")
    }

    /// The objects as a JSON array.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.objects.iter().map(|object| object.value().clone()).collect()
    }
}

/// An object as YAML.
fn text(object: &Value) -> String {
    /// Longest line with a list or map on it.
    const WIDTH: usize = 100;
    yaml::write_compact(object, WIDTH)
}

/// Input of each renderer.
struct RenderInput<'t> {
    program: &'t Program,
    parameters: &'t Parameters,
    namespace: &'t str,
}

impl RenderInput<'_> {
    /// Name of the operator, and of most of its objects.
    fn name(&self) -> &str {
        &self.program.name
    }

    /// Name of the Service in front of the webhook server.
    fn webhook_service(&self) -> String {
        match &self.program.webhook_service {
            Some(service) => service.name.clone(),
            None => services::name_of(self, deployment::WEBHOOKS_PORT),
        }
    }

    /// Labels that select the operator's pods.
    fn selector(&self) -> Value {
        serde_json::json!({ "app.kubernetes.io/name": self.name() })
    }
}
