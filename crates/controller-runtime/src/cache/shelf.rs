//! How the objects of one kind are held.
//!
//! What comes over the wire is split ([`split`](super::split)): the metadata become a [`Meta`], the rest stays text. The first
//! texts of a kind stay as they are. Once there are [`Gathering::ENOUGH`] of them, it is learnt what they have in common, and
//! they and all that follow are compressed with that, but for the latest of those that are read whenever they have changed
//! ([`recent`](super::recent)). A kind that stays small is never compressed, and a large text always, by itself.

use std::{
    marker::PhantomData,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;

use super::{
    arrival::{Arrival, Intake, Source},
    budget::{Budget, Place},
    decode_error::DecodeError,
    hot::{AnyHot, Hot},
    lazy::Lazy,
    meta::{Interner, Meta},
    pack::{Compressor, Dictionary, Expander, Packed, Wear},
    reads::{Readers, Reads},
    recent::Recent,
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
    holding: Holding,
    pub(super) intake: Intake,
    pub(super) expander: Expander,
    pub(super) counters: Arc<Counters>,
    /// Dictionaries that texts are still compressed with.
    dictionaries: Arc<AtomicUsize>,
}

/// What only the informer needs.
struct Inlet {
    interner: Interner,
    /// The text of the object in hand.
    text: Vec<u8>,
    packing: Packing,
    /// For texts so large that nothing need be learnt: none made yet, or none to be had.
    alone: Option<Option<Arc<Dictionary>>>,
    compressor: Compressor,
    recent: Recent,
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

enum Packing {
    /// Texts stay as they are until there are enough of them to learn from.
    Gathering(Gathering),
    With(Arc<Dictionary>, Wear),
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
        let inlet = Inlet {
            interner: Interner::default(),
            text: Vec::new(),
            packing: Packing::Gathering(Gathering::default()),
            alone: None,
            compressor: Compressor::default(),
            recent: Recent::default(),
        };
        Self { core: Arc::new(core), inlet: Mutex::new(inlet), kind: PhantomData }
    }

    /// Takes an object as it came over the wire.
    ///
    /// `None`, and reported, if it has no name, or no namespace although its kind is namespaced.
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
        let inlet = &mut *self.inlet.lock();
        let meta = Meta::new(split.meta(), &mut inlet.interner)?;
        let reads = match known(&meta) {
            Known::Same(same) => return Some(same),
            Known::Other { reads } => reads,
            Known::Nothing => Reads::default(),
        };
        inlet.text.clear();
        split.keep(*managed_fields, &mut inlet.text);
        Self::hold(&self.core, inlet, meta, reads)
    }

    /// Holds an object whose text another state holds.
    fn refer(core: &Arc<Core>, source: &Arc<dyn Source>, before: Reads) -> Option<Lazy<K>> {
        match core.holding {
            Holding::Decoded => {
                let mut taken = None;
                let read = source.read(&mut |text| taken = Lazy::warm(source.meta().clone(), text, core));
                read.ok().and(taken)
            }
            Holding::Hot(_) | Holding::Compact => Lazy::of_source(source, before.of_next(), core),
        }
    }

    pub(crate) fn count_failure(&self) {
        add(&self.core.counters.failures, 1);
    }

    pub(crate) fn stats(&self) -> Stats {
        self.core.counters.read()
    }

    fn hold(core: &Arc<Core>, inlet: &mut Inlet, meta: Meta, before: Reads) -> Option<Lazy<K>> {
        let Inlet { text, packing, alone, compressor, recent, .. } = inlet;
        let reads = before.of_next();
        if matches!(core.holding, Holding::Decoded) {
            return Lazy::warm(meta, text, core);
        }
        if text.len() >= Dictionary::LARGEST {
            let packed = alone.get_or_insert_with(Dictionary::none).as_ref();
            let packed = packed.and_then(|none| compressor.compress(text, none));
            return Lazy::cold(meta, text, packed, reads, core);
        }
        match packing {
            Packing::With(dictionary, wear) => {
                let mut worn = false;
                let mut pack = |text: &[u8]| {
                    let packed = compressor.compress(text, dictionary);
                    worn |= wear.took(text.len(), packed.as_ref().map_or(text.len(), Packed::len));
                    packed
                };
                let held = if before.promise_one() && matches!(core.holding, Holding::Hot(_)) {
                    let held = Lazy::cold(meta, text, None, reads, core)?;
                    recent.keep(held.packable(), text.len());
                    while let Some(state) = recent.too_old() {
                        state.pack(&mut pack);
                    }
                    Some(held)
                } else {
                    Lazy::cold(meta, text, pack(text), reads, core)
                };
                // Beyond the bound the worn one is better than none.
                if worn && core.dictionaries.load(Relaxed) < Core::DICTIONARIES {
                    *packing = Packing::Gathering(Gathering::default());
                }
                held
            }
            Packing::Gathering(gathering) => {
                let held: Lazy<K> = Lazy::cold(meta, text, None, reads, core)?;
                if gathering.add(held.packable(), text.len()) {
                    *packing = gathering.learn(core, compressor);
                }
                Some(held)
            }
        }
    }
}

/// A state whose text may be compressed later on.
pub(super) trait Packable: Send + Sync {
    /// Replaces the text, if it is not compressed yet and `pack` makes it smaller.
    fn pack(&self, pack: &mut dyn FnMut(&[u8]) -> Option<Packed>);

    /// Shows the text, if it is not compressed.
    fn plain(&self, read: &mut dyn FnMut(&[u8]));
}

/// The states whose texts are to be learnt from.
pub(super) struct Gathering {
    states: Vec<Weak<dyn Packable>>,
    /// Of the texts that were added, and of those there were when it was last looked.
    bytes: usize,
    /// How many bytes make it worth a look which states are still there.
    look_at: usize,
}

impl Default for Gathering {
    fn default() -> Self {
        Self { states: Vec::new(), bytes: 0, look_at: Self::ENOUGH }
    }
}

impl Gathering {
    /// How many bytes of text are learnt from, which takes some 50 ms. Kinds with less are not compressed.
    pub(super) const ENOUGH: usize = 512 << 10;

    /// Whether there are enough now.
    fn add(&mut self, state: Weak<dyn Packable>, length: usize) -> bool {
        self.states.push(state);
        self.bytes += length;
        if self.bytes < self.look_at {
            return false;
        }
        // Those that have been replaced meanwhile do not count.
        self.states.retain(|state| state.strong_count() > 0);
        self.bytes = 0;
        for state in self.states.iter().filter_map(Weak::upgrade) {
            state.plain(&mut |text| self.bytes += text.len());
        }
        // Not at each one from now on: objects that come and go would be looked at again and again.
        self.look_at = self.bytes + Self::ENOUGH / 2;
        self.bytes >= Self::ENOUGH
    }

    /// Learns from the texts, and compresses them.
    fn learn(&self, core: &Core, compressor: &mut Compressor) -> Packing {
        let states: Vec<_> = self.states.iter().filter_map(Weak::upgrade).collect();
        let (mut texts, mut lengths) = (Vec::new(), Vec::new());
        for state in &states {
            state.plain(&mut |text| {
                lengths.push(text.len());
                texts.extend_from_slice(text);
            });
        }
        let Some(dictionary) = Dictionary::train(&texts, &lengths, &core.dictionaries) else {
            return Packing::Gathering(Self::default());
        };
        add(&core.counters.trainings, 1);
        for state in states {
            state.pack(&mut |text| compressor.compress(text, &dictionary));
        }
        Packing::With(dictionary, Wear::new())
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
    const DICTIONARIES: usize = 4;

    /// What a byte of text takes decoded: measured with pods, which take most of all builtin kinds.
    const GROWTH: usize = 5;

    /// What an object takes decoded, as estimated from the length of its text.
    pub(super) fn decoded_bytes<K>(text: usize) -> usize {
        size_of::<K>() + Self::GROWTH * text
    }

    /// Keeps a decoded object as long as the budget allows.
    pub(super) fn keep<K: Object>(&self, object: &Arc<K>, text: usize, readers: Readers) -> Kept<K> {
        let Holding::Hot(budget) = &self.holding else { return Kept::nothing() };
        let bytes = Self::decoded_bytes::<K>(text);
        let mut budget = budget.lock();
        if matches!(readers, Readers::OfMany) && !budget.has_room(bytes) {
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
        match &self.holding {
            Holding::Hot(budget) => budget.lock().remove(place),
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
        let error = DecodeError::new(&self.resource, meta, ".".to_owned(), reason);
        self.report(meta, &error);
        error
    }
}

#[cfg(test)]
mod tests;
