//! Webhook configurations as manifests: reading, checks, and the addresses in them. Pure, except for reading files.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::WebhookError;
use crate::{
    control_plane::base64,
    documents::{documents_of, files_of},
};

/// Port of a reference that names none: the default of the API server.
const DEFAULT_PORT: u64 = 443;

/// A MutatingWebhookConfiguration, a ValidatingWebhookConfiguration, or `spec.conversion` of a CustomResourceDefinition.
#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    pub(super) object: Value,
    /// Kind, name and origin, for messages.
    pub(super) title: String,
}

/// A reference of a configuration to a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// Webhook and configuration, for messages.
    pub(super) title: String,
    pub(super) service: ServiceName,
    pub(super) port: u64,
    pub(super) path: String,
}

/// Namespace and name of a Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServiceName {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Address at which a test serves webhooks, instead of their Service.
#[derive(Debug, Clone)]
pub(super) enum Target<'a> {
    /// The embedded server calls the operator in the process, by the name of the Service.
    InProcess,
    /// Address, and certificate of the authority as PEM.
    Socket { base_url: &'a str, authority: &'a str },
}

impl Manifest {
    /// Reads the webhook configurations in a file or folder, and checks them.
    pub(super) fn read(path: &Path) -> Result<Vec<Self>, WebhookError> {
        let mut documents = Vec::new();
        for file in files_of(path)? {
            documents.extend(documents_of(&file)?.into_iter().map(|document| (file.clone(), document)));
        }
        let services: BTreeMap<ServiceName, (PathBuf, Value)> = documents
            .iter()
            .filter(|(_, document)| document["kind"] == "Service")
            .map(|(file, service)| {
                (name_of(&service["metadata"]), (file.clone(), service["spec"]["ports"].clone()))
            })
            .collect();
        let mut manifests = Vec::new();
        for (file, document) in documents {
            let kind = document["kind"].as_str().unwrap_or_default();
            if kind != "MutatingWebhookConfiguration" && kind != "ValidatingWebhookConfiguration" {
                continue;
            }
            let manifest = Self::of(document, &format!(" in {}", file.display()));
            for reference in manifest.references()? {
                check_port(&reference, services.get(&reference.service))?;
            }
            manifests.push(manifest);
        }
        if manifests.is_empty() {
            Err(WebhookError::Nothing { path: path.to_owned() })
        } else {
            Ok(manifests)
        }
    }

    /// Makes a manifest. `origin` ends its title, as in ` in webhooks.yaml`.
    pub(super) fn of(object: Value, origin: &str) -> Self {
        let kind = object["kind"].as_str().unwrap_or("an object without a kind");
        let name = object["metadata"]["name"].as_str().unwrap_or("without a name");
        Self { title: format!("{kind} {name}{origin}"), object }
    }

    pub(super) fn is_conversion(&self) -> bool {
        self.object["kind"] == "CustomResourceDefinition"
    }

    pub(super) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Returns the references to Services. A webhook with a `url` does not belong to the operator under test, and
    /// has none.
    ///
    /// # Errors
    /// The manifest is of another kind or version, has no name or no webhooks, or a webhook has no address.
    pub(super) fn references(&self) -> Result<Vec<Reference>, WebhookError> {
        let invalid = |reason: String| WebhookError::Invalid { object: self.title.clone(), reason };
        let (kind, version) = (&self.object["kind"], &self.object["apiVersion"]);
        let expected = match kind.as_str().unwrap_or_default() {
            "CustomResourceDefinition" => "apiextensions.k8s.io/v1",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
                "admissionregistration.k8s.io/v1"
            }
            _ => return Err(invalid("it is not a webhook configuration".to_owned())),
        };
        if version != expected {
            return Err(invalid(format!("its apiVersion is {version}: write {expected}")));
        }
        if self.name().is_empty() {
            return Err(invalid("it has no name: set `metadata.name`".to_owned()));
        }
        if self.is_conversion() {
            let title = format!("conversion of {}", self.title);
            let webhook = &self.object["spec"]["conversion"]["webhook"];
            return Ok(reference(title, &webhook["clientConfig"])?.into_iter().collect());
        }
        let webhooks = self.object["webhooks"].as_array().filter(|webhooks| !webhooks.is_empty());
        let webhooks = webhooks.ok_or_else(|| {
            invalid(
                "it has no webhooks: add them to its list `webhooks`, or remove the configuration".to_owned(),
            )
        })?;
        let mut references = Vec::new();
        for webhook in webhooks {
            let title =
                format!("webhook {} of {}", webhook["name"].as_str().unwrap_or("without a name"), self.title);
            references.extend(reference(title, &webhook["clientConfig"])?);
        }
        Ok(references)
    }

    /// Replaces references to Services by the address at which the test serves webhooks.
    pub(super) fn pointed_at(mut self, target: &Target<'_>) -> Self {
        let configs: Vec<&mut Value> = if self.is_conversion() {
            vec![&mut self.object["spec"]["conversion"]["webhook"]["clientConfig"]]
        } else {
            let webhooks = self.object["webhooks"].as_array_mut();
            webhooks.into_iter().flatten().map(|webhook| &mut webhook["clientConfig"]).collect()
        };
        for config in configs {
            let Some(service) = config["service"].as_object() else { continue };
            let path = path_of(service.get("path"));
            match target {
                // The process needs no certificate; that of a manifest may be a placeholder.
                Target::InProcess => {
                    drop(config.as_object_mut().and_then(|config| config.remove("caBundle")));
                }
                Target::Socket { base_url, authority } => {
                    *config = json!({ "url": format!("{base_url}{path}"), "caBundle": base64(authority) });
                }
            }
        }
        self
    }

    /// Restricts a configuration to one environment on a shared cluster: its name ends with `id`, and its webhooks are
    /// called only for namespaces with the label.
    pub(super) fn isolated(mut self, id: &str, label: &str) -> Self {
        // A definition has one conversion for the whole cluster.
        if self.is_conversion() {
            return self;
        }
        // Tests that share the cluster install the same manifests at the same time.
        self.object["metadata"]["name"] = format!("{}-{id}", self.name()).into();
        for webhook in self.object["webhooks"].as_array_mut().into_iter().flatten() {
            webhook["namespaceSelector"]["matchLabels"][label] = id.into();
        }
        self
    }
}

/// Namespace and name of a Service, in its metadata or in a reference to it.
fn name_of(object: &Value) -> ServiceName {
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    ServiceName { namespace: text("namespace"), name: text("name") }
}

/// Path of a reference, with a leading slash.
fn path_of(path: Option<&Value>) -> String {
    let path = path.and_then(Value::as_str).unwrap_or_default();
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// Reads the reference of a `clientConfig`; `None` if it has a `url`.
fn reference(title: String, config: &Value) -> Result<Option<Reference>, WebhookError> {
    let invalid = |reason: &str| WebhookError::Invalid { object: title.clone(), reason: reason.to_owned() };
    let service = match (&config["service"], &config["url"]) {
        // A webhook with a URL is a server of its own, which the environment does not replace.
        (Value::Null, Value::String(_)) => return Ok(None),
        (service @ Value::Object(_), Value::Null) => service,
        _ => return Err(invalid("`clientConfig` has to have either `service` or `url`")),
    };
    let name = name_of(service);
    if name.name.is_empty() || name.namespace.is_empty() {
        return Err(invalid("`clientConfig.service` has to have `namespace` and `name`"));
    }
    let port = service["port"].as_u64().unwrap_or(DEFAULT_PORT);
    let path = path_of(service.get("path"));
    Ok(Some(Reference { title, service: name, port, path }))
}

/// Checks that the Service of a reference has its port. If the Service has no manifest, it has port 443 only.
fn check_port(reference: &Reference, service: Option<&(PathBuf, Value)>) -> Result<(), WebhookError> {
    let Reference { title, service: name, port, .. } = reference;
    let (served, hint) = match service {
        // Without the manifest of the Service the API server's default port is the only one that can be
        // assumed.
        None => (
            vec![DEFAULT_PORT],
            format!(
                "leave out `clientConfig.service.port`, or add the manifest of Service {name} to the path"
            ),
        ),
        Some((file, ports)) => {
            let ports = ports.as_array().into_iter().flatten().filter_map(|entry| entry["port"].as_u64());
            (
                ports.collect(),
                format!("correct `clientConfig.service.port` or the Service in {}", file.display()),
            )
        }
    };
    if served.contains(port) {
        return Ok(());
    }
    let served: Vec<String> = served.iter().map(u64::to_string).collect();
    let reason = format!("Service {name} has no port {port}, only {}: {hint}", served.join(", "));
    Err(WebhookError::Invalid { object: title.clone(), reason })
}

#[cfg(test)]
mod tests;
