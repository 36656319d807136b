//! Authentication: determines the user of a request.
//!
//! Without [`Tokens`] every client is admin. Over a socket, this holds only for requests that come from this machine and not from a website
//! ([`browser`]). With [`Tokens`], a request over a socket has the user of its bearer token. An unknown token is refused, and a request
//! without a token has the user `system:anonymous`.
//!
//! The user of a request with a service account token is that account, with and without [`Tokens`]. A token that has expired, or that
//! belongs to a deleted account, is refused, because otherwise its bearer would become admin. Without [`Tokens`] all other tokens are
//! ignored, so that clients that are configured with any token work unchanged.
//!
//! With [`ClientAuthority`], requests over a TLS connection have the user of its client certificate, unless they have a token.
//!
//! Messages and order follow kube-apiserver: its bearer token authenticator, and the groups that it adds.

#[cfg_attr(not(feature = "tls"), path = "no_account_keys.rs")]
mod account_keys;
pub(crate) mod browser;
#[cfg_attr(not(feature = "tls"), path = "no_client_certificate.rs")]
mod client_certificate;
mod objects;
mod service_account_token;
#[cfg(feature = "program")]
mod token_file;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kube_apimachinery::status::ApiError;

use http::header::{self, HeaderMap};
use http::request::Parts;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

#[cfg(not(feature = "tls"))]
pub(crate) use account_keys::ServiceAccountKeys;
#[cfg(feature = "tls")]
pub use account_keys::{InvalidServiceAccountKey, ServiceAccountKeys};
#[cfg(not(feature = "tls"))]
pub(crate) use client_certificate::ClientAuthority;
#[cfg(feature = "tls")]
pub use client_certificate::{ClientAuthority, InvalidClientAuthority};
#[cfg(feature = "program")]
pub use token_file::InvalidTokenFile;

use service_account_token::is_signed_form;

use crate::request::origin::{Caller, ClientCertificate};
use crate::user::UserInfo;
pub(crate) use service_account_token::{BoundObjects, Claims, Found, Issuer, ObjectLookup, ObjectReference};

/// Bearer tokens and their users.
#[derive(Clone, Default)]
pub struct Tokens {
    /// Users by the digest of their token. The time of a lookup depends on the digest only, so no token can be guessed from it.
    users: BTreeMap<[u8; 32], Arc<UserInfo>>,
    /// Token of the first user in `system:masters`, or else of the first user.
    preferred: Option<String>,
}

/// Omits the tokens, because they are secret.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tokens").field(&self.users.len()).finish()
    }
}

impl Tokens {
    /// Creates an empty set, with which no client can authenticate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a token and its user. A token that is added twice belongs to the later user.
    #[must_use]
    pub fn with(mut self, token: impl Into<String>, user: UserInfo) -> Self {
        self.insert(&token.into(), user);
        self
    }

    fn insert(&mut self, token: &str, user: UserInfo) {
        let has_master =
            self.preferred.as_ref().and_then(|token| self.user(token)).is_some_and(|user| user.is_master());
        if self.preferred.is_none() || (user.is_master() && !has_master) {
            self.preferred = Some(token.to_owned());
        }
        self.users.insert(Sha256::digest(token).into(), Arc::new(user));
    }

    /// Returns the user of a token.
    fn user(&self, token: &str) -> Option<&Arc<UserInfo>> {
        self.users.get::<[u8; 32]>(&Sha256::digest(token).into())
    }

    /// Returns the token for a kubeconfig: of the first user in `system:masters`, or else of the first user.
    pub(crate) fn preferred(&self) -> Option<&str> {
        self.preferred.as_deref()
    }
}

/// Authenticates requests.
pub(crate) struct Authenticator {
    tokens: Option<Tokens>,
    client_authority: Option<ClientAuthority>,
    admin: Arc<UserInfo>,
    issuer: Issuer,
}

impl Authenticator {
    /// Creates an authenticator. Without [`Tokens`] the key of service account tokens is derived from the seed, because no client has to
    /// prove its identity.
    pub(crate) fn new(tokens: Option<Tokens>, seed: u64) -> Self {
        let issuer = if tokens.is_some() { Issuer::random() } else { Issuer::from_seed(seed) };
        Self { tokens, client_authority: None, admin: Arc::new(UserInfo::admin()), issuer }
    }

    /// Accepts client certificates of an authority.
    pub(crate) fn with_client_authority(mut self, authority: Option<ClientAuthority>) -> Self {
        if authority.is_some() {
            // Clients have to prove their identity, so the key must not be known.
            self.issuer = Issuer::random();
        }
        self.client_authority = authority;
        self
    }

    /// Signs and verifies tokens of service accounts with the given keys.
    pub(crate) fn with_account_keys(mut self, keys: Option<ServiceAccountKeys>) -> Self {
        if let Some(keys) = keys {
            self.issuer = Issuer::Keys(keys);
        }
        self
    }

    /// Returns the authority of client certificates.
    pub(crate) fn client_authority(&self) -> Option<&ClientAuthority> {
        self.client_authority.as_ref()
    }

    /// Returns the tokens; `None` if every client is admin.
    pub(crate) fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    /// Whether clients over sockets are anonymous without credentials.
    pub(crate) fn requires_credentials(&self) -> bool {
        self.tokens.is_some() || self.client_authority.is_some()
    }

    /// Returns the issuer of service account tokens.
    pub(crate) fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// Returns the user of a bearer token, and those `audiences` for which the token is valid.
    ///
    /// # Errors
    /// The reason why the token is invalid, as a message for a TokenReview.
    pub(crate) fn user_of(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
        objects: &impl ObjectLookup,
    ) -> Result<(Arc<UserInfo>, Vec<String>), String> {
        if let Some(user) = self.tokens.as_ref().and_then(|tokens| tokens.user(token)) {
            // A static token is valid only for the API server's own audience.
            let both: Vec<String> =
                audiences.iter().filter(|audience| *audience == self.issuer.name()).cloned().collect();
            return if both.is_empty() { Err(INVALID.to_owned()) } else { Ok((Arc::clone(user), both)) };
        }
        if !self.issuer.claims_to_be_ours(token) || !is_signed_form(token) {
            return Err(INVALID.to_owned());
        }
        let found = self.issuer.user_of(token, audiences, now, objects);
        found.map(|(user, both)| (Arc::new(user), both)).map_err(|why| format!("[{INVALID}, {why}]"))
    }

    /// Returns the user of a request. `is_remote` means that the request came over a socket. Without credentials, a caller in the process
    /// is admin unless it [names](Caller) its user, and any other client is anonymous.
    ///
    /// # Errors
    /// 401 for an unknown or invalid token.
    pub(crate) fn authenticate(
        &self,
        head: &Parts,
        is_remote: bool,
        now: impl Fn() -> Timestamp,
        objects: &impl ObjectLookup,
    ) -> Result<Arc<UserInfo>, ApiError> {
        let unauthorized = || ApiError::new(401, "Unauthorized", "Unauthorized");
        let mut is_refused = false;
        match head.extensions.get::<ClientCertificate>() {
            Some(ClientCertificate::Of { user, expires }) if now() <= *expires => {
                return Ok(Arc::clone(user));
            }
            Some(_) => is_refused = true,
            None => {}
        }
        match bearer(&head.headers) {
            // Without configured tokens, tokens are ignored. The exception are tokens of this server, which must be verified: an expired
            // one must not make its bearer admin.
            Some(token) if !self.requires_credentials() && !self.issuer.claims_to_be_ours(&token) => {
                Ok(self.without_credentials(head, is_remote))
            }
            Some(token) => match self.user_of(&token, &[self.issuer.name().to_owned()], now(), objects) {
                Ok((user, _)) => Ok(user),
                Err(why) => {
                    tracing::debug!(why, "bearer token refused");
                    Err(unauthorized())
                }
            },
            // A request with an invalid certificate is refused; it does not become anonymous.
            None if is_refused => Err(unauthorized()),
            None => Ok(self.without_credentials(head, is_remote)),
        }
    }

    /// Returns the warning for a bearer token that is ignored because more than one space precedes it. A client certificate is examined first.
    pub(crate) fn warning(&self, head: &Parts) -> Option<&'static str> {
        let has_certificate = matches!(head.extensions.get(), Some(ClientCertificate::Of { .. }));
        let given = String::from_utf8_lossy(head.headers.get(header::AUTHORIZATION)?.as_bytes());
        let words: Vec<&str> = given.trim().splitn(3, ' ').collect();
        let is_spaced = matches!(words[..], [scheme, "", _] if scheme.eq_ignore_ascii_case("bearer"));
        (is_spaced && !has_certificate && self.requires_credentials()).then_some(SPACED_TOKEN)
    }

    fn without_credentials(&self, head: &Parts, is_remote: bool) -> Arc<UserInfo> {
        match head.extensions.get::<Caller>() {
            Some(Caller(user)) => Arc::clone(user),
            None if is_remote && self.requires_credentials() => Arc::new(UserInfo::anonymous()),
            None => Arc::clone(&self.admin),
        }
    }
}

/// Warning about a token after several spaces.
const SPACED_TOKEN: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// Message for an unknown token.
const INVALID: &str = "invalid bearer token";

/// Returns the token of an `Authorization` header: its second word if the first is `Bearer`. Bytes that are not UTF-8 are part of the
/// token, so that such a token is refused like any other unknown one.
fn bearer(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    fn token(text: &str) -> Option<&str> {
        let mut words = text.trim().splitn(3, ' ');
        let is_bearer = words.next()?.eq_ignore_ascii_case("bearer");
        words.next().filter(|token| is_bearer && !token.is_empty())
    }
    match String::from_utf8_lossy(headers.get(header::AUTHORIZATION)?.as_bytes()) {
        Cow::Borrowed(text) => token(text).map(Cow::Borrowed),
        Cow::Owned(text) => token(&text).map(|token| Cow::Owned(token.to_owned())),
    }
}

#[cfg(test)]
mod tests;
