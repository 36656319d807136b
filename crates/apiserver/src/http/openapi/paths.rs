//! Paths and their operations, as kube-apiserver describes them.

use serde_json::{Map, Value, json};

use super::{meta, reference, schemas};
use crate::http::discovery;
use crate::kind::resource::{Resource, Subresource};

/// Query parameters with values other than strings.
const TYPED: [(&str, &str); 14] = [
    ("allowWatchBookmarks", "boolean"),
    ("force", "boolean"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("ports", "integer"),
    ("sendInitialEvents", "boolean"),
    ("stderr", "boolean"),
    ("stdin", "boolean"),
    ("stdout", "boolean"),
    ("timeoutSeconds", "integer"),
    ("tty", "boolean"),
    ("watch", "boolean"),
];
/// Query parameters of lists and watches.
const LIST: [&str; 11] = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];
/// Query parameters of deletions.
const DELETE: [&str; 5] = [
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];
/// Methods that open a stream to a pod.
const STREAM_METHODS: [&str; 2] = ["get", "post"];
/// Methods that are proxied.
const PROXY: [&str; 7] = ["delete", "get", "head", "options", "patch", "post", "put"];
/// Query parameters of creates, updates and patches.
const WRITE: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];

/// Describes `/apis/<group>/<version>/`.
pub(super) fn of_group_version(resource: &Resource) -> Value {
    let api = Api::of(resource);
    json!({ "get": {
        "operationId": format!("get{}APIResources", api.name),
        "tags": [api.tag],
        "responses": responses(&api, &[200], &reference(&meta("APIResourceList"))),
    }})
}

/// Adds the paths of a resource; `schema` is the name of its schema.
pub(super) fn of_resource(resource: &Resource, schema: &str, paths: &mut Map<String, Value>) {
    let builder = OperationBuilder { resource, schema, api: Api::of(resource) };
    let prefix = if resource.group.is_empty() { "/api" } else { "/apis" };
    let root = format!("{prefix}/{}", resource.api_version());
    let plural = &resource.plural;
    let scoped = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    if resource.namespaced && resource.allows("list") {
        let list = builder.list("list", "ForAllNamespaces", &reference(&format!("{schema}List")));
        builder.add(paths, format!("{root}/{plural}"), vec![("get", list)]);
    }
    let collection = format!("{root}{scoped}/{plural}");
    builder.add(paths, collection.clone(), builder.collection());
    builder.add(paths, format!("{collection}/{{name}}"), builder.object());
    for subresource in discovery::subresources(resource) {
        let path = format!("{collection}/{{name}}/{}", subresource.name);
        if subresource.connects {
            builder.connections(paths, path, &subresource);
        } else {
            builder.add(paths, path, builder.subresource(&subresource));
        }
    }
    // The deprecated `watch/` paths exist only for builtin kinds.
    if !resource.rules.custom && resource.allows("watch") {
        let event = reference(&meta("WatchEvent"));
        if resource.namespaced {
            let watch = builder.list("watch", "ListForAllNamespaces", &event);
            builder.add(paths, format!("{root}/watch/{plural}"), vec![("get", watch)]);
        }
        let path = format!("{root}/watch{scoped}/{plural}");
        let watch = builder.list("watch", "List", &event);
        builder.add(paths, path.clone(), vec![("get", watch)]);
        let watch = builder.list("watch", "", &event);
        builder.add(paths, format!("{path}/{{name}}"), vec![("get", watch)]);
    }
}

/// Name parts of the operations of a group version: `AppsV1` for ids and `apps_v1` for tags.
struct Api {
    name: String,
    tag: String,
    custom: bool,
}

impl Api {
    fn of(resource: &Resource) -> Self {
        let (name, tag) = names_of_group(&resource.group);
        let version = &resource.version;
        Self {
            name: format!("{name}{}", upper_camel_case(version)),
            tag: format!("{tag}_{}", lower_camel_case(version)),
            custom: resource.rules.custom,
        }
    }
}

/// Returns the name parts of a group: `Apps` for ids and `apps` for tags.
pub(super) fn names_of_group(group: &str) -> (String, String) {
    let group = if group.is_empty() { "core" } else { group.strip_suffix(".k8s.io").unwrap_or(group) };
    (upper_camel_case(group), lower_camel_case(group))
}

/// Like [`lower_camel_case`], but also capitalizes the first letter.
fn upper_camel_case(text: &str) -> String {
    let name = lower_camel_case(text);
    let mut characters = name.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

/// Removes characters that are invalid in a name, and capitalizes the letter after each.
fn lower_camel_case(text: &str) -> String {
    let mut capital = false;
    let mut name = String::new();
    for (index, character) in text.chars().enumerate() {
        if character.is_alphabetic() || character == '_' || (index > 0 && character.is_numeric()) {
            if std::mem::take(&mut capital) {
                name.extend(character.to_uppercase());
            } else {
                name.push(character);
            }
        } else {
            capital = true;
        }
    }
    name
}

/// Builder of the operations of one resource.
struct OperationBuilder<'a> {
    resource: &'a Resource,
    schema: &'a str,
    api: Api,
}

/// An operation. Its parameters are not divided yet into its own and those of its path.
struct PathOperation {
    value: Value,
    parameters: Vec<&'static str>,
}

impl OperationBuilder<'_> {
    /// Adds a path. Parameters that all its operations have are listed at the path.
    fn add(
        &self,
        paths: &mut Map<String, Value>,
        path: String,
        mut operations: Vec<(&'static str, PathOperation)>,
    ) {
        if operations.is_empty() {
            return;
        }
        let mut shared: Vec<&'static str> = match operations.as_slice() {
            [(_, first), rest @ ..] => first
                .parameters
                .iter()
                .copied()
                .filter(|name| rest.iter().all(|(_, other)| other.parameters.contains(name)))
                .collect(),
            [] => Vec::new(),
        };
        let mut item = Map::new();
        for (method, operation) in &mut operations {
            operation.parameters.retain(|name| !shared.contains(name));
            operation.parameters.sort_unstable();
            if !operation.parameters.is_empty() {
                operation.value["parameters"] = operation.parameters.iter().map(|name| query(name)).collect();
            }
            item.insert((*method).to_owned(), operation.value.take());
        }
        shared.push("pretty");
        let mut parameters: Vec<(&str, Value)> = shared.iter().map(|name| (*name, query(name))).collect();
        for name in ["name", "namespace"] {
            if path.contains(&format!("{{{name}}}")) {
                parameters.push((name, in_path_parameter(name)));
            }
        }
        parameters.sort_by_key(|(name, _)| *name);
        let parameters = parameters.into_iter().map(|(_, parameter)| parameter);
        item.insert("parameters".to_owned(), parameters.collect());
        paths.insert(path, Value::Object(item));
    }

    fn collection(&self) -> Vec<(&'static str, PathOperation)> {
        let mut operations = Vec::new();
        let object = reference(self.schema);
        if self.resource.allows("list") {
            let list = self.list("list", "", &reference(&format!("{}List", self.schema)));
            operations.push(("get", list));
        }
        if self.resource.allows("create") {
            operations.extend(self.of_verb("create", "", &object));
        }
        if self.resource.allows("deletecollection") {
            let status = reference(&meta("Status"));
            // For custom kinds, kube-apiserver documents only the parameters of a list, and no body.
            let mut parameters: Vec<&'static str> = LIST.to_vec();
            if !self.api.custom {
                parameters.retain(|name| !matches!(*name, "allowWatchBookmarks" | "watch"));
                parameters.extend(DELETE);
            }
            let mut delete = self.operation("delete", "deletecollection", "", &[200], &status, &parameters);
            if !self.api.custom {
                Self::delete_options(&mut delete);
            }
            operations.push(("delete", delete));
        }
        operations
    }

    fn object(&self) -> Vec<(&'static str, PathOperation)> {
        let object = reference(self.schema);
        let mut operations = Vec::new();
        if self.resource.allows("delete") {
            let deleted = if self.resource.rules.returns_deleted_object {
                object.clone()
            } else {
                reference(&meta("Status"))
            };
            let mut delete = self.operation("delete", "delete", "", &[200, 202], &deleted, &DELETE);
            Self::delete_options(&mut delete);
            operations.push(("delete", delete));
        }
        for verb in ["get", "patch", "update"] {
            if self.resource.allows(verb) {
                operations.extend(self.of_verb(verb, "", &object));
            }
        }
        operations
    }

    fn subresource(&self, subresource: &Subresource) -> Vec<(&'static str, PathOperation)> {
        let named = subresource
            .group_version
            .clone()
            .or_else(|| (subresource.kind != self.resource.kind).then(|| self.resource.group_version()))
            .and_then(|(group, version)| schemas::of_kind(&group, &version, &subresource.kind));
        let schema = named.as_deref().unwrap_or(self.schema);
        let name = upper_camel_case(&subresource.name);
        let mut operations: Vec<(&'static str, PathOperation)> = subresource
            .verbs
            .iter()
            .filter_map(|verb| self.of_verb(verb, &name, &reference(schema)))
            .collect();
        // `x-kubernetes-group-version-kind` is the subresource's kind for builtin resources, and the resource's own
        // kind for custom ones.
        if subresource.kind != self.resource.kind && !self.api.custom {
            let own = || self.resource.group_version();
            let (group, version) = subresource.group_version.clone().unwrap_or_else(own);
            for (_, operation) in &mut operations {
                operation.value["x-kubernetes-group-version-kind"] =
                    json!({ "group": group, "version": version, "kind": subresource.kind });
            }
        }
        operations
    }

    /// Adds the paths of a subresource that opens connections. A proxy has paths below its own.
    fn connections(&self, paths: &mut Map<String, Value>, path: String, subresource: &Subresource) {
        let (methods, parameters): (&[&str], &[&str]) = match subresource.name.as_str() {
            "exec" => (&STREAM_METHODS, &["command", "container", "stderr", "stdin", "stdout", "tty"]),
            "attach" => (&STREAM_METHODS, &["container", "stderr", "stdin", "stdout", "tty"]),
            "portforward" => (&STREAM_METHODS, &["ports"]),
            // A proxy.
            _ => {
                let below = format!("{path}/{{path}}");
                let item = self.connection(&below, subresource, "WithPath", &PROXY, &["path"]);
                paths.insert(below, item);
                (&PROXY, &["path"])
            }
        };
        let item = self.connection(&path, subresource, "", methods, parameters);
        paths.insert(path, item);
    }

    fn connection(
        &self,
        path: &str,
        subresource: &Subresource,
        suffix: &str,
        methods: &[&str],
        parameters: &[&str],
    ) -> Value {
        let resource = self.resource;
        let scope = if resource.namespaced { "Namespaced" } else { "" };
        let name = upper_camel_case(&subresource.name);
        let mut item = Map::new();
        for method in methods {
            let title = upper_camel_case(method);
            let id = format!("connect{}{title}{scope}{}{name}{suffix}", self.api.name, resource.kind);
            let ok =
                json!({ "description": "OK", "content": content(&["*/*"], &json!({ "type": "string" })) });
            let operation = json!({
                "operationId": id, "tags": [self.api.tag], "x-kubernetes-action": "connect",
                "x-kubernetes-group-version-kind":
                    { "group": resource.group, "version": resource.version, "kind": subresource.kind },
                "responses": { "200": ok, "401": { "description": "Unauthorized" } },
            });
            item.insert((*method).to_owned(), operation);
        }
        let in_path = ["name", "namespace", "path"].into_iter();
        let in_path = in_path.filter(|name| path.contains(&format!("{{{name}}}"))).map(in_path_parameter);
        let mut parameters: Vec<Value> = in_path.chain(parameters.iter().map(|name| query(name))).collect();
        // The sort is stable: the parameter `path` of a path comes before the one of the query.
        parameters.sort_by_cached_key(|parameter| parameter["name"].to_string());
        item.insert("parameters".to_owned(), Value::Array(parameters));
        Value::Object(item)
    }

    /// Builds an operation that both objects and subresources support.
    fn of_verb(&self, verb: &str, suffix: &str, object: &Value) -> Option<(&'static str, PathOperation)> {
        Some(match verb {
            "get" => {
                let parameters: &[&'static str] = if self.api.custom { &["resourceVersion"] } else { &[] };
                ("get", self.operation("read", "get", suffix, &[200], object, parameters))
            }
            "create" => {
                let mut create = self.operation("create", "post", suffix, &[200, 201, 202], object, &WRITE);
                self.body(&mut create, object);
                ("post", create)
            }
            "update" => {
                let mut replace = self.operation("replace", "put", suffix, &[200, 201], object, &WRITE);
                self.body(&mut replace, object);
                ("put", replace)
            }
            "patch" => {
                let codes: &[u16] = if self.api.custom { &[200] } else { &[200, 201] };
                let parameters = [&WRITE[..], &["force"]].concat();
                let mut patch = self.operation("patch", "patch", suffix, codes, object, &parameters);
                let mut types = vec![
                    "application/apply-patch+yaml",
                    "application/json-patch+json",
                    "application/merge-patch+json",
                ];
                if !self.api.custom {
                    types.push("application/strategic-merge-patch+json");
                }
                patch.value["requestBody"] =
                    json!({ "content": content(&types, &reference(&meta("Patch"))), "required": true });
                ("patch", patch)
            }
            _ => return None,
        })
    }

    /// Builds a list or a watch: both have the same parameters and may respond with a stream.
    fn list(&self, verb: &str, suffix: &str, answer: &Value) -> PathOperation {
        let action = match (verb, suffix) {
            ("list", _) => "list",
            (_, "") => "watch",
            _ => "watchlist",
        };
        let mut operation = self.operation(verb, action, suffix, &[200], answer, &LIST);
        operation.value["responses"] = stream_responses(&self.api, &[200], answer);
        operation
    }

    fn operation(
        &self,
        verb: &str,
        action: &str,
        suffix: &str,
        codes: &[u16],
        answer: &Value,
        parameters: &[&'static str],
    ) -> PathOperation {
        let resource = self.resource;
        let collection = if action == "deletecollection" { "Collection" } else { "" };
        let everywhere = suffix.ends_with("ForAllNamespaces");
        let scope = if resource.namespaced && !everywhere { "Namespaced" } else { "" };
        let id = format!("{verb}{}{collection}{scope}{}{suffix}", self.api.name, resource.kind);
        PathOperation {
            value: json!({
                "operationId": id, "tags": [self.api.tag], "x-kubernetes-action": action,
                "x-kubernetes-group-version-kind":
                    { "group": resource.group, "version": resource.version, "kind": resource.kind },
                "responses": responses(&self.api, codes, answer),
            }),
            parameters: parameters.to_vec(),
        }
    }

    fn body(&self, operation: &mut PathOperation, schema: &Value) {
        let types: &[&str] =
            if self.api.custom { &["application/json", "application/yaml"] } else { &["*/*"] };
        operation.value["requestBody"] = json!({ "content": content(types, schema), "required": true });
    }

    fn delete_options(operation: &mut PathOperation) {
        let options = reference(&meta("DeleteOptions"));
        operation.value["requestBody"] = json!({ "content": content(&["*/*"], &options) });
    }
}

fn in_path_parameter(name: &str) -> Value {
    let schema = json!({ "type": "string", "uniqueItems": true });
    json!({ "in": "path", "name": name, "required": true, "schema": schema })
}

fn query(name: &str) -> Value {
    let kind = TYPED.iter().find(|(typed, _)| *typed == name).map_or("string", |(_, kind)| kind);
    json!({ "in": "query", "name": name, "schema": { "type": kind, "uniqueItems": true } })
}

fn responses(api: &Api, codes: &[u16], schema: &Value) -> Value {
    responses_in(&media_types(api), codes, schema)
}

/// Like [`responses`], for operations that may respond with a watch.
fn stream_responses(api: &Api, codes: &[u16], schema: &Value) -> Value {
    let mut types = media_types(api);
    if !api.custom {
        types.extend(["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"]);
    }
    responses_in(&types, codes, schema)
}

fn media_types(api: &Api) -> Vec<&'static str> {
    let mut types = vec!["application/json", "application/yaml"];
    if !api.custom {
        types.push("application/vnd.kubernetes.protobuf");
    }
    types
}

fn responses_in(types: &[&str], codes: &[u16], schema: &Value) -> Value {
    let mut responses = Map::new();
    for code in codes {
        let description = match code {
            201 => "Created",
            202 => "Accepted",
            _ => "OK",
        };
        let response = json!({ "description": description, "content": content(types, schema) });
        responses.insert(code.to_string(), response);
    }
    responses.insert("401".to_owned(), json!({ "description": "Unauthorized" }));
    Value::Object(responses)
}

fn content(types: &[&str], schema: &Value) -> Value {
    let content = types.iter().map(|media| ((*media).to_owned(), json!({ "schema": schema })));
    Value::Object(content.collect())
}
