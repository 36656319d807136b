//! The log of an operator, with the feature `logging`: levels, a filter, text or JSON, and wall time.
//!
//! ```
//! use controller_runtime::logging::{self, Format, LogOptions};
//! use tracing::level_filters::LevelFilter;
//!
//! # fn main() -> Result<(), logging::InitError> {
//! logging::init(&LogOptions::default().level(LevelFilter::DEBUG).format(Format::Json))?;
//! tracing::info!("it works");
//! # Ok(())
//! # }
//! ```
//!
//! With the feature `clap`, `manager::Flags` has flags for these options: `flags.init_logging()`.
//!
//! # Levels
//!
//! [`LogOptions::level`] applies to the operator and this library. Crates that carry requests (`tower`, `hyper`, `h2`, `rustls`,
//! `kube_client` and the like) stay at `INFO` or above: at `DEBUG` they write several lines for each request, more than
//! everything else together. A filter that names one of them shows its lines: `tower=debug`.
//!
//! The filter comes from [`LogOptions::filter`], or else from the environment variable `RUST_LOG`. It has directives for
//! targets, separated by commas: `my_operator=debug,kube_client=warn`. A level without a target replaces
//! [`LogOptions::level`].
//!
//! # Output
//!
//! Lines go to standard error, as in Go's scaffold, in colour if it is a terminal. Times are wall time in UTC, from the
//! same clock as conditions and events: in a test that pauses tokio's time, lines have virtual time.

use std::{
    env, fmt,
    io::{self, IsTerminal},
    str::FromStr,
};

use kube_clock::Clock;
use tracing::{Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer,
    filter::{ParseError, Targets},
    fmt::{TestWriter, format::Writer, time::FormatTime},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::{SubscriberInitExt, TryInitError},
};

/// Crates that write several lines for each request at `DEBUG`. A name covers all targets that begin with it.
const TRANSPORT: [&str; 8] = ["h2", "hyper", "kube_client", "mio", "notify", "reqwest", "rustls", "tower"];

/// Level, filter and format of the log. Default: text at level `INFO`.
#[derive(Debug, Clone)]
#[must_use]
pub struct LogOptions {
    level: LevelFilter,
    filter: Option<Targets>,
    format: Format,
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// A line of text for people.
    #[default]
    Text,
    /// A JSON object per line: `timestamp`, `level`, `message` and `target`, the fields of the event, and the fields of its span in
    /// `span`.
    Json,
}

/// Parses `text` (or Go's `console`) and `json`.
impl FromStr for Format {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" | "console" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("give text or json"),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

/// Error of setting up the log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The filter in the environment variable `RUST_LOG` cannot be parsed.
    #[error("RUST_LOG={text} is not a valid filter: give levels of targets, such as info,my_operator=debug")]
    Filter {
        /// The value of the variable.
        text: String,
        /// The parser's error.
        source: ParseError,
    },
    /// The process has a subscriber for `tracing`, or a logger for `log`, already.
    #[error(
        "the process has a tracing subscriber already: call logging::init only once, or add logging::layer to your own subscriber"
    )]
    Taken(#[source] TryInitError),
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { level: LevelFilter::INFO, filter: None, format: Format::Text }
    }
}

impl LogOptions {
    /// Sets the level of all targets that the filter does not name. Default: `INFO`.
    pub fn level(mut self, level: LevelFilter) -> Self {
        self.level = level;
        self
    }

    /// Sets the levels of single targets. Default: the filter in `RUST_LOG`, if set.
    pub fn filter(mut self, filter: Targets) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Sets the format. Default: text.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// The levels of all targets.
    fn targets(&self) -> Result<Targets, InitError> {
        let from_env = match (&self.filter, env::var("RUST_LOG")) {
            (None, Ok(text)) if !text.is_empty() => {
                Some(text.parse::<Targets>().map_err(|source| InitError::Filter { text, source })?)
            }
            _ => None,
        };
        Ok(targets(self.level, self.filter.as_ref().or(from_env.as_ref())))
    }
}

/// The levels of all targets: `level`, overridden by `filter`.
fn targets(level: LevelFilter, filter: Option<&Targets>) -> Targets {
    // A level without a target in the filter replaces the general level.
    let level = filter.and_then(Targets::default_level).unwrap_or(level);
    let named: Vec<(&str, LevelFilter)> = filter.into_iter().flat_map(Targets::iter).collect();
    let is_named = |transport: &str| named.iter().any(|(target, _)| transport.starts_with(target));
    let quiet = TRANSPORT.into_iter().filter(|transport| !is_named(transport));
    // Targets named by the filter come last, so that they override the quiet ones.
    Targets::new()
        .with_default(level)
        .with_targets(quiet.map(|transport| (transport, level.min(LevelFilter::INFO))))
        .with_targets(named.iter().map(|(target, level)| (*target, *level)))
}

/// Installs a subscriber for tests. `cargo test` prints its lines only below a test that fails. The level is `WARN`, unless
/// `RUST_LOG` sets another one. Does nothing if the process has a subscriber already, so that each test can call it.
///
/// Lines from other threads than that of the test, such as the workers of a multi-threaded runtime, appear at once.
pub fn init_for_tests() {
    let options = LogOptions::default().level(LevelFilter::WARN);
    // An invalid filter is ignored here; `init` reports it.
    let targets = options.targets().unwrap_or_else(|_| targets(options.level, None));
    let lines = tracing_subscriber::fmt::layer().with_timer(WallTime).with_ansi(false);
    let lines = lines.with_writer(TestWriter::with_stderr).with_filter(targets);
    // Fails if another test has installed it already.
    let _ = tracing_subscriber::registry().with(lines).try_init();
}

/// Installs a subscriber for this process that logs to standard error. Call it once, early in `main`.
///
/// # Errors
///
/// `RUST_LOG` is set and is not a valid filter, or the process has a subscriber already.
pub fn init(options: &LogOptions) -> Result<(), InitError> {
    tracing_subscriber::registry().with(layer(options)?).try_init().map_err(InitError::Taken)
}

/// Makes a layer that logs to standard error, for a subscriber with other layers.
///
/// ```
/// use controller_runtime::logging::{self, LogOptions};
/// use tracing_subscriber::layer::SubscriberExt;
///
/// # fn main() -> Result<(), logging::InitError> {
/// let subscriber = tracing_subscriber::registry().with(logging::layer(&LogOptions::default())?);
/// # let _ = subscriber;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// `RUST_LOG` is set and is not a valid filter.
pub fn layer<S>(options: &LogOptions) -> Result<Box<dyn Layer<S> + Send + Sync>, InitError>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let targets = options.targets()?;
    let lines = tracing_subscriber::fmt::layer().with_timer(WallTime).with_writer(io::stderr);
    Ok(match options.format {
        Format::Text => lines.with_ansi(io::stderr().is_terminal()).with_filter(targets).boxed(),
        Format::Json => lines.json().flatten_event(true).with_span_list(false).with_filter(targets).boxed(),
    })
}

/// Wall time in UTC to the microsecond, for the lines of your own subscriber. In paused time it is virtual time.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallTime;

impl FormatTime for WallTime {
    fn format_time(&self, to: &mut Writer<'_>) -> fmt::Result {
        write!(to, "{:.6}", Clock::default().now())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use tokio::time::{Duration, sleep};
    use tracing::Level;

    use super::*;

    /// Checks which of the targets are logged at DEBUG and at INFO.
    #[track_caller]
    fn check(level: LevelFilter, filter: &str, debug: &[&str], info: &[&str]) {
        let filter = (!filter.is_empty()).then(|| filter.parse().expect("a filter"));
        let targets = targets(level, filter.as_ref());
        let all = [
            "my_operator::loop",
            "controller_runtime::cache",
            "tower::buffer::worker",
            "hyper_util::client",
            "kube_client::client",
        ];
        let at = |level: Level| -> Vec<_> {
            all.iter()
                .filter(|target| targets.would_enable(target, &level))
                .map(|target| target.split("::").next().unwrap())
                .collect()
        };
        assert_eq!(at(Level::DEBUG), debug, "at DEBUG");
        assert_eq!(at(Level::INFO), info, "at INFO");
    }

    const ALL: [&str; 5] = ["my_operator", "controller_runtime", "tower", "hyper_util", "kube_client"];

    #[test]
    fn transport_crates_log_nothing_below_info_unless_named() {
        let ours = ["my_operator", "controller_runtime"];
        check(LevelFilter::INFO, "", &[], &ALL);
        check(LevelFilter::DEBUG, "", &ours, &ALL);
        check(LevelFilter::TRACE, "", &ours, &ALL);
        check(LevelFilter::ERROR, "", &[], &[]);
        check(
            LevelFilter::DEBUG,
            "tower=debug,my_operator=warn",
            &["controller_runtime", "tower"],
            &ALL[1..],
        );
        check(LevelFilter::INFO, "kube=debug", &["kube_client"], &ALL);
        check(LevelFilter::INFO, "kube_client=off", &[], &ALL[..4]);
    }

    #[test]
    fn a_level_without_a_target_takes_the_place_of_the_level() {
        check(LevelFilter::INFO, "debug", &["my_operator", "controller_runtime"], &ALL);
        check(LevelFilter::DEBUG, "error,my_operator=info", &[], &["my_operator"]);
    }

    #[test]
    fn formats_have_names() {
        for (text, format) in [("text", Format::Text), ("console", Format::Text), ("json", Format::Json)] {
            assert_eq!(text.parse(), Ok(format));
        }
        assert_eq!("xml".parse::<Format>(), Err("give text or json"));
        assert_eq!(Format::Json.to_string().parse(), Ok(Format::Json));
    }

    fn now() -> Timestamp {
        let mut text = String::new();
        WallTime.format_time(&mut Writer::new(&mut text)).expect("a time");
        text.parse().expect("a timestamp")
    }

    #[tokio::test(start_paused = true)]
    async fn lines_have_virtual_time_where_time_is_paused() {
        let before = now();
        sleep(Duration::from_secs(86_400)).await;
        assert_eq!(now().duration_since(before).as_secs(), 86_400);
    }
}
