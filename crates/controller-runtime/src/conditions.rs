//! Status conditions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Map, Value, json};

/// Sets a condition in `conditions`, matched by its type. Returns whether anything changed.
///
/// `last_transition_time` is the time of the last change of *status*: it is copied from the existing condition if the status
/// stays the same, so that setting an equal condition again changes nothing.
///
/// ```
/// # use controller_runtime::set_condition;
/// # use k8s_openapi::{apimachinery::pkg::apis::meta::v1::{Condition, Time}, jiff::Timestamp};
/// # fn ready(now: i64) -> Condition {
/// #     Condition {
/// #         type_: "Ready".into(), status: "True".into(), reason: "Done".into(), message: String::new(),
/// #         last_transition_time: Time(Timestamp::from_second(now).unwrap()), observed_generation: None,
/// #     }
/// # }
/// let mut conditions = Vec::new();
/// assert!(set_condition(&mut conditions, ready(1)));
/// assert!(!set_condition(&mut conditions, ready(2)), "still ready since 1");
/// ```
#[doc(alias = "SetStatusCondition")]
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition) -> bool {
    match conditions.iter_mut().find(|known| known.type_ == condition.type_) {
        Some(known) => {
            if known.status == condition.status {
                condition.last_transition_time = known.last_transition_time.clone();
            }
            let changed = *known != condition;
            *known = condition;
            changed
        }
        None => {
            conditions.push(condition);
            true
        }
    }
}

/// Schema of a list of conditions, for `#[schemars(schema_with = …)]`: at most one condition of each type, with the limits that kubebuilder
/// gives `[]metav1.Condition`. With `#[serde(default)]` the field is optional.
///
/// A kind with conditions in its status can do without the feature `schemars` of `k8s-openapi`, which nearly doubles the time to compile that crate.
///
/// ```
/// use controller_runtime::conditions_schema;
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
/// pub struct GuestbookStatus {
///     /// `Ready`: the page is served.
///     #[serde(default)]
///     #[schemars(schema_with = "conditions_schema")]
///     pub conditions: Vec<Condition>,
/// }
/// ```
///
/// `G` and `S` are the generator and the schema of `schemars`, on which this crate does not depend.
#[must_use]
pub fn conditions_schema<G, S: From<Map<String, Value>>>(_: &mut G) -> S {
    let condition = json!({
        "description": "State of one aspect of the object.",
        "type": "object",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "lastTransitionTime": {
                "description": "Time of the last change of the status.",
                "type": "string",
                "format": "date-time",
            },
            "message": {
                "description": "Details for people. May be empty.",
                "type": "string",
                "maxLength": 32_768,
            },
            "observedGeneration": {
                "description": "The metadata.generation of the object that the condition describes.",
                "type": "integer",
                "format": "int64",
                "minimum": 0,
            },
            "reason": {
                "description": "Reason for the last change of the status, for programs: a word in CamelCase.",
                "type": "string",
                "minLength": 1,
                "maxLength": 1024,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            },
            "status": {
                "description": "Whether the condition holds.",
                "type": "string",
                "enum": ["True", "False", "Unknown"],
            },
            "type": {
                "description": "Type of the condition: a word in CamelCase, such as Ready, or with a domain example.com/Ready.",
                "type": "string",
                "maxLength": 316,
                "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?\
                            (([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
            },
        },
    });
    let schema = [
        ("type", json!("array")),
        ("x-kubernetes-list-type", json!("map")),
        ("x-kubernetes-list-map-keys", json!(["type"])),
        ("items", condition),
    ];
    S::from(schema.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests {
    use kube::{
        Api, CustomResource, CustomResourceExt,
        api::{Patch, PatchParams, PostParams},
    };
    use kube_envtest::Environment;
    use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Page", namespaced, status = "PageStatus")]
    struct PageSpec {}

    #[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
    struct PageStatus {
        /// Conditions of the page.
        #[serde(default)]
        #[schemars(schema_with = "conditions_schema")]
        conditions: Vec<Condition>,
    }

    /// Type and format of each field of a condition, and the required fields.
    fn fields(schema: &Value) -> (Vec<(&str, &Value, &Value)>, &Value) {
        let fields = schema["items"]["properties"].as_object().expect("fields");
        let fields = fields.iter().map(|(name, field)| (name.as_str(), &field["type"], &field["format"]));
        (fields.collect(), &schema["items"]["required"])
    }

    #[test]
    fn conditions_have_the_fields_of_kubernetes() {
        let ours: Schema = conditions_schema(&mut SchemaGenerator::default());
        let inlined = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
        let genuine = inlined.into_generator().into_root_schema_for::<Vec<Condition>>();
        assert_eq!(fields(ours.as_value()), fields(genuine.as_value()));
        assert_eq!(fields(ours.as_value()).0.len(), 6);
    }

    #[test]
    fn the_field_has_its_own_description_and_is_optional() {
        let definition = json!(Page::crd());
        let status = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
        assert_eq!(status["properties"]["conditions"]["description"], "Conditions of the page.");
        assert_eq!(status["properties"]["conditions"]["x-kubernetes-list-map-keys"], json!(["type"]));
        assert_eq!(status["required"], Value::Null);
    }

    #[tokio::test(start_paused = true)]
    async fn the_api_server_checks_conditions() {
        let env = Environment::builder().crd::<Page>().start().await.expect("an API server");
        let pages = Api::<Page>::default_namespaced(env.client());
        pages.create(&PostParams::default(), &Page::new("a", PageSpec {})).await.expect("a page");
        let good = json!({
            "type": "Ready", "status": "True", "reason": "Applied", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
        });
        let set = async |conditions: Value| {
            let patch = Patch::Merge(json!({ "status": { "conditions": conditions } }));
            pages.patch_status("a", &PatchParams::default(), &patch).await.map_err(|error| error.to_string())
        };
        set(json!([good])).await.expect("conditions are stored");
        for (field, value, reason) in [
            ("type", json!("not a word"), "status.conditions[0].type: Invalid value"),
            ("status", json!("Yes"), "status.conditions[0].status: Unsupported value"),
            ("reason", json!(""), "status.conditions[0].reason: Invalid value"),
            ("reason", json!("two words"), "status.conditions[0].reason: Invalid value"),
            ("message", Value::Null, "status.conditions[0].message: Required value"),
            ("observedGeneration", json!(-1), "status.conditions[0].observedGeneration: Invalid value"),
        ] {
            let mut wrong = good.clone();
            let fields = wrong.as_object_mut().expect("it is an object");
            match value {
                Value::Null => drop(fields.remove(field)),
                value => drop(fields.insert(field.to_owned(), value)),
            }
            let refused = set(json!([wrong])).await.expect_err("it is refused");
            assert!(refused.contains(reason), "{refused}");
        }
        let refused = set(json!([good, good])).await.expect_err("there are two of a type");
        assert!(refused.contains("status.conditions[1]: Duplicate value"), "{refused}");
    }
}
