use std::fmt;

use tokio::time::{Duration, Instant, sleep, timeout_at};

/// How often a condition is looked at.
const INTERVAL: Duration = Duration::from_millis(10);

/// A condition that did not become true.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unmet {
    /// What was missing at the last look.
    pub last: String,
    /// How long it was waited for.
    pub within: Duration,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not so after {:?}: {}", self.within, self.last)
    }
}

impl std::error::Error for Unmet {}

/// Waits until `look` returns a value; an error of `look` says what is still missing.
///
/// Looks every 10 ms, in tokio's time: with paused time the wait takes none.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use kube_envtest::eventually;
///
/// let mut looks = 0;
/// let seen = eventually(Duration::from_secs(5), async || {
///     looks += 1;
///     if looks < 3 { Err(format!("only {looks} looks")) } else { Ok(looks) }
/// });
/// assert_eq!(seen.await, Ok(3));
/// # }
/// ```
///
/// # Errors
///
/// What was missing at the last look, when `within` has passed.
#[doc(alias = "Eventually")]
pub async fn eventually<T>(
    within: Duration,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> Result<T, Unmet> {
    let deadline = Instant::now() + within;
    let mut last = "the first look has not come to an end".to_owned();
    let looked = timeout_at(deadline, async {
        loop {
            match look().await {
                Ok(value) => return value,
                Err(missing) => last = missing,
            }
            sleep(INTERVAL).await;
        }
    });
    looked.await.map_err(|_| Unmet { last, within })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn gives_up_after_the_time_and_says_what_was_missing() {
        let started = Instant::now();
        let unmet = eventually::<()>(Duration::from_secs(2), async || Err("no pods".to_owned())).await;
        let unmet = unmet.expect_err("the condition is never true");
        assert_eq!(unmet.to_string(), "not so after 2s: no pods");
        assert_eq!(started.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_hangs_is_given_up_too() {
        let unmet = eventually::<()>(Duration::from_secs(2), std::future::pending).await;
        assert_eq!(unmet.expect_err("it hangs").last, "the first look has not come to an end");
    }
}
