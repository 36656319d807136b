//! The clients of a manager, and their connections.

use std::sync::Arc;

use http::header::{HeaderValue, USER_AGENT};

use super::{Election, Options};
use crate::{
    cache::Cache,
    client::{Client, ClientBuilder},
    leader_election::LeaseGate,
    metrics::Metrics,
};

/// The clients of one cluster.
pub(super) struct Clients {
    /// With leader election it writes only while this process leads.
    pub(super) gated: Client,
    /// It writes at any time.
    pub(super) ungated: Client,
}

impl Clients {
    /// Clients that show in `cache` what they write. Metrics call the API server `host`.
    pub(super) fn new(
        connection: kube::Client,
        host: &str,
        options: &Options,
        metrics: &Metrics,
        election: Option<&Election>,
        cache: &Arc<Cache>,
    ) -> Self {
        let builder = metered(connection, host, options, metrics);
        let builder = options.seed.into_iter().fold(builder, ClientBuilder::seed);
        let builder = (options.client.0)(builder).own_writes(Arc::clone(cache) as _);
        let gated = election.map(|election| {
            let gate = LeaseGate::new(election.options.id(), Arc::clone(&election.issuer));
            builder.clone().write_gate(Arc::new(gate)).build()
        });
        let ungated = builder.build();
        Self { gated: gated.unwrap_or_else(|| ungated.clone()), ungated }
    }
}

/// Begins a client that tells `metrics` of its requests.
pub(super) fn metered(
    connection: kube::Client,
    host: &str,
    options: &Options,
    metrics: &Metrics,
) -> ClientBuilder {
    Client::builder(connection, Arc::clone(&options.name)).metrics(metrics.rest_client()).host(host)
}

/// A connection that calls itself `name`, unless the configuration has another name for it.
pub(super) fn connect(
    mut config: kube::Config,
    name: &str,
    suffix: &str,
) -> Result<kube::Client, kube::Error> {
    config.default_retry = false;
    let given = config.headers.iter().position(|(header, _)| *header == USER_AGENT);
    let given = given.map(|place| config.headers.remove(place).1);
    let given = given.as_ref().and_then(|agent| agent.to_str().ok());
    let agent = HeaderValue::from_str(&format!("{}{suffix}", given.unwrap_or(name)));
    config.headers.push((USER_AGENT, agent.map_err(|error| kube::Error::HttpError(error.into()))?));
    kube::Client::try_from(config)
}
