//! POSTs that do not store an object of their own kind: they act on another object and respond with the result.

mod access_review;
mod binding;
mod eviction;
mod selectors;
mod token;

use bytes::Bytes;
use kube_apimachinery::managed_fields::{self, Writer};
use kube_apimachinery::schema;
use kube_apimachinery::status::ApiError;
use serde_json::{Value, json};

use super::Call;
use super::reply::Reply;
use crate::api::admission::ObjectKind;
use crate::kind::resource::PostAction;
use crate::request::query::{FieldValidation, WriteOptions};

/// Executes the action of a POST to the call's path.
pub(crate) async fn run(call: &Call, action: PostAction, bytes: &Bytes) -> Result<Reply, ApiError> {
    match action {
        PostAction::Bind => binding::run(call, bytes).await,
        PostAction::Evict => eviction::run(call, bytes).await,
        PostAction::IssueToken => token::run(call, bytes).await,
        PostAction::ReviewToken => access_review::run(call, bytes, access_review::of_token).await,
        PostAction::ReviewSelf => access_review::run(call, bytes, access_review::of_self).await,
        PostAction::ReviewAccess => access_review::run(call, bytes, access_review::of_access).await,
        PostAction::ReviewOwnAccess => access_review::run(call, bytes, access_review::of_own_access).await,
        PostAction::ReviewRules => access_review::run(call, bytes, access_review::of_rules).await,
    }
}

/// Decodes the body as a kind other than that of the path, in one of its versions. The fields are those of the first version; the others
/// are assumed to have the same.
fn decode(
    call: &Call,
    bytes: &Bytes,
    kind: &str,
    versions: &[&str],
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    let mut refused = None;
    let schema = versions.first().and_then(|first| schema::schema_of_kind(first, kind));
    for (version, schema) in versions.iter().zip(schema.into_iter().cycle()) {
        match call.of_kind(version, kind, schema).decode(bytes, validation) {
            Ok(object) => return Ok(object),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| ApiError::internal(format!("no schema of {kind}"))))
}

/// Makes the manager of the request the owner of the fields of the body, which has another kind than the path.
fn track(call: &Call, object: &mut Value, kind: ObjectKind<'_>, options: &WriteOptions) {
    let api_version = kind.api_version();
    let Some(schema) = schema::schema_of_kind(&api_version, kind.kind) else {
        return;
    };
    let (now, manager) = (call.cluster.clock.now_seconds(), call.manager(options));
    let writer = Writer {
        manager: &manager,
        subresource: &call.path.subresource,
        api_version: &api_version,
        now: &now,
    };
    managed_fields::track_update(&schema, None, object, &writer, &[]);
}

/// Responds with the `Status` of a completed action.
fn done(call: &Call) -> Reply {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Reply::value(201, call.accept.encoding, &status)
}
