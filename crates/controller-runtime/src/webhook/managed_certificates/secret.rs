//! Encodes generations as the data of the Secret, and decodes them. Pure, except for the log.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{ByteString, api::core::v1::Secret};

use super::{
    authority::{self, Material},
    rotation::Generation,
};
use crate::error::BoxError;

/// Key of all authorities together, for readers other than the operator.
const BUNDLE: &str = "ca.crt";
// Endings of the three keys of a generation, which begin with its ID.
const AUTHORITY: &str = ".ca.crt";
const CERTIFICATE: &str = ".tls.crt";
const KEY: &str = ".tls.key";

/// Keys of a Secret that the operator did not write. It must not overwrite them.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("it holds {}, which the operator has not written: choose another Secret for the webhook certificates, or delete this one", keys.join(", "))]
pub(super) struct ForeignSecretError {
    keys: Vec<String>,
}

/// Reads the generations. Those that are incomplete or invalid are left out, and logged.
///
/// # Errors
/// The Secret holds something else.
pub(super) fn generations(secret: &Secret) -> Result<Vec<Generation<Material>>, ForeignSecretError> {
    let empty = BTreeMap::new();
    let data = secret.data.as_ref().unwrap_or(&empty);
    let suffixes = [AUTHORITY, CERTIFICATE, KEY];
    let is_foreign =
        |key: &&String| *key != BUNDLE && !suffixes.iter().any(|suffix| id_in(key, suffix).is_some());
    let keys: Vec<String> = data.keys().filter(is_foreign).cloned().collect();
    if !keys.is_empty() {
        return Err(ForeignSecretError { keys });
    }
    let ids: BTreeSet<&str> =
        data.keys().filter_map(|key| suffixes.iter().find_map(|suffix| id_in(key, suffix))).collect();
    let text = |id: &str, suffix: &str| {
        let value = data.get(&format!("{id}{suffix}"))?;
        String::from_utf8(value.0.clone()).ok()
    };
    let read = |id: &&str| {
        let material = text(id, AUTHORITY).zip(text(id, CERTIFICATE)).zip(text(id, KEY));
        let material =
            material.map(|((authority, certificate), key)| Material { authority, certificate, key });
        let generation =
            material.ok_or_else(|| "a key is missing".into()).and_then(|all| authority::read(id, all));
        // The error contains no part of the private key, so that it can be logged.
        let invalid = |error: &BoxError| {
            let secret = secret.metadata.name.as_deref();
            tracing::warn!(
                secret,
                id,
                "ignored an invalid generation of webhook certificates in the Secret: {error}"
            );
        };
        generation.inspect_err(invalid).ok()
    };
    Ok(ids.iter().filter_map(read).collect())
}

/// Returns the ID of the generation to which a key of the Secret with this ending belongs.
fn id_in<'k>(key: &'k str, suffix: &str) -> Option<&'k str> {
    key.strip_suffix(suffix).filter(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Encodes generations as the data of the Secret.
pub(super) fn data(generations: &[Generation<Material>]) -> BTreeMap<String, ByteString> {
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let bundle: String = generations.iter().map(|generation| &*generation.material.authority).collect();
    let parts = generations.iter().flat_map(|Generation { id, material, .. }| {
        [(AUTHORITY, &material.authority), (CERTIFICATE, &material.certificate), (KEY, &material.key)]
            .map(|(suffix, text)| (format!("{id}{suffix}"), bytes(text)))
    });
    parts.chain([(BUNDLE.to_owned(), bytes(&bundle))]).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn generations_are_read_as_written_and_invalid_ones_are_skipped() {
        let mint = |second| {
            let names = BTreeSet::from(["hooks.system.svc".to_owned()]);
            authority::mint(&names, Duration::from_secs(second), Duration::from_secs(86_400)).unwrap()
        };
        let mut all = vec![mint(1_800_000_000), mint(1_800_000_500)];
        all.sort_by(|a, b| a.id.cmp(&b.id));
        let mut secret = Secret { data: Some(data(&all)), ..Secret::default() };
        assert_eq!(generations(&secret).unwrap(), all);
        let held = secret.data.as_mut().unwrap();
        held.insert(format!("{}{CERTIFICATE}", all[0].id), ByteString(b"nothing".to_vec()));
        assert_eq!(generations(&secret).unwrap(), all[1..]);
        secret.data.as_mut().unwrap().remove(&format!("{}{KEY}", all[1].id));
        assert_eq!(generations(&secret).unwrap(), []);
        assert_eq!(generations(&Secret::default()).unwrap(), [], "an empty Secret may be made in advance");
    }

    #[test]
    fn a_secret_with_other_data_is_not_taken_over() {
        let data = BTreeMap::from([("password".to_owned(), ByteString(Vec::new()))]);
        let error = generations(&Secret { data: Some(data), ..Secret::default() }).unwrap_err();
        assert!(error.to_string().starts_with("it holds password, which the operator has not written"));
    }
}
