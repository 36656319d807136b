//! Service account tokens: issuing and verification.
//!
//! A token is a JSON Web Token with the claims of kube-apiserver. Without [`ServiceAccountKeys`] it is signed by HMAC with a key of this
//! server; other servers cannot verify it and use TokenReview instead. Claims, messages and tolerances follow Kubernetes'
//! `pkg/serviceaccount`.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use kube_apimachinery::go::quote;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::UserInfo;
use super::account_keys::ServiceAccountKeys;

/// Issuer of tokens that this server signs with a key of its own. Also their audience, unless the request names others.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";
/// Encoding of the parts of a token. As in Go, the last character may have bits that belong to no byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));
/// Tolerated difference between clocks.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);
/// Maximum length in bytes. A longer text is not a token of this server.
const MAX_LENGTH: usize = 16 << 10;
const INVALIDATED: &str = "service account token has been invalidated";

/// Lookup of the objects to which a token is bound. They must exist when the token is used.
pub(crate) trait ObjectLookup {
    /// Returns the object of the core group with this name; `None` if there is none.
    fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<Found>;
}

/// Attributes of an existing object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) uid: String,
    /// Deletion timestamp: the time at which the object was removed, or will be.
    pub(crate) deleted: Option<Timestamp>,
}

/// A reference to an object by name and UID. The UID distinguishes it from later objects of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObjectReference {
    pub(crate) name: String,
    /// UID; empty for a node that does not exist.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
}

/// Claims of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    pub(crate) aud: Vec<String>,
    pub(crate) exp: i64,
    pub(crate) iat: i64,
    pub(crate) iss: String,
    /// Identifier of the token.
    pub(crate) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) bound: BoundObjects,
    pub(crate) nbf: i64,
    pub(crate) sub: String,
}

/// Objects to which a token is bound. The token becomes invalid when one of them is removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BoundObjects {
    pub(crate) namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<ObjectReference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<ObjectReference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<ObjectReference>,
    pub(crate) serviceaccount: ObjectReference,
}

impl Claims {
    /// Creates the claims of a new token, which [`Issuer::sign`] completes.
    pub(crate) fn new(
        id: String,
        bound: BoundObjects,
        audiences: &[String],
        now: Timestamp,
        seconds: i64,
    ) -> Self {
        let begin = now.as_second();
        let aud = audiences.to_vec();
        let sub = user_name(&bound);
        Self {
            aud,
            exp: begin.saturating_add(seconds),
            iat: begin,
            iss: String::new(),
            jti: id,
            bound,
            nbf: begin,
            sub,
        }
    }

    /// Checks the time and the bound objects. The error says why the token is not valid.
    fn check(&self, now: Timestamp, objects: &impl ObjectLookup) -> Result<(), String> {
        let leeway = LEEWAY.as_secs();
        if now.as_second() > self.exp.saturating_add(leeway) {
            return Err("service account token has expired".to_owned());
        }
        if now.as_second() < self.nbf.saturating_sub(leeway) {
            return Err("service account token is not valid yet".to_owned());
        }
        let bound = &self.bound;
        let namespace = bound.namespace.as_str();
        check_object(objects, now, "serviceaccounts", "service account", namespace, &bound.serviceaccount)?;
        if let Some(secret) = &bound.secret {
            check_object(objects, now, "secrets", "secret", namespace, secret)?;
        }
        if let Some(pod) = &bound.pod {
            // Only the pod is checked: its node may be removed before it.
            return check_object(objects, now, "pods", "pod", namespace, pod);
        }
        bound.node.as_ref().map_or(Ok(()), |node| check_object(objects, now, "nodes", "node", "", node))
    }

    fn user(&self) -> UserInfo {
        let bound = &self.bound;
        let groups =
            ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{}", bound.namespace)];
        let mut user = UserInfo::new(user_name(bound), bound.serviceaccount.uid.clone(), groups);
        let mut extra = |key: &str, value: String| {
            if !value.is_empty() {
                user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
            }
        };
        extra("credential-id", format!("JTI={}", self.jti));
        for (kind, object) in [("pod", &bound.pod), ("node", &bound.node)] {
            if let Some(object) = object {
                extra(&format!("{kind}-name"), object.name.clone());
                extra(&format!("{kind}-uid"), object.uid.clone());
            }
        }
        user
    }
}

fn user_name(bound: &BoundObjects) -> String {
    format!("system:serviceaccount:{}:{}", bound.namespace, bound.serviceaccount.name)
}

fn check_object(
    objects: &impl ObjectLookup,
    now: Timestamp,
    plural: &str,
    what: &str,
    namespace: &str,
    named: &ObjectReference,
) -> Result<(), String> {
    let found = objects.find(plural, namespace, &named.name).ok_or(INVALIDATED)?;
    // A terminating object counts as existing until its deletion timestamp.
    if found.deleted.is_some_and(|deleted| now.duration_since(deleted) > LEEWAY) {
        return Err(INVALIDATED.to_owned());
    }
    if found.uid != named.uid {
        return Err(format!("{what} UID ({}) does not match claim ({})", found.uid, named.uid));
    }
    Ok(())
}

/// Issues and verifies tokens.
pub(crate) enum Issuer {
    /// With a secret key of this server.
    Secret(Hmac<Sha256>),
    /// With given keys.
    Keys(ServiceAccountKeys),
}

/// Header of a token.
#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    alg: String,
    /// Identifier of the key.
    #[serde(default)]
    kid: String,
}

impl Issuer {
    /// Creates an issuer with a key derived from a seed, for servers that require no tokens.
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self::with_key(&Sha256::digest(format!("tokens of service accounts {seed}")))
    }

    /// Creates an issuer with a random key. A key derived from the seed could be guessed, because the UIDs of all objects are derived from
    /// the seed too.
    ///
    /// # Panics
    /// If the operating system has no random bytes.
    pub(crate) fn random() -> Self {
        let mut key = [0; 32];
        getrandom::fill(&mut key).expect("the operating system has random bytes");
        Self::with_key(&key)
    }

    fn with_key(key: &[u8]) -> Self {
        Self::Secret(Hmac::new_from_slice(key).expect("HMAC takes keys of any length"))
    }

    /// Returns the issuer of tokens, which is also their audience unless a request names others.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Secret(_) => ISSUER,
            Self::Keys(keys) => keys.issuer(),
        }
    }

    /// Returns the public keys that verify tokens, as a JSON Web Key Set. `None` without such keys, and like in kube-apiserver for
    /// an issuer that is not the URL of a discovery document: `https` without query and fragment.
    pub(crate) fn key_set(&self) -> Option<Value> {
        let Self::Keys(keys) = self else { return None };
        let name = self.name();
        let is_url = name.starts_with("https://") && !name.contains(['?', '#']);
        is_url.then(|| json!({"keys": keys.public_keys()}))
    }

    /// Returns the discovery document of OpenID Connect, with the address of the [key set](Self::key_set).
    pub(crate) fn configuration(&self, key_set_url: &str) -> Option<Value> {
        let keys = self.key_set()?;
        let algorithms = keys["keys"].as_array().into_iter().flatten().filter_map(|key| key["alg"].as_str());
        let algorithms: std::collections::BTreeSet<&str> = algorithms.collect();
        Some(json!({
            "issuer": self.name(),
            "jwks_uri": key_set_url,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        }))
    }

    /// Returns the token with these claims, of this issuer.
    pub(crate) fn sign(&self, claims: &Claims) -> String {
        let claims = Claims { iss: self.name().to_owned(), ..claims.clone() };
        let claims = serde_json::to_vec(&claims).expect("claims are texts and numbers");
        let header = match self {
            Self::Secret(_) => r#"{"alg":"HS256","typ":"JWT"}"#.to_owned(),
            Self::Keys(keys) => format!(r#"{{"alg":"{}","kid":"{}"}}"#, keys.algorithm(), keys.id()),
        };
        let signed = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims));
        let signature = match self {
            Self::Secret(key) => key.clone().chain_update(&signed).finalize().into_bytes().to_vec(),
            Self::Keys(keys) => keys.sign(signed.as_bytes()),
        };
        format!("{signed}.{}", BASE64.encode(signature))
    }

    /// Whether a signature is valid. The comparison takes constant time.
    fn is_signed(&self, signed: &str, signature: &[u8]) -> bool {
        match self {
            Self::Secret(key) => key.clone().chain_update(signed).verify_slice(signature).is_ok(),
            Self::Keys(keys) => {
                header_of(signed).is_some_and(|header| keys.verify(&header.alg, signed.as_bytes(), signature))
            }
        }
    }

    /// Whether there is a key with the identifier in the header of a token. A header without an identifier leaves the choice open.
    fn has_key_of(&self, signed: &str) -> bool {
        let id = header_of(signed).map(|header| header.kid).unwrap_or_default();
        match self {
            _ if id.is_empty() => true,
            Self::Secret(_) => false,
            Self::Keys(keys) => keys.has_key(&id),
        }
    }

    /// Returns the user of a token, and those `audiences` for which the token is valid.
    ///
    /// # Errors
    /// The reason why the token is invalid, as a message for a TokenReview.
    pub(crate) fn user_of(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
        objects: &impl ObjectLookup,
    ) -> Result<(UserInfo, Vec<String>), String> {
        // The text of the library that kube-apiserver uses.
        let invalid = || "go-jose/go-jose: error in cryptographic primitive".to_owned();
        if token.len() > MAX_LENGTH {
            return Err(invalid());
        }
        let (signed, signature) = token.rsplit_once('.').ok_or_else(invalid)?;
        let signature = BASE64.decode(signature).map_err(|_| invalid())?;
        if !self.has_key_of(signed) {
            return Err("invalid signature, no keys found".to_owned());
        }
        // The signature is verified before the claims are parsed.
        if !self.is_signed(signed, &signature) {
            return Err(invalid());
        }
        let claims = claims_of(token).filter(|claims| claims.iss == self.name()).ok_or_else(invalid)?;
        let both: Vec<String> =
            claims.aud.iter().filter(|audience| audiences.contains(audience)).cloned().collect();
        if both.is_empty() {
            return Err(format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted(&claims.aud),
                quoted(audiences)
            ));
        }
        claims.check(now, objects)?;
        Ok((claims.user(), both))
    }

    /// Whether the text claims to be a token of this issuer, genuine or not. Such a token must be verified, never ignored.
    pub(crate) fn claims_to_be_ours(&self, token: &str) -> bool {
        #[derive(Deserialize)]
        struct Issued {
            iss: String,
        }
        payload::<Issued>(token).is_some_and(|issued| issued.iss == self.name())
    }
}

/// Formats a list of texts as Go's `%q`.
fn quoted(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", texts.join(" "))
}

/// Whether a text has the form of a signed token: a header and a signature that can be decoded.
pub(super) fn is_signed_form(token: &str) -> bool {
    token
        .rsplit_once('.')
        .is_some_and(|(signed, signature)| header_of(signed).is_some() && BASE64.decode(signature).is_ok())
}

/// Reads the header of a token. The token is not verified.
fn header_of(token: &str) -> Option<Header> {
    let header = token.split('.').next().filter(|header| header.len() <= MAX_LENGTH)?;
    serde_json::from_slice(&BASE64.decode(header).ok()?).ok()
}

fn claims_of(token: &str) -> Option<Claims> {
    payload(token)
}

fn payload<T: serde::de::DeserializeOwned>(token: &str) -> Option<T> {
    if token.len() > MAX_LENGTH {
        return None;
    }
    // A text with a fourth part is not a token. The limit keeps the cost low for a text with many dots.
    let parts: Vec<&str> = token.splitn(4, '.').collect();
    let [_, payload, _] = *parts.as_slice() else {
        return None;
    };
    serde_json::from_slice(&BASE64.decode(payload).ok()?).ok()
}

#[cfg(test)]
mod tests;
