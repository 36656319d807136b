//! Webhooks of an operator under test: configurations, addresses, and readiness.

mod error;
mod in_process;
mod install;
mod loaded;
mod probe;
mod socket;
mod webhook_manifests;

use std::{
    collections::BTreeSet,
    fmt,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::DynamicObject;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet};

pub use self::{error::WebhookError, in_process::AnswerWebhooks};
use self::{
    in_process::Registration,
    install::Installed,
    socket::Socket,
    webhook_manifests::{Reference, Target},
};
pub(crate) use self::{in_process::Router, webhook_manifests::Manifest};

/// Time limit for webhooks to answer, as in Go's envtest.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Label of namespaces for which webhooks are called on an existing cluster.
pub(crate) const ENVIRONMENT_LABEL: &str = "kube-envtest/environment";

/// Installs the webhooks of an operator in its environment: [`Environment::webhooks`](crate::Environment::webhooks).
///
/// An [`Operator`](crate::Operator) uses it by itself: see [`Instance::serve_webhooks`](crate::Instance::serve_webhooks). Call it for an
/// operator that runs in another process, or that the test runs without [`Operator`](crate::Operator).
///
/// Clones belong to the same environment.
#[derive(Clone)]
#[doc(alias = "WebhookInstallOptions")]
pub struct WebhookHost {
    inner: Arc<HostInner>,
}

struct HostInner {
    /// Client of the administrator.
    client: kube::Client,
    place: WebhookAddress,
    /// Configurations in files.
    manifests: Vec<Manifest>,
    /// References in the conversion webhooks of the installed CustomResourceDefinitions.
    conversions: Vec<Reference>,
    within: Duration,
    /// Whether the API server loads configurations some time after they are stored.
    loads_late: bool,
    /// Identifies the environment on an existing cluster, which other tests may use at the same time; `None` on a cluster of its own.
    id: Option<String>,
    installed: Mutex<Installed>,
}

/// Address of the operator's webhooks.
#[derive(Debug)]
enum WebhookAddress {
    InProcess(Router),
    Socket(Socket),
}

/// API server of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Embedded,
    Process,
    /// Server of an existing cluster, which other tests may use at the same time.
    Shared,
}

/// Options of the builder that concern webhooks.
#[derive(Debug)]
pub(crate) struct WebhookSettings {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) address: SocketAddr,
    pub(crate) within: Duration,
}

impl WebhookHost {
    /// Prepares an address for the operator's webhooks, and points the conversion webhooks of the definitions at it. With a router, the
    /// API server calls webhooks in process.
    pub(crate) fn new(
        client: kube::Client,
        router: Option<Router>,
        server: ServerKind,
        settings: &WebhookSettings,
        manifests: Vec<Manifest>,
        crds: &mut [CustomResourceDefinition],
    ) -> Result<Self, WebhookError> {
        let place = match router {
            Some(router) => WebhookAddress::InProcess(router),
            None => WebhookAddress::Socket(Socket::reserve(settings.address)?),
        };
        let conversions = point_definitions(crds, &place.target())?;
        let inner = HostInner {
            client,
            place,
            manifests,
            conversions,
            within: settings.within,
            loads_late: server != ServerKind::Embedded,
            id: (server == ServerKind::Shared).then(unique_id),
            installed: Mutex::default(),
        };
        if let WebhookAddress::InProcess(router) = &inner.place {
            router.expect(inner.conversions.iter().map(|reference| reference.service.clone()));
        }
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Reads and checks the configurations in files. Done before the cluster starts, so that a mistake in them fails the test at once.
    pub(crate) fn read(settings: &WebhookSettings) -> Result<Vec<Manifest>, WebhookError> {
        let read: Result<Vec<Vec<Manifest>>, _> =
            settings.paths.iter().map(|path| Manifest::read(path)).collect();
        Ok(read?.into_iter().flatten().collect())
    }

    /// Address of the operator's webhook server, and folder with its certificate (`tls.crt`, `tls.key`, and `ca.crt` of the
    /// authority). `None` if the API server calls the webhooks in the process.
    ///
    /// The address is reserved for this environment, also while no operator runs.
    #[must_use]
    #[doc(alias = "LocalServingHost")]
    #[doc(alias = "LocalServingPort")]
    #[doc(alias = "LocalServingCertDir")]
    pub fn socket(&self) -> Option<(SocketAddr, PathBuf)> {
        match &self.inner.place {
            WebhookAddress::InProcess(_) => None,
            WebhookAddress::Socket(socket) => Some((socket.address(), socket.folder().to_owned())),
        }
    }

    /// Label of the namespaces for which webhooks are called, if they are not called for all.
    pub(crate) fn namespace_label(&self) -> Option<(&'static str, &str)> {
        Some((ENVIRONMENT_LABEL, self.inner.id.as_deref()?))
    }

    /// Installs the configurations in files ([`Builder::webhooks_from`](crate::Builder::webhooks_from)) and `manifests`, for an operator that this process runs.
    /// In process, `webhooks` answers from now on; otherwise the operator listens at [`socket`](Self::socket).
    ///
    /// Conversions of CustomResourceDefinitions are installed when this returns, so that the operator can list its kinds.
    /// Admission webhooks follow when all webhooks answer: [`ServedWebhooks::ready`].
    ///
    /// # Errors
    ///
    /// There are no configurations, or one is invalid or rejected.
    pub async fn serve(
        &self,
        webhooks: impl AnswerWebhooks,
        manifests: impl IntoIterator<Item = DynamicObject> + Send,
    ) -> Result<ServedWebhooks, WebhookError> {
        let plan = self.plan(manifests)?;
        let registration = match &self.inner.place {
            WebhookAddress::InProcess(router) => {
                let services = plan.references.iter().map(|reference| reference.service.clone());
                Some(router.register(services.collect::<BTreeSet<_>>(), webhooks))
            }
            WebhookAddress::Socket(_) => None,
        };
        self.install_conversions(&plan.manifests).await?;
        let (report, state) = watch::channel(None);
        let host = self.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let outcome = host.when_answering(&plan).await;
            report.send_replace(Some(outcome));
        });
        Ok(ServedWebhooks { _registration: registration, _task: task, state })
    }

    /// Like [`serve`](Self::serve), but for an operator that is another process, and waits until its webhooks answer at
    /// [`socket`](Self::socket).
    ///
    /// # Errors
    ///
    /// Like [`serve`](Self::serve); or a webhook does not answer in time.
    #[doc(alias = "WaitForWebhooks")]
    pub async fn install(
        &self,
        manifests: impl IntoIterator<Item = DynamicObject> + Send,
    ) -> Result<(), WebhookError> {
        let plan = self.plan(manifests)?;
        self.install_conversions(&plan.manifests).await?;
        self.when_answering(&plan).await
    }

    /// Collects the configurations to install: those in files and `manifests`, with the address of the operator, and on a shared cluster
    /// restricted to this environment.
    fn plan(&self, manifests: impl IntoIterator<Item = DynamicObject>) -> Result<InstallPlan, WebhookError> {
        let mut all = self.inner.manifests.clone();
        for object in manifests {
            // A `DynamicObject` holds a JSON object, which always has a JSON form.
            all.push(Manifest::of(serde_json::to_value(object).unwrap_or_default(), " of the operator"));
        }
        let mut references = self.inner.conversions.clone();
        for manifest in &all {
            references.extend(manifest.references()?);
        }
        if all.is_empty() && references.is_empty() {
            return Err(WebhookError::NoConfigurations);
        }
        let target = self.inner.place.target();
        let manifests = all.into_iter().map(|manifest| {
            let manifest = manifest.pointed_at(&target);
            match &self.inner.id {
                Some(id) => manifest.isolated(id, ENVIRONMENT_LABEL),
                None => manifest,
            }
        });
        Ok(InstallPlan { manifests: manifests.collect(), references })
    }

    fn installed(&self) -> MutexGuard<'_, Installed> {
        self.inner.installed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for WebhookHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookHost").field("place", &self.inner.place).finish_non_exhaustive()
    }
}

/// Configurations to install, and the references to Services that they had before they were pointed at the operator.
struct InstallPlan {
    manifests: Vec<Manifest>,
    references: Vec<Reference>,
}

impl WebhookAddress {
    fn target(&self) -> Target<'_> {
        match self {
            Self::InProcess(_) => Target::InProcess,
            Self::Socket(socket) => {
                Target::Socket { base_url: socket.base_url(), authority: socket.authority() }
            }
        }
    }
}

/// Webhooks that an operator serves. Dropping it fails all calls in the process, including those in progress. The configurations remain, like
/// those of an operator that does not run.
#[must_use = "dropping it ends the answers"]
pub struct ServedWebhooks {
    _registration: Option<Registration>,
    /// Installs the configurations. A set with a single task, because dropping a set aborts its tasks.
    _task: JoinSet<()>,
    state: watch::Receiver<Option<Result<(), WebhookError>>>,
}

impl ServedWebhooks {
    /// Waits until all webhooks answer and their configurations are installed.
    ///
    /// # Errors
    ///
    /// A webhook does not answer in time, or a configuration is rejected.
    pub async fn ready(&self) -> Result<(), WebhookError> {
        self.outcome().await
    }

    /// Like [`ready`](Self::ready), but the future borrows nothing.
    pub(crate) fn outcome(&self) -> impl Future<Output = Result<(), WebhookError>> + Send + use<> {
        let mut state = self.state.clone();
        async move {
            let outcome = state.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
            match outcome {
                Ok(outcome) => outcome.unwrap_or(Ok(())),
                // The operator has ended, and its own result has the reason.
                Err(_) => std::future::pending().await,
            }
        }
    }
}

impl fmt::Debug for ServedWebhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedWebhooks").field("state", &*self.state.borrow()).finish_non_exhaustive()
    }
}

/// Replaces the Services of conversion webhooks in definitions. Returns the references.
fn point_definitions(
    crds: &mut [CustomResourceDefinition],
    target: &Target<'_>,
) -> Result<Vec<Reference>, WebhookError> {
    let mut references = Vec::new();
    for crd in crds {
        let Some(conversion) =
            crd.spec.conversion.as_ref().filter(|conversion| conversion.strategy == "Webhook")
        else {
            continue;
        };
        let object = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": crd.metadata.name },
            "spec": { "conversion": conversion },
        });
        let manifest = Manifest::of(object, "");
        references.extend(manifest.references()?);
        let title = manifest.title.clone();
        let Value::Object(mut pointed) = manifest.pointed_at(target).object["spec"].take() else { continue };
        let pointed = pointed.remove("conversion").map(Deserialize::deserialize).transpose();
        crd.spec.conversion = pointed.map_err(|error: serde_json::Error| WebhookError::Invalid {
            object: title,
            reason: error.to_string(),
        })?;
    }
    Ok(references)
}

/// Random text for names and labels, which differs between environments.
fn unique_id() -> String {
    use std::hash::{BuildHasher, RandomState};
    // Each `RandomState` has different random keys.
    format!("{:08x}", RandomState::new().hash_one(0) >> 32)
}
