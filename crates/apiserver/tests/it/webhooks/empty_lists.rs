//! Empty lists of builtin objects, which are stored as null.

use std::sync::{Arc, Mutex};

use http::Method;
use serde_json::{Value, json};

use super::cluster::{Kind, client, configure, respond, send, start};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";

/// Observed with kube-apiserver v1.36.3: webhooks see the lists as the client sent them, and stored ones as null.
#[tokio::test(start_paused = true)]
async fn webhooks_see_an_empty_list_until_it_is_stored() {
    for kind in [Kind::Mutating, Kind::Validating] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let server = start(move |review| {
            let rules = |object: &str| review["request"][object]["rules"].clone();
            log.lock().unwrap().push((rules("oldObject"), rules("object")));
            let response = respond(&review, &json!({"allowed": true}));
            async { Ok(response) }
        });
        let rules = json!([{
            "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["roles"],
        }]);
        configure(&server, kind, &client(), &json!({ "rules": rules })).await;
        let one = format!("{ROLES}/r");
        let role = |version: &str| json!({"metadata": {"name": "r", "labels": {"v": version}}, "rules": []});
        let (empty, null) = (json!([]), Value::Null);
        for (method, path, body, expected) in [
            (Method::POST, ROLES, role("1"), (&null, &empty)),
            (Method::PUT, &*one, role("2"), (&null, &empty)),
            (Method::PATCH, &*one, json!({"metadata": {"labels": {"v": "3"}}}), (&null, &null)),
            (Method::PATCH, &*one, json!({"rules": []}), (&null, &empty)),
        ] {
            let (code, stored) = send(&server, method.clone(), path, &body).await;
            assert!(code < 300, "{stored}");
            assert_eq!(stored["rules"], null, "{method} {body}");
            let calls = std::mem::take(&mut *seen.lock().unwrap());
            let calls: Vec<_> = calls.iter().map(|(old, new)| (old, new)).collect();
            assert_eq!(calls, [expected], "{kind:?} {method} {body}");
        }
        // The last patch changed nothing.
        let (_, stored) = send(&server, Method::GET, &one, &Value::Null).await;
        let (_, same) = send(&server, Method::PUT, &one, &role("3")).await;
        assert_eq!(same["metadata"], stored["metadata"]);
    }
}
