//! What other modules are about to provide: the resources of builtin kinds, selectors, field ownership.

use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use crate::registry::{Registry, Served};
use crate::resource::{Generation, NameRule, Resource, Rules, StorageKey};
use crate::schema::{Definitions, Schema};

pub(crate) fn storage_version_hash(_group: &str, _version: &str, _kind: &str) -> String {
    String::new()
}

static SOURCES: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    crate::builtin::data::definitions()
        .iter()
        .filter_map(|(name, text)| Some(((*name).to_owned(), serde_json::from_str(text).ok()?)))
        .collect()
});

pub(crate) fn builtin_registry() -> Registry {
    let definitions = Arc::new(Definitions::new(&SOURCES));
    let row = |group: &str,
               version: &str,
               plural: &str,
               kind: &str,
               namespaced: bool,
               generation,
               name: &str,
               status| {
        let resource = Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            namespaced,
            short_names: Vec::new(),
            categories: Vec::new(),
            verbs: [
                "create",
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "update",
                "watch",
            ]
            .map(str::to_owned)
            .to_vec(),
            storage: StorageKey {
                group: group.to_owned(),
                plural: plural.to_owned(),
            },
            storage_version_hash: String::new(),
            status,
            scale: None,
            other_subresources: Vec::new(),
            columns: vec![crate::table::name_column()],
            selectable: Vec::new(),
            rules: Rules {
                generation,
                unconditional_update: group != "apiextensions.k8s.io",
                create_on_update: false,
                returns_deleted_object: false,
                name: if plural == "namespaces" {
                    NameRule::Label
                } else {
                    NameRule::Subdomain
                },
                custom: false,
            },
        };
        let schema = Schema::builtin(&definitions, name)?;
        Some(Served::new(Arc::new(resource), schema, None))
    };
    let rows = [
        row(
            "",
            "v1",
            "namespaces",
            "Namespace",
            false,
            Generation::Never,
            "io.k8s.api.core.v1.Namespace",
            true,
        ),
        row(
            "",
            "v1",
            "configmaps",
            "ConfigMap",
            true,
            Generation::Never,
            "io.k8s.api.core.v1.ConfigMap",
            false,
        ),
        row(
            "",
            "v1",
            "secrets",
            "Secret",
            true,
            Generation::Never,
            "io.k8s.api.core.v1.Secret",
            false,
        ),
        row(
            "",
            "v1",
            "events",
            "Event",
            true,
            Generation::Never,
            "io.k8s.api.core.v1.Event",
            false,
        ),
        row(
            "apps",
            "v1",
            "deployments",
            "Deployment",
            true,
            Generation::SpecOrAnnotations,
            "io.k8s.api.apps.v1.Deployment",
            true,
        ),
        row(
            "coordination.k8s.io",
            "v1",
            "leases",
            "Lease",
            true,
            Generation::Never,
            "io.k8s.api.coordination.v1.Lease",
            false,
        ),
        row(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            false,
            Generation::Spec,
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
            true,
        ),
    ];
    Registry::builtin(rows.into_iter().flatten().collect())
}

pub(crate) mod managed_fields {
    use serde_json::Value;

    use crate::schema::Schema;
    use crate::status::ApiError;

    pub(crate) struct Writer<'a> {
        pub(crate) manager: &'a str,
        pub(crate) subresource: &'a str,
        pub(crate) api_version: &'a str,
        pub(crate) now: &'a str,
    }

    pub(crate) fn track_update(_: &Schema, _: Option<&Value>, _: &mut Value, _: &Writer<'_>, _: &[&str]) {}

    pub(crate) fn apply(
        _: &Schema,
        live: Option<&Value>,
        applied: &Value,
        _: &Writer<'_>,
        _force: bool,
        reset: &[&str],
    ) -> Result<Value, ApiError> {
        let mut patch = applied.clone();
        if let Some(fields) = patch.as_object_mut() {
            fields.retain(|name, _| name == "metadata" || !reset.contains(&name.as_str()));
        }
        let mut object = live.cloned().unwrap_or_else(|| applied.clone());
        crate::patch::merge(&mut object, &patch);
        Ok(object)
    }
}

pub(crate) mod selector {
    use serde_json::Value;

    use crate::resource::Resource;
    use crate::status::ApiError;

    #[derive(Debug)]
    pub(crate) struct LabelSelector(Vec<(String, String)>);

    impl LabelSelector {
        pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
            pairs(text).map(Self)
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        pub(crate) fn matches(&self, object: &Value) -> bool {
            self.0
                .iter()
                .all(|(key, value)| object["metadata"]["labels"][key] == value.as_str())
        }
    }

    #[derive(Debug)]
    pub(crate) struct FieldSelector(Vec<(String, String)>);

    impl FieldSelector {
        pub(crate) fn parse(text: &str, _resource: &Resource) -> Result<Self, ApiError> {
            pairs(text).map(Self)
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        pub(crate) fn matches(&self, object: &Value) -> bool {
            self.0.iter().all(|(path, value)| {
                path.split('.')
                    .try_fold(object, |object, key| object.get(key))
                    .and_then(Value::as_str)
                    == Some(value)
            })
        }
    }

    fn pairs(text: &str) -> Result<Vec<(String, String)>, ApiError> {
        text.split(',')
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (key, value) = part
                    .split_once('=')
                    .ok_or_else(|| ApiError::bad_request("only k=v is supported"))?;
                Ok((key.to_owned(), value.trim_start_matches('=').to_owned()))
            })
            .collect()
    }

    pub(crate) fn label_selector_text(selector: &Value) -> String {
        let labels = selector["matchLabels"].as_object().into_iter().flatten();
        labels
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
            .join(",")
    }
}
