//! Findings of a manager, from all of its parts.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use http::header::ACCEPT;
use http_body_util::BodyExt;
use k8s_openapi::jiff::Timestamp;
use kube::{client::Body, core::ApiResource};
use kube_clock::Clock;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::watch,
    time::{Duration, Instant, timeout},
};

use super::{
    Manager,
    cluster::Clusters,
    explain_api::{RecentAnswers, Subscriptions},
};
use crate::{
    cache::{Cache, Trouble, TroubledObject, WatchState},
    client::Client,
    error::BoxError,
    findings::{
        Finding,
        client_calls::ClientFindings,
        stuck_objects::{self, KnownVersion, LastFailure},
        watches,
    },
    object::DynamicKind,
    request_queue::Explain,
    runnable::Runnables,
    webhook::Webhooks,
};

/// Largest number of objects whose managed fields are read from the API server for one list of findings.
const READS: usize = 8;
/// Time for one such read.
const READ_WITHIN: Duration = Duration::from_secs(2);

/// The parts of a manager from which explanations are made. The registry is held weakly, because it holds the server that uses
/// this.
pub(super) struct Explainer {
    pub(super) name: Arc<str>,
    pub(super) clock: Clock,
    pub(super) registry: Weak<Runnables>,
    pub(super) client: Client,
    pub(super) cache: Arc<Cache>,
    pub(super) clusters: Clusters,
    pub(super) findings: Arc<ClientFindings>,
    pub(super) webhooks: Webhooks,
    /// Managed fields of the troubled objects, by UID and version, so that each version is read once.
    pub(super) versions: Mutex<BTreeMap<(String, String), KnownVersion>>,
    /// Name of the lease; `None` without leader election.
    pub(super) lease: Option<String>,
    /// Whether this process leads.
    pub(super) leads: watch::Receiver<bool>,
    pub(super) recent: RecentAnswers,
    pub(super) subscriptions: Subscriptions,
}

impl Manager {
    /// The problems that this manager notices in its own operation, the most urgent first: missing permissions, failing watches,
    /// refused writes, fights over a field, endless loops, unreadable objects, stuck deletions, requests that wait for long. Each
    /// has its evidence and the next step; `docs/book/src/guides/explain.md` explains them.
    ///
    /// An operator without problems has no findings. Most need some events or a minute to be recognized.
    ///
    /// Visits the cached objects, and yields in between. For unreadable objects and for objects with a stuck deletion it reads their
    /// managers from the API server: with one list request for each version, at most eight per call, within two seconds each.
    ///
    /// ```
    /// # async fn example(manager: &controller_runtime::Manager) {
    /// for finding in manager.findings().await {
    ///     println!("{finding}"); // long-back-off Guestbook shop/web waits 8 min 31 s more, …
    /// }
    /// # }
    /// ```
    ///
    /// # Cancellation
    ///
    /// Dropping the future has no effect.
    pub async fn findings(&self) -> Vec<Finding> {
        self.shared.explainer.findings().await
    }
}

type Controllers = [(Arc<str>, Arc<dyn Explain>)];

impl Explainer {
    /// The findings, the most urgent first, and those of one kind by subject.
    pub(super) async fn findings(&self) -> Vec<Finding> {
        let mut findings = self.findings.findings(&self.name, &self.webhooks.names(), self.clock);
        let controllers = self.registry.upgrade().map(|registry| registry.controllers()).unwrap_or_default();
        findings.append(&mut self.about_watches(&controllers));
        findings.append(&mut self.about_objects(&controllers).await);
        for (_, controller) in &controllers {
            findings.append(&mut controller.findings().await);
        }
        findings.sort_by(|one, other| {
            (one.severity, one.id, &one.subject).cmp(&(other.severity, other.id, &other.subject))
        });
        findings
    }

    fn about_watches(&self, controllers: &Controllers) -> Vec<Finding> {
        let sources: Vec<_> =
            controllers.iter().map(|(name, controller)| (name.to_string(), controller.sources())).collect();
        let now = Instant::now();
        let states = self.cache.watch_states().into_iter().chain(self.clusters.watch_states());
        let finding = |state| {
            let readers = readers(&sources, &state);
            watches::finding(&state, &readers, &self.name, now, self.clock)
        };
        states.filter_map(finding).collect()
    }

    async fn about_objects(&self, controllers: &Controllers) -> Vec<Finding> {
        let now = self.clock.now();
        let before = now.saturating_sub(stuck_objects::DELETING).unwrap_or(Timestamp::MIN);
        let (mut findings, mut versions, mut reads) = (Vec::new(), BTreeMap::new(), 0);
        for object in self.cache.troubled_objects(before).await {
            let id = id_of(&object);
            let known = self.versions.lock().get(&id).cloned();
            let mut known = known.unwrap_or(KnownVersion { managed_fields: None, noticed: now });
            // Objects that are not read now are read for the next list of findings.
            if known.managed_fields.is_none() && reads < READS {
                reads += 1;
                known.managed_fields = self.managed_fields(&object).await;
            }
            findings.push(self.about_object(&object, &known, controllers, now));
            versions.insert(id, known);
        }
        // Versions of objects that are no longer troubled are dropped.
        *self.versions.lock() = versions;
        // Managed fields are not read from other clusters, because the explainer has only the client of the manager's own cluster.
        for object in self.clusters.troubled_objects(before).await {
            let known = KnownVersion { managed_fields: None, noticed: now };
            findings.push(self.about_object(&object, &known, controllers, now));
        }
        findings
    }

    fn about_object(
        &self,
        object: &TroubledObject,
        known: &KnownVersion,
        controllers: &Controllers,
        now: Timestamp,
    ) -> Finding {
        let failure = match &object.trouble {
            Trouble::Deleting { .. } => last_failure(controllers, object),
            Trouble::Unreadable { .. } => None,
        };
        stuck_objects::finding(object, known, &self.name, failure.as_ref(), now)
    }

    /// The managed fields of an object, which caches do not have. `None` if the read fails, empty if the object has another version
    /// now.
    async fn managed_fields(&self, object: &TroubledObject) -> Option<Vec<u8>> {
        let read = self.read_metadata(&object.resource, object.namespace.as_deref(), &object.name).await;
        let list: Value = serde_json::from_slice(&read.ok()?).ok()?;
        let metadata = &list["items"][0]["metadata"];
        let version = object.version.as_ref().map(ToString::to_string).unwrap_or_default();
        let is_same = metadata["resourceVersion"] == *version;
        Some(if is_same { metadata["managedFields"].to_string().into_bytes() } else { Vec::new() })
    }

    /// Reads the metadata of an object from the API server: a list with one item or none, for which every operator with a cache has
    /// the permission.
    pub(super) async fn read_metadata(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Bytes, BoxError> {
        let kind = DynamicKind { resource: resource.clone(), is_namespaced: namespace.is_some() };
        let (path, selector) = (kind.path(namespace), format!("metadata.name={name}"));
        let query =
            form_urlencoded::Serializer::new(String::new()).append_pair("fieldSelector", &selector).finish();
        let request = http::Request::get(format!("{path}?{query}"))
            .header(ACCEPT, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
            .body(Body::empty())?;
        let read = async {
            let response = self.client.kube().send(request).await?;
            let (code, body) = (response.status(), response.into_body().collect().await?.to_bytes());
            if code.is_success() { Ok(body) } else { Err(format!("code {}", code.as_u16()).into()) }
        };
        timeout(READ_WITHIN, read).await?
    }
}

/// Controllers that receive the events of a list or watch.
fn readers(sources: &[(String, Vec<String>)], state: &WatchState) -> Vec<String> {
    // A source is named after its resource, a cache after the resource and its selection, such as `pods with app=web`.
    let resource = state.resource.split(' ').next().unwrap_or_default();
    let reads = |sources: &[String]| sources.iter().any(|source| source == resource);
    sources.iter().filter(|(_, sources)| reads(sources)).map(|(name, _)| name.clone()).collect()
}

fn id_of(object: &TroubledObject) -> (String, String) {
    let uid = object.uid.as_ref().map(ToString::to_string);
    let version = object.version.as_ref().map(ToString::to_string);
    (uid.unwrap_or_default(), version.unwrap_or_default())
}

/// The last run for an object in the first controller of its kind that has one and in which it failed.
fn last_failure(controllers: &Controllers, object: &TroubledObject) -> Option<LastFailure> {
    let (name, kind) = (object.name(), object.kind());
    let of_kind = controllers.iter().filter(|(_, controller)| controller.kind() == Some(&*kind));
    of_kind.into_iter().find_map(|(_, controller)| controller.last_failure_of(&name))
}
