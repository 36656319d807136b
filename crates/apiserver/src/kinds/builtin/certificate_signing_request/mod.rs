//! CertificateSigningRequests: requester, approval and certificate. This server has no signer; a client issues the certificate.

pub(crate) mod pkcs10;
mod request_conditions;

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{list, put, within};
use crate::kind::WriteContext;
use crate::kind::resource::Resource;
use crate::user::UserInfo;

#[derive(Debug)]
pub(super) struct CertificateSigningRequest;

impl BuiltinKind for CertificateSigningRequest {
    fn prepare_create(&self, context: &WriteContext<'_>, request: &mut Value) {
        identify(context.user, request);
    }

    fn prepare_update(&self, _context: &WriteContext<'_>, old: &Value, new: &mut Value) {
        // Subresources write the status, and the spec never changes, so this endpoint writes metadata only.
        put(new, "spec", old["spec"].clone());
        put(new, "status", old["status"].clone());
    }

    fn prepare_subresource(
        &self,
        context: &WriteContext<'_>,
        subresource: &str,
        old: &Value,
        new: &mut Value,
    ) {
        prepare_subresource(subresource, &context.now_seconds(), old, new);
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        match old {
            None => pkcs10::validate(new),
            Some(old) => validate_update("", old, new),
        }
    }

    fn validate_subresource(&self, subresource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
        validate_update(subresource, old, new)
    }

    fn resets(&self, subresource: &str) -> Option<&'static [&'static str]> {
        match subresource {
            "" => Some(&["spec", "status"]),
            "status" => Some(&["spec", "status.conditions"]),
            "approval" => Some(&["spec", "status.certificate"]),
            _ => None,
        }
    }
}

/// Sets the requester to the authenticated user. Values from the client are replaced, so that a user cannot make a request for another user.
fn identify(user: &UserInfo, request: &mut Value) {
    let spec = &mut request["spec"];
    let text = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
    put(spec, "username", text(&user.name));
    put(spec, "uid", text(&user.uid));
    put(spec, "groups", if user.groups.is_empty() { Value::Null } else { json!(user.groups) });
    put(spec, "extra", if user.extra.is_empty() { Value::Null } else { json!(user.extra) });
}

/// Restores the parts that a subresource cannot write. `/approval` writes the conditions, `/status` the conditions and the certificate, and
/// both the metadata.
fn prepare_subresource(subresource: &str, now: &str, old: &Value, new: &mut Value) {
    if subresource == "approval" {
        let conditions = new.pointer_mut("/status/conditions").map(Value::take).unwrap_or_default();
        put(new, "spec", old["spec"].clone());
        put(new, "status", old["status"].clone());
        // Approvers decide about a request. Only its signer writes the certificate.
        within(new, "status", |status| put(status, "conditions", conditions));
    } else {
        request_conditions::DECISIONS.iter().for_each(|kind| keep_decision(kind, old, new));
    }
    date_conditions(now, old, new);
}

/// Restores the conditions of a decision, which `/status` cannot change. If their number changes, validation refuses the write.
fn keep_decision(kind: &str, old: &Value, new: &mut Value) {
    let is_decision = |condition: &Value| condition["type"] == kind;
    let before: Vec<&Value> = conditions(old).iter().filter(|condition| is_decision(condition)).collect();
    let Some(after) = written_conditions(new) else { return };
    let after: Vec<&mut Value> = after.iter_mut().filter(|condition| is_decision(condition)).collect();
    if before.len() == after.len() {
        after.into_iter().zip(before).for_each(|(condition, known)| condition.clone_from(known));
    }
}

/// Sets missing times of conditions: those of the last update and of the last transition.
fn date_conditions(now: &str, old: &Value, new: &mut Value) {
    let before = conditions(old).to_vec();
    let Some(conditions) = written_conditions(new) else { return };
    for condition in conditions {
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = json!(now);
        }
        // A condition whose status is unchanged keeps the time of its last transition.
        if condition["lastTransitionTime"].is_null() {
            let same =
                |known: &&Value| ["type", "status"].iter().all(|field| known[field] == condition[field]);
            let times = before.iter().filter(same).map(|known| &known["lastTransitionTime"]);
            condition["lastTransitionTime"] =
                times.into_iter().find(|time| !time.is_null()).cloned().unwrap_or_else(|| json!(now));
        }
    }
}

/// Checks the conditions, and the certificate if it changes.
fn validate_update(subresource: &str, old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = request_conditions::validate(conditions(old), conditions(new));
    let certificate_changes = pkcs10::certificate(old) != pkcs10::certificate(new);
    if certificate_changes {
        errors.extend(pkcs10::validate_certificate(old, new));
    }
    let by_approval = subresource == "approval";
    errors.extend(request_conditions::validate_decisions(conditions(old), conditions(new), by_approval));
    // A signer issues a certificate once. Its requester may already use it.
    if certificate_changes && subresource == "status" && !pkcs10::certificate(old).is_empty() {
        let why = "updates may not modify existing certificate content";
        errors.push(FieldError::forbidden("status.certificate", why));
    }
    errors
}

fn conditions(request: &Value) -> &[Value] {
    list(&request["status"], "conditions")
}

/// Returns the conditions of the new state, to change them; `None` if the field is absent.
fn written_conditions(new: &mut Value) -> Option<&mut Vec<Value>> {
    new.pointer_mut("/status/conditions")?.as_array_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observed with kube-apiserver v1.36.3.
    #[tokio::test]
    async fn fields_that_the_server_resets_have_no_owner() {
        const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
        let server = crate::testing::server();
        let entries = |labels: Value| {
            let request = json!({"metadata": {"name": "a", "labels": labels}, "spec": {
                "request": crate::testing::CERTIFICATE_REQUEST, "signerName": "example.com/a", "usages": ["client auth"],
            }});
            crate::testing::create(&server, REQUESTS, &request).unwrap();
            let path = format!("{REQUESTS}/a");
            let call = crate::testing::call(&server, &path);
            let stored = call.cluster.read(|store| store.get(call.served.storage(), &call.key()).cloned());
            let entries = call.served.value(&stored.unwrap())["metadata"]["managedFields"].take();
            crate::testing::delete(&server, &path).unwrap();
            entries
        };
        let owned = entries(json!({"a": "b"}));
        assert_eq!(owned[0]["fieldsV1"], json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}));
        assert_eq!(entries(Value::Null), Value::Null);
    }

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
        assert_eq!(errors("status", &["Failed"], &[]), 1);
    }

    #[test]
    fn a_certificate_is_issued_once() {
        let request = |certificate: &str| json!({"status": {"certificate": certificate}});
        let errors = |old: &str, new: &str| -> Vec<String> {
            let errors = validate_update("status", &request(old), &request(new));
            errors.iter().map(ToString::to_string).collect()
        };
        assert_eq!(errors("eA==", "eA=="), [""; 0]);
        // The old certificate is invalid, so the new one is not validated.
        let modified = "status.certificate: Forbidden: updates may not modify existing certificate content";
        assert_eq!(errors("eA==", "eQ=="), [modified]);
        assert_eq!(
            errors("", "eQ=="),
            [
                "status.certificate: Invalid value: \"<certificate data>\": must contain at least one CERTIFICATE PEM block"
            ]
        );
    }

    #[test]
    fn an_approval_writes_conditions_and_metadata() {
        let old = request(&[]);
        let mut new = request(&["Approved"]);
        new["metadata"] = json!({"labels": {"a": "b"}});
        new["spec"]["signerName"] = json!("other");
        new["status"]["certificate"] = json!("eA==");
        prepare_subresource("approval", "now", &old, &mut new);
        assert_eq!(new["spec"], old["spec"]);
        assert_eq!(new["metadata"], json!({"labels": {"a": "b"}}));
        assert_eq!(
            new["status"],
            json!({"conditions": [
                {"type": "Approved", "status": "True", "lastUpdateTime": "now", "lastTransitionTime": "now"},
            ]})
        );
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn a_write_without_conditions_stores_none() {
        let undecided = json!({"metadata": {}, "spec": {"signerName": "a/b"}, "status": {}});
        for subresource in ["approval", "status"] {
            let mut new = undecided.clone();
            prepare_subresource(subresource, "now", &undecided, &mut new);
            assert_eq!(new, undecided, "{subresource}");
        }
    }

    #[test]
    fn a_write_of_the_status_keeps_decisions() {
        let mut old = request(&["Approved", "Failed"]);
        old["status"]["conditions"][0]["reason"] = json!("Because");
        let mut new = request(&["Failed", "Approved"]);
        new["status"]["conditions"][1]["status"] = json!("False");
        prepare_subresource("status", "now", &old, &mut new);
        let kept = &new["status"]["conditions"][1];
        assert_eq!((&kept["status"], &kept["reason"]), (&json!("True"), &json!("Because")));
    }

    #[test]
    fn an_update_of_a_condition_is_dated() {
        let condition =
            |status: &str, message: &str| json!({"type": "Failed", "status": status, "message": message});
        let request = |condition: Value| json!({"status": {"conditions": [condition]}});
        let mut old = condition("True", "m");
        old["lastUpdateTime"] = json!("before");
        old["lastTransitionTime"] = json!("long before");
        for (new, transition) in [
            (condition("True", "m"), "long before"),
            (condition("True", "other"), "long before"),
            (condition("False", "m"), "now"),
        ] {
            let mut new = request(new);
            date_conditions("now", &request(old.clone()), &mut new);
            let dated = &new["status"]["conditions"][0];
            assert_eq!(
                (&dated["lastUpdateTime"], &dated["lastTransitionTime"]),
                (&json!("now"), &json!(transition))
            );
        }
    }

    #[test]
    fn the_requester_is_the_user_of_the_request() {
        let mut object = json!({"spec": {"username": "somebody else", "extra": {"a": ["b"]}}});
        identify(&UserInfo::new("jane", "", ["dev"]), &mut object);
        assert_eq!(object["spec"], json!({"username": "jane", "groups": ["dev", "system:authenticated"]}));
    }
}
