//! Storage of the objects of one kind.
//!
//! A received object is split ([`split`](crate::cache::objects::split)): its metadata become a [`Meta`], the rest stays text, which is
//! compressed sooner or later ([`inlet`](crate::cache::objects::inlet)).

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
    pack::{Dictionary, Expander, Samples},
    reads::{Readers, Reads},
    retain::Retain,
    stats::{Counters, Stats, add},
};
use crate::object::{Object, meta::Meta, resource_name_of};

/// Decoded objects that are kept for reads, of all kinds that share the budget.
pub(crate) type HotBudget = Arc<Mutex<Budget<Arc<dyn AnyHot>>>>;

pub(crate) fn hot_budget(bytes: usize) -> HotBudget {
    Arc::new(Mutex::new(Budget::new(bytes)))
}

/// Decodes and stores the objects of one kind. Each informer has one.
pub(crate) struct Shelf<K: Object> {
    core: Arc<Core>,
    inlet: Mutex<Inlet>,
    /// Whether there are texts to compress when no events are pending.
    behind: AtomicBool,
    /// Whether a dictionary is to be trained.
    training_due: AtomicBool,
    kind: PhantomData<fn() -> K>,
}

/// Form in which a shelf stores objects.
#[derive(Debug, Clone)]
pub(crate) enum Holding {
    /// As text, and decoded as long as the budget keeps it.
    Hot(HotBudget),
    Decoded,
    Compact,
}

impl Holding {
    /// Returns the form that an option asks for.
    pub(crate) fn of(retain: Retain) -> Self {
        match retain {
            Retain::Budget(bytes) => Self::Hot(hot_budget(bytes)),
            Retain::Decoded => Self::Decoded,
            Retain::Compact => Self::Compact,
        }
    }
}

/// Data that the states of a shelf share.
pub(in crate::cache) struct Core {
    /// As messages name it.
    pub(in crate::cache) resource: String,
    pub(in crate::cache) holding: Holding,
    pub(in crate::cache) intake: Intake,
    pub(in crate::cache) expander: Expander,
    pub(in crate::cache) counters: Arc<Counters>,
    /// Number of dictionaries with which stored texts are compressed.
    pub(in crate::cache) dictionaries: Arc<AtomicUsize>,
}

/// State in the store when an object arrives.
pub(crate) enum Known<K: Object> {
    /// This version of the object.
    Same(Lazy<K>),
    /// Another version of the object.
    Other {
        /// Reads of that version.
        reads: Reads,
    },
    /// The object is not in the store.
    Nothing,
}

impl<K: Object> Shelf<K> {
    /// Creates the storage of the kind that `info` names.
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
            inlet: Mutex::new(Inlet::of(&core.holding)),
            core: Arc::new(core),
            behind: AtomicBool::new(false),
            training_due: AtomicBool::new(false),
            kind: PhantomData,
        }
    }

    /// Stores a received object.
    ///
    /// Returns `None` if it has no name, or no namespace although its kind is namespaced. Such an object is counted as
    /// unreadable and logged.
    pub(crate) fn take(&self, object: &Arrival<'_>) -> Option<Lazy<K>> {
        self.take_unless(object, |_| Known::Nothing)
    }

    /// Like [`Shelf::take`], but returns the state in the store if `known` finds the same version there.
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
        // A metadata-only state may refer to a whole text from an earlier watch of whole objects, or store metadata
        // alone, so it must not be shared with readers of whole objects.
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
        // A metadata-only state that shares the text of a whole object gets its own text below.
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
            // The decoder is user code and must not run under the lock.
            let text = std::mem::take(&mut inlet.text);
            drop(guard);
            let held = Lazy::warm(meta, &text, &self.core);
            self.inlet.lock().text = text; // reuses the allocation
            return held;
        }
        let held = match known {
            // The feed now delivers metadata alone: store them, so that the text of the whole object can be freed.
            Known::Same(same) => {
                inlet.hold_instead(&same, &self.core);
                Some(same)
            }
            Known::Other { reads } => inlet.hold(meta, Some(reads), &self.core),
            Known::Nothing => inlet.hold(meta, None, &self.core),
        };
        self.note_work(inlet);
        let gone = std::mem::take(&mut inlet.gone);
        drop(guard);
        drop(gone); // destructors of objects are user code and must not run under the lock
        held
    }

    /// Whether there are texts to compress when no events are pending.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind.load(Relaxed)
    }

    /// Compresses some of these texts.
    pub(crate) fn catch_up(&self) {
        let mut inlet = self.inlet.lock();
        inlet.catch_up(&self.core);
        self.note_work(&inlet);
        let gone = std::mem::take(&mut inlet.gone);
        drop(inlet);
        drop(gone); // destructors of objects are user code and must not run under the lock
    }

    /// Whether [`Shelf::samples`] may return some.
    pub(crate) fn is_training_due(&self) -> bool {
        self.training_due.load(Relaxed)
    }

    /// Copies texts for the training of a dictionary, if that is due.
    pub(crate) fn samples(&self) -> Option<Samples> {
        let mut inlet = self.inlet.lock();
        let samples = inlet.samples(&self.core);
        self.note_work(&inlet);
        samples
    }

    /// Takes the dictionary that was trained on samples; `None` if none could be created.
    pub(crate) fn learn(&self, dictionary: Option<Arc<Dictionary>>) {
        let mut inlet = self.inlet.lock();
        inlet.learn(dictionary, &self.core);
        self.note_work(&inlet);
    }

    fn note_work(&self, inlet: &Inlet) {
        self.behind.store(inlet.is_behind(), Relaxed);
        self.training_due.store(inlet.is_training_due(), Relaxed);
    }

    /// Creates a state that shares the text of another Rust type's state.
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

/// Result of adding a decoded object to the budget.
pub(in crate::cache) struct Kept<K> {
    /// Weak handle of the kept object; `None` if it was not kept.
    pub(in crate::cache) hot: Option<Weak<Hot<K>>>,
    /// Evicted objects. Must be dropped while no lock is held, because dropping is slow.
    pub(in crate::cache) gone: Vec<Arc<dyn AnyHot>>,
}

impl<K> Kept<K> {
    pub(in crate::cache) fn nothing() -> Self {
        Self { hot: None, gone: Vec::new() }
    }
}

impl Core {
    /// Maximum number of dictionaries of a kind; each takes about 150 KiB.
    pub(in crate::cache) const DICTIONARIES: usize = 4;

    /// Decoded bytes per byte of text, measured with pods, which have the highest ratio of all builtin kinds.
    const GROWTH: usize = 5;

    /// Estimates the size of a decoded object from the length of its text.
    pub(in crate::cache) fn decoded_bytes<K>(text: usize) -> usize {
        size_of::<K>() + Self::GROWTH * text
    }

    /// Keeps a decoded object as long as the budget allows.
    pub(in crate::cache) fn keep<K: Object>(
        &self,
        object: &Arc<K>,
        text: usize,
        readers: Readers,
    ) -> Kept<K> {
        let Some(budget) = self.budget() else { return Kept::nothing() };
        let bytes = Self::decoded_bytes::<K>(text);
        let mut budget = budget.lock();
        // Objects of a list must not evict others.
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

    /// Removes a decoded object from the budget.
    pub(in crate::cache) fn give_up(&self, place: Place) -> Option<Arc<dyn AnyHot>> {
        self.budget()?.lock().remove(place)
    }

    /// Returns the budget for decoded objects, if there is one.
    pub(in crate::cache) fn budget(&self) -> Option<&HotBudget> {
        match &self.holding {
            Holding::Hot(budget) => Some(budget),
            Holding::Decoded | Holding::Compact => None,
        }
    }

    /// Logs and counts an unreadable object. Called once per state.
    pub(in crate::cache) fn report(&self, meta: &Meta, error: &DecodeError) {
        add(&self.counters.unreadable, 1);
        tracing::error!(resource = &*self.resource, object = %meta, "an object is unreadable: {error:?}");
    }

    /// Returns the error for a stored text that cannot be expanded, which is a bug.
    pub(in crate::cache) fn damaged(&self, meta: &Meta, reason: &'static str) -> DecodeError {
        DecodeError::new(&self.resource, meta, ".".to_owned(), reason)
    }
}

#[cfg(test)]
mod tests;
