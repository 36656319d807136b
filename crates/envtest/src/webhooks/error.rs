//! Errors of webhooks in a test environment.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use crate::documents::DocumentError;

/// Failure to read, install or reach the webhooks of an operator.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// A file or folder could not be read.
    #[error("cannot read webhook configurations from {}", path.display())]
    Read {
        /// Path of the file or folder.
        path: PathBuf,
        /// Cause.
        source: Arc<io::Error>,
    },
    /// A file is not YAML or JSON.
    #[error("{} does not contain Kubernetes objects: {reason}", path.display())]
    Parse {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        reason: String,
    },
    /// A file or folder contains no webhook configuration.
    #[error(
        "{} contains no MutatingWebhookConfiguration or ValidatingWebhookConfiguration: name the file that controller-gen wrote, \
         such as config/webhook/manifests.yaml", path.display()
    )]
    Nothing {
        /// Path of the file or folder.
        path: PathBuf,
    },
    /// A configuration cannot be used.
    #[error("{object}: {reason}")]
    Invalid {
        /// Kind, name and file of the configuration.
        object: String,
        /// Description of the problem, and how to solve it.
        reason: String,
    },
    /// Webhooks are served, but there is no configuration of them.
    #[error(
        "there are no webhook configurations: pass those of the operator, with controller-runtime \
         `manager.webhooks().configurations(&service).manifests()`, or name their files with `Builder::webhooks_from`"
    )]
    NoConfigurations,
    /// The API server rejected a configuration.
    #[error("the API server rejected {object}: {reason}")]
    Refused {
        /// Kind, name and file of the configuration.
        object: String,
        /// Message of the API server.
        reason: String,
    },
    /// A kind is converted, but its CustomResourceDefinition is not installed.
    #[error(
        "the conversion of {object} cannot be installed, because its CustomResourceDefinition does not exist: add it with `Builder::crd`"
    )]
    NoDefinition {
        /// Kind, name and origin of the configuration.
        object: String,
    },
    /// The operator answers, but has no webhook at a path.
    #[error(
        "{object}: the operator serves no webhook at {path} (status 404 for {within:?}): register one with this path, or correct \
         `clientConfig.service.path`"
    )]
    NotServed {
        /// Webhook, and kind, name and file of its configuration.
        object: String,
        /// Path of the webhook.
        path: String,
        /// Time limit.
        within: Duration,
    },
    /// The operator does not answer.
    #[error("{object}: no answer from {url} within {within:?}: {reason}")]
    NoAnswer {
        /// Webhook, and kind, name and file of its configuration.
        object: String,
        /// Address of the webhook.
        url: String,
        /// Time limit.
        within: Duration,
        /// Error of the last attempt, and how to solve it.
        reason: String,
    },
    /// The API server stored a configuration, but does not call its webhooks.
    #[error(
        "the API server does not call the webhooks of {object} {within:?} after they were installed: {reason}"
    )]
    NotCalled {
        /// Kind, name and origin of the configuration.
        object: String,
        /// Time limit.
        within: Duration,
        /// Description of the last attempt.
        reason: String,
    },
    /// No address or certificate for the operator's webhook server.
    #[error("cannot prepare {} for the webhook server: {reason}", what)]
    Socket {
        /// The part that could not be prepared, such as `a certificate`.
        what: String,
        /// Cause.
        reason: String,
    },
    /// An operator serves webhooks, but was created without an environment.
    #[error(
        "the operator does not belong to an environment: create it with `Environment::operator`, or add `Operator::webhooks(env.webhooks())`"
    )]
    NoEnvironment,
}

impl From<DocumentError> for WebhookError {
    fn from(error: DocumentError) -> Self {
        match error {
            DocumentError::Read { path, source } => Self::Read { path, source: Arc::new(source) },
            DocumentError::Parse { path, reason } => Self::Parse { path, reason },
        }
    }
}
