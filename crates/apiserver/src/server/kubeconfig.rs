//! The kubeconfig that leads to a listener.

/// A kubeconfig with one cluster, user and context, all called `embedded`. JSON-quoted strings are YAML too.
pub(super) fn write(url: &str) -> String {
    let url = serde_json::Value::from(url);
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: embedded\n  cluster:\n    server: {url}\n\
         users:\n\
         - name: embedded\n  user: {{}}\n\
         contexts:\n\
         - name: embedded\n  context:\n    cluster: embedded\n    user: embedded\n    namespace: default\n\
         current-context: embedded\n"
    )
}
