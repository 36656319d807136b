use kube::core::DynamicObject;

use super::{
    Change, Client, Create, DynamicClient, Error, Get, Patch, Subresource, Update, Verb, Write, name_of,
};
use crate::object::{Object, ObjectKey, StaticObject, resource_name};

/// What the helpers make their requests with: a client of the objects of one type, whose kind is known when it is compiled
/// or at run time.
pub(super) trait Requests<K: Object>: Sync {
    /// The client that sends them.
    fn client(&self) -> &Client;

    /// The resource, as messages name it.
    fn resource(&self) -> String;

    /// The object's key, if the object has what its kind needs.
    fn find_key(&self, object: &K) -> Option<ObjectKey<K>>;

    fn get(&self, key: &ObjectKey<K>) -> Get<K>;
    fn create(&self, object: &K) -> Write<K, Create>;
    fn update(&self, object: &K) -> Write<K, Update>;
    fn patch(&self, key: &ObjectKey<K>, patch: Patch) -> Write<K, Change>;
    fn subresource(&self, key: &ObjectKey<K>, name: &str) -> Subresource;

    /// The object's key, without which there is nothing to send.
    fn key_of(&self, verb: Verb, object: &K) -> Result<ObjectKey<K>, Error> {
        self.find_key(object)
            .ok_or_else(|| self.unsent(verb, object, "metadata.name and namespace must be set"))
    }

    /// An error that kept a request about this object from being made.
    fn unsent(&self, verb: Verb, object: &K, reason: &str) -> Error {
        Error::unsent(verb, format!("{} {}", self.resource(), name_of(object)), reason)
    }
}

impl<K: StaticObject> Requests<K> for Client {
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

impl Requests<DynamicObject> for DynamicClient {
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
