//! Warm-up: sources of a controller that run while its process is on standby.

use std::{future::pending, sync::Arc};

use super::Controller;
use crate::{
    manager::{BoxError, RunContext, Runnable},
    reconcile::Request,
};

/// The sources of a controller with warm-up: they fill its queue from before the first leadership, and run on through all of
/// them.
pub(crate) struct WarmUp<R: Request>(pub(crate) Arc<Controller<R>>);

impl<R: Request> Runnable for WarmUp<R> {
    fn name(&self) -> String {
        format!("warm-up of {}", self.0.name())
    }

    fn signals_ready(&self) -> bool {
        true
    }

    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        let Self(controller) = self;
        let ready = async {
            controller.sources.synced().await;
            cx.set_ready();
            pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = cx.shutdown() => Ok(()),
            error = controller.run_sources() => Err(error),
            () = ready => Ok(()),
        }
    }
}
