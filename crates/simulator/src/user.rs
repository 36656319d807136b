//! The user of a simulation: takes the steps.

use std::{fmt, future::Future, ops::Deref, pin::Pin, rc::Rc};

use controller_runtime::{BoxError, Client, DynamicKind};
use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;
use kube_clock::Clock;
use serde_json::Value;
use tokio::time::Duration;

use crate::gate::Gate;

/// Time after which a request of the user fails: the default of [`Client`].
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Client of a step. It writes as `user`, and has all permissions.
///
/// All methods of [`Client`] are available. Objects in YAML without a namespace belong to `default`.
#[derive(Clone)]
pub struct User {
    client: Client,
}

impl User {
    pub(crate) fn new(gate: Gate) -> Self {
        // Waiting before a write is no reason to give up.
        let timeout = REQUEST_TIMEOUT + gate.wait_before_writes;
        Self { client: Client::builder(gate.client(), "user").service(gate).request_timeout(timeout).build() }
    }

    /// Applies the objects in `yaml`, one after the other.
    ///
    /// # Errors
    ///
    /// `yaml` is not YAML of named objects, or the API server refuses one.
    pub async fn apply_yaml(&self, yaml: &str) -> Result<(), BoxError> {
        for (kind, object) in self.objects(yaml).await? {
            self.client.of(kind).apply(&object).await?;
        }
        Ok(())
    }

    /// Wall time of the simulation, for times in the objects of a step, such as the end of a maintenance window. The clocks of the
    /// operator and of the API server show the same time.
    ///
    /// ```
    /// # use kube_simulator::User;
    /// # use std::time::Duration;
    /// # async fn step(user: User) -> Result<(), controller_runtime::BoxError> {
    /// let end = user.wall_time() + Duration::from_secs(300);
    /// user.apply_yaml(&format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: window}}, data: {{end: '{end}'}}}}")).await
    /// # }
    /// ```
    #[must_use]
    pub fn wall_time(&self) -> Timestamp {
        Clock::default().now()
    }

    /// Reads the objects in `yaml` and looks up their kinds.
    async fn objects(&self, yaml: &str) -> Result<Vec<(DynamicKind, DynamicObject)>, BoxError> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)
            .map_err(|error| format!("the step's object is not YAML: {error}"))?;
        let mut objects = Vec::new();
        for mut document in documents.into_iter().filter(|document| !document.is_null()) {
            let text = |field: &str| document[field].as_str().unwrap_or_default().to_owned();
            let (api_version, kind) = (text("apiVersion"), text("kind"));
            if document["metadata"]["name"].as_str().is_none() || kind.is_empty() || api_version.is_empty() {
                return Err(format!(
                    "the step's object needs apiVersion, kind and metadata.name; it has {api_version:?}, {kind:?} and {}",
                    document["metadata"]["name"]
                )
                .into());
            }
            let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
            // The server is asked in each step, because an earlier step may have installed the kind.
            let kind = self.client.discover(group, version, &kind).await?;
            if kind.is_namespaced() && document["metadata"]["namespace"].is_null() {
                document["metadata"]["namespace"] = Value::String("default".to_owned());
            }
            let object = serde_json::from_value(document)
                .map_err(|error| format!("the step's object is not a Kubernetes object: {error}"))?;
            objects.push((kind, object));
        }
        Ok(objects)
    }
}

impl Deref for User {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").finish_non_exhaustive()
    }
}

/// One action of the user.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) name: Rc<str>,
    run: Rc<dyn Fn(User) -> Running>,
}

/// A step under way.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<(), BoxError>>>>;

impl Step {
    pub(crate) fn new<T, E, F>(name: &str, step: F) -> Self
    where
        F: AsyncFn(User) -> Result<T, E> + 'static,
        E: Into<BoxError>,
    {
        let step = Rc::new(step);
        let run = move |user: User| -> Running {
            let step = Rc::clone(&step);
            Box::pin(async move { (*step)(user).await.map(drop).map_err(Into::into) })
        };
        Self { name: Rc::from(name), run: Rc::new(run) }
    }

    /// Begins an attempt.
    pub(crate) fn run(&self, user: User) -> Running {
        (self.run)(user)
    }
}
