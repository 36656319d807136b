//! Values as kube-apiserver shows its internal structs in messages: JSON with the names and the order of their Go fields, which has all fields
//! of a struct.

use std::sync::LazyLock;

use serde_json::Value;

use super::declared_order::escape;
use crate::data_file::Table;
use crate::go;

static STRUCTS: LazyLock<Table> =
    LazyLock::new(|| Table::new(include_str!("../../data/internal-structs.txt")));

/// Bound of nested structs and lists, which is deeper than any struct of the API.
const MAX_DEPTH: usize = 64;

/// Fields of a pod's spec that the internal struct has in its security context.
const OF_SECURITY_CONTEXT: [&str; 5] =
    ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

/// Returns an object of the API as compact JSON of the internal struct `name`, such as `core.PodSpec`. An unknown struct is shown with the names of
/// the API.
#[must_use]
pub fn internal_text(name: &str, value: &Value) -> String {
    let mut text = String::new();
    InternalValue::new(name, value, 0).write(None, &mut text);
    escape(text)
}

/// Returns the difference between two objects as kube-apiserver appends it to messages about immutable structs: a unified diff of their indented
/// JSON. It is empty if the objects are equal, or so large that the search for a diff would take too long.
#[must_use]
pub fn internal_diff(name: &str, old: &Value, new: &Value) -> String {
    let text = |value: &Value| {
        let mut text = String::new();
        InternalValue::new(name, value, 0).write(Some(0), &mut text);
        escape(text)
    };
    go::unified_diff(&text(old), &text(new)).unwrap_or_default()
}

/// A value with the order of its fields.
enum InternalValue<'a> {
    Text(String),
    List(Vec<InternalValue<'a>>),
    Object(Vec<(&'a str, InternalValue<'a>)>),
}

impl<'a> InternalValue<'a> {
    /// Converts a value of a type, as the data file names types.
    fn new(kind: &str, value: &'a Value, depth: usize) -> Self {
        if depth > MAX_DEPTH {
            return Self::Text("null".to_owned());
        }
        // A nil pointer is null, and any other is shown as the value behind it.
        if let Some(kind) = kind.strip_prefix('*') {
            return match value {
                Value::Null => Self::Text("null".to_owned()),
                value => Self::new(kind, value, depth),
            };
        }
        if let Some(kind) = kind.strip_prefix("[]") {
            return match value {
                Value::Array(items) => {
                    Self::List(items.iter().map(|item| Self::new(kind, item, depth + 1)).collect())
                }
                _ => Self::Text("null".to_owned()),
            };
        }
        if let Some(kind) = kind.strip_prefix("map:") {
            return match value {
                Value::Object(entries) => Self::Object(
                    entries
                        .iter()
                        .map(|(key, value)| (key.as_str(), Self::new(kind, value, depth + 1)))
                        .collect(),
                ),
                _ => Self::Text("null".to_owned()),
            };
        }
        match (kind, value) {
            // A field without a pointer has its zero value if the API's object lacks it.
            ("string", Value::Null) => Self::Text("\"\"".to_owned()),
            ("bool", Value::Null) => Self::Text("false".to_owned()),
            ("int" | "intorstring", Value::Null) => Self::Text("0".to_owned()),
            ("quantity", Value::Null) => Self::Text("\"0\"".to_owned()),
            _ => match STRUCTS.get(kind) {
                Some(fields) => Self::of_struct(kind, fields, value, depth),
                None => Self::Text(go::json(value)),
            },
        }
    }

    fn of_struct(kind: &str, fields: &'static str, value: &'a Value, depth: usize) -> Self {
        // Invalid entries have no fields: the file belongs to this crate, and a test parses all of them.
        let fields: Vec<Vec<&'static str>> = serde_json::from_str(fields).unwrap_or_default();
        let mut shown = Vec::with_capacity(fields.len());
        for field in fields {
            let &[name, path, kind_of_field, ref flags @ ..] = field.as_slice() else { continue };
            // The path leads to the place of the field in the API's object, which may be deeper.
            let content = path.split('.').fold(value, |value, name| &value[name]);
            let is_omitted =
                if kind_of_field.starts_with('*') { content.is_null() } else { is_empty(content) };
            if !flags.is_empty() && is_omitted {
                continue;
            }
            let converted = if kind == "core.PodSpec" && name == "SecurityContext" {
                Self::security_context(value, depth + 1)
            } else {
                Self::new(kind_of_field, content, depth + 1)
            };
            shown.push((name, converted));
        }
        Self::Object(shown)
    }

    /// Returns the security context of a pod with this spec, which every internal spec has.
    fn security_context(spec: &'a Value, depth: usize) -> Self {
        let of_context = Self::new("core.PodSecurityContext", &spec["securityContext"], depth);
        let Self::Object(mut fields) = of_context else { return of_context };
        // The struct begins with the fields that the API has in the spec.
        for ((_, shown), name) in fields.iter_mut().zip(OF_SECURITY_CONTEXT) {
            // `hostUsers` and `shareProcessNamespace` distinguish an absent value from false.
            let kind = if name.starts_with("hostU") || name.starts_with("share") { "*bool" } else { "bool" };
            *shown = Self::new(kind, &spec[name], depth);
        }
        Self::Object(fields)
    }

    /// Appends the JSON text, with one space for each level of `indent` if it is given.
    fn write(&self, indent: Option<usize>, text: &mut String) {
        let inner = indent.map(|level| level + 1);
        let line = |level: Option<usize>, text: &mut String| {
            if let Some(level) = level {
                text.push('\n');
                text.extend(std::iter::repeat_n(' ', level));
            }
        };
        match self {
            Self::Text(value) => text.push_str(value),
            Self::List(items) if items.is_empty() => text.push_str("[]"),
            Self::Object(fields) if fields.is_empty() => text.push_str("{}"),
            Self::List(items) => {
                text.push('[');
                for (index, item) in items.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { "," });
                    line(inner, text);
                    item.write(inner, text);
                }
                line(indent, text);
                text.push(']');
            }
            Self::Object(fields) => {
                text.push('{');
                for (index, (name, value)) in fields.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { "," });
                    line(inner, text);
                    text.push_str(&go::json(&Value::from(*name)));
                    text.push_str(if indent.is_some() { ": " } else { ":" });
                    value.write(inner, text);
                }
                line(indent, text);
                text.push('}');
            }
        }
    }
}

/// Whether Go omits a value with `omitempty`. It omits a pointer only if it is nil.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_struct_refers_to_structs_that_exist() {
        let basic = ["string", "bool", "int", "bytes", "quantity", "time", "intorstring", "json"];
        for (name, source) in STRUCTS.entries() {
            let fields: Vec<Vec<String>> = serde_json::from_str(source).unwrap();
            assert!(!fields.is_empty(), "{name}");
            for field in fields {
                let kind = field[2].trim_start_matches(['*', '[', ']']);
                let kind = kind.strip_prefix("map:").unwrap_or(kind).trim_start_matches(['*', '[', ']']);
                assert!(basic.contains(&kind) || STRUCTS.get(kind).is_some(), "{name}: {field:?}");
            }
        }
        assert!(STRUCTS.entries().is_sorted_by_key(|(name, _)| *name));
    }

    /// Message of kube-apiserver v1.36.3.
    #[test]
    fn a_struct_has_all_fields() {
        assert_eq!(
            internal_text(
                "storage.VolumeAttachmentSpec",
                &json!({"attacher": "<a>", "nodeName": "n", "source": {"persistentVolumeName": "p"}})
            ),
            r#"{"Attacher":"\u003ca\u003e","Source":{"PersistentVolumeName":"p","InlineVolumeSpec":null},"NodeName":"n"}"#
        );
        assert_eq!(
            internal_text("core.Toleration", &Value::Null),
            r#"{"Key":"","Operator":"","Value":"","Effect":"","TolerationSeconds":null}"#
        );
        assert_eq!(
            internal_text("metav1.LabelSelector", &json!({"matchLabels": {"b": "1"}})),
            r#"{"matchLabels":{"b":"1"}}"#
        );
    }

    /// Part of a message of kube-apiserver v1.36.3.
    #[test]
    fn metadata_of_a_template_is_part_of_its_struct() {
        let template = json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {"devices": {"requests": [{"name": "b", "exactly": {
                "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1,
            }}]}},
        });
        assert_eq!(
            internal_text("resource.ResourceClaimTemplateSpec", &template),
            r#"{"labels":{"a":"b"},"Spec":{"Devices":{"Requests":[{"Name":"b","Exactly":{"DeviceClassName":"c","Selectors":null,"AllocationMode":"ExactCount","Count":1,"AdminAccess":null,"Tolerations":null,"Capacity":null},"FirstAvailable":null}],"Constraints":null,"Config":null}}}"#
        );
    }

    /// Part of a message of kube-apiserver v1.36.3.
    #[test]
    fn only_nil_pointers_are_omitted() {
        assert_eq!(
            internal_text(
                "metav1.ManagedFieldsEntry",
                &json!({"fieldsV1": {}, "operation": "", "time": null})
            ),
            r#"{"fieldsV1":{}}"#
        );
    }

    #[test]
    fn a_pod_has_a_security_context_with_fields_of_its_spec() {
        let text = internal_text("core.PodSpec", &json!({"hostPID": true, "hostUsers": false}));
        let context = r#""SecurityContext":{"HostNetwork":false,"HostPID":true,"HostIPC":false,"ShareProcessNamespace":null,"HostUsers":false,"SELinuxOptions":null,"#;
        assert!(text.contains(context), "{text}");
    }

    /// Message of kube-apiserver v1.36.3.
    #[test]
    fn a_diff_has_three_lines_of_context() {
        let claim = |size: &str| json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
        assert_eq!(
            internal_diff("core.PersistentVolumeClaimSpec", &claim("1Gi"), &claim("2Gi")),
            "@@ -6,7 +6,7 @@\n  \"Resources\": {\n   \"Limits\": null,\n   \"Requests\": {\n-   \"storage\": \"1Gi\"\n+   \"storage\": \"2Gi\"\n   }\n  },\n  \"VolumeName\": \"\",\n"
        );
        assert_eq!(internal_diff("core.PersistentVolumeClaimSpec", &claim("1Gi"), &claim("1Gi")), "");
    }
}
