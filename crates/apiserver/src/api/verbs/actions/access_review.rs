//! Reviews of users, tokens and access. They are answered, not stored.

use bytes::Bytes;
use kube_apimachinery::go::{self, quote};
use kube_apimachinery::go_struct::{self, Message};
use kube_apimachinery::metadata::{self, OwnersFrom};
use kube_apimachinery::rbac::{Action, PolicyRule, ResourceAction};
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::{Value, json};

use super::super::reply::{self, Reply};
use super::super::{Call, object_meta, update};
use super::selectors;
use crate::api::admission::OperationOptions;
use crate::user::UserInfo;

/// Responds to the review in the body with its status. Admission plugins see the review first.
pub(super) async fn run(
    call: &Call,
    bytes: &Bytes,
    status: fn(&Call, &mut Value) -> Result<Value, ApiError>,
) -> Result<Reply, ApiError> {
    let options = call.create_options()?;
    let mut review = call.decode(bytes, options.field_validation)?;
    object_meta::wipe(&mut review);
    object_meta::reconcile_namespace(&call.served, &call.path.namespace, &mut review)?;
    update::deduplicate_owners(call, &mut review, OwnersFrom::Request);
    // Reviews have managed fields like stored objects.
    update::track(call, None, &mut review, &options, "").await;
    let name = metadata::text(&review, "name").to_owned();
    let (admission, attributes) =
        (&call.context.admission, call.attributes(OperationOptions::Create(&options), None).named(&name));
    admission.mutate(&attributes, Some(&mut review)).await?;
    let question = review.clone();
    // Computing the answer also validates the review: validating plugins see only reviews that can be answered.
    let answer = status(call, &mut review)?;
    admission.validate(&attributes, Some(&question)).await?;
    review["status"] = answer;
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
        audiences.push(call.context.authenticator.issuer().name().to_owned());
    }
    let (authenticator, cluster) = (&call.context.authenticator, &*call.cluster);
    // Fields that the server does not set stay as the client sent them.
    let mut status = review["status"].as_object().cloned().unwrap_or_default();
    status.entry("user").or_insert_with(|| json!({}));
    let mut set = |field: &str, value: Value| drop(status.insert(field.to_owned(), value));
    match authenticator.user_of(token, &audiences, cluster.clock.now(), cluster) {
        Ok((user, audiences)) => {
            set("authenticated", json!(true));
            set("user", info(&user));
            set("audiences", json!(audiences));
        }
        Err(why) => {
            status.remove("authenticated");
            status.insert("error".to_owned(), json!(why));
        }
    }
    Ok(status.into())
}

/// Answers a `SubjectAccessReview` or `LocalSubjectAccessReview`.
pub(super) fn of_access(call: &Call, review: &mut Value) -> Result<Value, ApiError> {
    let spec = &review["spec"];
    let mut errors = validate_subject_matter(spec);
    let is_empty =
        |value: &Value| value.is_null() || *value == "" || value.as_array().is_some_and(Vec::is_empty);
    if is_empty(&spec["user"]) && is_empty(&spec["groups"]) {
        let why = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", &quote(text(spec, "user")), why));
    }
    errors.extend(selectors::validate(&spec["resourceAttributes"]));
    errors.extend(validate_metadata(call, review));
    if call.served.resource.namespaced {
        let namespace = text(&spec["resourceAttributes"], "namespace");
        if !spec["resourceAttributes"].is_null() && namespace != call.path.namespace {
            let field = "spec.resourceAttributes.namespace";
            errors.push(FieldError::invalid(field, &quote(namespace), "must match metadata.namespace"));
        }
        if !spec["nonResourceAttributes"].is_null() {
            let shown = shown_path(&spec["nonResourceAttributes"]);
            let why = "disallowed on this kind of request";
            errors.push(FieldError::invalid("spec.nonResourceAttributes", &shown, why));
        }
    }
    refuse_invalid(call, errors)?;
    let texts = |value: &Value| {
        let values = value.as_array().into_iter().flatten();
        values.filter_map(|value| value.as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let extra = spec["extra"].as_object().into_iter().flatten();
    // The user has exactly the groups of the review; the server adds none.
    let user = UserInfo {
        name: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: texts(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
    };
    Ok(decide(call, &user, spec))
}

/// Answers a `SelfSubjectAccessReview`.
pub(super) fn of_own_access(call: &Call, review: &mut Value) -> Result<Value, ApiError> {
    let spec = &review["spec"];
    let mut errors = validate_subject_matter(spec);
    errors.extend(selectors::validate(&spec["resourceAttributes"]));
    errors.extend(validate_metadata(call, review));
    refuse_invalid(call, errors)?;
    Ok(decide(call, &call.user, spec))
}

/// Checks that a review has either a resource or a path.
fn validate_subject_matter(spec: &Value) -> Vec<FieldError> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let error = match (resource.is_null(), path.is_null()) {
        (false, false) => FieldError::invalid(
            "spec.nonResourceAttributes",
            &shown_path(path),
            "cannot be specified in combination with resourceAttributes",
        ),
        (true, true) => FieldError::invalid(
            "spec.resourceAttributes",
            "null",
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        _ => return Vec::new(),
    };
    vec![error]
}

/// Formats `nonResourceAttributes` as the JSON of Go's internal struct.
fn shown_path(attributes: &Value) -> String {
    let quoted = |field: &str| go::json(&json!(text(attributes, field)));
    format!("{{\"Path\":{},\"Verb\":{}}}", quoted("path"), quoted("verb"))
}

/// Checks that the metadata of a review is empty, except for the namespace of a local one.
fn validate_metadata(call: &Call, review: &Value) -> Option<FieldError> {
    let is_local = call.served.resource.namespaced;
    let ignored = |field: &str| field == "managedFields" || field == "namespace" && is_local;
    let fields = review["metadata"].as_object()?;
    if fields.iter().all(|(field, value)| ignored(field) || value.is_null()) {
        return None;
    }
    let why = if is_local { "must be empty except for namespace" } else { "must be empty" };
    Some(FieldError::invalid("metadata", &shown_metadata(&review["metadata"]), why))
}

/// Formats metadata as JSON, with the fields in the order of Go's structs.
fn shown_metadata(metadata: &Value) -> String {
    let shown = |value: &Value, field: &str| match &value[field] {
        Value::Null => None,
        value => Some(go::json(value)),
    };
    shown_struct("meta.v1.ObjectMeta", |field| match &metadata[field] {
        Value::Array(entries) if field == "managedFields" => {
            let show = |entry| shown_struct("meta.v1.ManagedFieldsEntry", |field| shown(entry, field));
            let entries: Vec<String> = entries.iter().map(show).collect();
            Some(format!("[{}]", entries.join(",")))
        }
        _ => shown(metadata, field),
    })
}

/// Formats those fields of a Go struct for which `shown` returns a text. The two structs for which it is called have their protobuf
/// fields in the order of their Go fields.
fn shown_struct(name: &str, shown: impl Fn(&str) -> Option<String>) -> String {
    let fields: Vec<String> = go_struct::message(name)
        .into_iter()
        .flat_map(Message::fields)
        .filter_map(|field| Some(format!("{}:{}", go::json(&json!(field.name)), shown(field.name)?)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn refuse_invalid(call: &Call, errors: Vec<FieldError>) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    // kube-apiserver's error omits the kind.
    Err(ApiError::invalid(&call.served.resource.group, "", "", errors))
}

/// Returns the status of an access review: whether the user may perform the action that `spec` describes.
fn decide(call: &Call, user: &UserInfo, spec: &Value) -> Value {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let action = if resource.is_null() {
        Action::Path { verb: text(path, "verb"), path: text(path, "path") }
    } else {
        Action::Resource(ResourceAction {
            verb: text(resource, "verb"),
            group: text(resource, "group"),
            resource: text(resource, "resource"),
            subresource: text(resource, "subresource"),
            namespace: text(resource, "namespace"),
            name: text(resource, "name"),
        })
    };
    let decision = call.permissions.authorizer().decide(user, &action);
    let mut status = json!({"allowed": decision.is_allowed()});
    for (field, value) in [("reason", decision.reason()), ("evaluationError", selectors::unread(resource))] {
        if !value.is_empty() {
            status[field] = json!(value);
        }
    }
    status
}

/// Answers a `SelfSubjectRulesReview`: the rules of the user in a namespace.
pub(super) fn of_rules(call: &Call, review: &mut Value) -> Result<Value, ApiError> {
    let namespace = text(&review["spec"], "namespace").to_owned();
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    // The response contains neither the spec nor the owners of its fields.
    review["spec"] = json!({});
    metadata::of(review).remove("managedFields");
    let (rules, errors) = call.permissions.authorizer().rules_for(&call.user, &namespace);
    let of = |rule: &PolicyRule| rule.to_value();
    let resources: Vec<Value> = rules.iter().filter(|rule| !rule.resources.is_empty()).map(of).collect();
    let paths: Vec<Value> = rules.iter().filter(|rule| !rule.non_resource_urls.is_empty()).map(of).collect();
    let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    if !errors.is_empty() {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        status["evaluationError"] = json!(go::join_errors(&errors));
    }
    Ok(status)
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

fn info(user: &UserInfo) -> Value {
    let mut info = json!({"username": user.name, "uid": user.uid, "groups": user.groups});
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
