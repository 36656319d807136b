//! The clients of a manager, and their connections.

use std::sync::Arc;

use http::{
    Uri,
    header::{HeaderValue, USER_AGENT},
};

use super::{ManagerOptions, election_setup::ElectionSetup};
use crate::{
    cache::Cache,
    client::{self, Client, ClientBuilder, DeclarationCheck, WriteGate},
    findings::client_calls::ClientFindings,
    leader_election::LeaseGate,
    metrics::Metrics,
};

/// The clients of one cluster.
pub(super) struct Clients {
    /// With leader election, writes only while this process leads.
    pub(super) gated: Client,
    /// Writes at any time.
    pub(super) ungated: Client,
}

/// Components that are notified of the calls of a client.
pub(super) struct Observers<'o> {
    /// Shows own writes.
    pub(super) cache: &'o Arc<Cache>,
    pub(super) findings: &'o Arc<ClientFindings>,
    /// Refuses or reports undeclared requests.
    pub(super) declaration_check: Option<&'o Arc<DeclarationCheck>>,
}

impl Clients {
    /// Makes clients that notify `observers` and ask `gate` before each write. Metrics name the API server `host`.
    pub(super) fn new(
        connection: kube::Client,
        host: &str,
        options: &ManagerOptions,
        metrics: &Metrics,
        election: Option<&ElectionSetup>,
        gate: Option<Arc<dyn WriteGate>>,
        observers: &Observers<'_>,
    ) -> Self {
        let builder = metered(connection, host, options, metrics);
        let builder = options.seed.into_iter().fold(builder, ClientBuilder::seed);
        let builder = (options.client.0)(builder).own_writes(Arc::clone(observers.cache) as _);
        let builder = builder.observer(Arc::clone(observers.findings) as _);
        let builder = builder.declared(Arc::clone(observers.cache.declarations()));
        let builder =
            observers.declaration_check.cloned().into_iter().fold(builder, ClientBuilder::declaration_check);
        let builder = gate.into_iter().fold(builder, ClientBuilder::write_gate);
        let gated = election.map(|election| {
            let gate = LeaseGate::new(election.options.id(), Arc::clone(&election.issuer));
            builder.clone().write_gate(Arc::new(gate)).build()
        });
        let ungated = builder.build();
        Self { gated: gated.unwrap_or_else(|| ungated.clone()), ungated }
    }
}

/// Starts a client that reports its requests to `metrics`.
pub(super) fn metered(
    connection: kube::Client,
    host: &str,
    options: &ManagerOptions,
    metrics: &Metrics,
) -> ClientBuilder {
    Client::builder(connection, Arc::clone(&options.name)).metrics(metrics.rest_client()).host(host)
}

/// Name of the API server in client-go's metrics: host of its URL, and the port if the URL has one.
pub(super) fn host_of(url: &Uri) -> Option<String> {
    let host = url.host()?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// Connects with `name` as `User-Agent`, unless the configuration has another one.
pub(super) fn connect(
    mut config: kube::Config,
    name: &str,
    suffix: &str,
) -> Result<kube::Client, kube::Error> {
    let given = config.headers.iter().position(|(header, _)| *header == USER_AGENT);
    let given = given.map(|place| config.headers.remove(place).1);
    let given = given.as_ref().and_then(|agent| agent.to_str().ok());
    let agent = HeaderValue::from_str(&format!("{}{suffix}", given.unwrap_or(name)));
    config.headers.push((USER_AGENT, agent.map_err(|error| kube::Error::HttpError(error.into()))?));
    client::connect(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_server_is_named_by_host_and_port_of_its_url() {
        for (url, host) in [
            ("https://10.96.0.1:443", Some("10.96.0.1:443")),
            ("https://user:secret@[::1]:6443/prefix", Some("[::1]:6443")),
            ("https://kubernetes.default.svc/", Some("kubernetes.default.svc")),
            ("/no/host", None),
        ] {
            assert_eq!(host_of(&Uri::from_static(url)).as_deref(), host, "{url}");
        }
    }
}
