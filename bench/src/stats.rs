//! Medians, and how sure one can be of them.

/// What a few samples say about the value in the middle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    /// The interval that holds the true median…
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// …with this probability, whatever the distribution: samples fall on either side of the true median as coins do.
    pub(crate) confidence: f64,
    pub(crate) samples: usize,
}

/// How sure an interval should be, where there are samples enough.
const WANTED: f64 = 0.95;

impl Summary {
    /// Nothing, if there is nothing to summarise.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let samples = sorted.len();
        let last = samples.checked_sub(1)?;
        // The narrowest interval that is sure enough; with few samples, all of them.
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

/// The probability that the true median lies within all but the `cut` least and the `cut` greatest of `samples` values:
/// that neither `cut` or fewer lie below it, nor `cut` or fewer above.
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
