//! `--watch`: asks again each second, and prints answers that differ.

use tokio::time::{Duration, MissedTickBehavior, interval};

use super::{
    Format, Wanted, answer,
    operator_api::{ApiError, OperatorApi},
    place::Place,
};
use crate::{failure::Failure, shell::Shell};

/// Time between two questions.
const LOOK: Duration = Duration::from_secs(1);

/// Prints answers until Ctrl-C. An operator that stops answering, because it is being restarted, is asked again.
///
/// # Errors
///
/// The operator does not answer at first, refuses, or does not reconcile the kind; or its session or forwarded port has ended.
pub(super) async fn run(
    mut place: Place,
    mut api: OperatorApi,
    wanted: Option<&Wanted>,
    format: Format,
    shell: &Shell,
) -> Result<(), Failure> {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut shown: Option<String> = None;
    let mut is_lost = false;
    loop {
        tokio::select! {
            biased;
            stopped = tokio::signal::ctrl_c() => {
                return stopped.map_err(|error| Failure::new(format!("cannot wait for Ctrl-C: {error}")));
            }
            _ = looks.tick() => {}
        }
        match answer(&api, wanted).await {
            Ok(answer) => {
                let state = format.show(&answer.without_countdown());
                if is_lost || shown.as_ref() != Some(&state) {
                    if shown.is_some() && format == Format::Text {
                        shell.result("");
                    }
                    format.print(&answer, shell);
                }
                (shown, is_lost) = (Some(state), false);
            }
            // Before the first answer, a wrong address is more likely than a restart.
            Err(error @ ApiError::Unreachable(_)) if shown.is_some() => {
                let failure = place.failure(error);
                if !place.refresh()? {
                    return Err(failure);
                }
                api = OperatorApi::new(&place)?;
                if !is_lost {
                    shell.warn(format_args!("{failure}; retrying every second"));
                }
                is_lost = true;
            }
            Err(error) => return Err(place.failure(error)),
        }
    }
}
