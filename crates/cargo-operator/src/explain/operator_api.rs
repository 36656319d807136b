//! Requests to the JSON API of an operator.

use std::{error::Error, fmt};

use http::{
    Method, Request, StatusCode, Uri,
    header::{AUTHORIZATION, HeaderValue},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use tokio::time::Duration;
use ureq::{
    Agent,
    tls::{RootCerts, TlsConfig},
};

use super::Place;
use crate::failure::Failure;

/// Characters of a path segment that are encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Time within which the operator has to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Number of characters of the operator's message that are quoted.
const LONGEST: usize = 300;

/// Maximum size of an answer. An answer about one object has a few KiB.
const MAX_BYTES: u64 = 64 << 20;

/// A client of one operator.
#[derive(Clone)]
pub(crate) struct OperatorApi {
    agent: Agent,
    /// Scheme, host and port.
    address: String,
    authorization: Option<HeaderValue>,
}

/// Reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApiError {
    /// The operator knows no such controller, request or object.
    NotFound(String),
    /// The operator does not accept the token, or its user may not read explanations.
    Refused(String),
    /// No connection, or no answer in time.
    Unreachable(String),
    /// An answer that this program does not understand.
    Unknown(String),
}

impl OperatorApi {
    pub(crate) fn new(place: &Place) -> Result<Self, Failure> {
        let unusable =
            |error: &dyn fmt::Display| Failure::usage(format!("{} cannot be used: {error}", place.address));
        place.address.parse::<Uri>().map_err(|error| unusable(&error))?;
        // Fails only if an earlier client has set it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificates = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .disable_verification(place.accepts_any_certificate);
        let agent = Agent::config_builder()
            .tls_config(certificates.build())
            .user_agent(concat!("cargo-operator/", env!("CARGO_PKG_VERSION")))
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            // A redirect could send the token to another address.
            .max_redirects(0)
            .proxy(None)
            .build();
        let authorization =
            place.token.as_ref().map(|token| HeaderValue::try_from(format!("Bearer {token}")));
        let authorization = authorization
            .transpose()
            .map_err(|_| Failure::usage("the bearer token contains characters that a token cannot have"))?;
        Ok(Self { agent: agent.into(), address: place.address.clone(), authorization })
    }

    /// Requests a path below `/explain/v1`.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, ApiError> {
        self.ask(Method::GET, path, query).await
    }

    /// Sends a request that changes something.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, ApiError> {
        self.ask(Method::POST, path, query).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, ApiError> {
        let path: Vec<String> = path.iter().map(|part| encoded(part)).collect();
        let query: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let uri = format!("{}/explain/v1/{}?{}", self.address, path.join("/"), query.join("&"));
        let unknown = |error: &dyn fmt::Display| ApiError::Unknown(error.to_string());
        let request = Request::builder().method(method).uri(uri.trim_end_matches('?'));
        let mut request = request.body(()).map_err(|error| unknown(&error))?;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        let agent = self.agent.clone();
        // The client blocks its thread for up to TIMEOUT.
        let answer = tokio::task::spawn_blocking(move || send(&agent, request));
        let (status, body) = answer.await.map_err(|error| unknown(&error))??;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| unknown(&error));
        }
        let message: String = String::from_utf8_lossy(&body).trim().chars().take(LONGEST).collect();
        Err(match status {
            StatusCode::NOT_FOUND => ApiError::NotFound(message),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ApiError::Refused(message),
            _ => ApiError::Unknown(format!("code {}: {message}", status.as_u16())),
        })
    }
}

/// Sends a request, and reads the whole answer.
fn send(agent: &Agent, request: Request<()>) -> Result<(StatusCode, Vec<u8>), ApiError> {
    let answer = agent.run(request).and_then(|mut response| {
        let body = response.body_mut().with_config().limit(MAX_BYTES).read_to_vec()?;
        Ok((response.status(), body))
    });
    answer.map_err(|error| match error {
        ureq::Error::Timeout(_) => ApiError::Unreachable(format!("no answer within {} s", TIMEOUT.as_secs())),
        ureq::Error::Io(error) => ApiError::Unreachable(root(&error)),
        error => ApiError::Unreachable(root(&error)),
    })
}

/// Encodes a segment of a path, or the value of a query parameter.
pub(crate) fn encoded(part: &str) -> String {
    utf8_percent_encode(part, ENCODED).to_string()
}

/// The innermost cause of an error: `Connection refused (os error 111)`.
fn root(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
