//! Durations of operations in nanoseconds.

use tokio::time::Instant;

/// Mean of a repeated operation.
///
/// # Errors
///
/// The first error of the operation.
pub fn per(times: usize, operation: impl Fn(usize) -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let started = Instant::now();
    (0..times).try_for_each(operation)?;
    Ok(started.elapsed().as_secs_f64() * 1e9 / times as f64)
}

/// Time until an operation returns its result. The result is freed afterwards, as a garbage collector does.
///
/// # Errors
///
/// The error of the operation.
pub fn once<T>(operation: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<f64> {
    let started = Instant::now();
    let result = operation()?;
    let elapsed = started.elapsed();
    drop(result);
    Ok(elapsed.as_secs_f64() * 1e9)
}
