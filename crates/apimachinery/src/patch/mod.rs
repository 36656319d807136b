//! Patches that are documents: JSON patch, merge patch and strategic merge patch.
//!
//! Server-side apply is in [`crate::managed_fields`].

mod admission;
mod json;
mod merge;
mod strategic;

pub use admission::{AdmissionPatchError, admission};
pub use json::json;
pub use merge::merge;
pub use strategic::strategic;

use crate::status::ApiError;

/// Builds a 422 without a cause.
fn rejected() -> ApiError {
    ApiError::new(422, "Invalid", "the server rejected our request due to an error in our request")
        .with_details("", "", "")
}
