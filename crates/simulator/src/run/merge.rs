//! Early end of a run that has become equal to the run without faults again.
//!
//! After a crash a process knows only the objects that it reads again. Once the world equals that of the run without faults when a step
//! is done, and again when the next one is done, the rest of the run would repeat it. An operator that depends on its memory is found by
//! other crashes of a sweep, which happen while the world is quiet after each step. Runs with other deviations, in which a process with a
//! memory lives on, are played to their end.

use super::{expected::Expected, outcome::QuietWorld};
use crate::{
    definition::Definition,
    plan::{DeviationKind, Plan},
    truth::has_equal_counts,
};

/// The comparison of a run with the run without faults, until the two are equal.
pub(super) struct Merge<'e> {
    /// `None` if the run is played to its end.
    expected: Option<&'e Expected>,
    /// Step after which the world was equal, with all deviations done.
    equal_after: Option<usize>,
    merged_after: Option<usize>,
}

impl<'e> Merge<'e> {
    /// The comparison for a run of `plan`.
    pub(super) fn with(expected: Option<&'e Expected>, definition: &Definition, plan: &Plan) -> Self {
        let is_crash = |what: DeviationKind| {
            matches!(
                what,
                DeviationKind::CrashBefore(_)
                    | DeviationKind::CrashAfter(_)
                    | DeviationKind::CrashAtRest(_)
                    | DeviationKind::CrashAgain
            )
        };
        let crashes_only = plan.deviations.iter().all(|deviation| is_crash(deviation.what));
        let tested = definition.programs.iter().filter(|program| program.is_tested);
        // A second process has a memory that the equal world does not show.
        let has_one_process = tested.map(|program| program.replicas).eq([1]);
        let expected = expected.filter(|_| crashes_only && has_one_process && !plan.deviations.is_empty());
        Self { expected, equal_after: None, merged_after: None }
    }

    /// Compares a world that is quiet after `step`, when all deviations are done.
    pub(super) fn look(&mut self, step: usize, found: &QuietWorld) {
        let Some(expected) = self.expected else { return };
        // The cheap comparisons come first. Worlds that look alike may still differ in requests that fail, or
        // in how often objects were created and deleted.
        let is_equal = expected.outcome.quiet.get(&step).is_some_and(|quiet| {
            quiet.failing == found.failing
                && has_equal_counts(&quiet.counts, &found.counts)
                && expected.differences(step, &found.world).is_empty()
        });
        let was_equal = self.equal_after.is_some_and(|before| before < step);
        match (is_equal, was_equal) {
            (true, true) => self.merged_after = Some(step),
            // One equal world may be chance: the crashed process may have lost a memory that matters only in
            // the next step.
            (true, false) => self.equal_after = self.equal_after.or(Some(step)),
            (false, _) => self.equal_after = None,
        }
    }

    /// The run without faults, if this run is compared with it.
    pub(super) fn expected(&self) -> Option<&'e Expected> {
        self.expected
    }

    /// Number of steps after which the run may end.
    pub(super) fn merged_after(&self) -> Option<usize> {
        self.merged_after
    }
}
