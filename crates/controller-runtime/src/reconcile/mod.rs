//! The reconciler: user code that brings the world to the state that an object's spec asks for.

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

/// Request that a controller reconciles: any value that can be a key of the queue.
///
/// Usually an [`ObjectKey`](crate::ObjectKey). Implemented for every type with the listed properties: order and hash
/// distinguish requests, and the `Debug` form names a request in the log.
pub trait Request: Clone + Ord + Hash + fmt::Debug + Send + Sync + 'static {}

impl<T: Clone + Ord + Hash + fmt::Debug + Send + Sync + 'static> Request for T {}
