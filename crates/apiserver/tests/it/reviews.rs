//! Reviews of tokens and access, and certificate signing requests.

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenRequest, TokenReview};
use k8s_openapi::api::authorization::v1::{
    LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use kube_apiserver_embedded::{ApiServer, AuthorizationMode, Options, Tokens, UserInfo};
use serde_json::{Value, json};

/// A certificate request of `O = developers, CN = jane`.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIZk1JR0dBZ0VBTUNReEV6QVJCZ05WQkFvTUNtUmxkbVZzYjNCbGNuTXhEVEFMQmdOVkJBTU1CR3BoYm1VdwpXVEFUQmdjcWhrak9QUUlCQmdncWhrak9QUU1CQndOQ0FBU0w1S0lKdjlYMFFja1d4enY3ckpTZDJidmpXUUErCkF3ZVlNY3BOY2JQNUVQUWMvUlpNMzQrZEtoc3B3Mmk1QUV0ZXBpaGtFbEVrOCtWQ2EvQTQyUUV2b0FBd0NnWUkKS29aSXpqMEVBd0lEU0FBd1JRSWhBS2diT0NoRlBaTC82V1BvU0VMQWhodnFuZnJLdzdOVlhmWXJ2byswREVCbgpBaUJIYlRGRzRuQXBlR1p2NTRTQ2orY2NXVERWZUd0am1tUG8xMUxUUjlHQWdRPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";

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
async fn every_user_can_read_its_own_identity() {
    let (_server, client) = start();
    let review =
        ask(&Api::<SelfSubjectReview>::all(client), json!({"metadata": {"name": "x"}})).await.unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    assert_eq!(user.username.as_deref(), Some("system:admin"));
    assert_eq!(user.groups.unwrap(), ["system:masters", "system:authenticated"]);
    assert_eq!(review.metadata.name, None);
}

#[tokio::test]
async fn a_token_review_names_the_user_of_a_valid_token() {
    let (_server, client) = start();
    let api: Api<TokenReview> = Api::all(client);
    let review = |token: &str| json!({"metadata": {}, "spec": {"token": token}});
    let known = ask(&api, review("secret")).await.unwrap().status.unwrap();
    assert_eq!(known.authenticated, Some(true));
    assert_eq!(known.user.unwrap().username.as_deref(), Some("jane"));
    assert_eq!(known.audiences.unwrap(), ["https://kubernetes.default.svc"]);
    let elsewhere = json!({"metadata": {}, "spec": {"token": "secret", "audiences": ["vault"]}});
    assert_eq!(ask(&api, elsewhere).await.unwrap().status.unwrap().authenticated, None);
    let unknown = ask(&api, review("guess")).await.unwrap().status.unwrap();
    assert_eq!(unknown.authenticated, None);
    assert!(unknown.error.is_some());
    assert!(matches!(ask(&api, review("")).await, Err(Error::Api(status)) if status.code == 400));
}

#[tokio::test(start_paused = true)]
async fn a_service_account_gets_tokens_with_the_requested_lifetime() {
    let (server, client) = start();
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    let account = ask(&accounts, json!({"metadata": {"name": "robot"}})).await.unwrap();
    let request = json!({"metadata": {}, "spec": {"audiences": [], "expirationSeconds": 1200}});
    let request: TokenRequest = serde_json::from_value(request).unwrap();
    let issued = accounts.create_token_request("robot", &PostParams::default(), &request).await.unwrap();
    let token = issued.status.unwrap().token.unwrap();

    // The token identifies its account over any transport.
    let bearer = format!("Bearer {token}");
    let who_am_i = async || {
        let review = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("authorization", &bearer)
            .header("content-type", "application/json")
            .body(http_body_util::Full::from("{}"));
        let answer = tower_service::Service::call(&mut server.service(), review.unwrap()).await.unwrap();
        let code = answer.status().as_u16();
        let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        (code, serde_json::from_slice::<Value>(&body).unwrap())
    };
    let (code, review) = who_am_i().await;
    assert_eq!(
        (code, &review["status"]["userInfo"]["username"]),
        (201, &json!("system:serviceaccount:default:robot"))
    );
    assert_eq!(review["status"]["userInfo"]["uid"], json!(account.metadata.uid));

    let reviews: Api<TokenReview> = Api::all(client);
    let review = json!({"metadata": {}, "spec": {"token": token}});
    let known = ask(&reviews, review.clone()).await.unwrap().status.unwrap();
    assert_eq!(known.authenticated, Some(true));
    tokio::time::sleep(std::time::Duration::from_secs(1200 + 61)).await;
    let expired = ask(&reviews, review).await.unwrap().status.unwrap();
    assert_eq!(expired.authenticated, None);
    assert_eq!(expired.error.as_deref(), Some("[invalid bearer token, service account token has expired]"));
    assert_eq!(who_am_i().await.0, 401);
}

#[tokio::test]
async fn the_metadata_of_a_review_is_empty() {
    let (_server, client) = start();
    let about = json!({"namespace": "default", "verb": "list", "resource": "pods"});
    let metadata =
        json!({"labels": {"a": "b"}, "generation": 3, "name": "x", "deletionGracePeriodSeconds": 5});
    let named = json!({"metadata": metadata, "spec": {"user": "bob", "resourceAttributes": about}});
    let Err(Error::Api(status)) = ask(&Api::<SubjectAccessReview>::all(client.clone()), named).await else {
        panic!("the review must be refused")
    };
    assert!(status.message.ends_with(": must be empty"), "{}", status.message);
    let ordered = r#"metadata: Invalid value: {"name":"x","generation":3,"labels":{"a":"b"},"managedFields":[{"manager":"#;
    assert!(status.message.contains(ordered), "in the order of Go's structs: {}", status.message);
    let selected = json!({"metadata": {}, "spec": {"resourceAttributes": {
        "verb": "list", "resource": "pods", "labelSelector": {"rawSelector": "a=b,"}, "fieldSelector": {},
    }}});
    let Err(Error::Api(status)) = ask(&Api::<SelfSubjectAccessReview>::all(client), selected).await else {
        panic!("the review must be refused")
    };
    assert!(status.message.contains("spec.resourceAttributes.fieldSelector.requirements: Required value"));
}

#[tokio::test]
async fn an_access_review_names_the_binding_that_grants_the_permission() {
    let (_server, client) = start();
    let binding = json!({
        "metadata": {"name": "bobs"}, "subjects": [{"kind": "User", "name": "bob"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:aggregate-to-view"},
    });
    ask(&Api::<RoleBinding>::default_namespaced(client.clone()), binding).await.unwrap();
    let about = json!({"namespace": "default", "verb": "list", "resource": "pods"});
    let why = "RBAC: allowed by RoleBinding \"bobs/default\" of ClusterRole \"system:aggregate-to-view\" to User \"bob\"";
    let spec = json!({"user": "bob", "resourceAttributes": about});
    let review = json!({"metadata": {}, "spec": spec});
    let all = ask(&Api::<SubjectAccessReview>::all(client.clone()), review.clone()).await.unwrap();
    let local =
        ask(&Api::<LocalSubjectAccessReview>::default_namespaced(client.clone()), review).await.unwrap();
    for status in [all.status, local.status].map(Option::unwrap) {
        assert_eq!((status.allowed, status.reason.as_deref()), (true, Some(why)));
    }
    let delete = json!({"user": "bob", "resourceAttributes": {"namespace": "default", "verb": "delete", "resource": "pods"}});
    let denied =
        ask(&Api::<SubjectAccessReview>::all(client.clone()), json!({"metadata": {}, "spec": delete})).await;
    let denied = denied.unwrap().status.unwrap();
    assert_eq!((denied.allowed, denied.reason), (false, None));
    let own = json!({"metadata": {}, "spec": {"resourceAttributes": about}});
    let own = ask(&Api::<SelfSubjectAccessReview>::all(client.clone()), own).await.unwrap().status.unwrap();
    assert_eq!((own.allowed, own.reason), (true, None), "the administrator needs no role");
    let rules = json!({"metadata": {}, "spec": {"namespace": "default"}});
    let rules = ask(&Api::<SelfSubjectRulesReview>::all(client), rules).await.unwrap().status.unwrap();
    assert_eq!(rules.resource_rules[0].verbs, ["*"]);
}

#[tokio::test]
async fn without_access_control_reviews_allow_everything_and_say_why() {
    let server = ApiServer::start(Options::default().authorization(AuthorizationMode::AlwaysAllow));
    let client = Client::new(server.service_for(UserInfo::new("bob", "", ["devs"])), "default");
    let about = json!({"namespace": "default", "verb": "list", "resource": "pods"});
    let spec = json!({"user": "bob", "resourceAttributes": about});
    let review = json!({"metadata": {}, "spec": spec});
    let all = ask(&Api::<SubjectAccessReview>::all(client.clone()), review.clone()).await.unwrap();
    let local =
        ask(&Api::<LocalSubjectAccessReview>::default_namespaced(client.clone()), review).await.unwrap();
    let own = json!({"metadata": {}, "spec": {"resourceAttributes": about}});
    let own = ask(&Api::<SelfSubjectAccessReview>::all(client.clone()), own).await.unwrap();
    for status in [all.status, local.status, own.status].map(Option::unwrap) {
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
async fn a_certificate_request_has_its_sender_and_is_approved_once() {
    let (_server, client) = start();
    let api: Api<CertificateSigningRequest> = Api::all(client);
    let request = json!({
        "metadata": {"name": "x"},
        "spec": {"request": REQUEST, "signerName": "example.com/s", "usages": ["client auth"], "username": "mallory"},
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
