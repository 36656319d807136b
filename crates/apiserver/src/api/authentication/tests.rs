use expect_test::{Expect, expect};

use super::*;
use crate::api::authorization::{AuthorizationMode, Authorizer, Permissions, RoleIndex, action_of};
use crate::request::info::RequestTarget;
use crate::testing;

/// A cluster without objects.
struct Nowhere;

impl ObjectLookup for Nowhere {
    fn find(&self, _: &str, _: &str, _: &str) -> Option<Found> {
        None
    }
}

#[expect(clippy::needless_pass_by_value, reason = "`expect!` returns values")]
fn check(request: &str, authorization: &str, expected: Expect) {
    let tokens = Tokens::new().with("t", UserInfo::new("jane", "u1", ["devs"]));
    let (method, path) = request.split_once(' ').unwrap();
    let request = http::Request::builder().method(method).uri(path);
    let request =
        if authorization.is_empty() { request } else { request.header(header::AUTHORIZATION, authorization) };
    let head = request.body(()).unwrap().into_parts().0;
    let authenticator = Authenticator::new(Some(tokens), 0);
    let user = authenticator.authenticate(&head, true, || Timestamp::UNIX_EPOCH, &Nowhere);
    let roles = Arc::new(RoleIndex::default());
    roles.restore(&testing::server());
    let authorizer = Arc::new(Authorizer::new(AuthorizationMode::AlwaysAllow, roles));
    let permissions = Permissions::new(&authorizer, None);
    let (target, verb) = (RequestTarget::of(&head), head.method.as_str().to_ascii_lowercase());
    let action = action_of(&target, &verb);
    expected.assert_eq(&match user.and_then(|user| permissions.authorize(&user, &action).map(|()| user)) {
        Ok(user) => format!("{} {}", user.name, user.groups.join("+")),
        Err(error) => format!("{} {}", error.code(), error.message()),
    });
}

#[tokio::test]
async fn a_token_determines_the_user() {
    let path = "GET /api/v1/pods";
    check(path, "Bearer t", expect!["jane devs+system:authenticated"]);
    check(path, " bEARER t and more", expect!["jane devs+system:authenticated"]);
    check(path, "Bearer u", expect!["401 Unauthorized"]);
    check("GET /healthz", "Bearer u", expect!["401 Unauthorized"]);
}

#[tokio::test]
async fn without_a_token_only_health_and_version_are_readable() {
    for public in ["/healthz", "/livez", "/readyz", "/version"] {
        check(&format!("GET {public}"), "", expect!["system:anonymous system:unauthenticated"]);
    }
    let path = "GET /api/v1/namespaces/a/pods";
    for nothing in ["", "Bearer", "Bearer ", "Bearer  t", "Basic dA=="] {
        let refused = expect![[
            r#"403 pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" in the namespace "a""#
        ]];
        check(path, nothing, refused);
    }
    check(
        "GET /livez/ping",
        "",
        expect![[r#"403 forbidden: User "system:anonymous" cannot get path "/livez/ping""#]],
    );
    check(
        "PUT /apis/apps/v1/namespaces/a/deployments/web/status",
        "",
        expect![[
            r#"403 deployments.apps "web" is forbidden: User "system:anonymous" cannot update resource "deployments/status" in API group "apps" in the namespace "a""#
        ]],
    );
    check(
        "GET /api/v1/nodes/n/proxy/metrics",
        "",
        expect![[
            r#"403 nodes "n" is forbidden: User "system:anonymous" cannot get resource "nodes/proxy" in API group "" at the cluster scope"#
        ]],
    );
    check(
        "DELETE /api/v1/namespaces/a",
        "",
        expect![[
            r#"403 namespaces "a" is forbidden: User "system:anonymous" cannot delete resource "namespaces" in API group "" in the namespace "a""#
        ]],
    );
}

#[test]
fn a_token_after_several_spaces_is_ignored_with_a_warning() {
    let warning = |tokens: Option<Tokens>, given: &str| {
        let request = http::Request::get("/api/v1/pods").header(header::AUTHORIZATION, given);
        Authenticator::new(tokens, 0).warning(&request.body(()).unwrap().into_parts().0)
    };
    let text =
        "the provided Authorization header contains extra space before the bearer token, and is ignored";
    for given in ["Bearer  t", "BEARER   t"] {
        assert_eq!(warning(Some(Tokens::new()), given), Some(text), "{given:?}");
        assert_eq!(warning(None, given), None, "{given:?}");
    }
    for given in ["Bearer t", "Bearer", "Bearer  ", "Basic  t", "Bearer t  u"] {
        assert_eq!(warning(Some(Tokens::new()), given), None, "{given:?}");
    }
}

#[test]
fn a_token_with_the_issuer_of_this_server_must_be_valid() {
    let claims = base64::Engine::encode(
        &base64::engine::general_purpose::URL_SAFE_NO_PAD,
        r#"{"iss":"https://kubernetes.default.svc"}"#,
    );
    for tokens in [None, Some(Tokens::new())] {
        for (token, refused) in [(format!("x.{claims}.y"), true), ("old".to_owned(), tokens.is_some())] {
            let request =
                http::Request::get("/api/v1/pods").header(header::AUTHORIZATION, format!("Bearer {token}"));
            let head = request.body(()).unwrap().into_parts().0;
            let authenticator = Authenticator::new(tokens.clone(), 0);
            let user = authenticator.authenticate(&head, true, || Timestamp::UNIX_EPOCH, &Nowhere);
            assert_eq!(
                user.map(|user| user.name.clone()).map_err(|error| error.code()).is_err(),
                refused,
                "{token}"
            );
        }
    }
}

#[test]
fn callers_in_the_process_and_all_clients_without_tokens_are_admin() {
    let head = http::Request::get("/api/v1/pods").body(()).unwrap().into_parts().0;
    for (tokens, is_remote) in [(Some(Tokens::new()), false), (None, false), (None, true)] {
        let user = Authenticator::new(tokens, 0)
            .authenticate(&head, is_remote, || Timestamp::UNIX_EPOCH, &Nowhere)
            .unwrap();
        assert_eq!(*user, UserInfo::admin());
        assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
    }
}

#[test]
fn a_caller_in_the_process_may_name_its_user() {
    let jane = UserInfo::new("jane", "", ["devs"]);
    let mut head = http::Request::get("/api/v1/pods").body(()).unwrap().into_parts().0;
    head.extensions.insert(Caller(Arc::new(jane.clone())));
    let tokens = Tokens::new().with("t", UserInfo::new("bob", "", ["ops"]));
    for (tokens, name) in [(None, "jane"), (Some(tokens), "bob")] {
        let authenticator = Authenticator::new(tokens.clone(), 0);
        let ask = |head: &Parts| {
            authenticator.authenticate(head, false, || Timestamp::UNIX_EPOCH, &Nowhere).unwrap().name.clone()
        };
        assert_eq!(ask(&head), "jane");
        let mut bearer = http::Request::get("/").header(header::AUTHORIZATION, "Bearer t").body(()).unwrap();
        bearer.extensions_mut().insert(Caller(Arc::new(jane.clone())));
        assert_eq!(ask(&bearer.into_parts().0), name, "a known token counts more");
    }
}
