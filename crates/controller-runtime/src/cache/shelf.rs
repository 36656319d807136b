//! How the objects of one kind are held.
//!
//! What comes over the wire is split ([`split`](super::split)): the metadata become a [`Meta`], the rest stays text, which is
//! compressed sooner or later ([`inlet`](super::inlet)).

use std::{
    marker::PhantomData,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;

use super::{
    arrival::{Arrival, Intake, Source},
    budget::{Budget, Place},
    decode_error::DecodeError,
    hot::{AnyHot, Hot},
    inlet::Inlet,
    lazy::Lazy,
    meta::Meta,
    pack::Expander,
    reads::{Readers, Reads},
    retain::Retain,
    stats::{Counters, Stats, add},
};
use crate::object::{Object, resource_name_of};

/// The decoded objects of a manager that are kept, of all its kinds.
pub(crate) type HotBudget = Arc<Mutex<Budget<Arc<dyn AnyHot>>>>;

pub(crate) fn hot_budget(bytes: usize) -> HotBudget {
    Arc::new(Mutex::new(Budget::new(bytes)))
}

/// Holds the objects of one kind. An informer has one.
pub(crate) struct Shelf<K: Object> {
    core: Arc<Core>,
    inlet: Mutex<Inlet>,
    /// Whether that has work to catch up with.
    behind: AtomicBool,
    kind: PhantomData<fn() -> K>,
}

/// How a shelf holds objects.
#[derive(Debug, Clone)]
pub(crate) enum Holding {
    /// As text, and decoded as long as the budget keeps it.
    Hot(HotBudget),
    Decoded,
    Compact,
}

impl Holding {
    /// What a kind's own choice means.
    pub(crate) fn of(retain: Retain) -> Self {
        match retain {
            Retain::Budget(bytes) => Self::Hot(hot_budget(bytes)),
            Retain::Decoded => Self::Decoded,
            Retain::Compact => Self::Compact,
        }
    }
}

/// What the states of a shelf need as long as they live.
pub(super) struct Core {
    /// As messages name it.
    pub(super) resource: String,
    pub(super) holding: Holding,
    pub(super) intake: Intake,
    pub(super) expander: Expander,
    pub(super) counters: Arc<Counters>,
    /// Dictionaries that texts are still compressed with.
    pub(super) dictionaries: Arc<AtomicUsize>,
}

/// What is held already where an object arrives.
pub(crate) enum Known<K: Object> {
    /// The same state.
    Same(Lazy<K>),
    /// Another state of it.
    Other {
        /// Of that one.
        reads: Reads,
    },
    /// Nothing.
    Nothing,
}

impl<K: Object> Shelf<K> {
    /// For the objects of the kind that `info` says.
    pub(crate) fn new(info: &K::DynamicType, holding: Holding, intake: Intake) -> Self {
        let core = Core {
            resource: resource_name_of::<K>(info),
            holding,
            intake,
            expander: Expander::default(),
            counters: Arc::default(),
            dictionaries: Arc::default(),
        };
        Self {
            core: Arc::new(core),
            inlet: Mutex::default(),
            behind: AtomicBool::new(false),
            kind: PhantomData,
        }
    }

    /// Takes an object as it came over the wire.
    ///
    /// `None`, counted as unreadable and reported, if it has no name, or no namespace although its kind is namespaced.
    pub(crate) fn take(&self, object: &Arrival<'_>) -> Option<Lazy<K>> {
        self.take_unless(object, |_| Known::Nothing)
    }

    /// The same, unless a state with these metadata is known, which is taken in its place.
    pub(crate) fn take_unless(
        &self,
        object: &Arrival<'_>,
        known: impl FnOnce(&Meta) -> Known<K>,
    ) -> Option<Lazy<K>> {
        let taken = match object.taken_by(&self.core.intake) {
            Some(source) => match known(source.meta()) {
                Known::Same(same) => Some(same),
                Known::Other { reads } => Self::refer(&self.core, source, reads),
                Known::Nothing => Self::refer(&self.core, source, Reads::default()),
            },
            None => self.take_text(object, known),
        };
        if taken.is_none() {
            add(&self.core.counters.unreadable, 1);
            tracing::error!(
                resource = &*self.core.resource,
                "an object is left out of the cache: it has no name, or no namespace although its kind is namespaced"
            );
        }
        // A state of metadata alone may be one from when nothing else was asked for.
        if !K::metadata_api() {
            object.leave(taken.as_ref().and_then(Lazy::source));
        }
        taken
    }

    fn take_text(&self, object: &Arrival<'_>, known: impl FnOnce(&Meta) -> Known<K>) -> Option<Lazy<K>> {
        let Intake { managed_fields, transform } = &self.core.intake;
        let changed = transform.as_ref().and_then(|transform| {
            transform.apply(object.split.json(), object.split.meta().namespace(), &self.core.resource)
        });
        let changed = changed.as_ref().map(Arrival::new);
        let split = &changed.as_ref().unwrap_or(object).split;
        let mut guard = self.inlet.lock();
        let inlet = &mut *guard;
        let meta = Meta::new(split.meta(), &mut inlet.interner)?;
        let known = known(&meta);
        if let Known::Same(same) = &known
            && !(K::metadata_api() && same.is_shared())
        {
            return Some(same.clone());
        }
        inlet.text.clear();
        if K::metadata_api() {
            split.keep_metadata(*managed_fields, &mut inlet.text);
        } else {
            split.keep(*managed_fields, &mut inlet.text);
        }
        if matches!(self.core.holding, Holding::Decoded) && !matches!(known, Known::Same(_)) {
            // A decoder is user code: not under the lock.
            let text = std::mem::take(&mut inlet.text);
            drop(guard);
            let held = Lazy::warm(meta, &text, &self.core);
            self.inlet.lock().text = text; // its memory is used for the next one
            return held;
        }
        let held = match known {
            // Nobody reads the whole object any more: its text is not kept for its metadata.
            Known::Same(same) => {
                inlet.hold_instead(&same, &self.core);
                Some(same)
            }
            Known::Other { reads } => inlet.hold(meta, Some(reads), &self.core),
            Known::Nothing => inlet.hold(meta, None, &self.core),
        };
        self.behind.store(inlet.is_behind(), Relaxed);
        let gone = std::mem::take(&mut inlet.gone);
        drop(guard);
        drop(gone); // destructors of objects are user code
        held
    }

    /// Whether there is work that can wait until nothing else is to be done.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind.load(Relaxed)
    }

    /// Does it.
    pub(crate) fn catch_up(&self) {
        let mut inlet = self.inlet.lock();
        inlet.catch_up(&self.core);
        self.behind.store(inlet.is_behind(), Relaxed);
        let gone = std::mem::take(&mut inlet.gone);
        drop(inlet);
        drop(gone); // destructors of objects are user code
    }

    /// Holds an object whose text another state holds.
    fn refer(core: &Arc<Core>, source: &Arc<dyn Source>, before: Reads) -> Option<Lazy<K>> {
        match core.holding {
            Holding::Decoded => {
                let text = source.text().ok()?;
                Lazy::warm(source.meta().clone(), &text, core)
            }
            Holding::Hot(_) | Holding::Compact => Lazy::of_source(source, before.of_next(), core),
        }
    }

    pub(crate) fn count_failure(&self) {
        add(&self.core.counters.failures, 1);
    }

    pub(crate) fn count_list(&self) {
        add(&self.core.counters.lists, 1);
    }

    pub(crate) fn count_watch(&self) {
        add(&self.core.counters.watches, 1);
    }

    pub(crate) fn count_dead_watch(&self) {
        add(&self.core.counters.dead_watches, 1);
    }

    pub(crate) fn count_probe(&self) {
        add(&self.core.counters.probes, 1);
    }

    pub(crate) fn stats(&self) -> Stats {
        self.core.counters.read()
    }
}

/// What became of a decoded object.
pub(super) struct Kept<K> {
    /// Where it is found as long as the budget keeps it.
    pub(super) hot: Option<Weak<Hot<K>>>,
    /// What had to go for it. To be dropped outside of all locks: that takes a while.
    pub(super) gone: Vec<Arc<dyn AnyHot>>,
}

impl<K> Kept<K> {
    pub(super) fn nothing() -> Self {
        Self { hot: None, gone: Vec::new() }
    }
}

impl Core {
    /// How many dictionaries of a kind there are at most; each takes some 150 KiB.
    pub(super) const DICTIONARIES: usize = 4;

    /// What a byte of text takes decoded: measured with pods, which take most of all builtin kinds.
    const GROWTH: usize = 5;

    /// What an object takes decoded, as estimated from the length of its text.
    pub(super) fn decoded_bytes<K>(text: usize) -> usize {
        size_of::<K>() + Self::GROWTH * text
    }

    /// Keeps a decoded object as long as the budget allows.
    pub(super) fn keep<K: Object>(&self, object: &Arc<K>, text: usize, readers: Readers) -> Kept<K> {
        let Some(budget) = self.budget() else { return Kept::nothing() };
        let bytes = Self::decoded_bytes::<K>(text);
        let mut budget = budget.lock();
        if matches!(readers, Readers::Many) && bytes > budget.room() {
            return Kept::nothing();
        }
        let hot = Arc::new(Hot::new(object, bytes, &self.counters));
        let (place, gone) = budget.admit(Arc::clone(&hot) as Arc<dyn AnyHot>, bytes);
        if let Some(place) = place {
            hot.set_place(place);
        }
        Kept { hot: place.map(|_| Arc::downgrade(&hot)), gone }
    }

    /// Takes a decoded object out of the budget.
    pub(super) fn give_up(&self, place: Place) -> Option<Arc<dyn AnyHot>> {
        self.budget()?.lock().remove(place)
    }

    /// What keeps decoded objects, if something does.
    pub(super) fn budget(&self) -> Option<&HotBudget> {
        match &self.holding {
            Holding::Hot(budget) => Some(budget),
            Holding::Decoded | Holding::Compact => None,
        }
    }

    /// Tells of an unreadable object. Its state remembers, so that it is told once.
    pub(super) fn report(&self, meta: &Meta, error: &DecodeError) {
        add(&self.counters.unreadable, 1);
        tracing::error!(resource = &*self.resource, object = %meta, "an object is unreadable: {error:?}");
    }

    /// A text that could be written and cannot be read is a bug of ours.
    pub(super) fn damaged(&self, meta: &Meta, reason: &'static str) -> DecodeError {
        DecodeError::new(&self.resource, meta, ".".to_owned(), reason)
    }
}

#[cfg(test)]
mod tests;
