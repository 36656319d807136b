//! Patches with a body of their own: JSON patch, merge patch, strategic merge patch, and the patches of admission webhooks.
//!
//! Server-side apply is in [`crate::managed_fields`].

mod admission;
mod json_patch;
mod merge_patch;
mod operations;
mod strategic;

pub use self::json_patch::{OperationForm, json, json_complaints};
pub use admission::{AdmissionPatchError, admission};
pub use merge_patch::merge;
pub use strategic::strategic;

use crate::status::ApiError;

/// Builds the 422 for a patch that cannot be applied. Like kube-apiserver's, it has no cause.
fn rejected() -> ApiError {
    ApiError::new(422, "Invalid", "the server rejected our request due to an error in our request")
        .with_details("", "", "")
}
