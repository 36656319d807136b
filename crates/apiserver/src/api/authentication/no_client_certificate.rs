//! Stand-in for client certificates in a build without the feature `tls`.

/// Uninhabited: there are no client certificates in this build.
#[derive(Debug, Clone)]
pub(crate) enum ClientAuthority {}

impl ClientAuthority {
    /// Never called.
    pub(crate) fn pem(&self) -> &str {
        match *self {}
    }
}
