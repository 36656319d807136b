//! Writing objects, server-side apply first.

mod error;
mod finalizer;
mod owner;

use std::{fmt, sync::Arc};

use kube::core::{
    Request as ApiRequest,
    object::HasStatus,
    params::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

pub(crate) use self::error::describe;
pub use self::{
    error::Error,
    finalizer::has_finalizer,
    owner::{OwnerError, is_controlled_by, set_controller_reference},
};
use crate::object::{Object, ObjectKey, Scope, StaticObject, resource_name};

/// Reads and writes objects in the name of one field manager.
///
/// Reads go to the API server; reads of the cache are [`Cached`](crate::Cached)'s. Cheap to clone.
///
/// # Example
///
/// ```no_run
/// # async fn example(client: controller_runtime::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use controller_runtime::ObjectKey;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let mut settings = ConfigMap::default();
/// settings.metadata.namespace = Some("default".to_owned());
/// settings.metadata.name = Some("settings".to_owned());
/// client.apply(&settings).await?; // creates it, or makes it so
///
/// assert!(client.get(&ObjectKey::<ConfigMap>::new("default", "settings")).await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    kube: kube::Client,
    field_manager: Arc<str>,
}

impl Client {
    /// A client that writes as `field_manager`, the name under which the API server notes who set which field.
    pub fn new(kube: kube::Client, field_manager: impl Into<Arc<str>>) -> Self {
        Self { kube, field_manager: field_manager.into() }
    }

    /// The client below, for what this one does not offer.
    #[must_use]
    pub fn kube(&self) -> &kube::Client {
        &self.kube
    }

    /// The object as the API server has it now; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The request failed, or the object does not fit its type.
    pub async fn get<K: StaticObject>(&self, key: &ObjectKey<K>) -> Result<Option<K>, Error> {
        let request = collection::<K>(key.namespace()).get(key.name(), &GetParams::default());
        match self.send::<K, K>("get", key.to_string(), request).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates an object, and returns it as stored.
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_already_exists`] if there is one under that name.
    pub async fn create<K: StaticObject>(&self, object: &K) -> Result<K, Error> {
        let params =
            PostParams { field_manager: Some(self.field_manager.to_string()), ..PostParams::default() };
        let body = serde_json::to_vec(object)
            .map_err(|error| Error::not_sent("create", object, &error.to_string()))?;
        let request = collection::<K>(check_namespace("create", object)?).create(&params, body);
        self.send::<K, K>("create", name_of(object), request).await
    }

    /// Makes the object be as given: creates it, or sets the given fields and removes those this manager set before
    /// and no longer gives. Fields of others stay. Returns the object as stored.
    ///
    /// Build the object anew for each call: every field in it becomes this manager's, taken over from others if they
    /// hold it with another value.
    ///
    /// # Errors
    ///
    /// The request failed, or the object has no name.
    #[doc(alias = "CreateOrUpdate")]
    pub async fn apply<K: StaticObject>(&self, object: &K) -> Result<K, Error> {
        let mut body = serde_json::to_value(object)
            .map_err(|error| Error::not_sent("apply", object, &error.to_string()))?;
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let key = key_of("apply", object)?;
        let request =
            collection::<K>(key.namespace()).patch(key.name(), &self.apply_params(), &Patch::Apply(body));
        self.send::<K, K>("apply", key.to_string(), request).await
    }

    /// Makes the object's status be as given, and nothing else. Returns the object as stored.
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_not_found`] if the object is gone.
    pub async fn apply_status<K>(&self, key: &ObjectKey<K>, status: &K::Status) -> Result<K, Error>
    where
        K: StaticObject + HasStatus<Status: Serialize>,
    {
        let body = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": { "name": key.name(), "namespace": key.namespace() },
            "status": status,
        });
        let request = collection::<K>(key.namespace()).patch_subresource(
            "status",
            key.name(),
            &self.apply_params(),
            &Patch::Apply(body),
        );
        self.send::<K, K>("apply status of", key.to_string(), request).await
    }

    /// Changes the given fields by a JSON merge patch (RFC 7386), whatever the object's version. Returns the object
    /// as stored.
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_conflict`] if the patch holds a `metadata.resourceVersion` that is not the
    /// present one.
    pub async fn merge_patch<K: StaticObject>(&self, key: &ObjectKey<K>, patch: &Value) -> Result<K, Error> {
        let params =
            PatchParams { field_manager: Some(self.field_manager.to_string()), ..PatchParams::default() };
        let request = collection::<K>(key.namespace()).patch(key.name(), &params, &Patch::Merge(patch));
        self.send::<K, K>("patch", key.to_string(), request).await
    }

    /// Deletes this very object, and its dependents after it.
    ///
    /// The object's uid is a precondition: one made anew under the same name is left alone. An object that is gone
    /// already is no error.
    ///
    /// # Errors
    ///
    /// The request failed; [`Error::is_conflict`] if another object has taken the name.
    pub async fn delete<K: StaticObject>(&self, object: &K) -> Result<(), Error> {
        let key = key_of("delete", object)?;
        let preconditions = Preconditions { uid: object.meta().uid.clone(), resource_version: None };
        let params = DeleteParams::background().preconditions(preconditions);
        let request = collection::<K>(key.namespace()).delete(key.name(), &params);
        match self.send::<K, Value>("delete", key.to_string(), request).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn apply_params(&self) -> PatchParams {
        PatchParams::apply(&self.field_manager).force()
    }

    /// Sends a request about an object of kind `K`.
    async fn send<K: StaticObject, T: DeserializeOwned>(
        &self,
        verb: &'static str,
        object: String,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, Error> {
        let result = match request {
            Ok(request) => self.kube.request(request).await,
            Err(error) => Err(kube::Error::BuildRequest(error)),
        };
        result.map_err(|source| Error::new(verb, format!("{} {object}", resource_name::<K>()), source))
    }
}

/// The URL path of the kind's objects in `namespace`.
fn collection<K: StaticObject>(namespace: Option<&str>) -> ApiRequest {
    ApiRequest::new(K::url_path(&(), namespace))
}

/// The object's key, which a request about it needs.
fn key_of<K: StaticObject>(verb: &'static str, object: &K) -> Result<ObjectKey<K>, Error> {
    check_namespace(verb, object)?;
    ObjectKey::of(object).ok_or_else(|| Error::not_sent(verb, object, "metadata.name must be set"))
}

/// The namespace in which a request about the object goes.
fn check_namespace<'o, K: StaticObject>(verb: &'static str, object: &'o K) -> Result<Option<&'o str>, Error> {
    let namespace = object.meta().namespace.as_deref().map(Arc::from);
    match K::Scope::namespace(namespace.as_ref()) {
        Some(_) => Ok(object.meta().namespace.as_deref()),
        None => Err(Error::not_sent(verb, object, "metadata.namespace must be set: the kind is namespaced")),
    }
}

/// Namespace and name for a message, as far as they are set.
pub(crate) fn name_of<K: Object>(object: &K) -> String {
    let meta = object.meta();
    let name = meta.name.as_deref().or(meta.generate_name.as_deref()).unwrap_or("(without a name)");
    match &meta.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("field_manager", &self.field_manager).finish_non_exhaustive()
    }
}
