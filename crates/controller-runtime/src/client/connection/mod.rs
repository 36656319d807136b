//! Connections to an API server that detect a dead peer.
//!
//! | Failure | Detected by | Within |
//! |---|---|---|
//! | the server does not answer a request | the request's deadline ([`ClientBuilder::request_timeout`](crate::client::ClientBuilder::request_timeout)) | 60 s |
//! | the peer vanished, HTTP/2 | a ping after 30 s of silence, which must be answered within 15 s, as in client-go | 45 s |
//! | the peer vanished, HTTP/1.1 | TCP keepalive: after 30 s, then every 15 s, twice | 60 s |
//! | no connection can be made | [`kube::Config::connect_timeout`] | 30 s |
//!
//! HTTP/2 is used if the server offers it (ALPN), so that all watches of an operator share a few connections; otherwise
//! HTTP/1.1, which also serves requests that upgrade their connection (`exec`, `port-forward`).

pub(super) mod kubeconfig;
mod pool;
mod streams;
mod tls;

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::rt;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use kube::client::{Body, ClientBuilder, ConfigExt};
use tokio_rustls::rustls::{ClientConfig, pki_types::ServerName};
use tower_service::Service;

pub(super) use self::pool::Unreachable;
use self::pool::{Connect, KeepAlive, Pool};
use crate::error::BoxError;

/// Silence on a connection before the first TCP keepalive probe.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// Time between two keepalive probes.
const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Unanswered keepalive probes before the connection is closed.
const TCP_KEEPALIVE_RETRIES: u32 = 2;

/// Connects to the API server of `config`, as [`Manager::from_config`](crate::Manager::from_config) does: with HTTP/2 if the
/// server offers it, pings and TCP keepalive, and without a retry layer. Use it for a [`Client`](crate::Client) without a
/// manager, or for the client of another cluster ([`Manager::add_cluster`](crate::Manager::add_cluster)).
///
/// The first request opens the connection. All of `config` applies except [`default_retry`](kube::Config::default_retry),
/// which is off: a [`Client`](crate::Client) itself repeats requests when the API server asks for it.
///
/// Through a [proxy](kube::Config::proxy_url), or to an `https` address if the program builds `kube` with OpenSSL, `kube` makes
/// the connections, with HTTP/1.1 and without keepalive; deadlines of requests and the probes of silent watches detect a dead
/// peer there.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use controller_runtime::{Client, client::{connect, get_config}};
///
/// let client = Client::new(connect(get_config(None, Some("staging")).await?)?, "guestbook-tool");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The configuration cannot be used: invalid certificates, an exec plugin that fails, or an `https` address in a program that
/// builds `kube` without TLS.
pub fn connect(mut config: kube::Config) -> Result<kube::Client, kube::Error> {
    config.default_retry = false;
    // kube supports proxies itself; this transport does not.
    if config.proxy_url.is_some() {
        return kube::Client::try_from(config);
    }
    let mut tcp = HttpConnector::new();
    // The TLS connector needs `https` URLs to pass through it.
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(TCP_KEEPALIVE));
    tcp.set_keepalive_interval(Some(TCP_KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(TCP_KEEPALIVE_RETRIES));
    if config.cluster_url.scheme() != Some(&http::uri::Scheme::HTTPS) {
        return client_over(tcp.clone(), tcp, &config);
    }
    let Some(tls) = tls::client_config(&config)? else {
        return kube::Client::try_from(config);
    };
    client_over(
        https(tcp.clone(), tls.clone(), &config, HttpVersions::Any)?,
        https(tcp, tls, &config, HttpVersions::Http1)?,
        &config,
    )
}

/// Versions of HTTP that the client offers in TLS negotiation.
#[derive(Debug, Clone, Copy)]
enum HttpVersions {
    Any,
    Http1,
}

/// Makes TLS connections.
fn https(
    tcp: HttpConnector,
    tls: ClientConfig,
    config: &kube::Config,
    versions: HttpVersions,
) -> Result<HttpsConnector<HttpConnector>, kube::Error> {
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone())
            .map_err(|error| kube::Error::Service(format!("tls-server-name {name:?}: {error}").into()))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(match versions {
        HttpVersions::Any => builder.enable_all_versions().wrap_connector(tcp),
        HttpVersions::Http1 => builder.enable_http1().wrap_connector(tcp),
    })
}

/// Makes a client from two connectors: `any` offers both protocols, `http1` only HTTP/1.1.
fn client_over<C>(any: C, http1: C, config: &kube::Config) -> Result<kube::Client, kube::Error>
where
    C: Service<http::Uri> + Clone + Send + Sync + 'static,
    C::Response:
        rt::Read + rt::Write + hyper_util::client::legacy::connect::Connection + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let within_time = |connector| {
        let mut connector = TimeoutConnector::new(connector);
        connector.set_connect_timeout(config.connect_timeout);
        connector.set_read_timeout(config.read_timeout);
        connector.set_write_timeout(config.write_timeout);
        connector.set_reset_reader_on_write(config.reset_reader_on_write);
        connector
    };
    let server = config.cluster_url.clone();
    with_layers(Pool::new(within_time(any), within_time(http1), server, KeepAlive::default()), config)
}

/// Adds the settings of `config` for every request: credentials, headers, address.
fn with_layers<C: Connect>(pool: Pool<C>, config: &kube::Config) -> Result<kube::Client, kube::Error> {
    let builder = ClientBuilder::new(pool, config.default_namespace.clone());
    let builder = builder.with_layer(&config.extra_headers_layer()?);
    Ok(match config.auth_layer()? {
        Some(credentials) => build(builder.with_layer(&credentials), config),
        None => build(builder, config),
    })
}

/// Adds decompression and the server's address, and builds the client.
fn build<S, B>(builder: ClientBuilder<S>, config: &kube::Config) -> kube::Client
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>, Future: Send> + Send + 'static,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError> + Send> + Send + 'static,
{
    #[cfg(feature = "gzip")]
    let builder = builder
        .with_layer(&tower_http::decompression::DecompressionLayer::new().gzip(!config.disable_compression));
    builder.with_layer(&config.base_uri_layer()).build()
}
