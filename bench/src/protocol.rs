//! Protocol between the driver and a peer: one line of JSON in each direction per step.
//!
//! ```text
//! → {"do":"queue.fill_then_drain","with":{"keys":300000}}
//! ← {"figures":{"wall_ns":281.4,"cpu_ns":279.0},"cpu_seconds":0.11}
//! ← {"unsupported":"kube-rs has no leader election","cpu_seconds":0.01}
//! ← {"error":"connection refused","cpu_seconds":0.02}
//! ```

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A step and its parameters.
#[derive(Debug, Serialize)]
pub(crate) struct Ask<'a> {
    #[serde(rename = "do")]
    pub(crate) step: &'a str,
    pub(crate) with: Value,
}

/// Answer to a step.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
    /// CPU seconds of the peer, from its start to this answer.
    pub(crate) cpu_seconds: f64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Figures(BTreeMap<String, Value>),
    Unsupported(String),
    Error(String),
}

/// The peer does not support the subject of a step.
#[derive(Debug)]
pub(crate) struct Unsupported(pub(crate) String);

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unsupported {}

/// A peer did not answer in time.
#[derive(Debug)]
pub(crate) struct Hung(pub(crate) String);

impl std::fmt::Display for Hung {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Hung {}

/// Figures of a completed step.
#[derive(Debug)]
pub(crate) struct Figures {
    step: String,
    values: BTreeMap<String, Value>,
    pub(crate) cpu_seconds: f64,
}

impl Figures {
    /// Reads a peer's answer to `step`.
    pub(crate) fn read(step: &str, line: &str) -> anyhow::Result<Self> {
        let answer: Answer =
            serde_json::from_str(line).with_context(|| format!("{step}: not an answer: {line}"))?;
        match answer.outcome {
            Outcome::Figures(values) => {
                Ok(Self { step: step.to_owned(), values, cpu_seconds: answer.cpu_seconds })
            }
            Outcome::Unsupported(reason) => Err(Unsupported(reason).into()),
            Outcome::Error(error) => Err(anyhow::anyhow!("{step}: {error}")),
        }
    }

    pub(crate) fn number(&self, name: &str) -> anyhow::Result<f64> {
        let number = self.values.get(name).and_then(Value::as_f64);
        number.with_context(|| format!("{}: the answer has no number {name}", self.step))
    }

    pub(crate) fn value(&self, name: &str) -> anyhow::Result<&Value> {
        self.values.get(name).with_context(|| format!("{}: the answer has no {name}", self.step))
    }

    pub(crate) fn text(&self, name: &str) -> anyhow::Result<&str> {
        self.value(name)?.as_str().with_context(|| format!("{}: {name} is no text", self.step))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_read_by_name() -> anyhow::Result<()> {
        let figures = Figures::read("a.b", r#"{"figures":{"ns":1.5,"name":"x"},"cpu_seconds":2}"#)?;
        assert_eq!((figures.number("ns")?, figures.text("name")?, figures.cpu_seconds), (1.5, "x", 2.0));
        let missing = figures.number("absent").expect_err("it is not there").to_string();
        assert_eq!(missing, "a.b: the answer has no number absent");
        Ok(())
    }

    #[test]
    fn unsupported_steps_differ_from_failed_ones() {
        let read = |line| Figures::read("a.b", line).expect_err("there are no figures");
        assert!(read(r#"{"unsupported":"none here","cpu_seconds":0}"#).is::<Unsupported>());
        let failed = read(r#"{"error":"no luck","cpu_seconds":0}"#);
        assert!(!failed.is::<Unsupported>());
        assert_eq!(failed.to_string(), "a.b: no luck");
        assert!(read("panicked at").to_string().contains("panicked at"));
    }

    #[test]
    fn a_step_is_one_line() -> serde_json::Result<()> {
        let line = serde_json::to_string(&Ask { step: "cache.start", with: json!({"variant": "compact"}) })?;
        assert_eq!(line, r#"{"do":"cache.start","with":{"variant":"compact"}}"#);
        Ok(())
    }
}
