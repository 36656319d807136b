//! Client for objects of a kind known at run time only.

use std::{fmt, sync::Arc};

use kube::core::{DynamicObject, PartialObjectMeta, TypeMeta};
use serde::Serialize;

use super::{
    delete::{Delete, DeleteAll},
    patch::Patch,
    read::{Get, List},
    subresource::Subresource,
    watch::Watch,
    write::{Apply, Change, Create, Update, Write},
};
use crate::{
    client::transport::{
        call::{Call, METADATA, Verb},
        client::Client,
        error::ClientError,
        own_writes::Extent,
    },
    object::{DynamicKind, ObjectKey},
};

/// Reads and writes objects of a kind known at run time only.
///
/// Made by [`Client::of`]. Its methods correspond to those of [`Client`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use controller_runtime::{Client, ObjectKey};
/// use kube::core::DynamicObject;
/// use serde_json::json;
///
/// # let env = kube_envtest::Environment::builder().start().await?;
/// let client = Client::new(env.client(), "importer");
/// let maps = client.of(client.discover("", "v1", "ConfigMap").await?);
///
/// let map = DynamicObject::new("settings", maps.kind().resource()).within("default");
/// maps.apply(&map.data(json!({ "data": { "theme": "roses" } }))).await?;
///
/// let found = maps.get(&ObjectKey::new("default", "settings")).await?.expect("it was applied");
/// assert_eq!(found.data["data"]["theme"], "roses");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "Unstructured")]
pub struct DynamicClient {
    pub(in crate::client) client: Client,
    kind: Arc<DynamicKind>,
}

impl Client {
    /// A client for objects of a kind known at run time only.
    #[must_use]
    pub fn of(&self, kind: DynamicKind) -> DynamicClient {
        DynamicClient { client: self.clone(), kind: Arc::new(kind) }
    }
}

impl DynamicClient {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> &DynamicKind {
        &self.kind
    }

    /// See [`Client::get`].
    #[track_caller]
    pub fn get(&self, key: &ObjectKey<DynamicObject>) -> Get<DynamicObject> {
        Get::new(&self.client, self.call(Verb::Get, key), Extent::Whole)
    }

    /// Like [`Client::get`], but the API server sends only metadata.
    #[track_caller]
    pub fn get_metadata(&self, key: &ObjectKey<DynamicObject>) -> Get<PartialObjectMeta<DynamicObject>> {
        Get::new(&self.client, self.call(Verb::Get, key), Extent::Metadata)
    }

    /// See [`Client::list`].
    #[track_caller]
    pub fn list(&self) -> List<DynamicObject> {
        List::new(&self.client, Call::new(Verb::List, Arc::clone(&self.kind)), Extent::Whole)
            .completed_by(complete)
    }

    /// Like [`Client::list`], but the API server sends only metadata.
    #[track_caller]
    pub fn list_metadata(&self) -> List<PartialObjectMeta<DynamicObject>> {
        List::new(&self.client, Call::new(Verb::List, Arc::clone(&self.kind)), Extent::Metadata)
    }

    /// See [`Client::watch`].
    #[track_caller]
    pub fn watch(&self, resource_version: &str) -> Watch<DynamicObject> {
        Watch::new(&self.client, Call::new(Verb::Watch, Arc::clone(&self.kind)), resource_version)
    }

    /// Like [`Client::watch`], but the API server sends only metadata.
    #[track_caller]
    pub fn watch_metadata(&self, resource_version: &str) -> Watch<PartialObjectMeta<DynamicObject>> {
        let mut call = Call::new(Verb::Watch, Arc::clone(&self.kind));
        call.accept = METADATA;
        Watch::new(&self.client, call, resource_version)
    }

    /// See [`Client::create`].
    #[track_caller]
    pub fn create(&self, object: &DynamicObject) -> Write<DynamicObject, Create> {
        Write::new(&self.client, self.about(Verb::Create, object))
    }

    /// See [`Client::update`].
    #[track_caller]
    pub fn update(&self, object: &DynamicObject) -> Write<DynamicObject, Update> {
        let call = self.about(Verb::Update, object);
        Write::new(
            &self.client,
            call.and_then(|call| crate::client::requests::call_builder::versioned(call, &object.metadata)),
        )
    }

    /// See [`Client::update_status`].
    #[track_caller]
    pub fn update_status(&self, object: &DynamicObject) -> Write<DynamicObject, Update> {
        let call = self.about(Verb::Update, object).map(crate::client::requests::call_builder::of_status);
        Write::new(
            &self.client,
            call.and_then(|call| crate::client::requests::call_builder::versioned(call, &object.metadata)),
        )
    }

    /// See [`Client::apply`].
    #[track_caller]
    pub fn apply(&self, object: &DynamicObject) -> Write<DynamicObject, Apply> {
        Write::new(
            &self.client,
            self.about(Verb::Apply, object).and_then(crate::client::requests::call_builder::as_apply),
        )
        .force()
    }

    /// See [`Client::apply_status`].
    #[track_caller]
    pub fn apply_status(
        &self,
        key: &ObjectKey<DynamicObject>,
        status: &impl Serialize,
    ) -> Write<DynamicObject, Apply> {
        Write::new(
            &self.client,
            crate::client::requests::call_builder::with_status(self.call(Verb::Apply, key), status),
        )
        .force()
    }

    /// See [`Client::patch`].
    #[track_caller]
    pub fn patch(&self, key: &ObjectKey<DynamicObject>, patch: Patch) -> Write<DynamicObject, Change> {
        Write::new(
            &self.client,
            crate::client::requests::call_builder::with_patch(self.call(Verb::Patch, key), patch),
        )
    }

    /// See [`Client::delete`].
    #[track_caller]
    pub fn delete(&self, object: &DynamicObject) -> Delete<DynamicObject> {
        let call = self.about(Verb::Delete, object).and_then(crate::client::requests::call_builder::named);
        Delete::new(&self.client, call).only(&object.metadata)
    }

    /// See [`Client::delete_key`].
    #[track_caller]
    pub fn delete_key(&self, key: &ObjectKey<DynamicObject>) -> Delete<DynamicObject> {
        Delete::new(&self.client, Ok(self.call(Verb::Delete, key)))
    }

    /// See [`Client::delete_all`].
    #[track_caller]
    pub fn delete_all(&self) -> DeleteAll<DynamicObject> {
        DeleteAll::new(&self.client, Call::new(Verb::DeleteCollection, Arc::clone(&self.kind)))
    }

    /// See [`Client::subresource`].
    #[must_use]
    #[track_caller]
    pub fn subresource(&self, key: &ObjectKey<DynamicObject>, name: &str) -> Subresource {
        Subresource::new(&self.client, self.call(Verb::Get, key), name)
    }

    #[track_caller]
    fn call(&self, verb: Verb, key: &ObjectKey<DynamicObject>) -> Call {
        crate::client::requests::call_builder::call_for(verb, Arc::clone(&self.kind), key)
    }

    #[track_caller]
    fn about(&self, verb: Verb, object: &DynamicObject) -> Result<Call, ClientError> {
        let mut object = object.clone();
        object.types = Some(types(&self.kind)); // the API server refuses an apply without them
        self.client.about(verb, Arc::clone(&self.kind), &object)
    }
}

/// Sets apiVersion and kind of a list's items, which the API server omits for builtin kinds.
fn complete(object: &mut DynamicObject, call: &Call) {
    object.types.get_or_insert_with(|| types(call.kind()));
}

pub(in crate::client) fn types(kind: &DynamicKind) -> TypeMeta {
    TypeMeta { api_version: kind.resource.api_version.clone(), kind: kind.resource.kind.clone() }
}

impl fmt::Debug for DynamicClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamicClient").field("kind", &self.kind).finish_non_exhaustive()
    }
}
