//! The connection of one process to the API server: each request stops at the [hub](crate::hub) until the driver lets it pass.

use std::{
    fmt,
    future::{Future, pending},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use kube_apiserver_embedded::ApiServer;
use kube_envtest::Rights;
use parking_lot::Mutex;
use tokio::{
    sync::oneshot,
    task::JoinSet,
    time::{Duration, sleep},
};
use tower_service::Service;

use crate::{
    hub::{Answer, CallResult, GateBody, Hub, LineSplitter, Order, WatchBody, Work, Working},
    names::{Actor, CallName},
    truth::{Attributed, Origin},
};

/// The connection between a process and the server.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) hub: Hub,
    pub(crate) actor: Actor,
    pub(crate) server: ApiServer,
    /// Rights of the process; `None` if it may do everything. They are checked when a call is carried out, as the API server does.
    pub(crate) rights: Option<Rights>,
    /// Virtual time that passes before each write is sent.
    pub(crate) wait_before_writes: Duration,
    /// Tasks that read watches from the server.
    pub(crate) pumps: Arc<Mutex<JoinSet<()>>>,
}

/// The connection broke before the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLost;

impl fmt::Display for ConnectionLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection reset by the simulation")
    }
}

impl std::error::Error for ConnectionLost {}

impl Gate {
    /// Returns a client that sends its requests through the gate.
    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Adds a request to the hub. Its answer is sent to `sender`, unless the caller or the process is gone.
    fn add(
        &self,
        name: Arc<CallName>,
        caller: &Arc<()>,
        request: Request<Full<Bytes>>,
        sender: AnswerSender,
    ) {
        let gate = self.clone();
        let origin = Origin { actor: self.actor, is_update: name.verb == "update" };
        let of_watch = Arc::clone(&name);
        let work: Work = Box::new(move |order| -> Working {
            Box::pin(async move {
                let response = match order {
                    Order::CarryOut => gate.carry_out(origin, request).await,
                    Order::Refuse => Err(ConnectionLost),
                };
                let answer: Answer = Box::new(move |received| {
                    let response = match received {
                        CallResult::Answered => response.map(|response| gate.open(of_watch, response)),
                        CallResult::Lost => Err(ConnectionLost),
                    };
                    // Fails if the caller has given up.
                    let _ = sender.send(response);
                });
                answer
            })
        });
        self.hub.add(self.actor, name, caller, work);
    }

    async fn carry_out(
        &self,
        origin: Origin,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<GateBody>, ConnectionLost> {
        let (head, body) = request.into_parts();
        if let Some(refusal) = self.rights.as_ref().and_then(|rights| rights.refusal(&head)) {
            return Ok(refusal.map(|status| GateBody::Refusal(Full::from(status))));
        }
        let mut server = self.server.service();
        let response = Attributed::new(origin, server.call(Request::from_parts(head, body))).await;
        Ok(response.map_err(|_| ConnectionLost)?.map(GateBody::Whole))
    }

    /// Puts the lines of a watch under the driver's control; other responses pass as they are.
    fn open(&self, name: Arc<CallName>, response: Response<GateBody>) -> Response<GateBody> {
        // A refused watch, such as one with 410 or 403, has a body that ends.
        if !name.is_watch() || response.status() != StatusCode::OK {
            return response;
        }
        let id = self.hub.open(self.actor, name);
        let (head, mut body) = response.into_parts();
        let hub = self.hub.clone();
        let pump = async move {
            let mut lines = LineSplitter::default();
            while let Some(Ok(frame)) = body.frame().await {
                if let Ok(chunk) = frame.into_data() {
                    lines.split(&chunk).into_iter().for_each(|line| hub.push(id, line));
                }
            }
            // A failed body ends the watch as well: for the process the connection is gone in both cases.
            hub.end(id);
        };
        // The set lets the check for leaked tasks subtract the pumps from the tasks of the runtime.
        let pump = self.pumps.lock().spawn(pump);
        self.hub.set_pump(id, pump);
        Response::from_parts(head, GateBody::Watch(WatchBody::new(self.hub.clone(), id)))
    }
}

type AnswerSender = oneshot::Sender<Result<Response<GateBody>, ConnectionLost>>;

impl Service<Request<kube::client::Body>> for Gate {
    type Response = Response<GateBody>;
    type Error = ConnectionLost;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectionLost>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectionLost>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let gate = self.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let Ok(body) = body.collect().await else { return Err(ConnectionLost) };
            // This future holds the only strong reference, so the hub sees in the weak one when the caller
            // gives up.
            let (body, caller) = (body.to_bytes(), Arc::new(()));
            let request = Request::from_parts(head, Full::new(body.clone()));
            let name = Arc::new(CallName::of_request(&request, &body));
            if !gate.wait_before_writes.is_zero() && name.is_write() {
                sleep(gate.wait_before_writes).await;
            }
            let (sender, answer) = oneshot::channel();
            gate.add(name, &caller, request, sender);
            match answer.await {
                Ok(response) => response,
                // The process is dead, or its call was dropped, so the call is never answered.
                Err(_) => pending().await,
            }
        })
    }
}
