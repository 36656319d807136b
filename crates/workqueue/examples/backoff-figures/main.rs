//! `cargo run -p kube-workqueue --example backoff-figures [folder]`: the retry behaviour in five figures.
//!
//! Runs failing keys with real queues in paused time, prints the results as tables, and draws them as SVG files into
//! the folder (default: `target/backoff-figures`).

mod chart;
mod simulation;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chart::{Bars, Scale};
use kube_workqueue::{Bucket, ItemExponentialFailure, default_controller_rate_limiter};
use simulation::{Retries, fail};

const STORM: u32 = 10_000;
const SECONDS: usize = 20;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> io::Result<()> {
    let folder =
        std::env::args_os().nth(1).map_or_else(|| PathBuf::from("target/backoff-figures"), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    let span = Duration::from_secs(SECONDS as u64);

    let single = fail(ItemExponentialFailure::default(), 1, Duration::from_secs(4000)).await;
    delays(&single, &folder)?;
    per_second("A2", "One failing key: retries per second", "single-item", &single, &folder)?;

    let unbounded = fail(ItemExponentialFailure::default(), STORM, span).await;
    per_second(
        "A4",
        "10,000 failing keys, exponential only: retries per second",
        "storm",
        &unbounded,
        &folder,
    )?;

    let bucket = fail(Bucket::default(), STORM, span).await;
    per_second(
        "A5",
        "10,000 failing keys, bucket of 10/s and burst 100: retries per second",
        "bucket",
        &bucket,
        &folder,
    )?;

    let both = fail(default_controller_rate_limiter(), STORM, span).await;
    per_second(
        "A6",
        "10,000 failing keys, the longer of both: retries per second",
        "combination",
        &both,
        &folder,
    )?;

    println!("figures: {}", folder.display());
    Ok(())
}

/// A1: delay before each retry of a single key, and A2: the time of the retry.
fn delays(retries: &Retries, folder: &Path) -> io::Result<()> {
    println!("A1, A2  One failing key, 5 ms doubled up to 1000 s\n");
    println!("retry    delay [s]       at [s]");
    let delays = retries.delays();
    for (number, (delay, at)) in (1..).zip(delays.iter().zip(&retries.at)) {
        println!("{number:>5} {:>12.3} {:>12.3}", delay.as_secs_f64(), at.as_secs_f64());
    }
    println!();
    let bars = Bars {
        title: "One failing key: delay before each retry",
        x_label: "retry",
        y_label: "delay in seconds, logarithmic",
        scale: Scale::Logarithmic,
        bars: (1..)
            .map(|number: u32| number.to_string())
            .zip(delays.iter().map(Duration::as_secs_f64))
            .collect(),
    };
    std::fs::write(folder.join("a1-delays.svg"), bars.to_svg())
}

fn per_second(id: &str, title: &str, name: &str, retries: &Retries, folder: &Path) -> io::Result<()> {
    let counts = retries.per_second(SECONDS);
    println!("{id}  {title}\n");
    println!("second    retries");
    for (second, count) in counts.iter().enumerate() {
        println!("{second:>6} {count:>10}");
    }
    println!("   sum {:>10}\n", counts.iter().sum::<usize>());
    let bars = Bars {
        title,
        x_label: "second",
        y_label: "retries",
        scale: Scale::Linear,
        bars: counts.iter().enumerate().map(|(second, count)| (second.to_string(), *count as f64)).collect(),
    };
    std::fs::write(folder.join(format!("{}-{name}.svg", id.to_lowercase())), bars.to_svg())
}
