//! Attempts of a step, until one succeeds.

use std::{future::Future, pin::Pin, task::Poll};

use tokio::time::{Duration, sleep};

use super::{describe, outcome::End};
use crate::user::{Step, User};

/// Maximum number of attempts of a step, one a virtual second.
const ATTEMPTS: usize = 600;

/// A step that is tried until it succeeds.
pub(super) struct Attempt {
    pub(super) name: String,
    tries: Pin<Box<dyn Future<Output = Result<(), String>>>>,
    pub(super) result: Option<Result<(), String>>,
}

impl Attempt {
    pub(super) fn begin(step: &Step, user: &User) -> Self {
        let (step, user) = (step.clone(), user.clone());
        let name = step.name.to_string();
        let tries = async move {
            let mut last = String::new();
            for _ in 0..ATTEMPTS {
                match step.run(user.clone()).await {
                    Ok(()) => return Ok(()),
                    // A step may fail because the operator or a controller has not done its part yet.
                    Err(error) => last = describe(&*error),
                }
                sleep(Duration::from_secs(1)).await;
            }
            Err(format!("{ATTEMPTS} attempts failed, one per virtual second, the last one with: {last}"))
        };
        Self { name, tries: Box::pin(tries), result: None }
    }

    /// End of a run in which an attempt of a step never ends.
    pub(super) fn took_too_long(&self) -> End {
        let reason = "an attempt takes longer than seven virtual days".to_owned();
        End::StepFailed { step: self.name.clone(), reason }
    }

    pub(super) fn poll(&mut self, context: &mut std::task::Context<'_>) {
        // The driver polls on after the end, until `end_step` takes the result; a finished future must not be
        // polled.
        if self.result.is_none()
            && let Poll::Ready(result) = self.tries.as_mut().poll(context)
        {
            self.result = Some(result);
        }
    }
}
