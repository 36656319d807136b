//! Operators under test, which a test starts, stops and crashes.

mod connection;
mod crash_point;

use std::{fmt, future::Future, panic::resume_unwind, pin::Pin, sync::Arc};

use tokio::{
    sync::watch,
    task::{JoinError, JoinSet},
    time::{Duration, timeout},
};

use self::connection::Connection;
pub use self::crash_point::CrashPoint;

/// Default limit of a start, above the two minutes after which a manager names the cache that is not synced.
const START_WITHIN: Duration = Duration::from_secs(180);

/// An operator under test: runs in the background, and can be stopped, crashed and started again.
///
/// A closure says how to run it. It is called at each start, as `main` would be, with an [`Instance`] that has the client and says
/// when to stop.
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
///     //     let manager = Manager::new(instance.client(), Options::new("my-operator"));
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
/// A crash drops the future that the closure returned, as the end of a process would, and cuts the client: a task that survives
/// sends nothing more. Writes that the API server has carried out stay, whether or not the operator has seen the answer. Nothing
/// is given back, so another start waits for the lease of the crashed one.
///
/// Dropping an `Operator` crashes it.
pub struct Operator {
    client: kube::Client,
    main: Box<dyn Fn(Instance) -> Main + Send>,
    start_within: Duration,
    running: Option<Running>,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Main = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// One start of an operator. Dropping it aborts the task.
struct Running {
    instance: Instance,
    connection: Connection,
    /// One task.
    task: JoinSet<Result<(), BoxError>>,
}

impl Operator {
    /// An operator that `main` runs with requests to `client`. It is not started yet.
    ///
    /// `main` is to say when the operator is ready, by [`Instance::run`] or [`Instance::set_ready`], and to return when
    /// [`Instance::stopped`] is done. A client of [`Rights`](crate::Rights) limits the operator to its manifests.
    pub fn new<F, Fut>(client: kube::Client, main: F) -> Self
    where
        F: Fn(Instance) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let main = Box::new(move |instance| Box::pin(main(instance)) as Main);
        Self { client, main, start_within: START_WITHIN, running: None }
    }

    /// Limits a start, and the wait for a crash point. Default: 3 minutes, which take no time where time is paused.
    #[must_use]
    pub fn start_within(mut self, limit: Duration) -> Self {
        self.start_within = limit;
        self
    }

    /// Starts the operator and waits until it is ready.
    ///
    /// # Cancellation
    ///
    /// Dropping the future leaves the operator running.
    ///
    /// # Errors
    ///
    /// It runs already; it returned before it was ready, or was not ready in time and has been crashed.
    pub async fn start(&mut self) -> Result<(), OperatorError> {
        let within = self.start_within;
        let running = self.spawn(None)?;
        let mut ready = running.instance.ready.subscribe();
        let ready = async { ready.wait_for(|ready| *ready).await.map(drop) };
        let ended = tokio::select! {
            biased;
            _ = ready => return Ok(()),
            ended = timeout(within, running.task.join_next()) => ended,
        };
        match ended {
            Ok(ended) => {
                self.running = None;
                result(ended)?;
                Err(OperatorError::EndedBeforeReady)
            }
            Err(_) => {
                self.crash().await;
                Err(OperatorError::NotReady { within })
            }
        }
    }

    /// Stops the operator in order: [`Instance::stopped`] becomes done, and its future is waited for.
    ///
    /// # Errors
    ///
    /// It does not run, or it failed, now or before.
    ///
    /// # Panics
    ///
    /// The operator panicked.
    pub async fn stop(&mut self) -> Result<(), OperatorError> {
        let running = self.running.as_ref().ok_or(OperatorError::NotRunning)?;
        running.instance.stop.send_replace(true);
        self.ended().await
    }

    /// Waits until the operator ends by itself.
    ///
    /// # Errors
    ///
    /// It does not run, or it failed.
    ///
    /// # Panics
    ///
    /// The operator panicked.
    pub async fn ended(&mut self) -> Result<(), OperatorError> {
        let running = self.running.as_mut().ok_or(OperatorError::NotRunning)?;
        let ended = running.task.join_next().await;
        self.running = None;
        result(ended)
    }

    /// Crashes the operator where it stands. Does nothing if it does not run.
    ///
    /// When this returns its future is dropped, and it sends no more requests. On a runtime with several threads, tasks that it
    /// spawned may run on until their next `.await`.
    pub async fn crash(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        running.connection.cut();
        running.task.shutdown().await;
    }

    /// Runs the operator until it reaches `point`, and crashes it there. Starts it first if it does not run, without waiting until
    /// it is ready.
    ///
    /// ```
    /// # use kube_envtest::{CrashPoint, Operator, OperatorError};
    /// # async fn example(mut operator: Operator, check: impl AsyncFn()) -> Result<(), OperatorError> {
    /// // The operator converges although it crashes after each of its writes.
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
    /// It returned before it was there, or it did not get there in time and goes on running: the error names the requests that it
    /// made meanwhile.
    ///
    /// # Panics
    ///
    /// The operator panicked.
    pub async fn crash_at(&mut self, point: CrashPoint) -> Result<(), OperatorError> {
        let within = self.start_within;
        let running = match &mut self.running {
            Some(running) => {
                running.connection.arm(point.clone());
                running
            }
            None => self.spawn(Some(point.clone()))?,
        };
        let reached = running.connection.is_cut();
        let ended = tokio::select! {
            biased;
            () = reached => {
                self.crash().await;
                return Ok(());
            }
            ended = timeout(within, running.task.join_next()) => ended,
        };
        if let Ok(ended) = ended {
            self.running = None;
            result(ended)?;
            return Err(OperatorError::EndedBefore { point });
        }
        let requests = running.connection.disarm();
        Err(OperatorError::NotReached { point, within, requests })
    }

    fn spawn(&mut self, point: Option<CrashPoint>) -> Result<&mut Running, OperatorError> {
        if self.running.is_some() {
            return Err(OperatorError::AlreadyRunning);
        }
        let connection = Connection::new(self.client.clone(), point);
        let instance = Instance {
            client: connection.client(),
            stop: Arc::new(watch::Sender::new(false)),
            ready: Arc::new(watch::Sender::new(false)),
        };
        let mut task = JoinSet::new();
        task.spawn((self.main)(instance.clone()));
        Ok(self.running.insert(Running { instance, connection, task }))
    }
}

fn result(ended: Option<Result<Result<(), BoxError>, JoinError>>) -> Result<(), OperatorError> {
    match ended {
        Some(Ok(returned)) => returned.map_err(OperatorError::Failed),
        // The test fails with the operator's own panic.
        Some(Err(error)) if error.is_panic() => resume_unwind(error.into_panic()),
        // The runtime ends, and this future with it.
        Some(Err(_)) | None => Ok(()),
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operator").field("started", &self.running.is_some()).finish_non_exhaustive()
    }
}

/// One start of an [`Operator`]: what `main` receives. Clones are the same start.
#[derive(Clone)]
pub struct Instance {
    client: kube::Client,
    stop: Arc<watch::Sender<bool>>,
    ready: Arc<watch::Sender<bool>>,
}

impl Instance {
    /// The client for this start. After a crash its requests are neither sent nor answered.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Done when the operator is to stop in order.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stop = self.stop.subscribe();
        async move {
            // The sender lives as long as the operator runs.
            if stop.wait_for(|stop| *stop).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Says that the operator is ready: [`Operator::start`] returns.
    pub fn set_ready(&self) {
        self.ready.send_replace(true);
    }

    /// Does `work` to its end, and says that the operator is ready when `ready` is done without an error.
    pub async fn run<E, T>(
        &self,
        ready: impl Future<Output = Result<(), E>>,
        work: impl Future<Output = T>,
    ) -> T {
        let announce = async {
            if ready.await.is_ok() {
                self.set_ready();
            }
            // An operator that never becomes ready says why when its work ends.
            std::future::pending().await
        };
        tokio::select! {
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

/// Failure of an [`Operator`], or of a test's request to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// It ended with an error.
    #[error("the operator failed")]
    Failed(#[source] BoxError),
    /// It ended without an error, and never said that it was ready.
    #[error("the operator returned before it was ready")]
    EndedBeforeReady,
    /// It did not say in time that it was ready.
    #[error(
        "the operator was not ready within {within:?}: does its closure call `Instance::run` or `set_ready`?"
    )]
    NotReady {
        /// The limit.
        within: Duration,
    },
    /// It ended without an error before the crash point.
    #[error("the operator returned before it reached {point}")]
    EndedBefore {
        /// The crash point.
        point: CrashPoint,
    },
    /// It did not reach the crash point in time, and goes on running.
    #[error(
        "the operator did not reach {point} within {within:?}; it made these requests: {}",
        list(requests)
    )]
    NotReached {
        /// The crash point.
        point: CrashPoint,
        /// The limit.
        within: Duration,
        /// Different requests that it made since the crash point was set, in order of their names.
        requests: Vec<String>,
    },
    /// It was started, and has been neither stopped nor crashed.
    #[error("the operator runs already: stop or crash it before the next start")]
    AlreadyRunning,
    /// It was not started, or has been stopped or crashed.
    #[error("the operator does not run: start it first")]
    NotRunning,
}

fn list(requests: &[String]) -> String {
    if requests.is_empty() { "none".to_owned() } else { requests.join(", ") }
}
