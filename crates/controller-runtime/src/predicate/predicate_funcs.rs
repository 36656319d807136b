//! Predicate made of one function per type of event.

use std::fmt;

use super::Predicate;
use crate::{
    cache::{Event, Lazy},
    object::Object,
};

/// One function per type of event; types without a function pass.
///
/// ```
/// use controller_runtime::{Predicate, predicate::PredicateFuncs};
/// use k8s_openapi::api::core::v1::Pod;
///
/// // Drops objects of the initial list, and updates without a new generation.
/// let predicate: PredicateFuncs<Pod> = PredicateFuncs::new()
///     .on_create(|_, in_initial_list| !in_initial_list)
///     .on_update(|old, new| old.meta().generation() != new.meta().generation());
/// # fn accepted(_: impl Predicate<Pod>) {}
/// # accepted(predicate);
/// ```
#[must_use]
pub struct PredicateFuncs<K: Object> {
    create: Box<CreateTest<K>>,
    update: Box<UpdateTest<K>>,
    delete: Box<StateTest<K>>,
    generic: Box<StateTest<K>>,
}

type CreateTest<K> = dyn Fn(&Lazy<K>, bool) -> bool + Send + Sync;
type StateTest<K> = dyn Fn(&Lazy<K>) -> bool + Send + Sync;
type UpdateTest<K> = dyn Fn(&Lazy<K>, &Lazy<K>) -> bool + Send + Sync;

impl<K: Object> PredicateFuncs<K> {
    /// Starts without functions: all events pass.
    pub fn new() -> Self {
        Self {
            create: Box::new(|_, _| true),
            update: Box::new(|_, _| true),
            delete: Box::new(|_| true),
            generic: Box::new(|_| true),
        }
    }

    /// Decides on creates; the function gets the object, and whether it is part of the initial list.
    pub fn on_create(mut self, passes: impl Fn(&Lazy<K>, bool) -> bool + Send + Sync + 'static) -> Self {
        self.create = Box::new(passes);
        self
    }

    /// Decides on updates; the function gets the old and the new state.
    pub fn on_update(mut self, passes: impl Fn(&Lazy<K>, &Lazy<K>) -> bool + Send + Sync + 'static) -> Self {
        self.update = Box::new(passes);
        self
    }

    /// Decides on deletes; the function gets the last known state.
    pub fn on_delete(mut self, passes: impl Fn(&Lazy<K>) -> bool + Send + Sync + 'static) -> Self {
        self.delete = Box::new(passes);
        self
    }

    /// Decides on generic events, from outside the API.
    pub fn on_generic(mut self, passes: impl Fn(&Lazy<K>) -> bool + Send + Sync + 'static) -> Self {
        self.generic = Box::new(passes);
        self
    }
}

impl<K: Object> Default for PredicateFuncs<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Object> Predicate<K> for PredicateFuncs<K> {
    fn test(&self, event: &Event<K>) -> bool {
        match event {
            Event::Create { object, in_initial_list } => (self.create)(object, *in_initial_list),
            Event::Update { old, new } => (self.update)(old, new),
            Event::Delete { object, .. } => (self.delete)(object),
            Event::Generic { object } => (self.generic)(object),
        }
    }
}

impl<K: Object> fmt::Debug for PredicateFuncs<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PredicateFuncs").finish_non_exhaustive()
    }
}
