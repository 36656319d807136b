//! Runs an operator under test: start, stop and crash.

mod connection;
mod crash_point;
mod webhook_run;

use std::{fmt, future::Future, net::SocketAddr, panic::resume_unwind, path::PathBuf, pin::Pin, sync::Arc};

use kube::core::DynamicObject;
use tokio::{
    sync::watch,
    task::{JoinError, JoinSet},
    time::{Duration, timeout},
};

use self::connection::Connection;
pub use self::crash_point::CrashPoint;
use self::webhook_run::InstanceWebhooks;
use crate::{AnswerWebhooks, WebhookError, WebhookHost};

/// Default time limit of a start: longer than the two minutes after which a manager reports a cache that is not synced.
const START_WITHIN: Duration = Duration::from_secs(180);

/// An operator under test. It runs in the background and can be stopped, crashed and started again.
///
/// Each start calls a closure, as a process calls `main`, with an [`Instance`] that provides the client and the stop signal.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::{Api, api::PostParams};
/// use kube_envtest::{CrashPoint, Environment, Operator, eventually_object};
///
/// # async fn reconcile_forever(client: kube::Client) -> Result<(), kube::Error> {
/// #     let maps = Api::<ConfigMap>::default_namespaced(client);
/// #     let mut map = ConfigMap::default();
/// #     map.metadata.name = Some("page".to_owned());
/// #     if maps.get_opt("page").await?.is_none() { maps.create(&PostParams::default(), &map).await?; }
/// #     std::future::pending().await
/// # }
/// let env = Environment::builder().start().await?;
/// let mut operator = Operator::new(env.client(), |instance| async move {
///     // With controller-runtime:
///     //     let manager = Manager::new(instance.client(), ManagerOptions::new("my-operator"));
///     //     my_controller::add_to(&manager)?;
///     //     Ok(instance.run(manager.ready(), manager.run(instance.stopped())).await?)
///     let work = reconcile_forever(instance.client());
///     instance.set_ready();
///     tokio::select! {
///         ended = work => Ok(ended?),
///         () = instance.stopped() => Ok(()),
///     }
/// });
///
/// operator.crash_at(CrashPoint::before("create configmaps")).await?;
/// operator.start().await?;
/// let maps = Api::<ConfigMap>::default_namespaced(env.client());
/// eventually_object(&maps, "page", Duration::from_secs(10), |_| Ok::<_, String>(())).await?;
/// operator.stop().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Crashes
///
/// A crash drops the future that the closure returned, as the end of a process would, and disconnects the client, so that
/// surviving tasks send nothing more. Writes that the API server has executed remain, whether or not the operator received
/// the answer. The lease is not released, so the next start waits until it expires.
///
/// Dropping an `Operator` crashes it.
pub struct Operator {
    client: kube::Client,
    main: Box<dyn Fn(Instance) -> Main + Send>,
    webhooks: Option<WebhookHost>,
    start_within: Duration,
    running: Option<RunningOperator>,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Main = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// One start of an operator. Dropping it aborts its task and ends its webhooks.
struct RunningOperator {
    instance: Instance,
    connection: Connection,
    /// A set with a single task, because dropping a set aborts its tasks.
    task: JoinSet<Result<(), BoxError>>,
}

impl Operator {
    /// Creates an operator that sends its requests to `client`. It is not started yet.
    ///
    /// `main` must report readiness by [`Instance::run`] or [`Instance::set_ready`], and return when [`Instance::stopped`]
    /// completes. With a client of [`Rights`](crate::Rights) the operator has only the permissions of its manifests.
    pub fn new<F, Fut>(client: kube::Client, main: F) -> Self
    where
        F: Fn(Instance) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let main = Box::new(move |instance| Box::pin(main(instance)) as Main);
        Self { client, main, webhooks: None, start_within: START_WITHIN, running: None }
    }

    /// Lets the operator [serve webhooks](Instance::serve_webhooks) in an environment.
    /// [`Environment::operator`](crate::Environment::operator) does this by itself.
    #[must_use]
    pub fn webhooks(mut self, host: &WebhookHost) -> Self {
        self.webhooks = Some(host.clone());
        self
    }

    /// Sets the time limit of a start, and of the wait for a crash point. Default: 3 minutes, which take no real time in
    /// paused time.
    #[must_use]
    pub fn start_within(mut self, limit: Duration) -> Self {
        self.start_within = limit;
        self
    }

    /// Starts the operator and waits until it is ready, and until its webhooks answer and are installed.
    ///
    /// # Cancellation
    ///
    /// Dropping the future leaves the operator running.
    ///
    /// # Errors
    ///
    /// The operator is already running, returned before it was ready, or has been crashed, because it was not ready in time or one of
    /// its webhooks could not be installed.
    pub async fn start(&mut self) -> Result<(), OperatorError> {
        let within = self.start_within;
        let running = self.spawn(None)?;
        let mut ready = running.instance.ready.subscribe();
        let webhooks = running.instance.webhooks.installed();
        let failed = running.instance.webhooks.failed();
        let ready = async {
            // Fails only if the sender is gone, and `running` holds it.
            let _ = ready.wait_for(|ready| *ready).await;
            webhooks.await;
        };
        let ended = tokio::select! {
            // Readiness is checked first: an operator that was ready counts as started, even if it has returned since.
            biased;
            () = ready => return Ok(()),
            error = failed => {
                self.crash().await;
                return Err(OperatorError::Webhooks(error));
            }
            ended = timeout(within, running.task.join_next()) => ended,
        };
        match ended {
            Ok(ended) => {
                self.running = None;
                task_result(ended)?;
                Err(OperatorError::EndedBeforeReady)
            }
            Err(_) => {
                self.crash().await;
                Err(OperatorError::NotReady { within })
            }
        }
    }

    /// Stops the operator gracefully: completes [`Instance::stopped`], and waits for the operator to return.
    ///
    /// # Errors
    ///
    /// The operator is not running, or it returned an error.
    ///
    /// # Panics
    ///
    /// Panics if the operator panicked.
    pub async fn stop(&mut self) -> Result<(), OperatorError> {
        let running = self.running.as_ref().ok_or(OperatorError::NotRunning)?;
        running.instance.stop.send_replace(true);
        self.ended().await
    }

    /// Waits until the operator returns by itself.
    ///
    /// # Errors
    ///
    /// The operator is not running, or it returned an error.
    ///
    /// # Panics
    ///
    /// Panics if the operator panicked.
    pub async fn ended(&mut self) -> Result<(), OperatorError> {
        let running = self.running.as_mut().ok_or(OperatorError::NotRunning)?;
        let ended = running.task.join_next().await;
        self.running = None;
        task_result(ended)
    }

    /// Crashes the operator at its current `.await`. Does nothing if it is not running.
    ///
    /// When this returns, the operator's future is dropped and no more requests are sent. On a multi-threaded runtime, tasks
    /// that the operator spawned may still run until their next `.await`.
    pub async fn crash(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        // First the connection, so that destructors of the task reach no API server.
        running.connection.cut();
        running.instance.webhooks.end();
        running.task.shutdown().await;
    }

    /// Runs the operator until it reaches `point`, and crashes it there. If it is not running, starts it without waiting for
    /// readiness.
    ///
    /// ```
    /// # use kube_envtest::{CrashPoint, Operator, OperatorError};
    /// # async fn example(mut operator: Operator, check: impl AsyncFn()) -> Result<(), OperatorError> {
    /// // The operator converges even if it crashes after each of its writes.
    /// let mut write = 1;
    /// while operator.crash_at(CrashPoint::after_write(write)).await.is_ok() {
    ///     operator.start().await?;
    ///     check().await;
    ///     operator.crash().await;
    ///     write += 1;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The operator returned before `point`, or did not reach it in time and keeps running; the error lists the requests that it
    /// made. One of its webhooks could not be installed; then the operator has been crashed.
    ///
    /// # Panics
    ///
    /// Panics if the operator panicked.
    pub async fn crash_at(&mut self, point: CrashPoint) -> Result<(), OperatorError> {
        let within = self.start_within;
        // An operator that is not started yet begins with the crash point, so that even its first request can
        // be one.
        let running = match &mut self.running {
            Some(running) => {
                running.connection.arm(point.clone());
                running
            }
            None => self.spawn(Some(point.clone()))?,
        };
        let reached = running.connection.until_cut();
        let failed = running.instance.webhooks.failed();
        let ended = tokio::select! {
            // The crash point takes precedence if the operator returns at the same moment.
            biased;
            () = reached => {
                self.crash().await;
                return Ok(());
            }
            error = failed => {
                self.crash().await;
                return Err(OperatorError::Webhooks(error));
            }
            ended = timeout(within, running.task.join_next()) => ended,
        };
        if let Ok(ended) = ended {
            self.running = None;
            task_result(ended)?;
            return Err(OperatorError::EndedBefore { point });
        }
        // The operator goes on: without this, it would crash later at a point that no test expects.
        let requests = running.connection.disarm();
        Err(OperatorError::NotReached { point, within, requests })
    }

    /// Starts the task of the operator, with its crash point, if there is one.
    fn spawn(&mut self, point: Option<CrashPoint>) -> Result<&mut RunningOperator, OperatorError> {
        if self.running.is_some() {
            return Err(OperatorError::AlreadyRunning);
        }
        let connection = Connection::new(self.client.clone(), point);
        let instance = Instance {
            client: connection.client(),
            stop: Arc::new(watch::Sender::new(false)),
            ready: Arc::new(watch::Sender::new(false)),
            webhooks: Arc::new(InstanceWebhooks::new(self.webhooks.clone())),
        };
        let mut task = JoinSet::new();
        task.spawn((self.main)(instance.clone()));
        Ok(self.running.insert(RunningOperator { instance, connection, task }))
    }
}

impl Drop for RunningOperator {
    fn drop(&mut self) {
        self.instance.webhooks.end();
    }
}

/// Returns the result of the operator's task.
///
/// # Panics
///
/// Panics if the operator panicked.
fn task_result(ended: Option<Result<Result<(), BoxError>, JoinError>>) -> Result<(), OperatorError> {
    match ended {
        Some(Ok(returned)) => returned.map_err(OperatorError::Failed),
        // Propagate the operator's panic, so that the test fails with its message.
        Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
        // The task was aborted because the runtime is shutting down.
        Some(Err(_)) | None => Ok(()),
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator").field("started", &self.running.is_some()).finish_non_exhaustive()
    }
}

/// One start of an [`Operator`], passed to `main`. Clones refer to the same start.
#[derive(Clone)]
pub struct Instance {
    client: kube::Client,
    stop: Arc<watch::Sender<bool>>,
    ready: Arc<watch::Sender<bool>>,
    webhooks: Arc<InstanceWebhooks>,
}

impl Instance {
    /// Client of this start. After a crash its requests are neither sent nor answered.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Completes when the operator must stop gracefully.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stop = self.stop.subscribe();
        async move {
            // The sender is dropped only after the operator has ended; then there is nothing left to stop.
            if stop.wait_for(|stop| *stop).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Reports that the operator is ready, so that [`Operator::start`] returns.
    pub fn set_ready(&self) {
        self.ready.send_replace(true);
    }

    /// Address of the webhook server, and folder with its certificate (`tls.crt`, `tls.key`). `None` if the API server calls
    /// webhooks in the process, so that there is no webhook server. Both are equal in every start.
    ///
    /// controller-runtime's `WebhookOptions::local` takes this value.
    #[must_use]
    pub fn webhook_socket(&self) -> Option<(SocketAddr, PathBuf)> {
        self.webhooks.host()?.socket()
    }

    /// Serves the webhooks of this start: installs their configurations, and lets [`Operator::start`] wait until all of them
    /// answer. Call it before the operator runs. When this returns, conversions of CustomResourceDefinitions are installed;
    /// admission webhooks follow when all webhooks answer, with the client of the environment's administrator.
    ///
    /// `webhooks` answers in the process; with sockets, the operator's own server listens at
    /// [`webhook_socket`](Self::webhook_socket). `manifests` are configurations, in addition to those of
    /// [`Builder::webhooks_from`](crate::Builder::webhooks_from).
    ///
    /// ```
    /// # use kube_envtest::{AnswerWebhooks, Environment, Instance, WebhookError};
    /// # async fn run(instance: Instance, webhooks: impl AnswerWebhooks, manifests: Vec<kube::core::DynamicObject>) -> Result<(), WebhookError> {
    /// // With controller-runtime:
    /// //     let options = ManagerOptions::new("my-operator").webhooks(WebhookOptions::local(instance.webhook_socket()));
    /// //     let manager = Manager::new(instance.client(), options);
    /// //     my_controller::add_to(&manager)?;
    /// //     let webhooks = manager.webhooks().clone();
    /// //     let manifests = webhooks.configurations(&WebhookService::new("my-system", "webhooks")).manifests();
    /// instance.serve_webhooks(webhooks, manifests).await?;
    /// //     Ok(instance.run(manager.ready(), manager.run(instance.stopped())).await?)
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// After the operator has stopped or crashed, its webhooks refuse connections, and the next start serves them again.
    ///
    /// # Errors
    ///
    /// There are no configurations, or one is invalid or rejected. The operator does not belong to an environment.
    pub async fn serve_webhooks(
        &self,
        webhooks: impl AnswerWebhooks,
        manifests: impl IntoIterator<Item = DynamicObject> + Send,
    ) -> Result<(), WebhookError> {
        let host = self.webhooks.host().ok_or(WebhookError::NoEnvironment)?;
        let served = host.serve(webhooks, manifests).await?;
        self.webhooks.begin(served);
        Ok(())
    }

    /// Runs `work` to completion. Reports that the operator is ready once `ready` completes without an error.
    pub async fn run<E, T>(
        &self,
        ready: impl Future<Output = Result<(), E>>,
        work: impl Future<Output = T>,
    ) -> T {
        let announce = async {
            if ready.await.is_ok() {
                self.set_ready();
            }
            // If `ready` fails, the reason is the result of `work`.
            std::future::pending().await
        };
        tokio::select! {
            // `work` is first, so that its result is returned even if `ready` completes at the same moment.
            biased;
            done = work => done,
            never = announce => never,
        }
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("ready", &*self.ready.borrow()).finish_non_exhaustive()
    }
}

/// Failure of an [`Operator`], or of a call that the state of the operator does not permit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The operator returned an error.
    #[error("the operator returned an error")]
    Failed(#[source] BoxError),
    /// A webhook did not answer, or its configuration was rejected. The operator has been crashed.
    #[error(transparent)]
    Webhooks(WebhookError),
    /// The operator returned without an error before it was ready.
    #[error("the operator returned before it was ready")]
    EndedBeforeReady,
    /// The operator was not ready in time.
    #[error(
        "the operator was not ready within {within:?}: check that its closure calls `Instance::run` or `Instance::set_ready`"
    )]
    NotReady {
        /// Time limit.
        within: Duration,
    },
    /// The operator returned without an error before the crash point.
    #[error("the operator returned before it reached {point}")]
    EndedBefore {
        /// Crash point.
        point: CrashPoint,
    },
    /// The operator did not reach the crash point in time, and keeps running.
    #[error(
        "the operator did not reach {point} within {within:?}; it made these requests: {}",
        list(requests)
    )]
    NotReached {
        /// Crash point.
        point: CrashPoint,
        /// Time limit.
        within: Duration,
        /// Names of the requests since the crash point was set, sorted and without duplicates.
        requests: Vec<String>,
    },
    /// The operator is running: it was started, and neither stopped nor crashed.
    #[error("the operator is already running: stop or crash it before the next start")]
    AlreadyRunning,
    /// The operator is not running: it was never started, or has been stopped or crashed.
    #[error("the operator is not running: start it first")]
    NotRunning,
}

fn list(requests: &[String]) -> String {
    if requests.is_empty() { "none".to_owned() } else { requests.join(", ") }
}
