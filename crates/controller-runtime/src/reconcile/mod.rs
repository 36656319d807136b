//! The reconciler: user code that changes the cluster, or another system, to match the spec of an object.

pub(crate) mod action;
mod cause;
pub(crate) mod context;
pub(crate) mod error;
mod fn_reconciler;
pub(crate) mod object_reconciler;
mod outcome;
pub(crate) mod reconciler;
mod without_election;

use std::{fmt, hash::Hash};

pub(crate) use self::{
    action::{Action, NextRun},
    context::{Context, WorkerContext},
    error::{ReconcileError, Retry},
    outcome::Outcome,
    reconciler::Reconciler,
    without_election::{unelected_controller, without_election},
};
pub use self::{
    cause::{Cause, Causes, ChangeType, WithoutEvent},
    fn_reconciler::{FnReconciler, FnReconcilerWith, ReconcileFn, ReconcileFnWith, from_fn, from_fn_with},
    object_reconciler::{AsReconciler, as_reconciler},
};

/// Request that a controller reconciles, usually an [`ObjectKey`](crate::ObjectKey).
///
/// Implemented for every type with the listed properties. The queue distinguishes requests by order and hash, and the log names a
/// request by its `Debug` form.
pub trait Request: Clone + Ord + Hash + fmt::Debug + Send + Sync + 'static {}

impl<T: Clone + Ord + Hash + fmt::Debug + Send + Sync + 'static> Request for T {}
