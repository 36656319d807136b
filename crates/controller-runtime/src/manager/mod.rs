//! The manager: shared clients and caches of controllers, and the order in which everything starts and stops.

mod alone;
mod cache_runnable;
mod clients;
mod cluster;
mod declared;
mod election_handle;
mod election_setup;
mod error;
mod event_writer;
mod explain_api;
mod explain_lookup;
mod explainer;
#[cfg(feature = "clap")]
mod flags;
pub(crate) mod manager_handle;
pub(crate) mod options;
mod run;
mod servers;
mod signals;
mod unmanaged;
mod weak;
mod webhook_setup;

#[cfg(feature = "clap")]
pub use self::flags::Flags;
use self::manager_handle::ManagerShared;
pub use self::{
    cluster::Cluster,
    error::{AddError, ManagerError},
    explain_lookup::ExplainError,
    options::{Epoch, Shutdown},
    signals::Signals,
    unmanaged::UnmanagedController,
    weak::WeakManager,
};
pub(crate) use self::{manager_handle::Manager, options::ManagerOptions};
pub use crate::client::transport::declaration_check::UndeclaredRequests;
pub use crate::runnable::{NeverReadyError, RunContext, Runnable, RunnableHandle, State};
