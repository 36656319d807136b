//! Reviews of users, tokens and access. They are answered, not stored.
//!
//! This server does not restrict access: every access review is allowed, with that as the reason.

use bytes::Bytes;
use kube_apimachinery::go::quote;
use kube_apimachinery::metadata;
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::{Value, json};

use super::super::reply::{self, Reply};
use super::super::{Call, object_meta, update};
use crate::api::authentication::ISSUER;
use crate::request::query::WriteOptions;
use crate::user::UserInfo;

/// Reason in the status of access reviews.
const REASON: &str = "access control is not enforced: every user may do everything";

/// Responds to the review in the body with its status.
pub(super) fn run(
    call: &mut Call,
    bytes: &Bytes,
    status: fn(&Call, &mut Value) -> Result<Value, ApiError>,
) -> Result<Reply, ApiError> {
    let options = WriteOptions::read(&call.query, "CreateOptions", false)?;
    let mut review = call.decode(bytes, options.field_validation)?;
    let namespace = call.path.namespace.clone();
    object_meta::reconcile_namespace(&call.served, &namespace, &mut review)?;
    // Reviews have managed fields like stored objects.
    update::track(call, None, &mut review, &options, "");
    review["status"] = status(call, &mut review)?;
    call.served.conform(&mut review);
    reply::object(call, 201, review)
}

/// Answers a `SelfSubjectReview`: the user of the request.
pub(super) fn of_self(call: &Call, review: &mut Value) -> Result<Value, ApiError> {
    review["metadata"] = json!({"creationTimestamp": call.cluster.clock.now_seconds()});
    Ok(json!({"userInfo": info(&call.user)}))
}

/// Answers a `TokenReview`: the user of a token.
pub(super) fn of_token(call: &Call, review: &mut Value) -> Result<Value, ApiError> {
    let token = review["spec"]["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let asked = review["spec"]["audiences"].as_array().into_iter().flatten();
    let mut audiences: Vec<String> = asked.filter_map(Value::as_str).map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences.push(ISSUER.to_owned());
    }
    let (authenticator, cluster) = (&call.context.authenticator, &*call.cluster);
    Ok(match authenticator.user_of(token, &audiences, cluster.clock.now(), cluster) {
        Ok((user, audiences)) => json!({"authenticated": true, "user": info(&user), "audiences": audiences}),
        Err(why) => json!({"user": {}, "error": why}),
    })
}

/// Answers a `SubjectAccessReview` or `LocalSubjectAccessReview`.
pub(super) fn of_access(call: &Call, review: &mut Value) -> Result<Value, ApiError> {
    let spec = &review["spec"];
    let mut errors = Vec::new();
    let is_empty =
        |value: &Value| value.is_null() || *value == "" || value.as_array().is_some_and(Vec::is_empty);
    if is_empty(&spec["user"]) && is_empty(&spec["groups"]) {
        let why = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", &quote(spec["user"].as_str().unwrap_or_default()), why));
    }
    errors.extend(about_one_thing(spec));
    if call.served.resource.namespaced && !spec["resourceAttributes"].is_null() {
        let namespace = spec["resourceAttributes"]["namespace"].as_str().unwrap_or_default();
        if namespace != call.path.namespace {
            let field = "spec.resourceAttributes.namespace";
            errors.push(FieldError::invalid(field, &quote(namespace), "must match metadata.namespace"));
        }
    }
    allowed(call, errors)
}

/// Answers a `SelfSubjectAccessReview`.
pub(super) fn of_own_access(call: &Call, review: &mut Value) -> Result<Value, ApiError> {
    allowed(call, about_one_thing(&review["spec"]).into_iter().collect())
}

/// Checks that a review has either a resource or a path.
fn about_one_thing(spec: &Value) -> Option<FieldError> {
    let (resource, path) = (!spec["resourceAttributes"].is_null(), !spec["nonResourceAttributes"].is_null());
    match (resource, path) {
        (true, true) => Some(FieldError::invalid(
            "spec.nonResourceAttributes",
            &spec["nonResourceAttributes"].to_string(),
            "cannot be specified in combination with resourceAttributes",
        )),
        (false, false) => Some(FieldError::invalid(
            "spec.resourceAttributes",
            "null",
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => None,
    }
}

fn allowed(call: &Call, errors: Vec<FieldError>) -> Result<Value, ApiError> {
    if errors.is_empty() {
        return Ok(json!({"allowed": true, "reason": REASON}));
    }
    // kube-apiserver's error omits the kind.
    Err(ApiError::invalid(&call.served.resource.group, "", "", errors))
}

/// Answers a `SelfSubjectRulesReview`: the rules of the user in a namespace.
pub(super) fn of_rules(_: &Call, review: &mut Value) -> Result<Value, ApiError> {
    if review["spec"]["namespace"].as_str().is_none_or(str::is_empty) {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    // The response repeats neither the question nor who owns it.
    review["spec"] = json!({});
    metadata::of(review).remove("managedFields");
    Ok(json!({
        "incomplete": false,
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }))
}

fn info(user: &UserInfo) -> Value {
    let mut info = json!({"username": user.name, "uid": user.uid, "groups": user.groups});
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
