//! Medians with confidence intervals.

/// Median of a few samples, with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    /// Bounds of the interval that contains the true median.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Probability that it does. It holds for any distribution, because each sample is above or below the true median with equal
    /// probability.
    pub(crate) confidence: f64,
    pub(crate) samples: usize,
}

/// Wanted confidence, if there are enough samples.
const WANTED: f64 = 0.95;

impl Summary {
    /// Summarises samples; `None` without samples.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let samples = sorted.len();
        let last = samples.checked_sub(1)?;
        // The narrowest interval with the wanted confidence; with few samples, the whole range.
        let inner = (0..=last / 2).rev().find(|&cut| confidence(samples, cut) >= WANTED).unwrap_or(0);
        Some(Self {
            median: f64::midpoint(sorted[last / 2], sorted[samples / 2]),
            low: sorted[inner],
            high: sorted[last - inner],
            confidence: confidence(samples, inner),
            samples,
        })
    }
}

/// Probability that the true median lies within the samples without the `cut` smallest and the `cut` greatest ones, that is,
/// more than `cut` samples lie below it and more than `cut` above.
fn confidence(samples: usize, cut: usize) -> f64 {
    let half_to_the_nth = 0.5_f64.powi(i32::try_from(samples).unwrap_or(i32::MAX));
    let mut ways = 1.0; // of `chosen` among `samples`
    let mut tail = 0.0;
    for chosen in 0..=cut {
        tail += ways * half_to_the_nth;
        ways *= (samples - chosen) as f64 / (chosen + 1) as f64;
    }
    (1.0 - 2.0 * tail).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_give_their_whole_range_and_say_how_sure_that_is() {
        let summary = Summary::of([3.0, 1.0, 2.0, 5.0, 4.0]).expect("there are samples");
        assert_eq!((summary.median, summary.low, summary.high), (3.0, 1.0, 5.0));
        assert!((summary.confidence - 0.9375).abs() < 1e-9, "1 - 2 / 2^5, not {}", summary.confidence);
    }

    #[test]
    fn many_samples_give_the_narrowest_interval_that_is_sure_enough() {
        let summary = Summary::of((1..=20).map(f64::from)).expect("there are samples");
        assert_eq!((summary.median, summary.low, summary.high), (10.5, 6.0, 15.0));
        assert!((0.95..0.97).contains(&summary.confidence), "{}", summary.confidence);
    }

    #[test]
    fn one_sample_is_sure_of_nothing() {
        let summary = Summary::of([7.0]).expect("there is a sample");
        assert_eq!((summary.median, summary.low, summary.high, summary.confidence), (7.0, 7.0, 7.0, 0.0));
        assert_eq!(Summary::of([]), None);
        assert_eq!(Summary::of([f64::NAN]), None);
    }
}
