//! State of one run: contenders, rounds and results.

use serde_json::Value;
use tokio::time::Duration;

use crate::build::{Language, Programs};
use crate::figures::find;
use crate::number::with_unit;
use crate::process::Process;
use crate::protocol::{Hung, Unsupported};
use crate::samples::Samples;

/// A measured peer, or one of several ways to use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) language: Language,
    /// Name of the variant, sent to the peer.
    pub(crate) variant: &'static str,
}

pub(crate) const OURS: Contender = Contender { name: "ours", language: Language::Ours, variant: "default" };
pub(crate) const GO: Contender =
    Contender { name: "controller-runtime", language: Language::Go, variant: "default" };
pub(crate) const KUBE_RS: Contender =
    Contender { name: "kube-rs", language: Language::KubeRs, variant: "default" };

/// The peers with their default variants.
pub(crate) const PEERS: [Contender; 3] = [OURS, GO, KUBE_RS];

impl Contender {
    pub(crate) const fn variant(self, name: &'static str, variant: &'static str) -> Self {
        Self { name, variant, ..self }
    }
}

/// Figures measured in one round, by ID.
pub(crate) type Measured = Vec<(&'static str, f64)>;

/// A run.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) programs: Programs,
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
    pub(crate) pods: usize,
    pub(crate) samples: Samples,
    /// Contenders in the order in which they first appeared, for tables.
    pub(crate) contenders: Vec<&'static str>,
    /// Duration of each part.
    pub(crate) took: Vec<(&'static str, Duration)>,
}

impl Session {
    pub(crate) fn new(programs: Programs, rounds: usize, quick: bool, pods: usize) -> Self {
        let (samples, contenders, took) = (Samples::default(), Vec::new(), Vec::new());
        Self { programs, rounds, quick, pods, samples, contenders, took }
    }

    /// Lets every contender measure the figures once per round. The order rotates from round to round. A failure is recorded, and
    /// the other contenders continue; a contender that hangs twice is skipped.
    pub(crate) async fn contest(
        &mut self,
        figures: &[&'static str],
        contenders: &[Contender],
        mut measure: impl AsyncFnMut(&Programs, Contender, usize) -> anyhow::Result<Measured>,
    ) {
        for contender in contenders {
            if !self.contenders.contains(&contender.name) {
                self.contenders.push(contender.name);
            }
        }
        let (mut absent, mut hung): (Vec<Contender>, Vec<Contender>) = (Vec::new(), Vec::new());
        for round in 0..self.rounds {
            for place in 0..contenders.len() {
                // Each round begins with another contender, so that none always has the same place.
                let contender = contenders[(place + round) % contenders.len()];
                if absent.contains(&contender) {
                    continue;
                }
                match measure(&self.programs, contender, round).await {
                    Ok(measured) => self.note(contender, round, &measured),
                    Err(error) => {
                        let reason = format!("{error:#}");
                        eprintln!("   {}: {reason}", contender.name);
                        // A single hang may be chance. After a second one each further round would only wait
                        // for the timeout.
                        if error.is::<Unsupported>() || (error.is::<Hung>() && hung.contains(&contender)) {
                            absent.push(contender);
                        } else if error.is::<Hung>() {
                            hung.push(contender);
                        }
                        for figure in figures {
                            self.samples.miss(figure, contender.name, &reason);
                        }
                    }
                }
            }
        }
    }

    fn note(&mut self, contender: Contender, round: usize, measured: &[(&'static str, f64)]) {
        for (figure, value) in measured {
            let unit = find(figure).map_or("", |figure| figure.unit);
            eprintln!("   {figure}: {}: {}", contender.name, with_unit(*value, unit));
            self.samples.add(figure, contender.name, round, *value);
        }
    }

    /// Records that these figures were not measured.
    pub(crate) fn miss(&mut self, figures: &[&'static str], contenders: &[Contender], error: &anyhow::Error) {
        eprintln!("   {error:#}");
        for (figure, contender) in
            figures.iter().flat_map(|figure| contenders.iter().map(move |contender| (figure, contender)))
        {
            self.samples.miss(figure, contender.name, &format!("{error:#}"));
        }
    }
}

/// Starts a peer.
pub(crate) fn start(programs: &Programs, contender: Contender) -> anyhow::Result<Process> {
    Process::start(contender.name, programs.peer(contender.language)?)
}

/// Common parameters of a peer's steps on a cluster, extended by `more`.
pub(crate) fn on(kubeconfig: &str, contender: Contender, more: Value) -> Value {
    let mut with = serde_json::json!({"kubeconfig": kubeconfig, "variant": contender.variant});
    if let (Some(with), Value::Object(more)) = (with.as_object_mut(), more) {
        with.extend(more);
    }
    with
}
