//! Other clusters of a manager.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;

use super::{AddError, Handle, Manager, caches::Caches, clients::Clients, lifecycle::Group};
use crate::{
    cache::{self, Cache, Cached},
    client::Client,
    metrics::CacheLook,
    object::StaticObject,
};

/// Another cluster, which controllers of a manager watch and write to. Made by [`Manager::add_cluster`].
///
/// A handle: clones are the same cluster. Dropping it changes nothing.
#[derive(Clone)]
pub struct Cluster {
    name: Arc<str>,
    client: Client,
    ungated: Client,
    cache: Arc<Cache>,
    handle: Handle,
}

impl Manager {
    /// Takes another cluster, which `client` reaches: make it with [`client::connect`](crate::client::connect), as the
    /// manager's own. Retries that it makes by itself have no effect, as in [`Manager::new`]. It starts and stops with the manager: its caches are complete before
    /// controllers begin, and stay until these have ended. One that is added while the manager runs starts at once. If its
    /// caches cannot become complete, the manager stops, as with those of its own.
    ///
    /// `name` tells it from others in messages and metrics, which call its resources `east/secrets`, say. Its clients work
    /// as the manager's do ([`Options::client`](super::Options::client)); with leader election they write only while this
    /// process leads.
    ///
    /// ```
    /// # use controller_runtime::{Action, Builder, Context, Kind, Manager, MapMeta, ObjectKey, Reconciler, cache::{self, Meta}, reconcile};
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # struct Copies;
    /// # impl Reconciler for Copies {
    /// #     type Request = ObjectKey<ConfigMap>;
    /// #     async fn reconcile(&self, _: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, reconcile::Error> {
    /// #         Ok(Action::done())
    /// #     }
    /// # }
    /// fn add(manager: &Manager, east: kube::Client) -> Result<(), controller_runtime::manager::AddError> {
    ///     let east = manager.add_cluster("east", east, cache::Options::default())?;
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
    /// The manager stops or has stopped.
    #[doc(alias = "Cluster")]
    pub fn add_cluster(
        &self,
        name: impl Into<Arc<str>>,
        client: kube::Client,
        options: cache::Options,
    ) -> Result<Cluster, AddError> {
        let shared = &self.shared;
        let name = name.into();
        let cache = Arc::new(Cache::new(options, shared.election.is_some()));
        let (options, election) = (&shared.options, shared.election.as_ref());
        let clients = Clients::new(client, &name, options, &shared.metrics, election, &cache);
        let caches = Arc::new(Caches {
            cluster: Some(Arc::clone(&name)),
            cache: Arc::clone(&cache),
            client: clients.ungated.kube().clone(),
            sync_timeout: options.cache_sync_timeout,
        });
        let handle = self.add_to(Group::Caches, caches)?;
        shared.clusters.add(&name, &cache);
        Ok(Cluster { name, client: clients.gated, ungated: clients.ungated, cache, handle })
    }
}

impl Cluster {
    /// The name that it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The client for reconcilers, as [`Manager::client`]: what it writes is seen in this cluster's caches at once.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The client for what needs no leader election, as [`Manager::ungated_client`].
    #[must_use]
    pub fn ungated_client(&self) -> Client {
        self.ungated.clone()
    }

    /// The cached objects of kind `K` in this cluster, as [`Manager::cached`].
    #[must_use]
    pub fn cached<K: StaticObject>(&self) -> Cached<K> {
        self.cache.of_kind()
    }

    /// What is cached of this cluster, as [`Manager::cache`].
    #[must_use]
    pub fn cache(&self) -> cache::Caches<'_> {
        cache::Caches::new(&self.cache)
    }

    /// Takes the cluster out of its manager, and waits until its lists and watches have ended. What was read stays in the
    /// handles of its caches, and nothing more is told: take away the sources that it has first
    /// ([`controller::Watch::remove`](crate::controller::Watch::remove)).
    ///
    /// # Cancellation
    ///
    /// Dropping the future only ends the wait.
    pub async fn remove(self) {
        self.handle.remove().await;
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The caches of the other clusters of a manager, as long as somebody holds them. Clones are the same.
#[derive(Default, Clone)]
pub(super) struct Clusters {
    known: Arc<Mutex<Vec<Known>>>,
}

#[derive(Clone)]
struct Known {
    name: Arc<str>,
    cache: Weak<Cache>,
}

impl Clusters {
    fn add(&self, name: &Arc<str>, cache: &Arc<Cache>) {
        let mut known = self.known.lock();
        known.retain(|cluster| cluster.cache.strong_count() > 0);
        known.push(Known { name: Arc::clone(name), cache: Arc::downgrade(cache) });
    }

    fn all(&self) -> Vec<(Arc<str>, Arc<Cache>)> {
        let known = self.known.lock().clone();
        known.into_iter().filter_map(|Known { name, cache }| Some((name, cache.upgrade()?))).collect()
    }

    /// What is held of them.
    pub(super) fn look(&self) -> BTreeMap<String, CacheLook> {
        let of = |(name, cache): (Arc<str>, Arc<Cache>)| {
            cache.look().into_iter().map(move |(resource, look)| (format!("{name}/{resource}"), look))
        };
        self.all().into_iter().flat_map(of).collect()
    }

    /// What is wrong with the first of them that does not know the present, or is older than `limit`.
    pub(super) fn problem(&self, limit: Option<Duration>) -> Option<String> {
        let of = |(name, cache): (Arc<str>, Arc<Cache>)| {
            cache.problem(limit).map(|problem| format!("of cluster {name}, {problem}"))
        };
        self.all().into_iter().find_map(of)
    }
}
