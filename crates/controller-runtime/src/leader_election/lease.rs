//! The lease object: a candidate's view of it, and requests about it.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt, TryFutureExt, stream::BoxStream};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api,
    api::{PostParams, WatchEvent, WatchParams},
};
use kube_clock::Clock;

use super::elector::{LeaseAnswer, LeaseRecord, LeaseRequest};
use crate::client::describe;

/// The lease on the API server.
#[derive(Clone)]
pub(super) struct Lock {
    pub(super) leases: Api<Lease>,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) clock: Clock,
}

impl Lock {
    /// Sends `request`. An update keeps the metadata of `last`, which is the lease in the version that the update replaces.
    pub(super) async fn send(
        self,
        request: LeaseRequest,
        last: Option<Lease>,
    ) -> (LeaseAnswer, Option<Lease>) {
        let params = PostParams::default();
        let result = match request {
            LeaseRequest::Get => self.leases.get(&self.name).await,
            LeaseRequest::Create { holder, lease_seconds, transitions } => {
                self.leases.create(&params, &self.new_lease(holder, lease_seconds, transitions)).await
            }
            LeaseRequest::Update { version, holder, lease_seconds, transitions, acquired } => {
                let mut lease = last.unwrap_or_default();
                let now = MicroTime(self.clock.now());
                lease.metadata.name = Some(self.name.clone());
                lease.metadata.namespace = Some(self.namespace.clone());
                // Makes the write conditional: the API server refuses it if the lease has changed since.
                lease.metadata.resource_version = Some(version);
                // An update does not need managed fields, and they may be longer than the rest of the lease.
                lease.metadata.managed_fields = None;
                let spec = lease.spec.get_or_insert_default();
                spec.holder_identity = Some(holder);
                spec.lease_duration_seconds = Some(lease_seconds);
                spec.lease_transitions = Some(transitions);
                if acquired {
                    spec.acquire_time = Some(now.clone());
                }
                spec.renew_time = Some(now);
                self.leases.replace(&self.name, &params, &lease).await
            }
        };
        match result {
            Ok(lease) => (LeaseAnswer::Lease(record(&lease)), Some(lease)),
            // These responses are not failures, because they prove the state of the lease.
            Err(kube::Error::Api(status)) if status.code == 404 => (LeaseAnswer::Absent, None),
            Err(kube::Error::Api(status)) if status.code == 409 => (LeaseAnswer::Conflict, None),
            Err(error) => (LeaseAnswer::Failed(describe(&error)), None),
        }
    }

    /// Stream of the lease's current state and its changes: `None` when it is deleted.
    pub(super) fn watch(&self) -> BoxStream<'static, Result<Option<Lease>, String>> {
        let (leases, name) = (self.leases.clone(), self.name.clone());
        let events = async move {
            let params = WatchParams::default().fields(&format!("metadata.name={name}"));
            // Version 0 starts from any version that the server has cached: the first event is the current lease.
            leases.watch(&params, "0").await.map(StreamExt::boxed)
        };
        let seen = events.try_flatten_stream().filter_map(async |event| match event {
            Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease)) => Some(Ok(Some(lease))),
            Ok(WatchEvent::Deleted(_)) => Some(Ok(None)),
            Ok(WatchEvent::Bookmark(_)) => None,
            Ok(WatchEvent::Error(status)) => Some(Err(status.message)),
            Err(error) => Some(Err(describe(&error))),
        });
        seen.boxed()
    }

    fn new_lease(&self, holder: String, lease_seconds: i32, transitions: i32) -> Lease {
        let now = MicroTime(self.clock.now());
        let mut lease = Lease::default();
        lease.metadata.name = Some(self.name.clone());
        lease.metadata.namespace = Some(self.namespace.clone());
        lease.metadata.labels = (!self.labels.is_empty()).then(|| self.labels.clone());
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(holder),
            lease_duration_seconds: Some(lease_seconds),
            lease_transitions: Some(transitions),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            ..LeaseSpec::default()
        });
        lease
    }
}

/// The fields of a lease that a candidate reads.
pub(super) fn record(lease: &Lease) -> LeaseRecord {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    LeaseRecord {
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        holder: spec.holder_identity.unwrap_or_default(),
        lease_duration: Duration::from_secs(seconds.unwrap_or_default()),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}
