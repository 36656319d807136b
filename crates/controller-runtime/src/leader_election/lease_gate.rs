//! Write gate of leader election.

use std::sync::Arc;

use super::LeasePermitIssuer;
use crate::{
    client::{Call, PermitError, WriteGate, WritePermit},
    reconcile::unelected_controller,
};

/// Permits writes while this process leads, and interrupts those in flight when it stops leading.
pub(crate) struct LeaseGate {
    lease: String,
    issuer: Arc<LeasePermitIssuer>,
}

impl LeaseGate {
    pub(crate) fn new(lease: &str, issuer: Arc<LeasePermitIssuer>) -> Self {
        Self { lease: lease.to_owned(), issuer }
    }
}

impl WriteGate for LeaseGate {
    fn permit(&self, _: &Call) -> Result<WritePermit, PermitError> {
        if let Some(controller) = unelected_controller() {
            // Refused on the leader too: the write would work there, and fail on each standby.
            return Err(PermitError::misuse(format!(
                "controller {controller} runs without leader election, and this client writes only with the lease {}: \
                 use the client of the reconcile's context (`cx.client()`), or `Manager::ungated_client`",
                self.lease,
            )));
        }
        let permit = self.issuer.permit();
        let reason = format!("this process does not hold the lease {}", self.lease);
        if !permit.is_valid() {
            return Err(PermitError::new(reason));
        }
        Ok(WritePermit::until(async move {
            permit.ended().await;
            PermitError::new(reason)
        }))
    }
}
