//! Statistics of reads of a state, which decide whether it is worth keeping decoded.

/// Pattern of a read: whether the reader wants one object or iterates over many.
#[derive(Debug, Clone, Copy)]
pub(in crate::cache) enum ReadPattern {
    /// A read of one object.
    Single,
    /// A read within an iteration over many objects. Such reads evict nothing from the budget: they would replace objects that
    /// are read often by objects that are read rarely.
    Iteration,
    /// A read within an iteration over more objects than the budget has room for. None of them is kept: keeping only some
    /// would save little at the next iteration, and freeing them after a change is expensive.
    LargeIteration,
}

/// Number of reads of a state, and of the state that it replaced.
///
/// A state that is read once between two changes, such as by the one reconcile that follows a change, is not kept
/// decoded: it would occupy the budget until the next change, when freeing it costs cache misses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::cache) struct Reads {
    this: ReadCount,
    replaced: ReadCount,
    /// Whether a reader that iterates over many objects has read this state.
    among_many: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum ReadCount {
    #[default]
    Never,
    Once,
    Often,
}

impl Reads {
    /// Returns the initial statistics of the state that replaces this one.
    pub(in crate::cache) fn of_next(self) -> Self {
        Self { this: ReadCount::Never, replaced: self.this, among_many: false }
    }

    /// Whether a read now is likely to be followed by another read of the same state.
    pub(in crate::cache) fn predict_another_read(self) -> bool {
        self.this > ReadCount::Never || self.among_many || self.replaced == ReadCount::Often
    }

    /// Whether each state of the object is likely to be read.
    pub(in crate::cache) fn predict_reads_of_all_states(self) -> bool {
        self.this > ReadCount::Never && self.replaced > ReadCount::Never
    }

    /// Counts a read, and returns the statistics before it.
    pub(in crate::cache) fn count(&mut self, pattern: ReadPattern) -> Self {
        let before = *self;
        match pattern {
            ReadPattern::Single if self.this == ReadCount::Never => self.this = ReadCount::Once,
            ReadPattern::Single => self.this = ReadCount::Often,
            ReadPattern::Iteration => self.among_many = true,
            ReadPattern::LargeIteration => {}
        }
        before
    }

    /// Returns statistics of an object that is read once after each change.
    #[cfg(test)]
    pub(in crate::cache) fn each_time() -> Self {
        Self { this: ReadCount::Once, replaced: ReadCount::Once, among_many: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads each state of a sequence this many times, and returns the statistics when the next one arrives.
    fn after(times: &[usize]) -> Reads {
        times.iter().fold(Reads::default(), |before, &times| {
            let mut reads = before.of_next();
            for _ in 0..times {
                reads.count(ReadPattern::Single);
            }
            reads
        })
    }

    #[test]
    fn two_iterations_keep_a_state_but_do_not_predict_reads_of_the_next_state() {
        let mut reads = after(&[1]).of_next();
        assert!(!reads.count(ReadPattern::Iteration).predict_another_read());
        assert!(reads.count(ReadPattern::Iteration).predict_another_read());
        assert!(!reads.predict_reads_of_all_states() && !reads.of_next().predict_another_read());
    }

    #[test]
    fn one_read_per_state_predicts_one_read_of_the_next() {
        assert!(
            !after(&[0, 1]).predict_reads_of_all_states() && !after(&[1, 0]).predict_reads_of_all_states()
        );
        assert!(
            after(&[1, 1]).predict_reads_of_all_states() && !after(&[1, 1]).of_next().predict_another_read()
        );
    }

    #[test]
    fn two_reads_of_a_state_predict_two_of_the_next() {
        assert!(after(&[2]).of_next().predict_another_read());
        assert!(!after(&[2, 1]).of_next().predict_another_read());
    }
}
