//! ComponentStatuses: the health of the components of a control plane. They are computed and not stored, so they have neither a UID nor a
//! revision, and cannot be watched.

use kube_apimachinery::status::ApiError;
use kube_apimachinery::table;
use serde_json::{Value, json};

use super::Call;
use super::reply::{self, Reply};
use crate::api::selection::Selection;
use crate::kind::resource::StorageKey;
use crate::request::accept::View;
use crate::request::query::ListOptions;
use crate::store::{Key, Stored};

/// Components with the ports of their health checks, or `None` for the store, which takes the place of etcd. The others are separate programs.
/// This server does not probe them, and shows them as kube-apiserver does where they do not run.
const COMPONENTS: [(&str, Option<u16>); 3] =
    [("scheduler", Some(10259)), ("controller-manager", Some(10257)), ("etcd-0", None)];

/// Whether this is the table of ComponentStatuses.
pub(crate) fn is_table(storage: &StorageKey) -> bool {
    storage.group.is_empty() && storage.plural == "componentstatuses"
}

/// Responds with one component, or a list of all.
pub(crate) fn read(call: &Call) -> Result<Reply, ApiError> {
    if !call.path.name.is_empty() {
        let known = COMPONENTS.into_iter().find(|(name, _)| *name == call.path.name);
        let (name, port) =
            known.ok_or_else(|| ApiError::not_found("", "componentstatus", &call.path.name))?;
        return reply::object(call, 200, complete(call, status(name, port)));
    }
    let options = ListOptions::of_list(&call.query)?;
    let selection = Selection::parse(&call.served, &call.path.name, &options)?;
    let selected = |name: &str, status: &Value| {
        let stored = Stored::new(0, call.served.document(status));
        selection.matches(&call.served, &Key::new("", name), &stored)
    };
    let all = COMPONENTS.into_iter().map(|(name, port)| (name, status(name, port)));
    let statuses: Vec<Value> =
        all.filter(|(name, status)| selected(name, status)).map(|(_, status)| status).collect();
    let shown = match call.accept.view {
        View::Object => json!({
            "kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": statuses,
        }),
        View::Metadata => return Err(super::list_reply::no_list(&call.served)),
        View::MetadataList => json!({
            "kind": "PartialObjectMetadataList", "apiVersion": call.accept.meta_api_version(), "metadata": {},
            "items": statuses.iter().map(|status| reply::partial_metadata(call.accept, status)).collect::<Vec<_>>(),
        }),
        View::Table => {
            let objects: Vec<Value> = statuses.into_iter().map(|status| complete(call, status)).collect();
            let mut table =
                table::table(&call.served.resource.columns, &objects, &json!({}), call.table_options()?);
            table["apiVersion"] = json!(call.accept.meta_api_version());
            table
        }
    };
    Ok(Reply::value(200, call.accept.encoding, &shown))
}

fn status(name: &str, port: Option<u16>) -> Value {
    let (healthy, message) = match port {
        None => ("True", "ok".to_owned()),
        Some(port) => {
            let address = format!("127.0.0.1:{port}");
            let why =
                format!("Get \"https://{address}/healthz\": dial tcp {address}: connect: connection refused");
            ("False", why)
        }
    };
    json!({
        "metadata": {"name": name},
        "conditions": [{"type": "Healthy", "status": healthy, "message": message}],
    })
}

/// Adds `apiVersion` and `kind` to a component.
fn complete(call: &Call, mut status: Value) -> Value {
    super::body_type::complete_type(&call.served, &mut status);
    status
}
