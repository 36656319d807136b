//! A peer's side of the protocol: reads lines of JSON from standard input and answers each on standard output.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, stdin, stdout};

use crate::clock;

/// A step requested by the driver.
#[derive(Debug, Deserialize)]
pub struct Ask {
    /// Name of the step, such as `queue.one_at_a_time`.
    #[serde(rename = "do")]
    pub step: String,
    /// Parameters of the step.
    #[serde(default)]
    with: BTreeMap<String, Value>,
}

impl Ask {
    /// Returns a text parameter.
    ///
    /// # Errors
    ///
    /// The parameter is missing.
    pub fn text(&self, name: &str) -> anyhow::Result<&str> {
        self.with.get(name).and_then(Value::as_str).with_context(|| format!("{}: no text {name}", self.step))
    }

    /// Returns a number parameter.
    ///
    /// # Errors
    ///
    /// The parameter is missing.
    pub fn number(&self, name: &str) -> anyhow::Result<usize> {
        let number = self.with.get(name).and_then(Value::as_u64);
        number.map(|number| number as usize).with_context(|| format!("{}: no number {name}", self.step))
    }
}

/// Answer to the driver.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The step is complete; these are its measurements.
    Figures(BTreeMap<&'static str, Value>),
    /// The peer does not support the step, for this reason.
    Unsupported(&'static str),
    /// The step failed.
    Error(String),
}

impl Reply {
    /// The step is complete and has no measurements.
    #[must_use]
    pub fn done() -> Self {
        Self::Figures(BTreeMap::new())
    }

    /// The step is complete, with these measurements.
    pub fn figures<V: Into<Value>>(figures: impl IntoIterator<Item = (&'static str, V)>) -> Self {
        Self::Figures(figures.into_iter().map(|(name, value)| (name, value.into())).collect())
    }
}

/// A line of output: the reply, and the CPU seconds of the process so far.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    reply: Reply,
    cpu_seconds: f64,
}

/// Executes steps one after another.
pub trait Peer {
    /// Executes a step.
    fn step(&mut self, ask: &Ask) -> impl Future<Output = anyhow::Result<Reply>>;
}

/// Serves until the driver closes standard input, which also happens when the driver is killed.
///
/// # Errors
///
/// A request is invalid, or standard output is closed.
pub async fn serve(mut peer: impl Peer) -> anyhow::Result<()> {
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let ask: Ask = serde_json::from_str(&line).with_context(|| format!("not a request: {line}"))?;
        let reply = tokio::select! {
            reply = peer.step(&ask) => reply.unwrap_or_else(|error| Reply::Error(format!("{error:#}"))),
            // The driver sends nothing while it waits for an answer, so the next event on standard input is its end.
            next = lines.next_line() => {
                next?;
                return Ok(());
            }
        };
        let mut line = serde_json::to_vec(&Line { reply, cpu_seconds: clock::cpu_seconds() })?;
        line.push(b'\n');
        let mut output = stdout();
        output.write_all(&line).await?;
        output.flush().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_step_and_parameters() -> anyhow::Result<()> {
        let ask: Ask = serde_json::from_str(r#"{"do":"cache.start","with":{"retain":"decoded","pods":7}}"#)?;
        assert_eq!((&*ask.step, ask.text("retain")?, ask.number("pods")?), ("cache.start", "decoded", 7));
        assert!(ask.number("retain").is_err() && ask.text("absent").is_err());
        Ok(())
    }

    #[test]
    fn a_reply_is_one_object_with_the_cpu_time() -> anyhow::Result<()> {
        let shown = |reply| serde_json::to_string(&Line { reply, cpu_seconds: 0.5 });
        assert_eq!(shown(Reply::figures([("ns", 1.5)]))?, r#"{"figures":{"ns":1.5},"cpu_seconds":0.5}"#);
        assert_eq!(shown(Reply::done())?, r#"{"figures":{},"cpu_seconds":0.5}"#);
        assert_eq!(shown(Reply::Unsupported("no"))?, r#"{"unsupported":"no","cpu_seconds":0.5}"#);
        assert_eq!(shown(Reply::Error("bad".into()))?, r#"{"error":"bad","cpu_seconds":0.5}"#);
        Ok(())
    }
}
