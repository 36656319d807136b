//! Versions of a definition as kube-apiserver shows them in messages.

use std::collections::BTreeSet;

use kube_apimachinery::schema::Schema;
use serde_json::Value;

use super::super::text;

/// Bytes of shown versions after which a message leaves out the others.
const LENGTH: usize = 64 << 10;

/// Returns the versions as kube-apiserver shows them in messages: fields of `SHARED` that are not in `own` are null.
pub(super) fn shown(spec: &Value, own: &BTreeSet<&str>) -> String {
    if spec["versions"].is_null() {
        return "null".to_owned();
    }
    let text = |value: &Value, field: &str| Value::from(text(value, field)).to_string();
    let flag = |value: &Value, field: &str| value[field] == true;
    let list = |version: &Value, field: &str, one: &dyn Fn(&Value) -> String| match version[field].as_array()
    {
        Some(list) if own.contains(field) => {
            format!("[{}]", list.iter().map(one).collect::<Vec<_>>().join(","))
        }
        _ => "null".to_owned(),
    };
    let versions = super::super::list(spec, "versions").iter().map(|version| {
        let schema = match &version["schema"] {
            schema @ Value::Object(_) if own.contains("schema") => {
                format!("{{\"OpenAPIV3Schema\":{}}}", Schema::shown(&schema["openAPIV3Schema"]))
            }
            _ => "null".to_owned(),
        };
        let subresources = match &version["subresources"] {
            value @ Value::Object(_) if own.contains("subresources") => {
                let scale = &value["scale"];
                let scale = if scale.is_object() {
                    format!(
                        "{{\"SpecReplicasPath\":{},\"StatusReplicasPath\":{},\"LabelSelectorPath\":{}}}",
                        text(scale, "specReplicasPath"),
                        text(scale, "statusReplicasPath"),
                        scale["labelSelectorPath"]
                    )
                } else {
                    "null".to_owned()
                };
                let status = if value["status"].is_null() { "null" } else { "{}" };
                format!("{{\"Status\":{status},\"Scale\":{scale}}}")
            }
            _ => "null".to_owned(),
        };
        let columns = list(version, "additionalPrinterColumns", &|column| {
            format!(
                "{{\"Name\":{},\"Type\":{},\"Format\":{},\"Description\":{},\"Priority\":{},\"JSONPath\":{}}}",
                text(column, "name"),
                text(column, "type"),
                text(column, "format"),
                text(column, "description"),
                column["priority"].as_i64().unwrap_or(0),
                text(column, "jsonPath")
            )
        });
        let selectable = list(version, "selectableFields", &|field| {
            format!("{{\"JSONPath\":{}}}", text(field, "jsonPath"))
        });
        // Names and order are those of Go's internal struct, which has no JSON tags.
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{schema},\
             \"Subresources\":{subresources},\"AdditionalPrinterColumns\":{columns},\"SelectableFields\":{selectable}}}",
            text(version, "name"),
            flag(version, "served"),
            flag(version, "storage"),
            flag(version, "deprecated"),
            version["deprecationWarning"],
        )
    });
    let mut shown = String::from("[");
    for (index, version) in versions.enumerate() {
        if shown.len() > LENGTH {
            shown.push('…');
            break;
        }
        shown.push_str(if index > 0 { "," } else { "" });
        shown.push_str(&version);
    }
    shown + "]"
}
