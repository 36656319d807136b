//! Requests to the JSON API of an operator.

use std::{fmt, time::Duration};

use http::{
    Method, Request, StatusCode, Uri,
    header::{AUTHORIZATION, HeaderValue},
};
use http_body_util::BodyExt;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;

use super::{Place, TIMEOUT};
use crate::failure::Failure;

/// Characters of a path segment that are encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Longest message of the operator that is quoted.
const LONGEST: usize = 300;

/// A client of one operator.
#[derive(Clone)]
pub(crate) struct OperatorApi {
    client: kube::Client,
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
        let uri: Uri = place.address.parse().map_err(|error| unusable(&error))?;
        let mut config = kube::Config::new(uri);
        config.accept_invalid_certs = place.accepts_any_certificate;
        config.connect_timeout = Some(TIMEOUT);
        config.read_timeout = Some(TIMEOUT);
        let client = kube::Client::try_from(config).map_err(|error| unusable(&error))?;
        let authorization =
            place.token.as_ref().map(|token| HeaderValue::try_from(format!("Bearer {token}")));
        let authorization = authorization
            .transpose()
            .map_err(|_| Failure::usage("the bearer token contains characters that a token cannot have"))?;
        Ok(Self { client, authorization })
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
        let path = format!("/explain/v1/{}?{}", path.join("/"), query.join("&"));
        let unknown = |error: &dyn fmt::Display| ApiError::Unknown(error.to_string());
        let request = Request::builder().method(method).uri(path.trim_end_matches('?'));
        let mut request = request.body(Body::empty()).map_err(|error| unknown(&error))?;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        let (status, body) = self.send(request, TIMEOUT).await?;
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

    async fn send(
        &self,
        request: Request<Body>,
        within: Duration,
    ) -> Result<(StatusCode, Vec<u8>), ApiError> {
        let answer = async {
            let response =
                self.client.send(request).await.map_err(|error| ApiError::Unreachable(root(&error)))?;
            let status = response.status();
            let body = response.into_body().collect().await;
            let body = body.map_err(|error| ApiError::Unreachable(root(&error)))?;
            Ok((status, body.to_bytes().to_vec()))
        };
        let answer = tokio::time::timeout(within, answer).await;
        answer.unwrap_or_else(|_| {
            Err(ApiError::Unreachable(format!("no answer within {} s", within.as_secs())))
        })
    }
}

/// A part of a path.
pub(crate) fn encoded(part: &str) -> String {
    utf8_percent_encode(part, ENCODED).to_string()
}

/// The innermost cause of an error: `Connection refused (os error 111)`.
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
