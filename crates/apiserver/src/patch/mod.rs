//! The kinds of patch that are a document: JSON patch, merge patch and strategic merge patch.
//!
//! Server-side apply, the fourth kind, is in [`crate::managed_fields`].

mod json;
mod merge;

pub(crate) use json::json;
pub(crate) use merge::merge;
