//! The run without faults, as the measure of other runs.

use std::{cell::OnceCell, collections::BTreeMap};

use super::outcome::Outcome;
use crate::similar::{Difference, Learned, NormalForm, World, compare, normal_form};

/// The run without faults, and the values that may differ from it.
pub(crate) struct Expected {
    pub(crate) outcome: Outcome,
    pub(crate) learned: Learned,
    /// Normal forms of the quiet worlds, made when the first run needs them.
    forms: BTreeMap<usize, OnceCell<NormalForm>>,
}

impl Expected {
    pub(crate) fn new(outcome: Outcome, learned: Learned) -> Self {
        let forms = outcome.quiet.keys().map(|step| (*step, OnceCell::new())).collect();
        Self { outcome, learned, forms }
    }

    /// Returns the differences of a world that is quiet after `step` from the one without faults; none if that was never quiet then.
    pub(crate) fn differences(&self, step: usize, found: &World) -> Vec<Difference> {
        let Some(expected) = self.outcome.quiet.get(&step) else { return Vec::new() };
        // Most runs create the objects in the order of the run without faults, which gives equal uids. Worlds that are equal have
        // equal normal forms.
        if expected.world.equals(found) {
            return Vec::new();
        }
        let make = || normal_form(&expected.world, &self.learned);
        let found = normal_form(found, &self.learned);
        match self.forms.get(&step) {
            Some(form) => compare(form.get_or_init(make), &found),
            None => compare(&make(), &found),
        }
    }
}
