//! Construction of calls from objects, keys and patches, with checks of required fields.

use std::{any::TypeId, collections::BTreeMap, sync::Arc};

use kube::core::ObjectMeta;
use parking_lot::RwLock;
use serde::Serialize;
use serde_json::{Value, json};

use super::patch::Patch;
use crate::{
    client::transport::{
        call::{Call, Verb},
        client::Client,
        decode::decode,
        error::ClientError,
    },
    object::{DynamicKind, Object, ObjectKey, StaticObject, name_of},
};

impl Client {
    /// Returns a call for `object`, with the object as its body.
    #[track_caller]
    pub(in crate::client) fn about<K: Object>(
        &self,
        verb: Verb,
        kind: Arc<DynamicKind>,
        object: &K,
    ) -> Result<Call, ClientError> {
        let mut call = Call::new(verb, kind);
        call.namespace.clone_from(&object.meta().namespace);
        call.name.clone_from(&object.meta().name);
        let fail = |call: &Call, reason: &str| {
            Err(ClientError::unsent(verb, format!("{} {}", call.kind, name_of(object)), reason))
        };
        if K::metadata_api() && verb != Verb::Delete {
            return fail(&call, "metadata alone cannot be written: use a patch");
        }
        // A client that is confined to a namespace sets it.
        if call.kind.is_namespaced && call.namespace.is_none() {
            call.namespace = self.settings().namespace.as_deref().map(ToOwned::to_owned);
        }
        if call.kind.is_namespaced && call.namespace.is_none() {
            return fail(&call, "metadata.namespace must be set: the kind is namespaced");
        }
        match serde_json::to_vec(object) {
            Ok(body) => call.body = body.into(),
            Err(error) => return fail(&call, &error.to_string()),
        }
        Ok(call)
    }
}

pub(in crate::client) const APPLY: &str = "application/apply-patch+yaml";

/// Returns the kind of a type. Each call names its kind, so a type has one value of it, for the life of the program.
pub(in crate::client) fn kind<K: StaticObject>() -> Arc<DynamicKind> {
    static KINDS: RwLock<BTreeMap<TypeId, Arc<DynamicKind>>> = RwLock::new(BTreeMap::new());
    let id = TypeId::of::<K>();
    if let Some(kind) = KINDS.read().get(&id) {
        return Arc::clone(kind);
    }
    // Made without the lock, because the names of a kind are the user's code.
    let kind = Arc::new(DynamicKind::of::<K>());
    Arc::clone(KINDS.write().entry(id).or_insert(kind))
}

/// Returns a call for the object with this key.
#[track_caller]
pub(in crate::client) fn call_for<K: Object>(verb: Verb, kind: Arc<DynamicKind>, key: &ObjectKey<K>) -> Call {
    let mut call = Call::new(verb, kind);
    call.namespace = key.namespace().map(ToOwned::to_owned);
    call.name = Some(key.name().to_owned());
    call
}

/// Directs the call to the object's status.
pub(in crate::client) fn of_status(mut call: Call) -> Call {
    call.subresource = Some("status".to_owned());
    call
}

/// Turns the call into an apply of this status only.
pub(in crate::client) fn with_status(call: Call, status: &impl Serialize) -> Result<Call, ClientError> {
    let status =
        serde_json::to_value(status).map_err(|error| ClientError::not_sent(&call, error.to_string()))?;
    let mut call = of_status(call);
    let resource = call.kind.resource();
    let body = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": { "name": call.name, "namespace": call.namespace },
        "status": status,
    });
    call.body = body.to_string().into();
    call.content_type = APPLY;
    Ok(call)
}

/// Checks that the object has a name.
pub(in crate::client) fn named(call: Call) -> Result<Call, ClientError> {
    match &call.name {
        Some(_) => Ok(call),
        None => {
            let subject = format!("{} (without a name)", call.subject());
            Err(ClientError::unsent(call.verb, subject, "metadata.name must be set"))
        }
    }
}

/// Checks that the object has a name, and the version in which it was read.
pub(in crate::client) fn versioned(call: Call, meta: &ObjectMeta) -> Result<Call, ClientError> {
    if meta.resource_version.is_none() {
        let reason = "metadata.resourceVersion must be set, so that no change of others is lost: \
                      read the object and change that, or use apply or patch";
        return Err(ClientError::not_sent(&call, reason));
    }
    named(call)
}

/// Turns the call into an apply of its body.
pub(in crate::client) fn as_apply(mut call: Call) -> Result<Call, ClientError> {
    let body = decode::<Value>(&call.body);
    let mut body = body.map_err(|error| ClientError::not_sent(&call, error.to_string()))?;
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields"); // the API server refuses them
    }
    call.body = body.to_string().into();
    call.content_type = APPLY;
    named(call)
}

/// Sets the patch as the body of the call.
pub(in crate::client) fn with_patch(mut call: Call, patch: Patch) -> Result<Call, ClientError> {
    call.content_type = patch.content_type;
    let body = patch.into_body().map_err(|reason| ClientError::not_sent(&call, reason))?;
    let body = serde_json::to_vec(&body).map_err(|error| ClientError::not_sent(&call, error.to_string()))?;
    call.body = body.into();
    Ok(call)
}
