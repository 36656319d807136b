//! The server as an HTTP service: layers around the stages of a request, responses, discovery and OpenAPI documents.
//!
//! A request passes [`fault_layer`], and then the steps of [`dispatch`] in this order: deadline, authentication, impersonation, authorization,
//! flow control (which classifies forbidden requests too), routes.

pub(crate) mod body_limit;
mod complete_response;
pub(crate) mod deadline;
pub(crate) mod discovery;
pub(crate) mod dispatch;
pub(crate) mod drain;
mod execution;
pub(crate) mod fault_layer;
#[cfg_attr(not(feature = "gzip"), path = "no_gzip.rs")]
mod gzip;
mod health_checks;
mod http_service;
mod measure;
mod openapi;
mod openapi_routes;
mod resource_request;
mod routes;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinSet;

pub(crate) use self::body_limit::BodyLimit;
pub use self::http_service::ApiService;
pub use self::routes::GIT_VERSION;
use crate::api::flow_control::FlowControl;
use crate::api::verbs::Context;
use crate::faults::Faults;
use crate::state::ClusterState;

/// A running server, without its listeners and controllers.
pub(crate) struct Server {
    pub(crate) context: Arc<Context>,
    pub(crate) cluster: Arc<ClusterState>,
    /// Classification of requests into flows.
    pub(crate) flow_control: FlowControl,
    /// Limits the memory of request bodies.
    pub(crate) body_limit: BodyLimit,
}

impl Server {
    /// Returns the handle to inject faults.
    pub(crate) fn faults(&self) -> Faults {
        Faults::new(Arc::clone(&self.cluster), Arc::clone(&self.context.injector))
    }
}

/// State shared by handles, services and listeners.
pub(crate) struct Core {
    pub(crate) server: Arc<Server>,
    /// Aborts the controllers when dropped. They hold the server but not this struct.
    _controllers: Mutex<JoinSet<()>>,
}

impl Core {
    pub(crate) fn new(server: Arc<Server>, controllers: JoinSet<()>) -> Self {
        Self { server, _controllers: Mutex::new(controllers) }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Close open watches: each holds the server and would keep it alive.
        self.server.cluster.closed.send_replace(true);
    }
}
