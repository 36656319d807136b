//! Documents without resources: `api`, `apis`, `apis/apps`, `version`.

use serde_json::{Map, Value, json};

use super::{meta, paths, reference};
use crate::kind::resource::Resource;

/// A document with a single path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct General {
    /// Path of the document, as in the index.
    pub(super) path: String,
    operation_id: String,
    tag: String,
    /// Name of the response's schema.
    answer: String,
}

impl General {
    fn new(path: &str, operation_id: &str, tag: &str, answer: String) -> Self {
        let (path, operation_id, tag) = (path.to_owned(), operation_id.to_owned(), tag.to_owned());
        Self { path, operation_id, tag, answer }
    }

    /// Returns all general documents. Custom groups have none.
    pub(super) fn all<'a>(resources: impl Iterator<Item = &'a Resource>) -> Vec<Self> {
        let mut all = vec![
            Self::new("api", "getCoreAPIVersions", "core", meta("APIVersions")),
            Self::new("apis", "getAPIVersions", "apis", meta("APIGroupList")),
            Self::new(
                "version",
                "getCodeVersion",
                "version",
                "io.k8s.apimachinery.pkg.version.Info".to_owned(),
            ),
        ];
        let of_groups = resources.filter(|resource| !resource.rules.custom && !resource.group.is_empty());
        for resource in of_groups {
            let path = format!("apis/{}", resource.group);
            if !all.iter().any(|known| known.path == path) {
                let (name, tag) = paths::names_of_group(&resource.group);
                all.push(Self::new(&path, &format!("get{name}APIGroup"), &tag, meta("APIGroup")));
            }
        }
        all
    }

    /// Returns the `paths` of the document.
    pub(super) fn into_paths(self) -> Map<String, Value> {
        let mut types = vec!["application/json"];
        if self.path != "version" {
            types.extend(["application/vnd.kubernetes.protobuf", "application/yaml"]);
        }
        let answer = reference(&self.answer);
        let content: Map<String, Value> =
            types.iter().map(|media| ((*media).to_owned(), json!({ "schema": answer }))).collect();
        let operation = json!({
            "operationId": self.operation_id, "tags": [self.tag],
            "responses": {
                "200": { "description": "OK", "content": content },
                "401": { "description": "Unauthorized" },
            },
        });
        Map::from_iter([(format!("/{}/", self.path), json!({ "get": operation }))])
    }
}
