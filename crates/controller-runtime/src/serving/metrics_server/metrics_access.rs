//! Access control of metrics by the API server: TokenReview authenticates the client, SubjectAccessReview authorizes it.
//!
//! The values are controller-runtime's. An authenticated token is cached for 1 minute, a permission for 5 minutes and a refusal for
//! half a minute. A review may take 10 s, and is tried five times. The first pause is 500 ms, and each further one half as long
//! again; up to a fifth is added at random.

use std::{collections::BTreeMap, future::Future, time::Duration};

use http::{StatusCode, header::AUTHORIZATION};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, api::PostParams};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    client::describe,
    serving::{HttpRequest, HttpResponse, text},
};

const TOKEN: Duration = Duration::from_secs(60);
const ALLOWED: Duration = Duration::from_secs(5 * 60);
const DENIED: Duration = Duration::from_secs(30);
const REVIEW: Duration = Duration::from_secs(10);
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Largest number of cached results of each kind; beyond it, the one that expires first is dropped.
const REMEMBERED: usize = 4096;

/// Sends reviews to the API server, and caches their results.
pub(super) struct Access {
    tokens: Api<TokenReview>,
    permissions: Api<SubjectAccessReview>,
    users: Mutex<Memory<String, Option<UserInfo>>>,
    /// Results by the whole review, as in Go, because a token may have fewer permissions than its user.
    verdicts: Mutex<Memory<String, bool>>,
    rng: Mutex<fastrand::Rng>,
}

impl Access {
    pub(super) fn new(client: kube::Client, rng: fastrand::Rng) -> Self {
        Self {
            tokens: Api::all(client.clone()),
            permissions: Api::all(client),
            users: Mutex::default(),
            verdicts: Mutex::default(),
            rng: Mutex::new(rng),
        }
    }

    /// Checks whether the client may see the response; if not, returns the refusal.
    pub(super) async fn check(&self, request: &HttpRequest) -> Result<(), HttpResponse> {
        let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let Some((_, token)) = token.filter(|(_, token)| !token.trim().is_empty()) else {
            return Err(text(StatusCode::UNAUTHORIZED, "Unauthorized\n"));
        };
        let user = self.user(token.trim()).await.map_err(|error| {
            tracing::error!("a client of the metrics server could not be authenticated: {error}");
            text(StatusCode::INTERNAL_SERVER_ERROR, "Authentication failed\n")
        })?;
        let Some(user) = user else { return Err(text(StatusCode::UNAUTHORIZED, "Unauthorized\n")) };
        let (path, verb) = (request.uri().path(), request.method().as_str().to_ascii_lowercase());
        let name = user.username.clone().unwrap_or_default();
        let allowed = self.allows(user, path, &verb).await.map_err(|error| {
            tracing::error!(
                user = name,
                "user {name} of the metrics server could not be authorized: {error}"
            );
            text(StatusCode::INTERNAL_SERVER_ERROR, "Authorization failed\n")
        })?;
        if allowed {
            Ok(())
        } else {
            Err(text(StatusCode::FORBIDDEN, format!("Authorization denied for user {name}\n")))
        }
    }

    async fn user(&self, token: &str) -> Result<Option<UserInfo>, String> {
        // A rejected token is cached as well, so that guessing does not load the API server.
        if let Some(user) = self.users.lock().get(&token.to_owned(), Instant::now()) {
            return Ok(user);
        }
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let params = PostParams::default();
        let status = self.ask(|| self.tokens.create(&params, &review)).await?.status.unwrap_or_default();
        if let Some(error) = status.error.filter(|_| status.authenticated != Some(true)) {
            tracing::debug!("the API server rejected the token of a client of the metrics server: {error}");
        }
        let user = status.user.filter(|_| status.authenticated == Some(true));
        self.users.lock().put(token.to_owned(), user.clone(), Instant::now() + TOKEN);
        Ok(user)
    }

    async fn allows(&self, user: UserInfo, path: &str, verb: &str) -> Result<bool, String> {
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some(verb.to_owned()),
            }),
            ..SubjectAccessReviewSpec::default()
        };
        // The key of the cache covers everything that the decision depends on.
        let question = serde_json::to_string(&spec).map_err(|error| error.to_string())?;
        if let Some(allowed) = self.verdicts.lock().get(&question, Instant::now()) {
            return Ok(allowed);
        }
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let params = PostParams::default();
        let status = self.ask(|| self.permissions.create(&params, &review)).await?.status;
        let allowed = status.is_some_and(|status| status.allowed);
        self.verdicts.lock().put(question, allowed, Instant::now() + if allowed { ALLOWED } else { DENIED });
        Ok(allowed)
    }

    /// Sends a review until the API server answers it, up to five times. Returns the reason of the last failure.
    async fn ask<T, F>(&self, request: impl Fn() -> F) -> Result<T, String>
    where
        F: Future<Output = Result<T, kube::Error>>,
    {
        let (mut pause, mut attempt) = (FIRST_PAUSE, 1);
        loop {
            let reason = match timeout(REVIEW, request()).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => describe(&error),
                Err(_) => format!("no answer within {} s", REVIEW.as_secs()),
            };
            if attempt == ATTEMPTS {
                return Err(reason);
            }
            // Jitter spreads the retries of many scrapers.
            let jitter = 1.0 + self.rng.lock().f64() * 0.2;
            sleep(pause.mul_f64(jitter)).await;
            pause = pause.mul_f64(1.5);
            attempt += 1;
        }
    }
}

/// Results that expire.
struct Memory<K, V> {
    answers: BTreeMap<K, (V, Instant)>,
}

impl<K: Ord + Clone, V: Clone> Memory<K, V> {
    fn get(&self, key: &K, now: Instant) -> Option<V> {
        let (value, until) = self.answers.get(key)?;
        (now < *until).then(|| value.clone())
    }

    fn put(&mut self, key: K, value: V, until: Instant) {
        if self.answers.len() >= REMEMBERED {
            let first = self.answers.iter().min_by_key(|(_, (_, until))| *until).map(|(key, _)| key.clone());
            first.and_then(|key| self.answers.remove(&key));
        }
        self.answers.insert(key, (value, until));
    }
}

impl<K, V> Default for Memory<K, V> {
    fn default() -> Self {
        Self { answers: BTreeMap::new() }
    }
}
