//! Who somebody is, what somebody may do, and who asks for a certificate.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenReview};
use k8s_openapi::api::authorization::v1::{
    LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use kube_apiserver_embedded::{ApiServer, Options, Tokens, UserInfo};
use serde_json::{Value, json};

fn start() -> (ApiServer, Client) {
    let tokens = Tokens::new().with("secret", UserInfo::new("jane", "u-1", ["dev"]));
    let server = ApiServer::start(Options::default().tokens(tokens));
    let client = Client::new(server.service(), "default");
    (server, client)
}

async fn ask<K>(api: &Api<K>, review: Value) -> Result<K, Error>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(review).unwrap()).await
}

#[tokio::test]
async fn everybody_is_told_who_they_are() {
    let (_server, client) = start();
    let review =
        ask(&Api::<SelfSubjectReview>::all(client), json!({"metadata": {"name": "x"}})).await.unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    assert_eq!(user.username.as_deref(), Some("system:admin"));
    assert_eq!(user.groups.unwrap(), ["system:masters", "system:authenticated"]);
    assert_eq!(review.metadata.name, None);
}

#[tokio::test]
async fn a_token_is_that_of_its_user_or_of_nobody() {
    let (_server, client) = start();
    let api: Api<TokenReview> = Api::all(client);
    let review = |token: &str| json!({"metadata": {}, "spec": {"token": token}});
    let known = ask(&api, review("secret")).await.unwrap().status.unwrap();
    assert_eq!(known.authenticated, Some(true));
    assert_eq!(known.user.unwrap().username.as_deref(), Some("jane"));
    let unknown = ask(&api, review("guess")).await.unwrap().status.unwrap();
    assert_eq!(unknown.authenticated, None);
    assert!(unknown.error.is_some());
    assert!(matches!(ask(&api, review("")).await, Err(Error::Api(status)) if status.code == 400));
}

#[tokio::test]
async fn everything_is_allowed_and_the_answer_says_why() {
    let (_server, client) = start();
    let about = json!({"namespace": "default", "verb": "list", "resource": "pods"});
    let spec = json!({"user": "bob", "resourceAttributes": about});
    let review = json!({"metadata": {}, "spec": spec});
    let all = ask(&Api::<SubjectAccessReview>::all(client.clone()), review.clone()).await.unwrap();
    let local =
        ask(&Api::<LocalSubjectAccessReview>::default_namespaced(client.clone()), review).await.unwrap();
    let own = json!({"metadata": {}, "spec": {"resourceAttributes": about}});
    let own = ask(&Api::<SelfSubjectAccessReview>::all(client.clone()), own).await.unwrap();
    for status in [all.status, local.status, own.status] {
        let status = status.unwrap();
        assert!(status.allowed);
        assert!(status.reason.unwrap().contains("access control is not enforced"));
    }
    let rules = json!({"metadata": {}, "spec": {"namespace": "default"}});
    let rules = ask(&Api::<SelfSubjectRulesReview>::all(client), rules).await.unwrap().status.unwrap();
    assert_eq!(rules.resource_rules[0].verbs, ["*"]);
}

#[tokio::test]
async fn a_review_without_a_subject_or_of_another_namespace_is_refused() {
    let (_server, client) = start();
    let about = json!({"namespace": "other", "verb": "list", "resource": "pods"});
    let nobody = json!({"metadata": {}, "spec": {"resourceAttributes": about}});
    let refused = ask(&Api::<SubjectAccessReview>::all(client.clone()), nobody).await;
    let Err(Error::Api(status)) = refused else { panic!("{refused:?}") };
    assert_eq!(
        status.message,
        ".authorization.k8s.io \"\" is invalid: spec.user: Invalid value: \"\": at least one of user or group must be \
         specified"
    );
    let elsewhere = json!({"metadata": {}, "spec": {"user": "bob", "resourceAttributes": about}});
    let refused = ask(&Api::<LocalSubjectAccessReview>::default_namespaced(client), elsewhere).await;
    assert!(matches!(refused, Err(Error::Api(status)) if status.code == 422));
}

#[tokio::test]
async fn a_certificate_is_asked_for_by_its_sender_and_approved_once() {
    let (_server, client) = start();
    let api: Api<CertificateSigningRequest> = Api::all(client);
    let request = json!({
        "metadata": {"name": "x"},
        "spec": {"request": "eA==", "signerName": "example.com/s", "usages": ["client auth"], "username": "mallory"},
    });
    let created = ask(&api, request).await.unwrap();
    assert_eq!(created.spec.username.as_deref(), Some("system:admin"));
    let decide = |kind: &str| {
        let condition = json!({"type": kind, "status": "True", "reason": "r", "message": "m"});
        Patch::Merge(json!({"spec": {"signerName": "other/s"}, "status": {"conditions": [condition]}}))
    };
    let params = PatchParams::default();
    assert!(matches!(
        api.patch_status("x", &params, &decide("Approved")).await,
        Err(Error::Api(status)) if status.message.contains("updates may not add a condition of type \"Approved\"")
    ));
    let approved = api.patch_subresource("approval", "x", &params, &decide("Approved")).await.unwrap();
    assert_eq!(approved.spec.signer_name, "example.com/s");
    let condition = &approved.status.unwrap().conditions.unwrap()[0];
    assert!(condition.last_transition_time.is_some() && condition.last_update_time.is_some());
    assert!(api.patch_subresource("approval", "x", &params, &decide("Denied")).await.is_err());
}
