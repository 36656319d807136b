//! Plugins `CertificateApproval`, `CertificateSigning` and `CertificateSubjectRestriction` for CertificateSigningRequests.
//!
//! - Approving and denying a request needs the permission `approve` for its signer; writing its certificate or its conditions
//!   needs the permission `sign`. Permission for `<domain>/*` covers all signers of a domain.
//! - Client certificates of the API server are not signed for the group `system:masters`, whose members may do everything.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube_apimachinery::go::quote;
use kube_apimachinery::rbac::{Action, ResourceAction};
use kube_apimachinery::status::ApiError;
use serde_json::Value;

use super::rules::WriteRule;
use super::{Attributes, Operation};
use crate::kinds::builtin::certificate_signing_request::pkcs10 as certificate_request;

const GROUP: &str = "certificates.k8s.io";
const PLURAL: &str = "certificatesigningrequests";
/// Signer of client certificates of the API server.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Group of users that may do everything.
const MASTERS: &str = "system:masters";

pub(super) struct CertificateSubjectRestriction;

impl WriteRule for CertificateSubjectRestriction {
    fn validate(&self, attributes: &Attributes<'_>, object: &Value) -> Result<(), ApiError> {
        let applies = attributes.operation == Operation::Create
            && attributes.is_of(GROUP, PLURAL)
            && object["spec"]["signerName"] == CLIENT_SIGNER;
        if !applies {
            return Ok(());
        }
        // Text that is not base64 becomes an empty request, which the parser refuses.
        let request =
            BASE64.decode(object["spec"]["request"].as_str().unwrap_or_default()).unwrap_or_default();
        match certificate_request::organizations(&request) {
            Err(why) => Err(attributes.forbidden(object, &format!("failed to parse CSR: {why}"))),
            Ok(groups) if groups.iter().any(|group| group == MASTERS) => {
                let why = format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
                Err(attributes.forbidden(object, &why))
            }
            Ok(_) => Ok(()),
        }
    }
}

/// Checks the permission to approve requests, or to sign them.
pub(super) struct SignerPermission {
    /// Subresource with the writes that are checked.
    subresource: &'static str,
    verb: &'static str,
}

/// Plugin `CertificateApproval`.
pub(super) const APPROVAL: SignerPermission = SignerPermission { subresource: "approval", verb: "approve" };

/// Plugin `CertificateSigning`.
pub(super) const SIGNING: SignerPermission = SignerPermission { subresource: "status", verb: "sign" };

impl SignerPermission {
    /// Returns the signer of a request, if the write needs a permission. The old state names it, because the write could change the name.
    fn signer<'a>(&self, attributes: &Attributes<'a>, object: &Value) -> Option<&'a str> {
        let applies = attributes.operation == Operation::Update
            && attributes.is_below(GROUP, PLURAL)
            && attributes.subresource == self.subresource;
        // Most writes are of other kinds, whose fields need no comparison.
        let old = attributes.old.filter(|_| applies)?;
        let signs = ["certificate", "conditions"]
            .iter()
            .any(|field| old["status"][*field] != object["status"][*field]);
        let needed = self.subresource != "status" || signs;
        needed.then(|| old["spec"]["signerName"].as_str().unwrap_or_default())
    }
}

impl WriteRule for SignerPermission {
    fn validate(&self, attributes: &Attributes<'_>, object: &Value) -> Result<(), ApiError> {
        let Some(signer) = self.signer(attributes, object) else {
            return Ok(());
        };
        let domain = signer.split('/').next().unwrap_or_default();
        let is_permitted = [signer, &format!("{domain}/*")].into_iter().any(|name| {
            let permission = ResourceAction {
                verb: self.verb,
                group: GROUP,
                resource: "signers",
                name,
                ..ResourceAction::default()
            };
            attributes.permissions.decide(attributes.user, &Action::Resource(permission)).is_allowed()
        });
        if is_permitted {
            return Ok(());
        }
        let why = format!("user not permitted to {} requests with signerName {}", self.verb, quote(signer));
        Err(attributes.forbidden(object, &why))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::admission::OperationOptions;
    use crate::request::query::{Query, WriteKind, WriteOptions};
    use crate::testing::{self, Running};
    use crate::user::UserInfo;

    /// Allows `jane` one verb for some signers.
    fn allow(server: &Running, verb: &str, signers: &str) {
        const ACCESS: &str = "/apis/rbac.authorization.k8s.io/v1";
        let name = format!("{verb}-{}", signers.replace(['/', '*'], "-"));
        let rule = json!({"apiGroups": [GROUP], "resources": ["signers"], "verbs": [verb], "resourceNames": [signers]});
        let role = json!({"metadata": {"name": name}, "rules": [rule]});
        testing::create(server, &format!("{ACCESS}/clusterroles"), &role).unwrap();
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
        });
        testing::create(server, &format!("{ACCESS}/clusterrolebindings"), &binding).unwrap();
    }

    fn request(status: &Value) -> Value {
        json!({"metadata": {"name": "x"}, "spec": {"signerName": "example.com/s"}, "status": status})
    }

    /// Returns the message with which an update by `jane` is refused.
    fn refusal(server: &Running, subresource: &str, status: &Value) -> Option<String> {
        let path = format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/x/{subresource}");
        let call = testing::call(server, &path);
        let options = WriteOptions::read(&Query::parse(""), WriteKind::Update).unwrap();
        let old = request(&json!({}));
        let jane = UserInfo::new("jane", "", [""; 0]);
        let attributes =
            Attributes { user: &jane, ..call.attributes(OperationOptions::Update(&options), Some(&old)) };
        let outcome =
            [APPROVAL, SIGNING].iter().try_for_each(|plugin| plugin.validate(&attributes, &request(status)));
        outcome.err().map(|error| error.message().to_owned())
    }

    #[tokio::test]
    async fn a_decision_needs_a_permission_for_the_signer_or_its_domain() {
        let approved = json!({"conditions": [{"type": "Approved"}]});
        let signed = json!({"certificate": "eA=="});
        let refused = |verb: &str| {
            Some(format!(
                "certificatesigningrequests.certificates.k8s.io \"x\" is forbidden: user not permitted to {verb} requests \
                 with signerName \"example.com/s\""
            ))
        };
        for (verb, subresource, status) in [("approve", "approval", &approved), ("sign", "status", &signed)] {
            for signers in ["example.com/s", "example.com/*"] {
                let server = testing::server();
                for (other, name) in [(verb, "example.com/other"), (verb, "other.com/*"), ("get", signers)] {
                    allow(&server, other, name);
                }
                assert_eq!(refusal(&server, subresource, status), refused(verb));
                allow(&server, verb, signers);
                assert_eq!(refusal(&server, subresource, status), None, "{verb} {signers}");
            }
        }
        let server = testing::server();
        assert_eq!(refusal(&server, "status", &json!({})), None, "nothing is signed");
    }
}
