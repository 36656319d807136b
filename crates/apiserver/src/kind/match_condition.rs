//! Match conditions: expressions that restrict the requests for which a webhook is called.

use std::sync::LazyLock;

use kube_apimachinery::cel::{AUTHORIZER, Environment, ObjectType, Program, Type};

/// Variables of conditions. `namespaceObject` is null for webhooks.
static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    Environment::new(vec![
        ("object", Type::Dyn),
        ("oldObject", Type::Dyn),
        ("namespaceObject", Type::Dyn),
        ("request", Type::Object(&REQUEST)),
        ("authorizer", Type::Object(&AUTHORIZER)),
    ])
});

static REQUEST: ObjectType = ObjectType {
    name: "kubernetes.AdmissionRequest",
    field: |name| {
        Some(match name {
            "kind" | "requestKind" => Type::Object(&KIND),
            "resource" | "requestResource" => Type::Object(&RESOURCE),
            "subResource" | "requestSubResource" | "name" | "namespace" | "operation" => Type::String,
            "userInfo" => Type::Object(&USER_INFO),
            "dryRun" => Type::Bool,
            "options" => Type::Dyn,
            _ => return None,
        })
    },
};

static KIND: ObjectType = ObjectType {
    name: "kubernetes.GroupVersionKind",
    field: |name| ["group", "version", "kind"].contains(&name).then_some(Type::String),
};

static RESOURCE: ObjectType = ObjectType {
    name: "kubernetes.GroupVersionResource",
    field: |name| ["group", "version", "resource"].contains(&name).then_some(Type::String),
};

static USER_INFO: ObjectType = ObjectType {
    name: "kubernetes.UserInfo",
    field: |name| {
        let texts = || Type::List(Box::new(Type::String));
        Some(match name {
            "username" | "uid" => Type::String,
            "groups" => texts(),
            "extra" => Type::Map(Box::new(Type::String), Box::new(texts())),
            _ => return None,
        })
    },
};

/// Compiles a condition.
///
/// # Errors
/// kube-apiserver's text for an invalid expression.
pub(crate) fn compile(expression: &str) -> Result<Program, String> {
    Program::condition(expression, &ENVIRONMENT)
}
