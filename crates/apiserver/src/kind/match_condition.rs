//! Match conditions: expressions that restrict the requests for which a webhook is called. Policies have expressions with the same variables.

use std::sync::LazyLock;

use kube_apimachinery::cel::{AUTHORIZER, Environment, ObjectType, Program, Type};

/// Variables of conditions. `namespaceObject` is null for webhooks.
static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| with_authorizer(request_environment()));

/// Returns the variables of all expressions about a request.
pub(crate) fn request_environment() -> Environment {
    Environment::new(vec![
        ("object", Type::Dyn),
        ("oldObject", Type::Dyn),
        ("namespaceObject", Type::Object(&NAMESPACE)),
        ("request", Type::Object(&REQUEST)),
    ])
}

/// Adds the authorizer to the variables of an expression.
pub(crate) fn with_authorizer(environment: Environment) -> Environment {
    environment.with("authorizer", Type::Object(&AUTHORIZER))
}

static NAMESPACE: ObjectType = ObjectType {
    name: "kubernetes.Namespace",
    field: |name| {
        Some(Type::Object(match name {
            "metadata" => &NAMESPACE_METADATA,
            "spec" => &NAMESPACE_SPEC,
            "status" => &NAMESPACE_STATUS,
            _ => return None,
        }))
    },
};

/// Times are declared `dyn`: the type checker does not check them, and evaluation finds out their type.
static NAMESPACE_METADATA: ObjectType = ObjectType {
    name: "kubernetes.NamespaceMetadata",
    field: |name| {
        Some(match name {
            "name" | "generateName" | "namespace" | "UID" | "resourceVersion" => Type::String,
            "labels" | "annotations" => Type::Map(Box::new(Type::String), Box::new(Type::String)),
            "creationTimestamp" | "deletionTimestamp" => Type::Dyn,
            "deletionGracePeriodSeconds" | "generation" => Type::Int,
            "finalizers" => Type::List(Box::new(Type::String)),
            _ => return None,
        })
    },
};

static NAMESPACE_SPEC: ObjectType = ObjectType {
    name: "kubernetes.NamespaceSpec",
    field: |name| (name == "finalizers").then(|| Type::List(Box::new(Type::String))),
};

static NAMESPACE_STATUS: ObjectType = ObjectType {
    name: "kubernetes.NamespaceStatus",
    field: |name| match name {
        "conditions" => Some(Type::List(Box::new(Type::Object(&NAMESPACE_CONDITION)))),
        "phase" => Some(Type::String),
        _ => None,
    },
};

static NAMESPACE_CONDITION: ObjectType = ObjectType {
    name: "kubernetes.NamespaceCondition",
    field: |name| match name {
        "status" | "type" | "message" | "reason" => Some(Type::String),
        "lastTransitionTime" => Some(Type::Dyn),
        _ => None,
    },
};

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
