//! Audit: users, requests and responses in order, and the permissions that each request needed.
//!
//! [`ApiServer::audit`](crate::ApiServer::audit) returns a log of the requests from then on, for tests:
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::{Api, ListParams};
//! use kube_apiserver_embedded::{ApiServer, Options, UserInfo};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::start(Options::default());
//! let audit = server.audit();
//!
//! let admin = kube::Client::new(server.service(), "default");
//! Api::<ConfigMap>::default_namespaced(admin).list(&ListParams::default()).await?;
//! let jane = kube::Client::new(server.service_for(UserInfo::new("jane", "", ["devs"])), "default");
//! let _ = Api::<ConfigMap>::default_namespaced(jane).get("settings").await;
//!
//! assert_eq!(
//!     audit.to_string(),
//!     "system:admin: list configmaps default/: 200\njane: get configmaps default/settings: 403\n",
//! );
//! # Ok(())
//! # }
//! ```
//!
//! An [`AuditEvent`] is recorded when the response of a request starts, before the client receives it. The event contains the decisions of
//! access control about the request itself, and about other permissions that the request needed, such as `create` for an apply of a new
//! object. It also contains the annotations of admission policies. The server's own controllers make no requests, and a request that a
//! [fault](crate::faults) answers is not recorded.
//!
//! Without a log or another [`AuditSink`] a request costs one atomic load.

mod audit_event;
mod audit_log;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

pub use self::audit_event::AuditEvent;
pub use self::audit_log::AuditLog;
use crate::api::authorization::Record;
pub use crate::api::authorization::{AccessCheck, Outcome};
use crate::request::info::RequestTarget;

/// Receives the audit events of a server: see [`ApiServer::audit_to`](crate::ApiServer::audit_to).
pub trait AuditSink: Send + Sync {
    /// Receives an event. Called by the task that answers the request, so it must not block, and it must not panic.
    fn record(&self, event: &Arc<AuditEvent>);
}

/// Sinks of a server.
#[derive(Default)]
pub(crate) struct Audit {
    sinks: RwLock<Vec<Weak<dyn AuditSink>>>,
    /// Whether there may be a sink. Read without the lock, so that requests of a server without sinks cost little.
    is_armed: AtomicBool,
}

impl Audit {
    /// Adds a sink, which receives events until it is dropped.
    #[expect(clippy::needless_pass_by_value, reason = "a weak reference is made of it")]
    pub(crate) fn add(&self, sink: Arc<dyn AuditSink>) {
        let mut sinks = self.sinks.write();
        sinks.retain(|sink| sink.strong_count() > 0);
        sinks.push(Arc::downgrade(&sink));
        self.is_armed.store(true, Ordering::Release);
    }

    /// Begins the event of a request; `None` without sinks.
    pub(crate) fn begin(&self, target: &RequestTarget) -> Option<PendingEvent> {
        if !self.is_armed.load(Ordering::Acquire) {
            return None;
        }
        let sinks: Vec<_> = self.sinks.read().iter().filter_map(Weak::upgrade).collect();
        if sinks.is_empty() {
            let mut sinks = self.sinks.write();
            sinks.retain(|sink| sink.strong_count() > 0);
            // Cleared under the lock, so that a sink that is added at the same time stays known.
            self.is_armed.store(!sinks.is_empty(), Ordering::Release);
            return None;
        }
        Some(PendingEvent { sinks, event: AuditEvent::begin(target), record: Arc::default() })
    }
}

/// Event of a request that is not answered yet. It is recorded when it is dropped.
pub(crate) struct PendingEvent {
    sinks: Vec<Arc<dyn AuditSink>>,
    event: AuditEvent,
    record: Arc<Record>,
}

impl PendingEvent {
    /// Sets the status code of the response.
    pub(crate) fn answered(&mut self, code: u16) {
        self.event.code = Some(code);
    }

    /// Returns the record in which users and decisions of the request are noted.
    pub(crate) fn record(&self) -> Arc<Record> {
        Arc::clone(&self.record)
    }
}

impl Drop for PendingEvent {
    fn drop(&mut self) {
        let event = Arc::new(self.event.clone().completed(&self.record));
        for sink in &self.sinks {
            sink.record(&event);
        }
    }
}
