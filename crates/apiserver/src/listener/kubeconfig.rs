//! Kubeconfigs for listeners.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Builds a kubeconfig with one cluster, user and context, all named `embedded`; `authority` is a certificate
/// as PEM.
pub(super) fn write(url: &str, authority: Option<&str>, token: Option<&str>) -> String {
    // JSON strings are valid YAML.
    let url = serde_json::Value::from(url);
    let user = token.map_or_else(
        || "{}".to_owned(),
        |token| format!("{{\"token\": {}}}", serde_json::Value::from(token)),
    );
    let authority = authority
        .map(|pem| format!("    certificate-authority-data: {}\n", BASE64_STANDARD.encode(pem)))
        .unwrap_or_default();
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: embedded\n  cluster:\n    server: {url}\n{authority}\
         users:\n\
         - name: embedded\n  user: {user}\n\
         contexts:\n\
         - name: embedded\n  context:\n    cluster: embedded\n    user: embedded\n    namespace: default\n\
         current-context: embedded\n"
    )
}
