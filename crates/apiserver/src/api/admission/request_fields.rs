//! Fields of a request in reviews of webhooks and in expressions: `AdmissionRequest`.

use kube_apimachinery::metadata;
use serde_json::{Value, json};

use super::Attributes;
use super::matching::operation_name;
use crate::kind::registry::ServedKind;

/// Returns the fields of a request except for the objects and the options. `served` has the kind of the objects, and `matched` is the
/// resource that the rule matched.
pub(super) fn of(
    attributes: &Attributes<'_>,
    served: &ServedKind,
    matched: &ServedKind,
    object: Option<&Value>,
) -> Value {
    let own = &attributes.served.resource;
    let requested = &attributes.kind;
    let requested = json!({"group": requested.group, "version": requested.version, "kind": requested.kind});
    // Other kinds, such as `Scale`, are equal for all versions of a resource.
    let kind = if attributes.is_of_resource() {
        let resource = &served.resource;
        json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
    } else {
        requested.clone()
    };
    let resource = |of: &ServedKind| {
        let of = &of.resource;
        json!({"group": of.group, "version": of.version, "resource": own.plural})
    };
    let user = attributes.user;
    let mut user_info = json!({});
    for (field, value) in [("username", &user.name), ("uid", &user.uid)] {
        if !value.is_empty() {
            user_info[field] = json!(value);
        }
    }
    if !user.groups.is_empty() {
        user_info["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        user_info["extra"] = json!(user.extra);
    }
    let mut request = json!({
        "kind": kind,
        "resource": resource(matched),
        "requestKind": requested,
        "requestResource": resource(attributes.served),
        "operation": operation_name(attributes.operation),
        "userInfo": user_info,
        "dryRun": attributes.dry_run,
    });
    // A generated name is only known from the object.
    let of_object = object.map_or("", |object| metadata::text(object, "name"));
    let name = if attributes.name.is_empty() { of_object } else { attributes.name };
    for (field, value) in [
        ("subResource", attributes.subresource),
        ("requestSubResource", attributes.subresource),
        ("name", name),
        ("namespace", attributes.namespace),
    ] {
        if !value.is_empty() {
            request[field] = json!(value);
        }
    }
    request
}
