//! Other clusters of a manager.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Weak},
};

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;

use super::{
    AddError, Manager,
    clients::{Clients, Observers},
};
use crate::{
    cache::{self, Cache, Cached, DeletionReplay, OtherCluster, ResourceStats, TroubledObject, WatchState},
    client::{Call, Client, PermitError, WriteGate, WritePermit},
    error::BoxError,
    object::StaticObject,
    rights::Declarations,
    runnable::{Group, RunContext, Runnable, RunnableHandle},
};

/// Another cluster that controllers of a manager watch and write to. Made by [`Manager::add_cluster`].
///
/// A handle: its clones refer to the same cluster. Dropping it has no effect.
#[derive(Clone)]
pub struct Cluster {
    origin: OtherCluster,
    client: Client,
    ungated: Client,
    cache: Arc<Cache>,
    handle: RunnableHandle,
    all: Clusters,
}

impl Manager {
    /// Adds another cluster, reached through `client`. Make the client with
    /// [`client::connect`](crate::client::connect), like that of the manager. As in [`Manager::new`], each request is sent
    /// once, even if `client` retries by itself. The caches of the cluster start and stop with the manager. The caches of a
    /// cluster that is added while the manager runs start at once.
    ///
    /// # Outages
    ///
    /// A cluster that cannot be read does not affect the manager, its readiness, or other clusters. The manager and its
    /// controllers start without waiting for the cluster. Its lists and watches are retried until they succeed. The first
    /// retry comes after 0.8 s, and each further delay is twice the last one, up to 30 s; a random time of up to the
    /// delay is added to each. Events are delivered when the cluster is back. Until then:
    ///
    /// - Reads of a cache that has no initial list yet return [`ReadError::NotSynced`](crate::ReadError::NotSynced), within
    ///   reconciles as well; other caches return the last known state.
    /// - [`Cluster::trouble`] returns the problem. The log has each failure with the name of the cluster, the metric
    ///   `controller_runtime_cache_failures_total` counts them, and `/readyz?verbose` has a line for the cluster.
    ///
    /// # Names
    ///
    /// `name` identifies the cluster in messages and metrics, which name its resources as `east/secrets`. The name of a
    /// [removed](Cluster::remove) cluster can be used again. The cluster's clients have the options of the manager's
    /// ([`ManagerOptions::client`](super::ManagerOptions::client)); with leader election they write only while this
    /// process leads.
    ///
    /// ```
    /// # use controller_runtime::{
    /// #     Action, Builder, Context, Kind, Manager, MapMeta, ObjectKey, ReconcileError, Reconciler,
    /// #     cache::{CacheOptions, Meta},
    /// # };
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # struct Copies;
    /// # impl Reconciler for Copies {
    /// #     type Request = ObjectKey<ConfigMap>;
    /// #     async fn reconcile(&self, _: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, ReconcileError> {
    /// #         Ok(Action::done())
    /// #     }
    /// # }
    /// fn add(manager: &Manager, east: kube::Client) -> Result<(), controller_runtime::manager::AddError> {
    ///     let east = manager.add_cluster("east", east, CacheOptions::default())?;
    ///     let of_the_same_name = MapMeta(|secret: &Meta| Some(ObjectKey::new(secret.namespace()?, secret.name())));
    ///     Builder::managed_by(manager)
    ///         .for_kind::<ConfigMap>()
    ///         .watches(Kind::of(&east.cached::<Secret>(), of_the_same_name))
    ///         .complete(Copies)?; // which may hold `east.cached()` and `east.client()`
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The manager has a cluster of this name already, or is stopping or has stopped.
    #[doc(alias = "Cluster")]
    pub fn add_cluster(
        &self,
        name: impl Into<Arc<str>>,
        client: kube::Client,
        options: cache::CacheOptions,
    ) -> Result<Cluster, AddError> {
        let shared = &self.shared;
        let origin = OtherCluster::new(name.into());
        let replay = DeletionReplay::with(shared.election.as_ref());
        let cache = Cache::of_cluster(origin.clone(), options, replay);
        let cache = Arc::new(cache.observed_by(Arc::clone(&shared.explainer.findings) as _));
        let (options, election) = (&shared.options, shared.election.as_ref());
        let gate = Some(Arc::new(RemovalGate(origin.clone())) as _);
        let observers =
            Observers { cache: &cache, findings: &shared.explainer.findings, declaration_check: None };
        let clients =
            Clients::new(client, origin.name(), options, &shared.metrics, election, gate, &observers);
        let caches = Arc::new(ClusterCaches {
            origin: origin.clone(),
            cache: Arc::clone(&cache),
            client: clients.ungated.kube().clone(),
        });
        let all = shared.clusters.clone();
        all.add(&cache)?;
        let handle = self.add_to(Group::Caches, caches).inspect_err(|_| all.remove(&cache))?;
        Ok(Cluster { origin, client: clients.gated, ungated: clients.ungated, cache, handle, all })
    }
}

impl Cluster {
    /// Name of the cluster.
    #[must_use]
    pub fn name(&self) -> &str {
        self.origin.name()
    }

    /// Returns the problem of the first list or watch of the cluster that fails now. While there is one, the caches of
    /// the cluster may be out of date.
    ///
    /// ```no_run
    /// # fn example(clusters: &[controller_runtime::manager::Cluster]) {
    /// for cluster in clusters {
    ///     if let Some(trouble) = cluster.trouble() {
    ///         println!("{}: {trouble}", cluster.name()); // east: east/secrets: list: … Connection refused
    ///     }
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.cache.trouble()
    }

    /// The client for reconcilers, like [`Manager::client`]; its writes are visible in this cluster's caches at once.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The client for code that needs no leader election, like [`Manager::ungated_client`].
    #[must_use]
    pub fn ungated_client(&self) -> Client {
        self.ungated.clone()
    }

    /// The cached objects of kind `K` in this cluster, like [`Manager::cached`].
    #[must_use]
    #[track_caller]
    pub fn cached<K: StaticObject>(&self) -> Cached<K> {
        self.cache.declared_of_kind()
    }

    /// The rights that the caches of this cluster need, like [`Manager::declarations`]. Calls of the cluster's clients
    /// are neither declared nor checked.
    #[must_use]
    pub fn declarations(&self) -> Declarations {
        self.cache.declarations().all()
    }

    /// The caches of this cluster, like [`Manager::cache`].
    #[must_use]
    pub fn cache(&self) -> cache::Caches<'_> {
        cache::Caches::new(&self.cache)
    }

    /// Removes the cluster from its manager, and waits until its lists and watches have ended and its caches are empty.
    ///
    /// Event handlers receive a [`Delete`](crate::Event::Delete) with `state_unknown` for each object of the cluster,
    /// and then the sources of the cluster end. A source removed before
    /// ([`controller::SourceHandle::remove`](crate::controller::SourceHandle::remove)) delivers no deletions.
    ///
    /// From the call on, reads of the caches return [`ReadError::ClusterRemoved`](crate::ReadError::ClusterRemoved),
    /// which is terminal in a reconcile. [`Cluster::client`] and [`Cluster::ungated_client`] refuse writes, and writes
    /// in flight fail with [`ErrorKind::Interrupted`](crate::client::ErrorKind::Interrupted). To delete objects from
    /// the cluster itself, do so before removing it.
    ///
    /// # Cancellation
    ///
    /// If the manager runs, dropping the future only ends the wait. Otherwise some objects may stay in the caches.
    pub async fn remove(self) {
        // Marked first, so that reads and writes are refused before the objects disappear from the caches.
        self.origin.remove();
        self.handle.remove().await;
        // If the manager runs, the watches have emptied the caches as they ended. Otherwise no task has, and this does.
        self.cache.withdraw().await;
        // Last, so that no new cluster takes the name while objects of this one are cached.
        self.all.remove(&self.cache);
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Runnable that fills the caches of another cluster and keeps them up to date. The manager does not wait for it at the
/// start.
struct ClusterCaches {
    origin: OtherCluster,
    cache: Arc<Cache>,
    client: kube::Client,
}

impl Runnable for Arc<ClusterCaches> {
    fn name(&self) -> String {
        format!("cluster {}", self.origin.name())
    }

    fn needs_leader_election(&self) -> bool {
        false
    }

    async fn start(&self, mut cx: RunContext) -> Result<(), BoxError> {
        let (draining, rng) = (cx.draining.clone(), cx.rng.fork());
        let stopped = async {
            draining.cancelled().await;
            // A removal drains this runnable as well. Then `Cache::run` returns by itself, once the caches are empty.
            if self.origin.is_removed() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = stopped => {}
            () = self.cache.run(self.client.clone(), rng) => {}
        }
        Ok(())
    }
}

/// Refuses writes to a removed cluster, and interrupts those in flight.
struct RemovalGate(OtherCluster);

impl WriteGate for RemovalGate {
    fn permit(&self, _: &Call) -> Result<WritePermit, PermitError> {
        let cluster = self.0.clone();
        let removed = PermitError::new(format!("cluster {} was removed from the manager", cluster.name()));
        if cluster.is_removed() {
            return Err(removed);
        }
        Ok(WritePermit::until(async move {
            OtherCluster::removal_of(Some(&cluster)).await;
            removed
        }))
    }
}

/// The caches of a manager's other clusters, while they are in use. Clones share them.
#[derive(Default, Clone)]
pub(super) struct Clusters {
    known: Arc<Mutex<Vec<Weak<Cache>>>>,
}

impl Clusters {
    /// Adds the caches of a cluster, unless another cluster has its name.
    fn add(&self, cache: &Arc<Cache>) -> Result<(), AddError> {
        let mut known = self.known.lock();
        known.retain(|cluster| cluster.strong_count() > 0);
        let of_that_name = cache.cluster_name().filter(|name| {
            let mut names = known.iter().filter_map(|cluster| cluster.upgrade()?.cluster_name());
            names.any(|known| known == *name)
        });
        if let Some(name) = of_that_name {
            return Err(AddError::DuplicateCluster { name });
        }
        known.push(Arc::downgrade(cache));
        Ok(())
    }

    fn remove(&self, cache: &Arc<Cache>) {
        self.known.lock().retain(|known| !std::ptr::eq(known.as_ptr(), Arc::as_ptr(cache)));
    }

    /// States of the lists and watches of all clusters.
    pub(super) fn watch_states(&self) -> Vec<WatchState> {
        self.all().iter().flat_map(|cache| cache.watch_states()).collect()
    }

    /// Objects of all clusters that are not reconciled as usual.
    pub(super) async fn troubled_objects(&self, deleted_before: Timestamp) -> Vec<TroubledObject> {
        let mut troubled = Vec::new();
        for cache in self.all() {
            troubled.append(&mut cache.troubled_objects(deleted_before).await);
        }
        troubled
    }

    fn all(&self) -> Vec<Arc<Cache>> {
        let known = self.known.lock().clone();
        known.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the statistics of all caches, by resource and selection.
    pub(super) fn resource_stats(&self) -> BTreeMap<String, ResourceStats> {
        self.all().iter().flat_map(|cache| cache.resource_stats()).collect()
    }

    /// Names of the clusters with a list or watch that fails now.
    pub(super) fn in_trouble(&self) -> Vec<String> {
        let in_trouble = |cache: &Arc<Cache>| cache.trouble().and(cache.cluster_name());
        self.all().iter().filter_map(in_trouble).collect()
    }
}
