//! Comparison of two worlds up to renaming.
//!
//! Two runs of one operator rarely end in equal objects: uids, generated names, times and ids of remote systems differ. These values
//! may differ, but equalities between them count: an owner reference must hold the uid of the owner, wherever it was
//! created. So a world is brought into a normal form in which such values are replaced by symbols, which are numbered in an order
//! that does not depend on the values. Which other values differ from run to run is [learned](Learned) from two runs without
//! faults.
//!
//! Not compared: versions, `managedFields`, generations (but `observedGeneration` relative to them), times, Events, leases.

mod compared_part;
mod copied_versions;
mod difference;
mod learned;
mod learned_names;
mod masks;
mod normal_form;
mod object_state;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

pub(crate) use self::{
    copied_versions::Versions,
    difference::{Difference, compare},
    learned::{Learned, learn},
    masks::{Masks, without_volatile_fields},
    normal_form::{NormalForm, ids_in, normal_form},
    object_state::ObjectState,
};
use crate::names::ObjectId;

/// Objects at one moment: those that were created or changed since the start of the run, and exist.
pub(crate) type Objects = BTreeMap<ObjectId, Arc<ObjectState>>;

/// Objects and states of remote systems at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    pub(crate) objects: Objects,
    /// States by name of the remote system.
    pub(crate) remotes: BTreeMap<Arc<str>, Value>,
    /// Objects that are not compared, such as leases, for checks.
    pub(crate) uncompared: Objects,
}

impl World {
    /// Whether all that is compared is equal, even without renaming.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        let mut pairs = self.objects.iter().zip(&other.objects);
        self.objects.len() == other.objects.len()
            && self.remotes == other.remotes
            && pairs.all(|(one, other)| {
                one.0 == other.0 && (Arc::ptr_eq(one.1, other.1) || one.1.compared == other.1.compared)
            })
    }
}
