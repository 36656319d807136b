//! Compression of received texts.
//!
//! The first texts of a kind are stored uncompressed. When there are [`Gathering::ENOUGH`] bytes of them, a dictionary
//! is trained on them. Then these and all later texts are compressed with it, except the latest ones
//! ([`recent`](crate::cache::objects::recent), [`changed`](crate::cache::objects::changed)). So a kind with few objects is never compressed. Large
//! texts are always compressed, without a dictionary.
//!
//! The reflector trains the dictionary on another thread, with copies of the texts ([`Inlet::samples`]), and returns it
//! ([`Inlet::learn`]). It waits for the training, so that few texts arrive in between.

use std::sync::{Arc, Weak, atomic::Ordering::Relaxed};

use super::{
    changed::Changed,
    hot::AnyHot,
    lazy::Lazy,
    pack::{Compressor, Dictionary, Packed, Samples, Wear},
    reads::Reads,
    recent::Recent,
    shelf::{Core, Holding},
    stats::add,
};
use crate::object::{
    Object,
    meta::{Interner, Meta},
};

/// State of an informer's compression.
pub(in crate::cache) struct Inlet {
    pub(in crate::cache) interner: Interner,
    /// Text of the current object.
    pub(in crate::cache) text: Vec<u8>,
    packing: Packing,
    /// Empty dictionary for large texts: not created yet, or not available for lack of memory.
    alone: Option<Option<Arc<Dictionary>>>,
    compressor: Compressor,
    /// Uncompressed texts of new objects, and of the samples after a training. Of a compact kind only the samples, until the
    /// next [`Inlet::catch_up`].
    fresh: Recent,
    /// Uncompressed texts of changed objects.
    changed: Changed,
    /// Uncompressed texts of objects that are read after each change.
    read: Recent,
    /// Objects that the budget evicted. The caller drops them while no lock is held.
    pub(in crate::cache) gone: Vec<Arc<dyn AnyHot>>,
}

/// Phase of compression: `Gathering` until there are enough texts, then `With` a dictionary, and back to `Gathering`
/// when the dictionary no longer suits the texts.
enum Packing {
    /// Texts are stored uncompressed until there are enough of them to train a dictionary.
    Gathering(Gathering),
    With(Learnt),
}

impl Inlet {
    /// For objects that are held in this way.
    pub(in crate::cache) fn of(holding: &Holding) -> Self {
        Self {
            interner: Interner::default(),
            text: Vec::new(),
            packing: Packing::Gathering(Gathering::default()),
            alone: None,
            compressor: Compressor::default(),
            fresh: Recent::of(if matches!(holding, Holding::Compact) { 0 } else { Recent::FRESH }),
            changed: Changed::default(),
            read: Recent::of(Recent::READ),
            gone: Vec::new(),
        }
    }

    /// Stores the current text. `before` are the reads of the object's previous version, `None` for a new object.
    ///
    /// Returns `None` if the metadata do not match the scope of the kind.
    pub(in crate::cache) fn hold<K: Object>(
        &mut self,
        meta: Meta,
        before: Option<Reads>,
        core: &Arc<Core>,
    ) -> Option<Lazy<K>> {
        let packed = self.pack(core);
        let reads = before.unwrap_or_default().of_next();
        let held = Lazy::cold(meta, &self.text, packed, reads, core)?;
        self.note(&held, before, core);
        Some(held)
    }

    /// Replaces a state's text, which may be shared with another state, by the current text.
    pub(in crate::cache) fn hold_instead<K: Object>(&mut self, state: &Lazy<K>, core: &Core) {
        let packed = self.pack(core);
        state.hold_instead(&self.text, packed);
        self.note(state, None, core);
    }

    /// Compresses the current text if that is due immediately: if it is large, or the kind is stored as `Compact`.
    fn pack(&mut self, core: &Core) -> Option<Packed> {
        let text = &*self.text;
        if self.is_large() {
            let none = self.alone.get_or_insert_with(Dictionary::none).as_ref()?;
            return self.compressor.compress(text, none);
        }
        match &mut self.packing {
            Packing::With(learnt) if matches!(core.holding, Holding::Compact) => {
                learnt.compress(text, &mut self.compressor)
            }
            Packing::With(_) | Packing::Gathering(_) => None,
        }
    }

    fn is_large(&self) -> bool {
        self.text.len() >= Dictionary::LARGEST
    }

    /// Registers the state of the current text for later compression or training.
    fn note<K: Object>(&mut self, held: &Lazy<K>, before: Option<Reads>, core: &Core) {
        let length = self.text.len();
        if self.is_large() {
            return;
        }
        match &mut self.packing {
            Packing::Gathering(gathering) => gathering.add(held.packable(), length),
            Packing::With(_) if matches!(core.holding, Holding::Compact) => self.renew(core),
            Packing::With(_) => {
                let is_read = before.is_some_and(Reads::promise_one);
                // Objects that are read after each change have their own queue; changed ones borrow from the budget.
                if before.is_some() && !is_read && self.keep_changed(held, length, core) {
                    return;
                }
                let recent = if is_read { &mut self.read } else { &mut self.fresh };
                recent.keep(held.packable(), length);
                if recent.is_full() {
                    self.catch_up(core);
                }
            }
        }
    }

    /// Keeps the text of a changed object uncompressed, unless the budget has lent too much to other kinds.
    fn keep_changed<K: Object>(&mut self, held: &Lazy<K>, length: usize, core: &Core) -> bool {
        let Some(budget) = core.budget() else { return false };
        if self.changed.keep(held.packable(), length, budget, &mut self.gone) {
            return true;
        }
        // The budget is exhausted: compress older texts of this kind, and try once more.
        self.compress_changed();
        let is_kept = self.changed.keep(held.packable(), length, budget, &mut self.gone);
        self.renew(core);
        is_kept
    }

    /// Whether there are enough texts for a training.
    pub(in crate::cache) fn is_training_due(&self) -> bool {
        matches!(&self.packing, Packing::Gathering(gathering) if gathering.is_enough)
    }

    /// Copies texts for a training, if there are enough.
    pub(in crate::cache) fn samples(&mut self, core: &Core) -> Option<Samples> {
        match &mut self.packing {
            Packing::Gathering(gathering) if gathering.is_enough => gathering.samples(core),
            Packing::Gathering(_) | Packing::With(_) => None,
        }
    }

    /// Takes the dictionary that was trained on samples; `None` if memory is short. Later calls of [`Inlet::catch_up`] compress the
    /// gathered texts with it.
    pub(in crate::cache) fn learn(&mut self, dictionary: Option<Arc<Dictionary>>, core: &Core) {
        let Packing::Gathering(gathering) = &mut self.packing else { return };
        let gathering = std::mem::take(gathering);
        let Some(dictionary) = dictionary else { return };
        add(&core.counters.trainings, 1);
        self.packing = Packing::With(Learnt { dictionary, wear: Wear::new(), is_worn: false });
        for (state, length) in gathering.states {
            self.fresh.keep(state, length);
        }
    }

    fn compress_changed(&mut self) {
        let Packing::With(learnt) = &mut self.packing else { return };
        while let Some(state) = self.changed.surplus() {
            state.pack(&mut |text| learnt.compress(text, &mut self.compressor));
        }
    }

    /// Whether there are texts to compress when no events are pending.
    pub(in crate::cache) fn is_behind(&self) -> bool {
        let is_filling = self.fresh.is_filling() || self.read.is_filling() || self.changed.is_filling();
        is_filling && matches!(self.packing, Packing::With(_))
    }

    /// Compresses some of the oldest uncompressed texts: at most [`Recent::AT_ONCE`] bytes of each queue.
    pub(in crate::cache) fn catch_up(&mut self, core: &Core) {
        self.compress_changed();
        let Packing::With(learnt) = &mut self.packing else { return };
        for recent in [&mut self.fresh, &mut self.read] {
            for state in recent.surplus() {
                state.pack(&mut |text| learnt.compress(text, &mut self.compressor));
            }
        }
        self.renew(core);
    }

    /// Starts to gather texts for a new dictionary, if that is due.
    fn renew(&mut self, core: &Core) {
        // At the maximum number of dictionaries a worn one is better than none.
        if matches!(&self.packing, Packing::With(learnt) if learnt.is_worn)
            && core.dictionaries.load(Relaxed) < Core::DICTIONARIES
        {
            self.packing = Packing::Gathering(Gathering::default());
        }
    }
}

/// A dictionary, and how well it still suits the texts.
struct Learnt {
    dictionary: Arc<Dictionary>,
    wear: Wear,
    is_worn: bool,
}

impl Learnt {
    /// Compresses a text; `None` if that does not make it smaller.
    fn compress(&mut self, text: &[u8], compressor: &mut Compressor) -> Option<Packed> {
        let packed = compressor.compress(text, &self.dictionary);
        self.is_worn |= self.wear.took(text.len(), packed.as_ref().map_or(text.len(), Packed::len));
        packed
    }
}

/// A state with a text that may be compressed later.
pub(in crate::cache) trait Packable: Send + Sync {
    /// Replaces the text, if it is uncompressed and `pack` makes it smaller.
    fn pack(&self, pack: &mut dyn FnMut(&[u8]) -> Option<Packed>);

    /// Calls `read` with the text, if it is uncompressed.
    fn plain(&self, read: &mut dyn FnMut(&[u8]));
}

/// States with the texts for the training of a dictionary.
pub(in crate::cache) struct Gathering {
    /// The states and the lengths of their texts.
    states: Vec<(Weak<dyn Packable>, usize)>,
    /// Bytes of the texts: those that existed at the last check, and those added since.
    bytes: usize,
    /// Number of bytes at which to check which states still exist.
    look_at: usize,
    /// Whether there were enough bytes at the last check.
    is_enough: bool,
}

impl Default for Gathering {
    fn default() -> Self {
        Self { states: Vec::new(), bytes: 0, look_at: Self::ENOUGH, is_enough: false }
    }
}

impl Gathering {
    /// Number of bytes for the training, which takes about 50 ms. Kinds with less are not compressed.
    pub(in crate::cache) const ENOUGH: usize = 512 << 10;

    fn add(&mut self, state: Weak<dyn Packable>, length: usize) {
        self.states.push((state, length));
        self.bytes += length;
        if self.bytes < self.look_at {
            return;
        }
        // Do not count texts that have been replaced.
        self.states.retain(|(state, _)| state.strong_count() > 0);
        self.bytes = self.states.iter().map(|(_, length)| length).sum();
        // Not at each text from now on: with objects that come and go, the check would be repeated in vain.
        self.look_at = self.bytes + Self::ENOUGH / 2;
        self.is_enough = self.bytes >= Self::ENOUGH;
    }

    /// Copies texts. Returns `None` if too many have been replaced since the check.
    fn samples(&mut self, core: &Core) -> Option<Samples> {
        let mut samples = Samples::new(&core.dictionaries);
        let states = self.states.iter().filter_map(|(state, _)| state.upgrade());
        for state in states {
            state.plain(&mut |text| samples.add(text));
            if samples.bytes() >= Self::ENOUGH {
                return Some(samples);
            }
        }
        self.is_enough = false;
        None
    }
}
