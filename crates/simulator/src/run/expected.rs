//! The run without faults, as the measure of other runs.

use std::{cell::OnceCell, collections::BTreeMap};

use serde_json::Value;

use super::outcome::Outcome;
use crate::similar::{Difference, Learned, NormalForm, Versions, World, compare, ids_in, normal_form};

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
        let form = normal_form(found, &self.learned);
        let mut differences = self.form(step).map_or_else(Vec::new, |expected| compare(expected, &form));
        if !differences.is_empty() {
            // Only now, because few operators copy versions and most worlds have no difference.
            let (expected, found) = (Versions::of(&expected.world), Versions::of(found));
            differences.retain(|difference| match difference {
                Difference::Value { expected: Some(value), found: Some(other), .. } => {
                    !expected.are_alike(value, &found, other)
                }
                _ => true,
            });
        }
        differences
    }

    /// Names of the objects and remote systems that contain, without faults after `step`, one of the generated values in `value`.
    pub(crate) fn places_of_ids_in(&self, step: usize, value: &Value) -> Vec<String> {
        let ids = ids_in(value);
        let has = |value: &Value| ids_in(value).intersection(&ids).next().is_some();
        // Most values contain no generated id, and then the normal form need not be made.
        let form = self.form(step).filter(|_| !ids.is_empty());
        let places = form.into_iter().flatten().filter(|(_, value)| has(value));
        places.map(|(name, _)| name.clone()).collect()
    }

    /// Normal form of the world that is quiet after `step`.
    fn form(&self, step: usize) -> Option<&NormalForm> {
        let make = || {
            let expected = self.outcome.quiet.get(&step);
            expected.map(|quiet| normal_form(&quiet.world, &self.learned)).unwrap_or_default()
        };
        Some(self.forms.get(&step)?.get_or_init(make))
    }
}
