//! Configuration of a webhook's client: its address and the certificates to trust.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::sockets::Connections;

/// `clientConfig` of a webhook, with the open connections to it.
#[derive(Debug)]
pub(crate) struct ClientConfig {
    target: WebhookAddress,
    /// Certificates as PEM; empty if the configuration has none.
    ca_bundle: Vec<u8>,
    /// URL without a query.
    url: String,
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "only TLS has connections"))]
    pub(super) connections: Connections,
}

/// Address of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WebhookAddress {
    /// `https://host[:port][/path]`.
    Url(String),
    Service(ServiceReference),
}

/// A service that serves a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceReference {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) port: u16,
}

impl ClientConfig {
    /// Reads a valid `clientConfig` of an admission or a conversion webhook.
    pub(crate) fn read(config: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let target = match config["url"].as_str() {
            Some(url) => WebhookAddress::Url(url.to_owned()),
            None => {
                let service = &config["service"];
                let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok());
                WebhookAddress::Service(ServiceReference {
                    namespace: text(&service["namespace"]),
                    name: text(&service["name"]),
                    path: text(&service["path"]),
                    port: port.filter(|port| *port != 0).unwrap_or(443),
                })
            }
        };
        let ca_bundle = config["caBundle"].as_str().unwrap_or_default();
        let ca_bundle = BASE64_STANDARD.decode(ca_bundle).unwrap_or_default();
        Self::new(target, ca_bundle)
    }

    pub(crate) fn new(target: WebhookAddress, ca_bundle: Vec<u8>) -> Self {
        let url = match &target {
            WebhookAddress::Url(url) => {
                let (scheme, rest) = url.split_once("://").unwrap_or(("https", url));
                let rest = rest.split(['?', '#']).next().unwrap_or_default();
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                format!("{}://{authority}{}", scheme.to_ascii_lowercase(), clean(path))
            }
            WebhookAddress::Service(ServiceReference { namespace, name, path, port }) => {
                format!("https://{name}.{namespace}.svc:{port}{}", clean(path))
            }
        };
        Self { target, ca_bundle, url, connections: Connections::default() }
    }

    /// Returns the URL without a query.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the service, if the webhook is behind one.
    pub(crate) fn service(&self) -> Option<&ServiceReference> {
        match &self.target {
            WebhookAddress::Service(service) => Some(service),
            WebhookAddress::Url(_) => None,
        }
    }

    /// Returns the trusted certificates, as PEM; empty if there are none. One of them must have signed the webhook's certificate.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "only TLS needs certificates"))]
    pub(super) fn ca_bundle(&self) -> &[u8] {
        &self.ca_bundle
    }
}

/// Compares the address and the trusted certificates, but not the open connections.
impl PartialEq for ClientConfig {
    fn eq(&self, other: &Self) -> bool {
        self.target == other.target && self.ca_bundle == other.ca_bundle
    }
}

impl Eq for ClientConfig {}

/// Returns an absolute path without empty, `.` and `..` segments and without a trailing slash: Go's `path.Join("/", path)`.
fn clean(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_url_names_the_service_or_is_the_given_one_with_a_clean_path() {
        for (config, url) in [
            (json!({"url": "https://127.0.0.1:1/"}), "https://127.0.0.1:1/"),
            (json!({"url": "https://hooks.example.com"}), "https://hooks.example.com/"),
            (json!({"url": "HTTPS://h/a//b/./c/../"}), "https://h/a/b"),
            (json!({"service": {"namespace": "n", "name": "s"}}), "https://s.n.svc:443/"),
            (
                json!({"service": {"namespace": "n", "name": "s", "port": 8443, "path": "/x/y"}}),
                "https://s.n.svc:8443/x/y",
            ),
        ] {
            assert_eq!(ClientConfig::read(&config).url(), url);
        }
    }

    #[test]
    fn another_bundle_is_another_configuration() {
        let read = |bundle: &str| ClientConfig::read(&json!({"url": "https://h/", "caBundle": bundle}));
        assert_eq!(read("YQ=="), read("YQ=="));
        assert_ne!(read("YQ=="), read("Yg=="));
    }
}
