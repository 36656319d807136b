//! Who set which field: `metadata.managedFields`, and server-side apply, which rests on it.
//!
//! The algorithm is that of `structured-merge-diff` with the rules that apimachinery's `managedfields` puts around it:
//!
//! - [`track_update()`] after a create, update or patch: what changed belongs to the writer.
//! - [`apply()`]: the applied object is merged into the live one; fields that the applier gave before and no longer gives
//!   go, unless somebody else has them; changing what others have is a conflict unless forced.
//!
//! All versions of a kind are taken to have the same fields, which holds for `conversion: None`.

mod apply;
mod check;
mod compare;
mod encode;
mod extract;
mod last_applied;
mod managers;
mod merge;
mod remove;
pub(crate) mod scale;
mod set;
#[cfg(test)]
mod tests;
mod typed;
mod update;

pub(crate) use apply::{apply, apply_and, describe};
pub(crate) use update::{keep_times_of_no_op, track_update};

/// Who writes, how, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer<'a> {
    /// The field manager.
    pub(crate) manager: &'a str,
    /// The subresource written to; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// The version of the object written, e.g. `apps/v1`.
    pub(crate) api_version: &'a str,
    /// The present in RFC 3339, whole seconds, UTC.
    pub(crate) now: &'a str,
}
