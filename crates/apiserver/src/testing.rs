//! Test helpers: a running server, requests that call verbs without HTTP, and objects.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use kube_apimachinery::status::ApiError;
use serde_json::{Value, json};

use crate::api::authorization::Permissions;
use crate::api::verbs::{Call, Context, create, delete, read};
use crate::api_server::{ApiServer, Options};
use crate::request::accept::Accept;
use crate::request::path::Route;
use crate::request::query::Query;
use crate::response::Warnings;
use crate::state::ClusterState;
use crate::user::UserInfo;

/// A server without controllers, for tests that call its parts directly.
pub(crate) struct Running {
    context: Arc<Context>,
    cluster: Arc<ClusterState>,
    /// Keeps the server open: its watches end with the last handle.
    _handle: ApiServer,
}

impl std::ops::Deref for Running {
    type Target = Arc<ClusterState>;

    fn deref(&self) -> &Arc<ClusterState> {
        &self.cluster
    }
}

/// Starts a server.
pub(crate) fn server() -> Running {
    let handle = ApiServer::start(Options::default());
    let (context, cluster) = handle.parts();
    Running { context, cluster, _handle: handle }
}

/// Builds a request to a path in the state after routing: its resource is known and no verb has run.
pub(crate) fn call(server: &Running, path: &str) -> Call {
    let Route::Resource(path) = Route::parse(path) else {
        panic!("{path} leads to no resource");
    };
    let registry = server.registry();
    let served = registry.get(&path.group, &path.version, &path.plural);
    Call {
        context: Arc::clone(&server.context),
        cluster: Arc::clone(&server.cluster),
        served: Arc::clone(served.unwrap_or_else(|| panic!("{} is not served", path.plural))),
        path,
        query: Query::parse(""),
        accept: Accept::JSON,
        content_type: None,
        user_agent: String::new(),
        user: Arc::new(UserInfo::admin()),
        permissions: Permissions::new(&server.context.authorizer, None),
        warnings: Warnings::default(),
        stale: None,
        conversions: Arc::default(),
    }
}

/// Returns the result of a verb, which must not wait.
pub(crate) fn now<T>(verb: impl Future<Output = T>) -> T {
    verb.now_or_never().expect("the plugins of every server do not wait")
}

/// Creates an object in a collection.
pub(crate) fn create(server: &Running, collection: &str, object: &Value) -> Result<(), ApiError> {
    now(create::run(&call(server, collection), &Bytes::from(object.to_string()))).map(drop)
}

/// Deletes an object.
pub(crate) fn delete(server: &Running, path: &str) -> Result<(), ApiError> {
    now(delete::run(&call(server, path), &Bytes::new())).map(drop)
}

/// Waits until a controller has removed an object.
pub(crate) async fn gone(server: &Running, path: &str) {
    let mut commits = server.commits();
    while now(read::get(&call(server, path))).is_ok() {
        commits.changed().await;
    }
}

/// Field `request` of a CertificateSigningRequest: `O = developers, CN = jane`.
pub(crate) const CERTIFICATE_REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIZk1JR0dBZ0VBTUNReEV6QVJCZ05WQkFvTUNtUmxkbVZzYjNCbGNuTXhEVEFMQmdOVkJBTU1CR3BoYm1VdwpXVEFUQmdjcWhrak9QUUlCQmdncWhrak9QUU1CQndOQ0FBU0w1S0lKdjlYMFFja1d4enY3ckpTZDJidmpXUUErCkF3ZVlNY3BOY2JQNUVQUWMvUlpNMzQrZEtoc3B3Mmk1QUV0ZXBpaGtFbEVrOCtWQ2EvQTQyUUV2b0FBd0NnWUkKS29aSXpqMEVBd0lEU0FBd1JRSWhBS2diT0NoRlBaTC82V1BvU0VMQWhodnFuZnJLdzdOVlhmWXJ2byswREVCbgpBaUJIYlRGRzRuQXBlR1p2NTRTQ2orY2NXVERWZUd0am1tUG8xMUxUUjlHQWdRPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";

/// Path of all definitions.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Path of the objects that [`definition`] defines.
pub(crate) const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// A CustomResourceDefinition for `things` without a schema, version `v1`.
pub(crate) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    })
}

/// A thing with the given finalizers.
pub(crate) fn thing(name: &str, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, "finalizers": finalizers},
    })
}
