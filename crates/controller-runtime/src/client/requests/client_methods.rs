//! Requests of [`Client`]: reads, writes, deletes and watches of kinds known at compile time.

use serde_json::Value;

use super::{
    call_builder::{as_apply, call_for, kind, named, of_status, versioned, with_patch, with_status},
    delete::{Delete, DeleteAll},
    patch::Patch,
    read::{Get, List},
    status::WithStatus,
    subresource::Subresource,
    watch::Watch,
    write::{Apply, Change, Create, Update, Write},
};
use crate::{
    client::transport::{
        call::{Call, METADATA, Verb},
        client::Client,
        own_writes::Extent,
    },
    object::{ObjectKey, StaticObject},
};

impl Client {
    /// Reads the current object from the API server; `None` if it does not exist.
    ///
    /// With [`PartialObjectMeta<K>`](kube::core::PartialObjectMeta) for a kind, the API server sends metadata alone.
    ///
    /// # Errors
    ///
    /// The request failed, or the object does not fit its type.
    #[track_caller]
    pub fn get<K: StaticObject>(&self, key: &ObjectKey<K>) -> Get<K> {
        Get::new(self, call_for(Verb::Get, kind::<K>(), key), Extent::of::<K>())
    }

    /// Lists the objects of a kind, in all namespaces unless restricted by [`Client::confined_to`] or the options of [`List`].
    ///
    /// With [`PartialObjectMeta<K>`](kube::core::PartialObjectMeta) for a kind, the API server sends metadata alone.
    ///
    /// ```no_run
    /// use controller_runtime::{Client, ClientError};
    /// use futures::TryStreamExt;
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// # async fn example(client: Client) -> Result<(), ClientError> {
    /// let web = client.list::<Pod>().in_namespace("default").labels("app=web").await?; // one page with all of them
    /// println!("{} pods", web.items.len());
    /// let mut pages = client.list::<Pod>().pages(); // 500 pods at a time
    /// while let Some(page) = pages.try_next().await? {
    ///     println!("{} more pods", page.items.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The request failed, or an object does not fit its type;
    /// [`ClientError::is_expired`](crate::ClientError::is_expired) if a page was requested too late.
    #[track_caller]
    pub fn list<K: StaticObject>(&self) -> List<K> {
        List::new(self, Call::new(Verb::List, kind::<K>()), Extent::of::<K>())
    }

    /// Creates an object, and returns it as stored.
    ///
    /// # Errors
    ///
    /// The request failed; [`ClientError::is_already_exists`](crate::ClientError::is_already_exists) if an object of that name
    /// exists.
    #[track_caller]
    pub fn create<K: StaticObject>(&self, object: &K) -> Write<K, Create> {
        Write::new(self, self.about(Verb::Create, kind::<K>(), object))
    }

    /// Replaces an object by `object`, a changed copy of the object that was read, and returns it as stored. Prefer
    /// [`Client::apply`], which leaves the fields of other managers alone.
    ///
    /// UID and resourceVersion of `object` are preconditions.
    ///
    /// # Errors
    ///
    /// The request failed; [`ClientError::is_conflict`](crate::ClientError::is_conflict) if the object has changed since it
    /// was read; [`ErrorKind::NotSent`](crate::client::ErrorKind::NotSent) if `object` has no resourceVersion, because it was
    /// not read.
    #[track_caller]
    pub fn update<K: StaticObject>(&self, object: &K) -> Write<K, Update> {
        let call = self.about(Verb::Update, kind::<K>(), object);
        Write::new(self, call.and_then(|call| versioned(call, object.meta())))
    }

    /// Replaces the status of an object by that of `object`, and leaves the rest of it unchanged. Otherwise like
    /// [`Client::update`].
    #[track_caller]
    pub fn update_status<K, By>(&self, object: &K) -> Write<K, Update>
    where
        K: StaticObject + WithStatus<By>,
    {
        let call = self.about(Verb::Update, kind::<K>(), object).map(of_status);
        Write::new(self, call.and_then(|call| versioned(call, object.meta())))
    }

    /// Applies the object (server-side apply): creates it, or sets the given fields and removes those that this field manager
    /// applied before and `object` lacks. Fields of other managers stay. Returns the object as stored.
    ///
    /// Build `object` from scratch for each call, not from one that was read: this manager becomes the owner of every field in
    /// it, and takes over fields that other managers own with a different value.
    ///
    /// # Errors
    ///
    /// The request failed, or the object has no name.
    #[doc(alias = "CreateOrUpdate")]
    #[track_caller]
    pub fn apply<K: StaticObject>(&self, object: &K) -> Write<K, Apply> {
        Write::new(self, self.about(Verb::Apply, kind::<K>(), object).and_then(as_apply)).force()
    }

    /// Applies only the status of an object. Returns the object as stored.
    ///
    /// This field manager becomes the owner of every field in `status`: leave out fields that other controllers report.
    ///
    /// ```no_run
    /// # use controller_runtime::{Client, ClientError, ObjectKey};
    /// # async fn example(client: Client) -> Result<(), ClientError> {
    /// use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
    ///
    /// let status = DeploymentStatus { ready_replicas: Some(3), ..DeploymentStatus::default() };
    /// client.apply_status(&ObjectKey::<Deployment>::new("demo", "web"), &status).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A kind without a status does not compile:
    ///
    /// ```compile_fail,E0277
    /// # use controller_runtime::{Client, ObjectKey};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # fn example(client: Client, map: ConfigMap) {
    /// let _ = client.update_status(&map);
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The request failed; [`ClientError::is_not_found`](crate::ClientError::is_not_found) if the object does not exist.
    #[track_caller]
    pub fn apply_status<K, By>(&self, key: &ObjectKey<K>, status: &K::Status) -> Write<K, Apply>
    where
        K: StaticObject + WithStatus<By>,
    {
        let call = call_for(Verb::Apply, kind::<K>(), key);
        Write::new(self, with_status(call, status)).force()
    }

    /// Patches an object, and returns it as stored.
    ///
    /// With [`PartialObjectMeta<K>`](kube::core::PartialObjectMeta) for a kind, the API server sends metadata alone, unless a
    /// cache of this client's manager holds whole objects of the kind, and must receive the change at once.
    ///
    /// # Errors
    ///
    /// The request failed; [`ClientError::is_not_found`](crate::ClientError::is_not_found) if the object does not exist;
    /// [`ClientError::is_conflict`](crate::ClientError::is_conflict) if the patch is for another version ([`Patch::between`],
    /// [`Patch::with_version_of`]).
    #[track_caller]
    pub fn patch<K: StaticObject>(&self, key: &ObjectKey<K>, patch: Patch) -> Write<K, Change> {
        let mut call = call_for(Verb::Patch, kind::<K>(), key);
        if K::metadata_api() {
            call.accept = METADATA;
        }
        Write::new(self, with_patch(call, patch))
    }

    /// Changes the given fields by a JSON merge patch: [`Client::patch`] with [`Patch::merge`].
    #[track_caller]
    pub fn merge_patch<K: StaticObject>(&self, key: &ObjectKey<K>, patch: &Value) -> Write<K, Change> {
        self.patch(key, Patch::merge(patch))
    }

    /// Deletes exactly this object: its UID and resourceVersion are preconditions. Succeeds if the object does not exist any
    /// more.
    ///
    /// # Errors
    ///
    /// The request failed; [`ClientError::is_conflict`](crate::ClientError::is_conflict) if the object has changed since it was
    /// read, or if another one has taken its name.
    #[track_caller]
    pub fn delete<K: StaticObject>(&self, object: &K) -> Delete<K> {
        let call = self.about(Verb::Delete, kind::<K>(), object).and_then(named);
        Delete::new(self, call).only(object.meta())
    }

    /// Deletes the object of this name, whatever its UID and version. Succeeds if it does not exist.
    ///
    /// # Errors
    ///
    /// The request failed.
    #[track_caller]
    pub fn delete_key<K: StaticObject>(&self, key: &ObjectKey<K>) -> Delete<K> {
        Delete::new(self, Ok(call_for(Verb::Delete, kind::<K>(), key)))
    }

    /// Deletes the objects of a kind, in all namespaces unless restricted by [`Client::confined_to`] or the options of
    /// [`DeleteAll`].
    ///
    /// ```no_run
    /// use controller_runtime::{Client, ClientError};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// # async fn example(client: Client) -> Result<(), ClientError> {
    /// client.delete_all::<ConfigMap>().in_namespace("default").labels("app=web").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The request failed. Some of the objects may have been deleted.
    #[doc(alias = "DeleteAllOf")]
    #[track_caller]
    pub fn delete_all<K: StaticObject>(&self) -> DeleteAll<K> {
        DeleteAll::new(self, Call::new(Verb::DeleteCollection, kind::<K>()))
    }

    /// Watches the objects of a kind, starting after a resourceVersion, for example that of a
    /// [`Page`](crate::client::Page). In all namespaces unless restricted by [`Client::confined_to`] or the options of
    /// [`Watch`]. For an example see [`Watch`]; to keep a copy of the objects, use a [`Cached`](crate::Cached).
    ///
    /// # Errors
    ///
    /// The stream of the watch returns errors; [`ClientError::is_expired`](crate::ClientError::is_expired) if the API server no
    /// longer has the resourceVersion.
    #[doc(alias = "WithWatch")]
    #[track_caller]
    pub fn watch<K: StaticObject>(&self, resource_version: &str) -> Watch<K> {
        let mut call = Call::new(Verb::Watch, kind::<K>());
        if K::metadata_api() {
            call.accept = METADATA;
        }
        Watch::new(self, call, resource_version)
    }

    /// A subresource of the object: `scale`, `eviction`, `token`, …
    #[must_use]
    #[track_caller]
    pub fn subresource<K: StaticObject>(&self, key: &ObjectKey<K>, name: &str) -> Subresource {
        Subresource::new(self, call_for(Verb::Get, kind::<K>(), key), name)
    }
}
