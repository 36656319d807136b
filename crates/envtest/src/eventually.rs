//! Assertions that wait for a condition, or check that it stays true.

use std::{fmt, future::Future};

use kube::Api;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    sync::Mutex,
    time::{Duration, Instant, sleep, timeout_at},
};

/// Interval between checks of a condition.
const INTERVAL: Duration = Duration::from_millis(10);

/// A condition that did not become true, or did not stay true.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unmet {
    /// Error of the last check.
    pub last: String,
    /// Time limit of the wait, or time for which the condition had been true.
    pub within: Duration,
    /// The object, or objects, of the last check as YAML, if there were any.
    pub object: Option<String>,
}

impl Unmet {
    fn new(last: String, within: Duration) -> Self {
        Self { last, within, object: None }
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "condition not met after {:?}: {}", self.within, self.last)?;
        match &self.object {
            Some(object) => write!(f, "\n{object}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Unmet {}

/// Calls `check` until it succeeds, and returns its value. The errors of `check` should say which condition does not hold yet.
///
/// Checks every 10 ms of tokio's time, so that the wait takes no real time in paused time. The error can be of any type that
/// implements `Display`, so `?` can propagate the error of a request. For errors of several types, use
/// `async || -> Result<_, BoxError>` or `anyhow::Result<_>`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use std::time::Duration;
/// use kube_envtest::eventually;
///
/// let mut checks = 0;
/// let seen = eventually(Duration::from_secs(5), async || {
///     checks += 1;
///     if checks < 3 { Err(format!("only {checks} checks")) } else { Ok(checks) }
/// });
/// assert_eq!(seen.await, Ok(3));
/// # }
/// ```
///
/// # Errors
///
/// The last error of `check`, once `within` has passed.
#[doc(alias = "Eventually")]
pub async fn eventually<T, E: fmt::Display>(
    within: Duration,
    check: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, Unmet> {
    // `poll` awaits one check before it starts the next, so the lock is always free.
    let check = Mutex::new(check);
    poll(within, || async { (*check.lock().await)().await }).await
}

/// Like [`eventually`], but for a `check` that borrows nothing from its closure. The returned future can then be `Send`, which the
/// compiler cannot show for an async closure.
pub(crate) async fn poll<T, E: fmt::Display, Fut: Future<Output = Result<T, E>>>(
    within: Duration,
    mut check: impl FnMut() -> Fut,
) -> Result<T, Unmet> {
    let deadline = Instant::now() + within;
    let mut last = "the first check did not complete".to_owned();
    // The timeout also ends a check that hangs; `last` then holds the error of the check before it.
    let outcome = timeout_at(deadline, async {
        loop {
            match check().await {
                Ok(value) => return value,
                Err(missing) => last = format!("{missing:#}"),
            }
            sleep(INTERVAL).await;
        }
    });
    outcome.await.map_err(|_| Unmet::new(last, within))
}

/// Calls `check` repeatedly for `during`, and returns its last value. The errors of `check` should say which condition no longer holds.
///
/// Checks every 10 ms of tokio's time, and at least once.
///
/// # Errors
///
/// The first error of `check`, or that a call of `check` did not complete.
#[doc(alias = "Consistently")]
pub async fn consistently<T, E: fmt::Display>(
    during: Duration,
    mut check: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, Unmet> {
    let started = Instant::now();
    let deadline = started + during;
    let unmet = |last| Unmet::new(last, started.elapsed());
    loop {
        // A check that starts before the deadline may take up to `during` longer.
        let outcome = timeout_at(deadline + during, check()).await;
        let value = match outcome {
            Ok(outcome) => outcome.map_err(|wrong| unmet(format!("{wrong:#}")))?,
            Err(_) => return Err(unmet("the check did not complete".to_owned())),
        };
        // The next check would begin after the deadline.
        if Instant::now() + INTERVAL > deadline {
            return Ok(value);
        }
        sleep(INTERVAL).await;
    }
}

/// Waits until the object exists and `check` succeeds. The errors of `check` should say which condition does not hold yet. A failure
/// prints the object.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::Namespace;
/// use kube::Api;
/// use kube_envtest::{Environment, eventually_object};
///
/// let env = Environment::builder().start().await?;
/// let namespaces: Api<Namespace> = Api::all(env.client());
/// eventually_object(&namespaces, "default", Duration::from_secs(5), |namespace| {
///     match namespace.status.as_ref().and_then(|status| status.phase.as_deref()) {
///         Some("Active") => Ok(()),
///         phase => Err(format!("its phase is {phase:?}")),
///     }
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The last error of `check` and the object, once `within` has passed.
#[doc(alias = "komega.Object")]
#[doc(alias = "komega.Get")]
pub async fn eventually_object<K, T>(
    api: &Api<K>,
    name: &str,
    within: Duration,
    mut check: impl FnMut(&K) -> Result<T, String>,
) -> Result<T, Unmet>
where
    K: kube::Resource + Clone + fmt::Debug + Serialize + DeserializeOwned,
{
    let mut last = Err(format!("{name} was not read in time"));
    let mut seen = None;
    let waited = timeout_at(Instant::now() + within, async {
        loop {
            // `seen` keeps the last object even if a later read fails, for the message.
            last = match read_existing(api, name).await {
                Ok(object) => check(seen.insert(object)),
                Err(missing) => Err(missing),
            };
            if last.is_ok() {
                return;
            }
            sleep(INTERVAL).await;
        }
    });
    // Whether it timed out shows in `last`.
    let _ = waited.await;
    last.map_err(|last| Unmet { last, within, object: seen.as_ref().map(as_yaml) })
}

/// Checks for `during` that the object exists and `check` succeeds. A failure prints the object.
///
/// # Errors
///
/// The first error of `check`, and the object.
pub async fn consistently_object<K, T>(
    api: &Api<K>,
    name: &str,
    during: Duration,
    mut check: impl FnMut(&K) -> Result<T, String>,
) -> Result<T, Unmet>
where
    K: kube::Resource + Clone + fmt::Debug + Serialize + DeserializeOwned,
{
    let mut seen = None;
    let outcome = consistently(during, async || {
        let object = read_existing(api, name).await?;
        let checked = check(&object);
        seen = Some(object);
        checked
    });
    outcome.await.map_err(|unmet| Unmet { object: seen.as_ref().map(as_yaml), ..unmet })
}

/// Waits until no object has this name. A failure prints the object.
///
/// # Errors
///
/// The object still exists when `within` has passed.
pub async fn eventually_gone<K>(api: &Api<K>, name: &str, within: Duration) -> Result<(), Unmet>
where
    K: kube::Resource + Clone + fmt::Debug + Serialize + DeserializeOwned,
{
    let mut last = format!("{name} was not read in time");
    let mut seen = None;
    let waited = timeout_at(Instant::now() + within, async {
        loop {
            match api.get_opt(name).await {
                Ok(None) => return,
                Ok(object) => {
                    last = format!("{name} is still there");
                    seen = object;
                }
                Err(error) => last = format!("{name} cannot be read: {error}"),
            }
            sleep(INTERVAL).await;
        }
    });
    match waited.await {
        Ok(()) => Ok(()),
        Err(_) => Err(Unmet { last, within, object: seen.as_ref().map(as_yaml) }),
    }
}

/// Reads an object. An object that does not exist is an error.
pub(crate) async fn read_existing<K>(api: &Api<K>, name: &str) -> Result<K, String>
where
    K: kube::Resource + Clone + fmt::Debug + DeserializeOwned,
{
    match api.get_opt(name).await {
        Ok(Some(object)) => Ok(object),
        Ok(None) => Err(format!("there is no {name} at {}", api.resource_url())),
        Err(error) => Err(format!("{name} cannot be read: {error}")),
    }
}

/// Formats an object as YAML, without `managedFields`. An object that cannot be serialized is formatted with `Debug`.
pub(crate) fn as_yaml<K: Serialize + fmt::Debug>(object: &K) -> String {
    let yaml = serde_json::to_value(object).ok().and_then(|mut value| {
        if let Some(metadata) = value.get_mut("metadata").and_then(serde_json::Value::as_object_mut) {
            // They are longer than the rest of most objects, and no check is about them.
            metadata.remove("managedFields");
        }
        serde_saphyr::to_string(&value).ok()
    });
    yaml.unwrap_or_else(|| format!("{object:#?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn eventually_fails_after_the_time_limit_with_the_last_error() {
        let started = Instant::now();
        let unmet =
            eventually::<(), String>(Duration::from_secs(2), async || Err("no pods".to_owned())).await;
        let unmet = unmet.expect_err("the condition is never true");
        assert_eq!(unmet.to_string(), "condition not met after 2s: no pods");
        assert_eq!(started.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_may_fail_with_any_error_that_can_be_displayed() {
        let outcome = eventually(Duration::from_secs(1), async || "ten".parse::<u32>());
        assert_eq!(outcome.await.unwrap_err().last, "invalid digit found in string");
        let outcome =
            eventually(Duration::from_secs(1), async || -> Result<u32, Box<dyn std::error::Error>> {
                let number = "10".parse::<u32>()?;
                if number > 9 {
                    Err("more than nine")?;
                }
                Ok(number)
            });
        assert_eq!(outcome.await.unwrap_err().last, "more than nine");
        let checked = consistently(Duration::from_secs(1), async || "ten".parse::<u32>());
        assert_eq!(checked.await.unwrap_err().last, "invalid digit found in string");
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_ends_at_the_time_limit() {
        let unmet = eventually::<(), String>(Duration::from_secs(2), std::future::pending).await;
        assert_eq!(unmet.expect_err("it hangs").last, "the first check did not complete");
        let unmet = consistently::<(), String>(Duration::from_secs(2), std::future::pending).await;
        assert_eq!(unmet.expect_err("it hangs").last, "the check did not complete");
    }

    #[tokio::test(start_paused = true)]
    async fn consistently_checks_for_the_whole_time() {
        let (started, mut checks) = (Instant::now(), 0);
        let outcome = consistently(Duration::from_secs(1), async || {
            checks += 1;
            Ok::<_, String>(checks)
        });
        assert_eq!(outcome.await, Ok(101), "the first and the last moment included");
        assert_eq!(started.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn consistently_fails_at_the_first_error() {
        let mut checks = 0;
        let outcome = consistently(Duration::from_secs(1), async || {
            checks += 1;
            if checks < 6 { Ok(()) } else { Err("a pod too many".to_owned()) }
        });
        assert_eq!(
            outcome.await.expect_err("at the sixth check").to_string(),
            "condition not met after 50ms: a pod too many"
        );
    }
}
