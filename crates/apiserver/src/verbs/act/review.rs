//! Reviews: who somebody is, and what somebody may do. They are answered, not stored.
//!
//! This server restricts nobody, so that every answer about access is yes, with the reason beside it.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::reply::{self, Reply};
use super::super::{Call, metadata};
use crate::authentication::{ISSUER, UserInfo};
use crate::request::query::{WriteOptions, quote};
use crate::status::{ApiError, FieldError};

/// Why everything is allowed.
const REASON: &str = "access control is not enforced: every user may do everything";

/// Answers the review in the body with its status.
pub(super) fn run(
    call: &mut Call,
    bytes: &Bytes,
    status: fn(&Call, &mut Value) -> Result<Value, ApiError>,
) -> Result<Reply, ApiError> {
    let options = WriteOptions::read(&call.query, "CreateOptions", false)?;
    let mut review = call.decode(bytes, options.field_validation)?;
    let namespace = call.path.namespace.clone();
    metadata::reconcile_namespace(&call.served, &namespace, &mut review)?;
    review["status"] = status(call, &mut review)?;
    call.served.conform(&mut review);
    reply::object(call, 201, review)
}

/// `SelfSubjectReview`: who asks.
pub(super) fn of_self(call: &Call, review: &mut Value) -> Result<Value, ApiError> {
    review["metadata"] = json!({"creationTimestamp": call.server.clock.now_seconds()});
    Ok(json!({"userInfo": info(&call.user)}))
}

/// `TokenReview`: whose token it is.
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
    let server = &call.server;
    Ok(match server.authenticator.user_of(token, &audiences, server.clock.now(), &**server) {
        Ok((user, audiences)) => json!({"authenticated": true, "user": info(&user), "audiences": audiences}),
        Err(why) => json!({"user": {}, "error": why}),
    })
}

/// `SubjectAccessReview` and the one of a namespace: what somebody may do.
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

/// `SelfSubjectAccessReview`: what the one who asks may do.
pub(super) fn of_own_access(call: &Call, review: &mut Value) -> Result<Value, ApiError> {
    allowed(call, about_one_thing(&review["spec"]).into_iter().collect())
}

/// A review is about a resource or about a path.
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
    // Reviews are refused without their kind.
    Err(ApiError::invalid(&call.served.resource.group, "", "", errors))
}

/// `SelfSubjectRulesReview`: all that the one who asks may do in a namespace.
pub(super) fn of_rules(_: &Call, review: &mut Value) -> Result<Value, ApiError> {
    if review["spec"]["namespace"].as_str().is_none_or(str::is_empty) {
        return Err(ApiError::bad_request("no namespace on request"));
    }
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
