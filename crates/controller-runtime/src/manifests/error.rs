//! Errors of rendering.

/// Error of [`Program::render`](super::Program::render).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// The name is not valid for the objects that have it.
    #[error("the operator's name {name:?} cannot be the name of a Service: {reason}")]
    Name {
        /// The name.
        name: String,
        /// The rule that it violates.
        reason: String,
    },
    /// The namespace is not a valid name.
    #[error("the namespace {namespace:?} is not a valid name: {reason}")]
    Namespace {
        /// The namespace.
        namespace: String,
        /// The rule that it violates.
        reason: String,
    },
    /// The server listens on port 0, so that its port is known only while it runs.
    #[error(
        "the port of {server} is 0, which selects a free port at run time: give a fixed port, such as :{example}"
    )]
    Port {
        /// The server.
        server: &'static str,
        /// A usual port.
        example: u16,
    },
    /// The program looks for its webhooks' Service in another namespace.
    #[error(
        "the program's webhooks have their Service in namespace {service}, and the manifests are for {namespace}: use one namespace for both"
    )]
    ServiceNamespace {
        /// Namespace of the Service in the program's options.
        service: String,
        /// Namespace of the manifests.
        namespace: String,
    },
    /// The program looks for its webhooks' Service in one namespace, and a chart can be installed in any.
    #[error(
        "the program's webhooks have their Service in namespace {service}, and a chart can be installed in any namespace: leave the certificates of webhooks to Operator"
    )]
    FixedNamespace {
        /// Namespace of the Service in the program's options.
        service: String,
    },
    /// Prometheus could not verify the certificate of the metrics server.
    #[error(
        "a ServiceMonitor cannot verify the self-signed certificate of the metrics server: add --metrics-cert-path with the folder of a certificate to the arguments"
    )]
    SelfSigned,
    /// Several replicas without leader election would reconcile the same objects at the same time.
    #[error(
        "{replicas} replicas need leader election: add --leader-elect to the arguments, or use one replica"
    )]
    Replicas {
        /// Number of replicas.
        replicas: u32,
    },
}
