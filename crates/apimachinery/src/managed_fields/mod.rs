//! Field ownership: `metadata.managedFields`, and server-side apply, which depends on it.
//!
//! The algorithm is that of `structured-merge-diff`, with the rules that apimachinery's `managedfields` adds:
//!
//! - [`track_update()`] after a create, update or patch: the writer owns the changed fields.
//! - [`apply()`] merges the applied object into the live one. Fields that the applier applied earlier and no longer
//!   applies are removed, unless another manager owns them. Changing fields of others is a conflict unless forced.
//!
//! [`Schemas`] gives access to the other versions of a kind if their fields differ. [`track_update_across()`] and [`apply_across()`] then
//! compare objects in the version of each entry; [`track_update()`] and [`apply()`] assume that all versions have the same fields.

mod apply;
mod compare;
mod emptied;
mod extract;
mod fields_v1;
mod last_applied;
mod managers;
mod merge_applied;
mod merge_configuration;
mod remove;
pub mod scale;
mod schema_check;
mod set;
#[cfg(test)]
mod tests;
mod typed;
mod unapplied;
mod update;
mod versions;

pub use apply::{OnConflict, apply, apply_across, apply_and, describe};
pub use emptied::Emptied;
pub use merge_configuration::merge_configuration;
pub use update::{are_readable, keep_times_of_no_op, track_update, track_update_across, validate};
pub use versions::{Schemas, Versions};

/// The author, kind and time of a write.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// Field manager.
    pub manager: &'a str,
    /// Subresource that is written; empty for the object itself.
    pub subresource: &'a str,
    /// Version of the written object, such as `apps/v1`.
    pub api_version: &'a str,
    /// Current time in RFC 3339, whole seconds, UTC.
    pub now: &'a str,
}
