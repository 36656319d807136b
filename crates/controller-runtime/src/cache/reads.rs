//! How often a state of an object is read, which tells whether it is worth keeping decoded.

/// Who reads an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Readers {
    /// Who wants this one.
    One,
    /// Who goes through all or many. That drives nothing out of the budget: what is read again and again would go for
    /// what is not, and be scattered over all the memory that the others took.
    Many,
    /// Who goes through more than the budget has room for. Nothing is kept of that: a part would spare little of the next time, and
    /// much when what was kept changes.
    TooMany,
}

/// How often a state was read by itself, and the one that it replaced.
///
/// What is read once between two changes, as by the one reconcile that a change leads to, is not kept decoded: it would be
/// found in no cache of the CPU when it is freed at the next change, and fill the budget meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reads {
    this: Times,
    replaced: Times,
    /// Whether somebody who goes through many has read this one.
    among_many: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Times {
    #[default]
    Never,
    Once,
    Often,
}

impl Reads {
    /// What is known of a new state, when this is known of the one that it replaces.
    pub(super) fn of_next(self) -> Self {
        Self { this: Times::Never, replaced: self.this, among_many: false }
    }

    /// Whether a read now is likely to be followed by another one of the same state.
    pub(super) fn promise_more(self) -> bool {
        self.this > Times::Never || self.among_many || self.replaced == Times::Often
    }

    /// Whether each state of the object is likely to be read.
    pub(super) fn promise_one(self) -> bool {
        self.this > Times::Never && self.replaced > Times::Never
    }

    /// Counts a read, and says what there was before it.
    pub(super) fn count(&mut self, readers: Readers) -> Self {
        let before = *self;
        match readers {
            Readers::One if self.this == Times::Never => self.this = Times::Once,
            Readers::One => self.this = Times::Often,
            Readers::Many => self.among_many = true,
            Readers::TooMany => {}
        }
        before
    }

    /// That of a state whose object is read once whenever it has changed.
    #[cfg(test)]
    pub(super) fn each_time() -> Self {
        Self { this: Times::Once, replaced: Times::Once, among_many: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads each of a row of states so many times, and says what is known when the next one arrives.
    fn after(times: &[usize]) -> Reads {
        times.iter().fold(Reads::default(), |before, &times| {
            let mut reads = before.of_next();
            for _ in 0..times {
                reads.count(Readers::One);
            }
            reads
        })
    }

    #[test]
    fn who_reads_many_twice_keeps_them_but_makes_nobody_expect_reads_of_the_next_state() {
        let mut reads = after(&[1]).of_next();
        assert!(!reads.count(Readers::Many).promise_more());
        assert!(reads.count(Readers::Many).promise_more());
        assert!(!reads.promise_one() && !reads.of_next().promise_more());
    }

    #[test]
    fn one_read_long_ago_promises_nothing_and_one_of_each_state_another_one() {
        assert!(!after(&[0, 1]).promise_one() && !after(&[1, 0]).promise_one());
        assert!(after(&[1, 1]).promise_one() && !after(&[1, 1]).of_next().promise_more());
    }

    #[test]
    fn two_reads_of_a_state_promise_two_of_the_next_one_and_no_more() {
        assert!(after(&[2]).of_next().promise_more());
        assert!(!after(&[2, 1]).of_next().promise_more());
    }
}
