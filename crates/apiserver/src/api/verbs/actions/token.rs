//! `serviceaccounts/token`: issues a token of a service account. The checks have kube-apiserver's order.

use bytes::Bytes;
use jiff::Timestamp;
use kube_apimachinery::go::format_seconds;
use kube_apimachinery::go::quote;
use kube_apimachinery::managed_fields::{self, Writer};
use kube_apimachinery::metadata;
use kube_apimachinery::schema;
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::{Value, json};

use super::super::reply::{self, Reply};
use super::super::{Call, object_meta, require_name};
use crate::api::admission::{Attributes, ObjectKind, OperationOptions};
use crate::api::authentication::{BoundObjects, Claims, ObjectLookup, ObjectReference};
use crate::request::query::WriteOptions;
use crate::store::Key;

const GROUP: &str = "authentication.k8s.io";
const VERSION: &str = "authentication.k8s.io/v1";
const KIND: &str = "TokenRequest";
/// Default lifetime of a token in seconds.
const DEFAULT_SECONDS: i64 = 60 * 60;
/// Minimum lifetime in seconds.
const MIN_LIFETIME: i64 = 10 * 60;
/// Maximum lifetime in seconds.
const MAX_LIFETIME: i64 = 1 << 32;

/// Responds with a token of the account in the URL.
pub(super) async fn run(call: &Call, bytes: &Bytes) -> Result<Reply, ApiError> {
    let options = call.create_options()?;
    let mut request = super::decode(call, bytes, KIND, &[VERSION], options.field_validation)?;
    let namespace = &call.path.namespace;
    // A UID in the request is a precondition.
    let uid = metadata::of(&mut request).remove("uid");
    object_meta::wipe(&mut request);
    metadata::of(&mut request).extend(uid.map(|uid| ("uid".to_owned(), uid)));
    object_meta::reconcile_namespace(&call.served, namespace, &mut request)?;
    if request["spec"]["expirationSeconds"].is_null() {
        request["spec"]["expirationSeconds"] = json!(DEFAULT_SECONDS);
    }
    let entries = managed_fields_of(call, &request, &options);
    if !entries.is_null() {
        metadata::of(&mut request).insert("managedFields".to_owned(), entries);
    }
    let (admission, attributes) =
        (&call.context.admission, call.attributes(OperationOptions::Create(&options), None));
    let attributes = Attributes { kind: ObjectKind::new(VERSION, KIND), ..attributes };
    admission.mutate(&attributes, Some(&mut request)).await?;
    if let Some(spec) = request["spec"].as_object_mut() {
        // Go writes an absent reference as null. The decoding of a webhook's patch drops it.
        spec.entry("boundObjectRef").or_insert(Value::Null);
    }

    let name = &call.path.name;
    check_name(name, &request)?;
    let account =
        ObjectReference { name: name.clone(), uid: uid_of(call, "serviceaccounts", namespace, name)? };
    check_uid(&account, &request)?;
    let asked = request["spec"]["audiences"].as_array().into_iter().flatten();
    let mut audiences: Vec<String> = asked.filter_map(Value::as_str).map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences.push(call.context.authenticator.issuer().name().to_owned());
    }
    let now = call.cluster.clock.now();
    request["spec"]["audiences"] = json!(audiences);
    let fields = metadata::of(&mut request);
    for (field, value) in [
        ("name", account.name.clone()),
        ("namespace", namespace.clone()),
        ("uid", account.uid.clone()),
        ("creationTimestamp", format_seconds(now)),
    ] {
        fields.insert(field.to_owned(), json!(value));
    }
    request["status"] = json!({"token": "", "expirationTimestamp": null});
    let seconds = check_time(&request)?;
    admission.validate(&attributes, Some(&request)).await?;

    let mut bound = BoundObjects {
        namespace: namespace.clone(),
        node: None,
        pod: None,
        secret: None,
        serviceaccount: account,
    };
    bind(call, &request["spec"]["boundObjectRef"], &mut bound)?;
    let claims = Claims::new(call.cluster.uid(), bound, &audiences, now, seconds);
    request["status"] = json!({
        "token": call.context.authenticator.issuer().sign(&claims),
        "expirationTimestamp": Timestamp::from_second(claims.exp).map(format_seconds).unwrap_or_default(),
    });
    reply::object(call, 201, request)
}

/// Returns the ownership entries of the request. Fields that the server sets later have no owner.
fn managed_fields_of(call: &Call, request: &Value, options: &WriteOptions) -> Value {
    let Some(schema) = schema::schema_of_kind(VERSION, KIND) else {
        return Value::Null;
    };
    let now = call.cluster.clock.now_seconds();
    let manager = call.manager(options);
    let writer = Writer { manager: &manager, subresource: "token", api_version: VERSION, now: &now };
    let mut tracked = request.clone();
    if let Some(fields) = tracked.as_object_mut() {
        fields.remove("status");
    }
    if let Some(spec) = tracked["spec"].as_object_mut() {
        spec.retain(|_, value| !value.is_null());
    }
    managed_fields::track_update(&schema, None, &mut tracked, &writer, &[]);
    let mut entries = tracked["metadata"]["managedFields"].take();
    // Go's empty request contains the reference as null. The client therefore owns the fields of the reference, but not the reference
    // itself.
    let reference = entries.pointer_mut("/0/fieldsV1/f:spec/f:boundObjectRef").and_then(Value::as_object_mut);
    reference.into_iter().for_each(|reference| {
        reference.remove(".");
    });
    entries
}

fn uid_of(call: &Call, plural: &str, namespace: &str, name: &str) -> Result<String, ApiError> {
    require_name(name)?;
    let found = call.cluster.find(plural, namespace, name);
    found.map(|found| found.uid).ok_or_else(|| ApiError::not_found("", plural, name))
}

/// Checks the name in the body, which may be absent or repeat the account's name.
fn check_name(account: &str, request: &Value) -> Result<(), ApiError> {
    let name = metadata::text(request, "name");
    if name.is_empty() || name == account {
        return Ok(());
    }
    let why = "must match the service account name if specified";
    let error = FieldError::invalid("metadata.name", &quote(name), why);
    Err(ApiError::invalid(GROUP, KIND, account, vec![error]))
}

/// Checks the UID in the body, which may be absent or repeat the account's UID.
fn check_uid(account: &ObjectReference, request: &Value) -> Result<(), ApiError> {
    let uid = metadata::text(request, "uid");
    if uid.is_empty() || uid == account.uid {
        return Ok(());
    }
    let why = format!(
        "the UID in the token request ({uid}) does not match the UID of the service account ({})",
        account.uid
    );
    Err(ApiError::conflict(GROUP, KIND, &account.name, &why))
}

fn check_time(request: &Value) -> Result<i64, ApiError> {
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or_default();
    let why = match seconds {
        ..MIN_LIFETIME => "may not specify a duration less than 10 minutes",
        MIN_LIFETIME..=MAX_LIFETIME => return Ok(seconds),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let error = FieldError::invalid("spec.expirationSeconds", &seconds.to_string(), why);
    Err(ApiError::invalid(GROUP, KIND, "", vec![error]))
}

/// Binds the token to the requested object.
fn bind(call: &Call, asked: &Value, bound: &mut BoundObjects) -> Result<(), ApiError> {
    if !asked.is_object() {
        return Ok(());
    }
    let text = |field: &str| asked[field].as_str().unwrap_or_default().to_owned();
    let (version, kind, name) = (text("apiVersion"), text("kind"), text("name"));
    // Go reads a text with several slashes as an empty group and version.
    let version = if version.matches('/').count() > 1 { String::new() } else { version };
    let (group, version_name) = version.split_once('/').unwrap_or(("", &version));
    let namespace = bound.namespace.clone();
    let reference = |plural: &str, namespace: &str| {
        let uid = uid_of(call, plural, namespace, &name)?;
        if !text("uid").is_empty() && text("uid") != uid {
            let why = format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
                 deleted and then recreated",
                text("uid")
            );
            return Err(ApiError::conflict(group, &kind, &name, &why));
        }
        Ok(ObjectReference { name: name.clone(), uid })
    };
    match (group, kind.as_str()) {
        ("", "Pod") => {
            let pod = pod(call, &namespace, &name)?;
            if pod["spec"]["serviceAccountName"].as_str().unwrap_or_default() != bound.serviceaccount.name {
                let account = quote(&bound.serviceaccount.name);
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount {account} to pod running with different serviceaccount name."
                )));
            }
            bound.pod = Some(reference("pods", &namespace)?);
            let node = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
            bound.node = node.map(|node| ObjectReference {
                name: node.to_owned(),
                uid: call.cluster.find("nodes", "", node).map(|found| found.uid).unwrap_or_default(),
            });
        }
        ("", "Node") => bound.node = Some(reference("nodes", "")?),
        ("", "Secret") => bound.secret = Some(reference("secrets", &namespace)?),
        _ => {
            let what = format!("{group}/{version_name}, Kind={kind}");
            return Err(ApiError::bad_request(format!("cannot bind token to object of type {what}")));
        }
    }
    Ok(())
}

fn pod(call: &Call, namespace: &str, name: &str) -> Result<Value, ApiError> {
    require_name(name)?;
    let missing = || ApiError::not_found("", "pods", name);
    let served = call.cluster.registry().get("", "v1", "pods").cloned().ok_or_else(missing)?;
    let stored = call.cluster.read(|store| store.get(served.storage(), &Key::new(namespace, name)).cloned());
    stored.map(|stored| served.value(&stored)).ok_or_else(missing)
}
