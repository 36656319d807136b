//! Who sends a request.
//!
//! A server without [`Tokens`] takes everybody for its admin. With them, a request over a socket is that of the user of its
//! bearer token; a token that nobody has is refused, and a request without any comes from `system:anonymous`, who may ask
//! for health and version alone. What the others may do is not restricted here.
//!
//! Whoever sends the token of a service account is that account, with and without [`Tokens`]. One that has expired, or whose
//! account is gone, is refused: it must not make anybody admin. Without [`Tokens`] every other token is passed over, so
//! that clients whose configuration has some token need no other.
//!
//! Texts and order follow kube-apiserver: its bearer token authenticator and the groups that it adds.

#[cfg(feature = "program")]
mod file;
mod service_account;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use http::header::{self, HeaderMap};
use http::request::Parts;
use jiff::Timestamp;

#[cfg(feature = "program")]
pub use file::InvalidTokenFile;

use crate::authorization::ANONYMOUS;
use crate::status::ApiError;
pub(crate) use service_account::{Bound, Claims, Found, ISSUER, Issuer, Objects, Reference};

/// The group of all who are members of nothing and may do everything.
const MASTERS: &str = "system:masters";
/// The group of everybody who proved who they are.
const AUTHENTICATED: &str = "system:authenticated";

/// A user as the server knows one: `user.Info` of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct UserInfo {
    /// Such as `jane` or `system:serviceaccount:default:builder`.
    pub name: String,
    /// Tells users of one name apart; may be empty.
    pub uid: String,
    /// In the order in which they were given, `system:authenticated` last.
    pub groups: Vec<String>,
    /// What else is known, by key: of a service account which token it sent, and to which pod and node that belongs.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A user who proved who they are: a member of `groups` and of `system:authenticated`.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        uid: impl Into<String>,
        groups: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let mut groups: Vec<String> = groups.into_iter().map(Into::into).collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { name: name.into(), uid: uid.into(), groups, extra: BTreeMap::new() }
    }

    /// Who everybody is where nobody is asked.
    pub(crate) fn admin() -> Self {
        Self::new("system:admin", "", [MASTERS])
    }

    fn anonymous() -> Self {
        let groups = vec!["system:unauthenticated".to_owned()];
        Self { name: ANONYMOUS.to_owned(), groups, ..Self::default() }
    }

    fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

/// Bearer tokens and their users.
#[derive(Clone, Default)]
pub struct Tokens {
    users: BTreeMap<String, Arc<UserInfo>>,
    /// The token of the first user who may do everything, or else of the first.
    preferred: Option<String>,
}

/// Without the tokens: they are secrets.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tokens").field(&self.users.len()).finish()
    }
}

impl Tokens {
    /// No tokens: nobody gets in.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one more. The last user of a token has it.
    #[must_use]
    pub fn with(mut self, token: impl Into<String>, user: UserInfo) -> Self {
        self.insert(token.into(), user);
        self
    }

    fn insert(&mut self, token: String, user: UserInfo) {
        let has_master = self
            .preferred
            .as_ref()
            .and_then(|token| self.users.get(token))
            .is_some_and(|user| user.is_master());
        if self.preferred.is_none() || (user.is_master() && !has_master) {
            self.preferred = Some(token.clone());
        }
        self.users.insert(token, Arc::new(user));
    }

    /// The token for a kubeconfig: of the first user in `system:masters`, or else of the first user.
    pub(crate) fn preferred(&self) -> Option<&str> {
        self.preferred.as_deref()
    }
}

/// Finds out who sends a request.
pub(crate) struct Authenticator {
    tokens: Option<Tokens>,
    admin: Arc<UserInfo>,
    issuer: Issuer,
}

impl Authenticator {
    /// What nobody needs to prove may be guessed from the seed.
    pub(crate) fn new(tokens: Option<Tokens>, seed: u64) -> Self {
        let issuer = if tokens.is_some() { Issuer::random() } else { Issuer::from_seed(seed) };
        Self { tokens, admin: Arc::new(UserInfo::admin()), issuer }
    }

    /// `None` if everybody is admin.
    pub(crate) fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    /// Who makes tokens of service accounts.
    pub(crate) fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// The user of a bearer token, and for which of `audiences` it is.
    ///
    /// # Errors
    /// Why it is nobody's, in words for a TokenReview.
    pub(crate) fn user_of(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
        objects: &impl Objects,
    ) -> Result<(Arc<UserInfo>, Vec<String>), String> {
        if let Some(user) = self.tokens.as_ref().and_then(|tokens| tokens.users.get(token)) {
            // These are for the API server, whatever they are.
            let both: Vec<String> =
                audiences.iter().filter(|audience| *audience == ISSUER).cloned().collect();
            return if both.is_empty() { Err(INVALID.to_owned()) } else { Ok((Arc::clone(user), both)) };
        }
        if !service_account::claims_to_be_ours(token) {
            return Err(INVALID.to_owned());
        }
        let found = self.issuer.user_of(token, audiences, now, objects);
        found.map(|(user, both)| (Arc::new(user), both)).map_err(|why| format!("[{INVALID}, {why}]"))
    }

    /// The user of a request. `is_remote` tells that it came over a socket: without credentials, a caller in the process is
    /// admin and anybody else anonymous.
    ///
    /// # Errors
    /// 401 for a token that nobody has.
    pub(crate) fn authenticate(
        &self,
        head: &Parts,
        is_remote: bool,
        now: impl Fn() -> Timestamp,
        objects: &impl Objects,
    ) -> Result<Arc<UserInfo>, ApiError> {
        match bearer(&head.headers) {
            Some(token) if self.tokens.is_none() && !service_account::claims_to_be_ours(token) => {
                Ok(Arc::clone(&self.admin))
            }
            Some(token) => match self.user_of(token, &[ISSUER.to_owned()], now(), objects) {
                Ok((user, _)) => Ok(user),
                Err(why) => {
                    tracing::debug!(why, "a token is refused");
                    Err(ApiError::new(401, "Unauthorized", "Unauthorized"))
                }
            },
            None if is_remote && self.tokens.is_some() => Ok(Arc::new(UserInfo::anonymous())),
            None => Ok(Arc::clone(&self.admin)),
        }
    }
}

/// Why a token of which nothing is known is refused.
const INVALID: &str = "invalid bearer token";

/// The token of an `Authorization` header: its second word if the first is `Bearer`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let mut words = text.splitn(3, ' ');
    let is_bearer = words.next()?.eq_ignore_ascii_case("bearer");
    words.next().filter(|token| is_bearer && !token.is_empty())
}

#[cfg(test)]
mod tests;
