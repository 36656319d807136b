//! Resources of a definition, one for each served version.

use std::cell::LazyCell;
use std::sync::Arc;

use kube_apimachinery::metadata::{self, Compared};
use kube_apimachinery::names::NameRule;
use kube_apimachinery::schema::Schema;
use kube_apimachinery::selector::{FieldRefusal, SelectableField};
use kube_apimachinery::table;
use serde_json::{Value, json};

use crate::kind::registry::{CustomKind, Registry, ServedKind};
use crate::kind::resource::{Generation, Resource, Rules, ScalePaths, SelectorForm, StorageKey};
use crate::kind::storage_version;
use crate::kind::webhook_conversion::{
    ConversionReviewVersion, EqualVersions, ObjectVersion, WebhookConversion,
};
use crate::kinds::{self, definition::condition};
use crate::store::TypeMeta;
use crate::webhook_client::ClientConfig;

/// Verbs of custom resources in the order of discovery.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// Returns the served resources of an established definition. Resources that `old` serves unchanged keep
/// their identity.
pub(super) fn resources(definition: &Value, old: &Registry) -> Vec<Arc<ServedKind>> {
    if condition(definition, "Established") != "True" || is_builtin(definition, old) {
        return Vec::new();
    }
    let versions = definition["spec"]["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let served = versions.iter().filter(|version| version["served"] == true);
    // Computed at most once for all versions, and not at all if no version changed.
    let webhook = LazyCell::new(|| webhook_conversion(definition).map(Arc::new));
    served.filter_map(|version| served_version(definition, version, old, &webhook)).collect()
}

/// Whether the definition has the name of a builtin resource.
pub(super) fn is_builtin(definition: &Value, registry: &Registry) -> bool {
    registry.is_builtin(
        &text(&definition["spec"]["group"]),
        &text(&definition["status"]["acceptedNames"]["plural"]),
    )
}

/// Returns the storage key of a definition's objects.
pub(super) fn storage(definition: &Value) -> StorageKey {
    StorageKey {
        group: text(&definition["spec"]["group"]),
        plural: text(&definition["status"]["acceptedNames"]["plural"]),
    }
}

/// Returns the resource in its storage version, whether it is served or not.
pub(super) fn of_storage(definition: &Value, registry: &Registry) -> Option<Arc<ServedKind>> {
    let version = stored_version(definition)?;
    let webhook = LazyCell::new(|| webhook_conversion(definition).map(Arc::new));
    served_version(definition, version, registry, &webhook)
}

fn served_version(
    definition: &Value,
    version: &Value,
    old: &Registry,
    webhook: &LazyCell<Option<Arc<WebhookConversion>>, impl FnOnce() -> Option<Arc<WebhookConversion>>>,
) -> Option<Arc<ServedKind>> {
    let group = text(&definition["spec"]["group"]);
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let custom = CustomKind {
        definition: metadata::text(definition, "name").to_owned(),
        uid: metadata::text(definition, "uid").to_owned(),
        generation: definition["metadata"]["generation"].as_i64().unwrap_or(0),
        storage_version: storage_version(definition),
        versions: versions.map(|version| format!("{group}/{}", text(&version["name"]))).collect(),
        accepted: definition["status"]["acceptedNames"].clone(),
        warning: deprecation(definition, version),
        schema: version["schema"]["openAPIV3Schema"].clone(),
    };
    // The unchanged resource is kept, so that its watches continue.
    if let Some(known) = old.get(&group, &text(&version["name"]), &text(&custom.accepted["plural"]))
        && known.custom.as_ref() == Some(&custom)
    {
        return Some(Arc::clone(known));
    }
    let storage = stored_version(definition);
    let resource = resource(definition, version, &custom.accepted);
    // The conversion by a webhook has parsed the schemas of all versions already.
    let parsed = Option::as_ref(webhook).and_then(|webhook| webhook.version(&resource.version));
    let parsed = parsed.map_or_else(|| schema(version), |version| Arc::clone(&version.schema));
    let served = ServedKind::new(Arc::new(resource), parsed, &kinds::custom::Custom, Some(custom));
    if let Some(webhook) = &**webhook {
        return Some(Arc::new(served.converted_by(Arc::clone(webhook))));
    }
    let served = served.with_equal_versions(equal_versions(definition).map(Arc::new));
    Some(Arc::new(match storage.filter(|storage| storage["name"] != version["name"]) {
        Some(storage) => served.stored_as(schema(storage)),
        None => served,
    }))
}

/// Returns the resource of a version with the accepted names.
fn resource(definition: &Value, version: &Value, names: &Value) -> Resource {
    let texts = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
    let (group, plural) = (text(&definition["spec"]["group"]), text(&names["plural"]));
    let subresources = &version["subresources"];
    let status = subresources.get("status").is_some_and(|status| !status.is_null());
    Resource {
        storage: StorageKey { group: group.clone(), plural: plural.clone() },
        storage_version_hash: storage_version::storage_version_hash(
            &group,
            &storage_version(definition),
            &text(&names["kind"]),
        ),
        group,
        version: text(&version["name"]),
        plural,
        singular: text(&names["singular"]),
        kind: text(&names["kind"]),
        list_kind: text(&names["listKind"]),
        namespaced: definition["spec"]["scope"] == "Namespaced",
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        verbs: VERBS.iter().map(|verb| (*verb).to_owned()).collect(),
        status,
        scale: subresources.get("scale").filter(|scale| scale.is_object()).map(scale_paths),
        other_subresources: Vec::new(),
        action: None,
        is_converted: false,
        columns: table::custom::columns(version),
        selectable: selectable(version),
        rules: Rules {
            generation: Generation::OutsideMetadata,
            unconditional_update: false,
            create_on_update: false,
            create_on_status_apply: false,
            returns_deleted_object: false,
            name: NameRule::Subdomain,
            any_finalizer: true,
            revalidated: 1,
            compared: Compared::Always,
            revalidated_in: &[],
            cached: true,
            custom: true,
            any_prefix: false,
            derived_name: None,
            field_refusal: FieldRefusal::Plain,
        },
    }
}

/// Returns the conversion webhook of a definition, if it has one.
fn webhook_conversion(definition: &Value) -> Option<WebhookConversion> {
    let conversion = &definition["spec"]["conversion"];
    if conversion["strategy"] != "Webhook" {
        return None;
    }
    Some(WebhookConversion {
        client: ClientConfig::read(&conversion["webhook"]["clientConfig"]),
        review: ConversionReviewVersion::first_supported(&conversion["webhook"]["conversionReviewVersions"]),
        storage: storage_version(definition),
        versions: object_versions(definition),
    })
}

/// Returns the versions of a definition if they differ in their schemas.
fn equal_versions(definition: &Value) -> Option<EqualVersions> {
    let versions = definition["spec"]["versions"].as_array()?;
    let (first, others) = versions.split_first()?;
    // With one schema for all versions, a write in any of them needs no other schema.
    let differ = others.iter().any(|version| version["schema"] != first["schema"]);
    differ.then(|| EqualVersions(object_versions(definition)))
}

/// Returns all versions of a definition, served or not.
fn object_versions(definition: &Value) -> Vec<ObjectVersion> {
    let spec = &definition["spec"];
    let (group, kind) = (text(&spec["group"]), text(&definition["status"]["acceptedNames"]["kind"]));
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let version = |version: &Value| {
        let name = text(&version["name"]);
        let kind = TypeMeta::new(&format!("{group}/{name}"), &kind);
        ObjectVersion { kind, name, schema: schema(version) }
    };
    versions.iter().map(version).collect()
}

/// Parses the schema of a version. The schema is not validated again, so that a definition from an older data file stays served.
fn schema(version: &Value) -> Arc<Schema> {
    match &version["schema"]["openAPIV3Schema"] {
        schema @ Value::Object(_) => Schema::of_crd(schema),
        _ => Schema::of_crd(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
    }
}

/// Returns the version in which objects are stored.
fn stored_version(definition: &Value) -> Option<&Value> {
    definition["spec"]["versions"].as_array()?.iter().find(|version| version["storage"] == true)
}

fn storage_version(definition: &Value) -> String {
    stored_version(definition).map(|version| text(&version["name"])).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the warning for clients of a deprecated version.
fn deprecation(definition: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(warning) = version["deprecationWarning"].as_str() {
        return Some(warning.to_owned());
    }
    let spec = &definition["spec"];
    let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
    let deprecated = format!("{group}/{} {kind} is deprecated", text(&version["name"]));
    let newer = replacement(spec, version);
    Some(match newer {
        Some(newer) => format!("{deprecated}; use {group}/{newer} {kind}"),
        None => deprecated,
    })
}

/// Returns the preferred version that is served and not deprecated, if it is newer than `version`.
fn replacement(spec: &Value, version: &Value) -> Option<String> {
    let name = version["name"].as_str().unwrap_or_default();
    let candidates = spec["versions"].as_array().into_iter().flatten();
    candidates
        .filter(|other| other["served"] == true && other["deprecated"] != true)
        .filter_map(|other| other["name"].as_str())
        .filter(|other| storage_version::version_order(other, name).is_lt())
        .min_by(|a, b| storage_version::version_order(a, b))
        .map(str::to_owned)
}

/// Splits `.spec.replicas` into keys.
fn path(text: &str) -> Vec<String> {
    text.split('.').filter(|key| !key.is_empty()).map(str::to_owned).collect()
}

fn scale_paths(scale: &Value) -> ScalePaths {
    let at = |field: &str| path(scale[field].as_str().unwrap_or_default());
    ScalePaths {
        spec_replicas: at("specReplicasPath"),
        status_replicas: at("statusReplicasPath"),
        selector: scale["labelSelectorPath"].as_str().filter(|text| !text.is_empty()).map(path),
        selector_form: SelectorForm::Selector,
    }
}

fn selectable(version: &Value) -> Vec<SelectableField> {
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    fields
        .filter_map(|field| field["jsonPath"].as_str())
        .map(|json_path| SelectableField {
            label: json_path.trim_start_matches('.').to_owned(),
            paths: vec![path(json_path)],
            absent: "",
        })
        .collect()
}
