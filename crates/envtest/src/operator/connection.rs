//! Client of an operator under test, which a crash disconnects.

use std::{
    collections::BTreeSet,
    future::pending,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use http::{Request, Response};
use kube::client::Body;
use tokio::sync::watch;

use super::{CrashPoint, crash_point::Side};
use crate::rights::RequestAttributes;

/// Connection of an operator to the API server. Clones share it.
#[derive(Clone)]
pub(super) struct Connection {
    client: kube::Client,
    shared: Arc<ConnectionState>,
}

/// State that all clones of a connection share.
struct ConnectionState {
    cut: watch::Sender<bool>,
    plan: Mutex<CrashPlan>,
}

/// Crash point, the number of writes since it was set, and the names of the requests since then.
#[derive(Default)]
struct CrashPlan {
    point: Option<CrashPoint>,
    writes: u32,
    requests: BTreeSet<String>,
}

/// Decision about one request.
enum Fate {
    Send,
    Crash(Side),
}

impl Connection {
    pub(super) fn new(client: kube::Client, point: Option<CrashPoint>) -> Self {
        let plan = Mutex::new(CrashPlan { point, ..CrashPlan::default() });
        Self { client, shared: Arc::new(ConnectionState { cut: watch::Sender::new(false), plan }) }
    }

    /// Returns a client that sends its requests through this connection.
    pub(super) fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), self.client.default_namespace().to_owned())
    }

    /// Disconnects: from now on requests are neither sent nor answered.
    pub(super) fn cut(&self) {
        self.shared.cut.send_replace(true);
    }

    /// Completes when the connection is cut.
    pub(super) fn until_cut(&self) -> impl Future<Output = ()> + use<> {
        let mut cut = self.shared.cut.subscribe();
        let shared = Arc::clone(&self.shared);
        async move {
            let _ = cut.wait_for(|cut| *cut).await;
            // Held until here: without the sender, the wait would end although the connection is not cut.
            drop(shared);
        }
    }

    /// Sets the crash point and starts to count requests.
    pub(super) fn arm(&self, point: CrashPoint) {
        // Writes count from the moment at which the crash is requested.
        *self.plan() = CrashPlan { point: Some(point), ..CrashPlan::default() };
    }

    /// Removes the crash point. Returns the names of the requests since it was set.
    pub(super) fn disarm(&self) -> Vec<String> {
        std::mem::take(&mut *self.plan()).requests.into_iter().collect()
    }

    fn plan(&self) -> MutexGuard<'_, CrashPlan> {
        self.shared.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request while a crash point is set, and decides whether the operator crashes at it.
    fn fate(&self, attributes: &RequestAttributes) -> Fate {
        let mut plan = self.plan();
        let CrashPlan { point: Some(point), writes, requests } = &mut *plan else { return Fate::Send };
        let (name, is_write) = (attributes.name(), attributes.is_write());
        *writes += u32::from(is_write);
        let fate = if point.is_at(&name, is_write, *writes) { Fate::Crash(point.side) } else { Fate::Send };
        // Recorded even without a crash: a crash point that is not reached lists the requests that were made
        // instead.
        requests.insert(name);
        fate
    }
}

impl tower_service::Service<Request<Body>> for Connection {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // A crashed process receives no answers, so its requests never complete.
        if *self.shared.cut.borrow() {
            return Box::pin(pending());
        }
        let (head, body) = request.into_parts();
        // The fate is decided when the operator calls, not when the future is first polled, so that writes
        // count in the order of the calls.
        let fate = self.fate(&RequestAttributes::of(&head));
        let (client, connection) = (self.client.clone(), self.clone());
        let sent = async move { client.send(Request::from_parts(head, body)).await };
        match fate {
            Fate::Send => Box::pin(sent),
            Fate::Crash(Side::Before) => {
                // Every later request of the process hangs as well, until `crash_at` ends the task.
                self.cut();
                Box::pin(pending())
            }
            Fate::Crash(Side::After) => Box::pin(async move {
                // The API server executes the request; the operator never sees the answer.
                let _lost = sent.await;
                connection.cut();
                pending().await
            }),
        }
    }
}
