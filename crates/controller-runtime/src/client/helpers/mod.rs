//! Tasks of reconcilers made of several requests: create-or-update, finalizers, owner references, retries.

pub(super) mod ensure;
pub(super) mod finalizer;
pub(super) mod owner;
pub(super) mod result_ext;
pub(super) mod retry;
