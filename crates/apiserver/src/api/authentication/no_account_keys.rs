//! Stand-in for key files in a build without the feature `tls`.

use serde_json::Value;

/// Uninhabited: there are no key files in this build.
#[derive(Debug, Clone)]
pub(crate) enum ServiceAccountKeys {}

impl ServiceAccountKeys {
    pub(super) fn issuer(&self) -> &str {
        match *self {}
    }

    pub(super) fn algorithm(&self) -> &'static str {
        match *self {}
    }

    pub(super) fn id(&self) -> String {
        match *self {}
    }

    pub(super) fn public_keys(&self) -> Vec<Value> {
        match *self {}
    }

    pub(super) fn sign(&self, _message: &[u8]) -> Vec<u8> {
        match *self {}
    }

    pub(super) fn verify(&self, _algorithm: &str, _message: &[u8], _signature: &[u8]) -> bool {
        match *self {}
    }
}
