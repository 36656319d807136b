//! The operator: its kinds and their controllers.

pub mod widget;

pub use widget::Widget;

use controller_runtime::{Manager, manager::AddError};

/// Adds all controllers to a manager.
pub fn add_to(manager: &Manager) -> Result<(), AddError> {
    widget::add_to(manager)
}
