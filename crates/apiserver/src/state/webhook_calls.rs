//! Calls of webhooks: resolution of their services, and the call itself.

use bytes::Bytes;
use serde_json::Value;
use tokio::time::Duration;

use super::ClusterState;
use crate::kind::resource::StorageKey;
use crate::store::{Key, TypeMeta};
use crate::webhook_client::{CallError, ClientConfig, ServiceReference, TimeoutQuery};

/// Label of an EndpointSlice with the name of its Service.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

impl ClusterState {
    /// POSTs a JSON document to a webhook and returns the body of the response. No lock is held during the call.
    ///
    /// Dropping the future ends the call.
    ///
    /// # Errors
    /// The reason: the service has no address, the call failed or took longer than `timeout`, or its response is not a success.
    pub(crate) async fn call_webhook(
        &self,
        config: &ClientConfig,
        body: Bytes,
        timeout: Duration,
        query: TimeoutQuery,
    ) -> Result<Bytes, CallError> {
        let address = config.service().map(|service| self.resolve(service));
        self.webhooks.post(config, address, body, timeout, query).await
    }

    /// Returns the address of a service, as `host:port`.
    fn resolve(&self, service: &ServiceReference) -> Result<String, String> {
        let ServiceReference { namespace, name, port, .. } = service;
        if let Some(address) = self.services.reachable(namespace, name) {
            return Ok(address.to_string());
        }
        let table = StorageKey::core("services");
        let stored = self.read(|store| store.get(&table, &Key::new(namespace, name)).cloned());
        let object =
            stored.map(|stored| stored.document.to_value(&TypeMeta::new("v1", "Service"), stored.revision));
        let object = object.ok_or_else(|| format!("service \"{name}\" not found"))?;
        let spec = &object["spec"];
        let text = |field: &str| spec[field].as_str().unwrap_or_default();
        if text("type") == "ExternalName" {
            return Ok(join(text("externalName"), u64::from(*port)));
        }
        if text("clusterIP") == "None" {
            return Err("cannot route to service with ClusterIP \"None\"".to_owned());
        }
        let ports = spec["ports"].as_array().into_iter().flatten();
        let entry = ports.clone().find(|entry| entry["port"] == *port);
        let entry = entry.ok_or_else(|| format!("no service port {port} found for service \"{name}\""))?;
        // Nothing routes the cluster IPs of this server, so the call goes to an endpoint.
        if let Some(address) = self.endpoint(namespace, name, &entry["name"]) {
            return Ok(address);
        }
        // Only an address outside of this server's own range may be reachable.
        let address = text("clusterIP");
        let is_allocated = address.parse().is_ok_and(|address| self.services.range().contains(address));
        if is_allocated || address.is_empty() {
            return Err(format!(
                "service \"{name}\" has no ready endpoint, and nothing routes cluster IPs here"
            ));
        }
        Ok(join(address, u64::from(*port)))
    }

    /// Returns the first ready endpoint of a service, for its port with this name.
    fn endpoint(&self, namespace: &str, service: &str, port: &Value) -> Option<String> {
        let table = StorageKey { group: "discovery.k8s.io".to_owned(), plural: "endpointslices".to_owned() };
        let kind = TypeMeta::new("discovery.k8s.io/v1", "EndpointSlice");
        let snapshot = self.read(|store| store.snapshot(&table));
        for (_, stored) in snapshot.range(namespace, None) {
            let slice = stored.document.to_value(&kind, stored.revision);
            if slice["metadata"]["labels"][SERVICE_NAME] != service {
                continue;
            }
            let is_empty = |name: &Value| name.as_str().unwrap_or_default().is_empty();
            let is_same =
                |entry: &&Value| entry["name"] == *port || is_empty(&entry["name"]) && is_empty(port);
            let number = slice["ports"].as_array().into_iter().flatten().find(is_same);
            let Some(number) = number.and_then(|entry| entry["port"].as_u64()) else { continue };
            let endpoints = slice["endpoints"].as_array().into_iter().flatten();
            // By the API, an endpoint without this condition is ready.
            let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false);
            let address = ready.filter_map(|endpoint| endpoint["addresses"][0].as_str()).next();
            if let Some(address) = address {
                return Some(join(address, number));
            }
        }
        None
    }
}

/// Joins a host and a port; IPv6 addresses are put in brackets.
fn join(host: &str, port: u64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
