//! Tasks of reconcilers made of several requests: create-or-update, finalizers, owner references, retries.

pub(super) mod ensure;
pub(crate) mod finalizer_list;
pub(crate) mod owner_reference;
pub(super) mod result_ext;
pub(super) mod retry;
