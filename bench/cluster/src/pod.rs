//! Files that an operator finds in a pod: the authority of the API server and a token.

use std::fs;

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bench_peer::Reply;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use serde_json::json;

use crate::server::Server;

/// Name of the operator's service account and role binding.
const NAME: &str = "bench-operator";

/// Creates a service account with all permissions, and writes its token and the server's authority to files with the names
/// that they have in a pod.
pub(crate) async fn mount(server: &Server) -> anyhow::Result<Reply> {
    let params = PostParams::default();
    let metadata = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
    let accounts = Api::<ServiceAccount>::namespaced(server.client(), "default");
    let account = ServiceAccount { metadata: metadata.clone(), ..ServiceAccount::default() };
    accounts.create(&params, &account).await?;
    let binding = ClusterRoleBinding {
        metadata,
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "ClusterRole".to_owned(),
            name: "cluster-admin".to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: NAME.to_owned(),
            namespace: Some("default".to_owned()),
            ..Subject::default()
        }]),
    };
    Api::<ClusterRoleBinding>::all(server.client()).create(&params, &binding).await?;
    let spec = TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let token = accounts.create_token_request(NAME, &params, &request).await?;
    let token = token.status.and_then(|status| status.token).context("a token is in the status")?;

    let kubeconfig = Kubeconfig::read_from(server.kubeconfig())?;
    let cluster = kubeconfig.clusters.into_iter().next().and_then(|named| named.cluster);
    let cluster = cluster.context("the kubeconfig names a cluster")?;
    let authority = cluster.certificate_authority_data.context("the cluster has an authority")?;
    let authority = BASE64_STANDARD.decode(authority)?;
    let secrets = server.files().join("serviceaccount");
    fs::create_dir(&secrets)?;
    fs::write(secrets.join("ca.crt"), authority)?;
    fs::write(secrets.join("token"), token)?;
    let host = cluster.server.context("the cluster has an address")?;
    Ok(Reply::figures([("host", json!(host)), ("secrets", json!(secrets.display().to_string()))]))
}
