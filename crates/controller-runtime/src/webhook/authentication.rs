//! Authentication webhooks: TokenReviews, from the bytes of a request to those of a response. Pure but for the handler.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use http::StatusCode;
use k8s_openapi::api::authentication::v1::{TokenReviewStatus, UserInfo};
use serde::Deserialize;
use serde_json::json;

use super::{admission_review::ReviewReply, envelope};
use crate::error::BoxError;

const GROUP: &str = "authentication.k8s.io";

/// A handler of token requests.
pub(super) type AuthenticateFn =
    Arc<dyn Fn(TokenRequest) -> BoxFuture<'static, Result<Option<Authenticated>, BoxError>> + Send + Sync>;

/// A request of the API server to authenticate a bearer token.
///
/// Its `Debug` form does not show the token.
#[derive(Clone, Deserialize)]
#[doc(alias = "TokenReview")]
pub struct TokenRequest {
    #[serde(default)]
    token: String,
    #[serde(default)]
    audiences: Option<Vec<String>>,
}

impl TokenRequest {
    /// The token. Do not log it.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Audiences that the API server identifies itself as. A token for other audiences must not be accepted. Empty if any audience
    /// is acceptable.
    #[must_use]
    pub fn audiences(&self) -> &[String] {
        self.audiences.as_deref().unwrap_or_default()
    }
}

impl fmt::Debug for TokenRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenRequest").field("audiences", &self.audiences).finish_non_exhaustive()
    }
}

/// The user of a token.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Authenticated {
    /// The user.
    pub user: UserInfo,
    /// Audiences of the request that the token is for. Empty means the audience of the API server.
    pub audiences: Vec<String>,
}

impl Authenticated {
    /// Sets the audiences: those of the request that the token is for. Default: none, which means the audience of the API server.
    #[must_use]
    pub fn for_audiences(self, audiences: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { audiences: audiences.into_iter().map(Into::into).collect(), ..self }
    }
}

impl From<UserInfo> for Authenticated {
    fn from(user: UserInfo) -> Self {
        Self { user, audiences: Vec::new() }
    }
}

/// A request that was read.
pub(super) struct ReadTokenReview {
    api_version: String,
    pub(super) request: TokenRequest,
}

/// Reads a TokenReview of version v1 or v1beta1. Messages about a body do not quote it, because it may hold a token.
pub(super) fn read(body: &[u8]) -> Result<ReadTokenReview, ReviewReply> {
    let bad = |message: &str| refusal(StatusCode::BAD_REQUEST, message);
    let (api_version, request) =
        envelope::read_describing_errors::<TokenRequest>(body, GROUP, "TokenReview", |_| {
            "it cannot be decoded".to_owned()
        })
        .map_err(|why| bad(&why))?;
    if request.token.is_empty() {
        return Err(bad("token is empty"));
    }
    Ok(ReadTokenReview { api_version, request })
}

/// The response to a request that was not understood.
pub(super) fn refusal(status: StatusCode, message: &str) -> ReviewReply {
    let failed = TokenReviewStatus { error: Some(message.to_owned()), ..TokenReviewStatus::default() };
    reply(status, "authentication.k8s.io/v1", &failed)
}

/// Encodes the response.
pub(super) fn respond(
    review: &ReadTokenReview,
    outcome: Result<Option<Authenticated>, String>,
) -> ReviewReply {
    let mut status = TokenReviewStatus { authenticated: Some(false), ..TokenReviewStatus::default() };
    match outcome {
        Ok(Some(Authenticated { user, audiences })) => {
            status.authenticated = Some(true);
            status.user = Some(user);
            status.audiences = (!audiences.is_empty()).then_some(audiences);
        }
        Ok(None) => {}
        Err(error) => status.error = Some(error),
    }
    reply(StatusCode::OK, &review.api_version, &status)
}

fn reply(status: StatusCode, api_version: &str, review: &TokenReviewStatus) -> ReviewReply {
    let mut review = json!({ "kind": "TokenReview", "apiVersion": api_version, "metadata": {}, "spec": {}, "status": review });
    // Always present, also as `false` where the type leaves it out.
    review["status"]["authenticated"] = json!(review["status"]["authenticated"] == true);
    ReviewReply { status, body: review.to_string().into_bytes() }
}
