//! Requests for objects of one type, for helpers that work with typed and dynamic kinds alike.

use kube::core::DynamicObject;

use super::{
    dynamic::DynamicClient,
    patch::Patch,
    read::Get,
    subresource::Subresource,
    write::{Change, Create, Update, Write},
};
use crate::{
    client::transport::{call::Verb, client::Client, error::ClientError},
    object::{Object, ObjectKey, StaticObject, name_of, resource_name},
};

/// Requests for objects of one type. Their kind is known at compile time ([`Client`]) or at run time
/// ([`DynamicClient`]).
pub(crate) trait ObjectRequests<K: Object>: Sync {
    /// The client that sends the requests.
    fn client(&self) -> &Client;

    /// The resource, as in messages.
    fn resource(&self) -> String;

    /// The object's key; `None` if it lacks a name, or a namespace that its kind requires.
    fn find_key(&self, object: &K) -> Option<ObjectKey<K>>;

    fn get(&self, key: &ObjectKey<K>) -> Get<K>;
    fn create(&self, object: &K) -> Write<K, Create>;
    fn update(&self, object: &K) -> Write<K, Update>;
    fn patch(&self, key: &ObjectKey<K>, patch: Patch) -> Write<K, Change>;
    fn subresource(&self, key: &ObjectKey<K>, name: &str) -> Subresource;

    /// The object's key, or an error if there is none.
    fn key_of(&self, verb: Verb, object: &K) -> Result<ObjectKey<K>, ClientError> {
        self.find_key(object)
            .ok_or_else(|| self.unsent(verb, object, "metadata.name and namespace must be set"))
    }

    /// Returns the error of a request for this object that was not sent.
    fn unsent(&self, verb: Verb, object: &K, reason: &str) -> ClientError {
        ClientError::unsent(verb, format!("{} {}", self.resource(), name_of(object)), reason)
    }
}

impl<K: StaticObject> ObjectRequests<K> for Client {
    fn client(&self) -> &Client {
        self
    }

    fn resource(&self) -> String {
        resource_name::<K>()
    }

    fn find_key(&self, object: &K) -> Option<ObjectKey<K>> {
        ObjectKey::of(object)
    }

    fn get(&self, key: &ObjectKey<K>) -> Get<K> {
        Self::get(self, key)
    }

    fn create(&self, object: &K) -> Write<K, Create> {
        Self::create(self, object)
    }

    fn update(&self, object: &K) -> Write<K, Update> {
        Self::update(self, object)
    }

    fn patch(&self, key: &ObjectKey<K>, patch: Patch) -> Write<K, Change> {
        Self::patch(self, key, patch)
    }

    fn subresource(&self, key: &ObjectKey<K>, name: &str) -> Subresource {
        Self::subresource(self, key, name)
    }
}

impl ObjectRequests<DynamicObject> for DynamicClient {
    fn client(&self) -> &Client {
        &self.client
    }

    fn resource(&self) -> String {
        self.kind().to_string()
    }

    fn find_key(&self, object: &DynamicObject) -> Option<ObjectKey<DynamicObject>> {
        ObjectKey::of(object).filter(|key| key.namespace().is_some() || !self.kind().is_namespaced())
    }

    fn get(&self, key: &ObjectKey<DynamicObject>) -> Get<DynamicObject> {
        Self::get(self, key)
    }

    fn create(&self, object: &DynamicObject) -> Write<DynamicObject, Create> {
        Self::create(self, object)
    }

    fn update(&self, object: &DynamicObject) -> Write<DynamicObject, Update> {
        Self::update(self, object)
    }

    fn patch(&self, key: &ObjectKey<DynamicObject>, patch: Patch) -> Write<DynamicObject, Change> {
        Self::patch(self, key, patch)
    }

    fn subresource(&self, key: &ObjectKey<DynamicObject>, name: &str) -> Subresource {
        Self::subresource(self, key, name)
    }
}
