//! Discovery of kinds.

use std::sync::Arc;

use super::{
    call::{Call, Verb},
    client::Client,
    error::{ClientError, ErrorKind, describe},
    exchange,
};
use crate::object::DynamicKind;

impl Client {
    /// Looks up a kind in the API server's discovery. `group` is empty for the core group.
    ///
    /// # Errors
    ///
    /// The request failed; [`ClientError::is_not_served`] if there is no such kind.
    pub async fn discover(&self, group: &str, version: &str, kind: &str) -> Result<DynamicKind, ClientError> {
        let wanted = kube::core::GroupVersionKind::gvk(group, version, kind);
        // Discovery is not a call; this one only names the request in errors.
        let call = || Call::new(Verb::Get, Arc::new(DynamicKind::namespaced(group, version, kind, kind)));
        let timeout = self.settings().timeout;
        let found = tokio::time::timeout(timeout, kube::discovery::pinned_kind(self.kube(), &wanted)).await;
        let Ok(found) = found else { return Err(exchange::out_of_time(self.settings(), &call(), timeout)) };
        found.map(DynamicKind::from).map_err(|error| {
            let call = call();
            match error {
                kube::Error::Api(status) => ClientError::refused(&call, *status, None),
                kube::Error::Discovery(_) => ClientError::make(&call, ErrorKind::NotServed, None),
                error => {
                    ClientError::make(&call, ErrorKind::NoAnswer(describe(&error)), None).caused_by(error)
                }
            }
        })
    }
}
