//! CertificateSigningRequests: their requester, their approval and their certificate. There is no
//! signer.

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::pod_update::{keep_write, put};
use crate::user::UserInfo;

/// Conditions that only `/approval` sets.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];

/// Sets the requester to the user of the request, whatever the object says.
pub(crate) fn identify(user: &UserInfo, request: &mut Value) {
    let spec = &mut request["spec"];
    let text = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
    put(spec, "username", text(&user.name));
    put(spec, "uid", text(&user.uid));
    put(spec, "groups", if user.groups.is_empty() { Value::Null } else { json!(user.groups) });
    put(spec, "extra", if user.extra.is_empty() { Value::Null } else { json!(user.extra) });
}

/// Keeps the spec. `/approval` changes only conditions, `/status` conditions and the certificate.
pub(super) fn prepare_update(subresource: &str, now: &str, old: &Value, new: &mut Value) {
    match subresource {
        "" => {
            put(new, "spec", old["spec"].clone());
            put(new, "status", old["status"].clone());
        }
        "approval" => {
            let conditions = new["status"]["conditions"].take();
            let metadata = new["metadata"].take();
            new.clone_from(old);
            put(&mut new["status"], "conditions", conditions);
            keep_write(metadata, new);
            date_conditions(now, old, new);
        }
        _ => date_conditions(now, old, new),
    }
}

/// Sets the missing times of conditions: the last update and the last transition.
fn date_conditions(now: &str, old: &Value, new: &mut Value) {
    let before = list(old).to_vec();
    let Some(conditions) = new["status"]["conditions"].as_array_mut() else {
        return;
    };
    for condition in conditions {
        let same = before.iter().find(|known| known["type"] == condition["type"]);
        for (time, since) in [
            ("lastUpdateTime", same.filter(|known| known["message"] == condition["message"])),
            ("lastTransitionTime", same.filter(|known| known["status"] == condition["status"])),
        ] {
            if condition[time].is_null() {
                condition[time] = since.map_or_else(|| json!(now), |known| known[time].clone());
            }
        }
    }
}

/// Checks that a decision is only made by `/approval`, is never withdrawn, and is either approval or
/// denial.
pub(super) fn validate_update(subresource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
    const FIELD: &str = "status.conditions";
    let has = |object: &Value, kind: &str| list(object).iter().any(|condition| condition["type"] == kind);
    let mut errors = Vec::new();
    for kind in DECISIONS {
        let (before, after) = (has(old, kind), has(new, kind));
        if before && !after {
            let why = format!("updates may not remove a condition of type \"{kind}\"");
            errors.push(FieldError::forbidden(FIELD, &why));
        } else if after && !before && subresource != "approval" {
            let why = format!("updates may not add a condition of type \"{kind}\"");
            errors.push(FieldError::forbidden(FIELD, &why));
        }
    }
    if DECISIONS.iter().all(|kind| has(new, kind)) {
        let why = "Approved and Denied conditions are mutually exclusive";
        errors.push(FieldError::invalid(FIELD, "\"Denied\"", why));
    }
    errors
}

fn list(request: &Value) -> &[Value] {
    request["status"]["conditions"].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(conditions: &[&str]) -> Value {
        let conditions: Vec<Value> =
            conditions.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
        json!({"metadata": {}, "spec": {"signerName": "a/b"}, "status": {"conditions": conditions}})
    }

    #[test]
    fn only_an_approval_decides_and_only_once() {
        let errors = |subresource: &str, old: &[&str], new: &[&str]| {
            validate_update(subresource, &request(old), &request(new)).len()
        };
        assert_eq!(errors("approval", &[], &["Approved"]), 0);
        assert_eq!(errors("status", &[], &["Approved"]), 1);
        assert_eq!(errors("status", &["Approved"], &["Approved", "Failed"]), 0);
        assert_eq!(errors("approval", &["Approved"], &[]), 1);
        assert_eq!(errors("approval", &["Approved"], &["Approved", "Denied"]), 1);
    }

    #[test]
    fn an_approval_writes_conditions_alone() {
        let old = request(&[]);
        let mut new = request(&["Approved"]);
        new["spec"]["signerName"] = json!("other");
        new["status"]["certificate"] = json!("eA==");
        prepare_update("approval", "now", &old, &mut new);
        assert_eq!(new["spec"], old["spec"]);
        assert_eq!(
            new["status"],
            json!({"conditions": [
                {"type": "Approved", "status": "True", "lastUpdateTime": "now", "lastTransitionTime": "now"},
            ]})
        );
    }

    #[test]
    fn a_request_is_that_of_its_sender() {
        let mut object = json!({"spec": {"username": "somebody else", "extra": {"a": ["b"]}}});
        identify(&UserInfo::new("jane", "", ["dev"]), &mut object);
        assert_eq!(object["spec"], json!({"username": "jane", "groups": ["dev", "system:authenticated"]}));
    }
}
