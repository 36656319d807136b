//! Token reviews.

use super::*;
use crate::webhook::registration::CONVERT;
use k8s_openapi::api::{authentication::v1::UserInfo, core::v1::ConfigMap};

/// Webhooks that know the token `jane's`, fail for `broken` and panic for `bomb`.
fn authenticating() -> Webhooks {
    let (webhooks, _) = webhooks();
    let authenticate = async |request: TokenRequest| match request.token() {
        "jane's" => {
            let user = UserInfo {
                username: Some("jane".into()),
                groups: Some(vec!["devs".into()]),
                ..UserInfo::default()
            };
            Ok(Some(Authenticated::from(user).for_audiences(request.audiences().to_vec())))
        }
        "broken" => Err("the directory is down".into()),
        "bomb" => panic!("it explodes"),
        _ => Ok(None),
    };
    webhooks.authentication("/authenticate", authenticate).expect("the path is free");
    webhooks
}

fn token_review(version: &str, token: &str) -> String {
    json!({ "apiVersion": format!("authentication.k8s.io/{version}"), "kind": "TokenReview", "spec": { "token": token, "audiences": ["api"] } })
        .to_string()
}

#[tokio::test]
async fn tokens_are_authenticated() {
    let webhooks = authenticating();
    for (version, token, expected) in [
        (
            "v1",
            "jane's",
            json!({ "authenticated": true, "user": { "username": "jane", "groups": ["devs"] }, "audiences": ["api"] }),
        ),
        ("v1beta1", "unknown", json!({ "authenticated": false })),
        ("v1", "broken", json!({ "authenticated": false, "error": "the directory is down" })),
        ("v1", "bomb", json!({ "authenticated": false, "error": "panic: it explodes [recovered]" })),
    ] {
        let (code, mut answer) = post(&webhooks, "/authenticate", token_review(version, token)).await;
        let status = answer["status"].take();
        if let Some(message) = status["error"].as_str().filter(|_| token == "bomb") {
            assert!(message.starts_with("panic: it explodes"), "{message}");
        } else {
            assert_eq!((code, status), (StatusCode::OK, expected), "{token}");
        }
        assert_eq!(answer["apiVersion"], format!("authentication.k8s.io/{version}"));
    }
}

#[tokio::test]
async fn a_request_that_is_no_token_review_is_refused_without_quoting_it() {
    let webhooks = authenticating();
    let large = format!(r#"{{"spec":{{"token":"{}"}}}}"#, "x".repeat(1 << 20));
    let refused = [
        (String::new(), 400, "request body is empty"),
        (
            r#"{"spec": {"token": ["secret"]}}"#.to_owned(),
            400,
            "request body is not a TokenReview: it cannot be decoded",
        ),
        (token_review("v1", ""), 400, "token is empty"),
        (
            token_review("v2", "secret"),
            400,
            r#"request body is a "TokenReview" of version "authentication.k8s.io/v2", expected a TokenReview of version authentication.k8s.io/v1 or v1beta1"#,
        ),
        (large, 413, "request entity is too large; limit is 1048576 bytes"),
    ];
    for (body, code, message) in refused {
        let (status, answer) = post(&webhooks, "/authenticate", body).await;
        assert_eq!(
            (status.as_u16(), &answer["status"]),
            (code, &json!({ "authenticated": false, "error": message }))
        );
    }
}

#[test]
fn authentication_has_a_path_of_its_own() {
    let webhooks = authenticating();
    let taken = |result: Result<(), RegisterError>| result.expect_err("it is taken").to_string();
    let rule = Rule::of::<ConfigMap>().path("/authenticate");
    assert_eq!(
        taken(webhooks.validating(rule, async |_| Ok(()))),
        "webhook path /authenticate is already used for authentication: choose another path, or use the same rule"
    );
    assert!(taken(webhooks.authentication(VALIDATE, async |_| Ok(None))).contains("for carts.example.com"));
    assert!(taken(webhooks.authentication(CONVERT, async |_| Ok(None))).contains("for conversions"));
    assert!(taken(webhooks.authentication("no-slash", async |_| Ok(None))).contains("is invalid"));
    let shown = format!("{:?}", TokenRequest::deserialize(json!({ "token": "secret" })).expect("it is one"));
    assert!(!shown.contains("secret"), "{shown}");
}
