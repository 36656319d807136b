//! Samples of a run, by figure, contender and round.

use std::collections::BTreeMap;

use crate::stats::Summary;

/// All samples of a run.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    series: BTreeMap<(String, String), Series>,
    bounds: BTreeMap<String, Bound>,
    /// Units of figures that are not declared in `figures`.
    units: BTreeMap<String, String>,
}

/// Samples of one contender for one figure.
#[derive(Debug, Default)]
pub(crate) struct Series {
    by_round: BTreeMap<usize, f64>,
    /// Reason why one or all rounds are missing.
    missing: Option<String>,
}

/// The best value that the machine could reach, and its derivation.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub(crate) value: f64,
    pub(crate) why: String,
}

impl Samples {
    pub(crate) fn add(&mut self, figure: &str, contender: &str, round: usize, value: f64) {
        self.entry(figure, contender).by_round.insert(round, value);
    }

    /// Records why a figure is missing.
    pub(crate) fn miss(&mut self, figure: &str, contender: &str, reason: &str) {
        self.entry(figure, contender).missing = Some(reason.to_owned());
    }

    pub(crate) fn bound(&mut self, figure: &str, value: f64, why: impl Into<String>) {
        self.bounds.insert(figure.to_owned(), Bound { value, why: why.into() });
    }

    pub(crate) fn bound_of(&self, figure: &str) -> Option<&Bound> {
        self.bounds.get(figure)
    }

    pub(crate) fn unit(&mut self, figure: &str, unit: &str) {
        self.units.insert(figure.to_owned(), unit.to_owned());
    }

    pub(crate) fn unit_of(&self, figure: &str) -> Option<&str> {
        self.units.get(figure).map(String::as_str)
    }

    fn entry(&mut self, figure: &str, contender: &str) -> &mut Series {
        self.series.entry((figure.to_owned(), contender.to_owned())).or_default()
    }

    pub(crate) fn series(&self, figure: &str, contender: &str) -> Option<&Series> {
        self.series.get(&(figure.to_owned(), contender.to_owned()))
    }

    pub(crate) fn summary(&self, figure: &str, contender: &str) -> Result<Summary, String> {
        let series = self.series(figure, contender).ok_or_else(|| "not part of this run".to_owned())?;
        let reason = || series.missing.clone().unwrap_or_else(|| "no round was completed".to_owned());
        Summary::of(series.by_round.values().copied()).ok_or_else(reason)
    }

    /// Ratio of the first contender's figure to the second's, per round, so that disturbances of a round affect both sides.
    /// Each side is a figure and a contender.
    pub(crate) fn ratio(&self, one: (&str, &str), other: (&str, &str)) -> Result<Summary, String> {
        let (above, below) = (self.series(one.0, one.1), self.series(other.0, other.1));
        self.summary(one.0, one.1).map_err(|reason| format!("{}: {reason}", one.1))?;
        self.summary(other.0, other.1).map_err(|reason| format!("{}: {reason}", other.1))?;
        let rounds = above.zip(below).into_iter().flat_map(|(above, below)| {
            // Only values of one round are compared, because a busy machine slows all contenders of a round.
            let pair = |(round, value): (&usize, &f64)| Some(value / below.by_round.get(round)?);
            above.by_round.iter().filter_map(pair).collect::<Vec<f64>>()
        });
        Summary::of(rounds).ok_or_else(|| "no round was completed by both".to_owned())
    }

    /// All figures of all contenders.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&str, &str, &Series)> {
        self.series.iter().map(|((figure, contender), series)| (&**figure, &**contender, series))
    }
}

impl Series {
    pub(crate) fn values(&self) -> Vec<f64> {
        self.by_round.values().copied().collect()
    }

    pub(crate) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_within_a_round() {
        let mut samples = Samples::default();
        for (round, slowness) in [(0, 1.0), (1, 10.0), (2, 3.0)] {
            samples.add("time", "ours", round, slowness * 2.0);
            samples.add("time", "theirs", round, slowness * 8.0);
        }
        let ratio = samples.ratio(("time", "theirs"), ("time", "ours")).expect("both were measured");
        assert_eq!((ratio.median, ratio.low, ratio.high), (4.0, 4.0, 4.0));
    }

    #[test]
    fn an_unmeasured_figure_has_a_reason() {
        let mut samples = Samples::default();
        samples.add("time", "ours", 0, 1.0);
        samples.miss("time", "theirs", "Go is not installed");
        let reason = samples.ratio(("time", "ours"), ("time", "theirs")).expect_err("it is not there");
        assert_eq!(reason, "theirs: Go is not installed");
        assert_eq!(samples.summary("space", "ours").expect_err("no"), "not part of this run");
    }
}
