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

/// Components, and whether they are part of this server. The store takes the place of etcd. The others are separate programs, which this
/// server does not probe.
const COMPONENTS: [(&str, bool); 3] = [("scheduler", false), ("controller-manager", false), ("etcd-0", true)];

/// Whether this is the table of ComponentStatuses.
pub(crate) fn is_table(storage: &StorageKey) -> bool {
    storage.group.is_empty() && storage.plural == "componentstatuses"
}

/// Responds with one component, or a list of all.
pub(crate) fn read(call: &Call) -> Result<Reply, ApiError> {
    if !call.path.name.is_empty() {
        let known = COMPONENTS.into_iter().find(|(name, _)| *name == call.path.name);
        let (name, here) =
            known.ok_or_else(|| ApiError::not_found("", "componentstatus", &call.path.name))?;
        return reply::object(call, 200, complete(call, status(name, here)));
    }
    let options = ListOptions::of_list(&call.query)?;
    let selection = Selection::parse(&call.served, &call.path.name, &options)?;
    let selected = |name: &str, status: &Value| {
        let stored = Stored::new(0, call.served.document(status));
        selection.matches(&call.served, &Key::new("", name), &stored)
    };
    let all = COMPONENTS.into_iter().map(|(name, here)| (name, status(name, here)));
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

fn status(name: &str, here: bool) -> Value {
    let (healthy, message) = if here { ("True", "ok") } else { ("False", "not probed by this server") };
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
