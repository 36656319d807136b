//! In which form texts are held that have just come over the wire.
//!
//! The first texts of a kind stay as they are. Once there are [`Gathering::ENOUGH`] of them, it is learnt what they have in
//! common, and they and all that follow are compressed with that, but for the latest ([`recent`](super::recent),
//! [`changed`](super::changed)). A kind that stays small is never compressed, and a large text always, by itself.

use std::sync::{Arc, Weak, atomic::Ordering::Relaxed};

use super::{
    changed::Changed,
    hot::AnyHot,
    lazy::Lazy,
    meta::{Interner, Meta},
    pack::{Compressor, Dictionary, Packed, Wear},
    reads::Reads,
    recent::Recent,
    shelf::{Core, Holding},
    stats::add,
};
use crate::object::Object;

/// What only the informer needs.
pub(super) struct Inlet {
    pub(super) interner: Interner,
    /// The text of the object in hand.
    pub(super) text: Vec<u8>,
    packing: Packing,
    /// For texts so large that nothing need be learnt: none made yet, or none to be had.
    alone: Option<Option<Arc<Dictionary>>>,
    compressor: Compressor,
    /// What has just come.
    fresh: Recent,
    /// What has just changed.
    changed: Changed,
    /// What is read whenever it has changed.
    read: Recent,
    /// Objects that left the budget, to be dropped when no lock is held.
    pub(super) gone: Vec<Arc<dyn AnyHot>>,
}

enum Packing {
    /// Texts stay as they are until there are enough of them to learn from.
    Gathering(Gathering),
    With(Learnt),
}

impl Default for Inlet {
    fn default() -> Self {
        Self {
            interner: Interner::default(),
            text: Vec::new(),
            packing: Packing::Gathering(Gathering::default()),
            alone: None,
            compressor: Compressor::default(),
            fresh: Recent::of(Recent::FRESH),
            changed: Changed::default(),
            read: Recent::of(Recent::READ),
            gone: Vec::new(),
        }
    }
}

impl Inlet {
    /// Holds the text in hand, of an object of whose state until now this is known; of a new one nothing is.
    ///
    /// `None` if the metadata are those of another scope.
    pub(super) fn hold<K: Object>(
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

    /// Lets a state hold the text in hand instead of referring to that of another one.
    pub(super) fn hold_instead<K: Object>(&mut self, state: &Lazy<K>, core: &Core) {
        let packed = self.pack(core);
        state.hold_instead(&self.text, packed);
        self.note(state, None, core);
    }

    /// The text in hand compressed, if that is due already.
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

    /// Remembers a state that holds the text in hand, as far as it may be compressed later or learnt from.
    fn note<K: Object>(&mut self, held: &Lazy<K>, before: Option<Reads>, core: &Core) {
        let length = self.text.len();
        if self.is_large() {
            return;
        }
        match &mut self.packing {
            Packing::Gathering(gathering) => {
                if gathering.add(held.packable(), length) {
                    self.packing = gathering.learn(core, &mut self.compressor);
                }
            }
            Packing::With(_) if matches!(core.holding, Holding::Compact) => self.renew(core),
            Packing::With(_) => {
                let is_read = before.is_some_and(Reads::promise_one);
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

    /// Keeps the text of an object that has changed, unless the budget has lent too much to other kinds.
    fn keep_changed<K: Object>(&mut self, held: &Lazy<K>, length: usize, core: &Core) -> bool {
        let Some(budget) = core.budget() else { return false };
        if self.changed.keep(held.packable(), length, budget, &mut self.gone) {
            return true;
        }
        self.compress_changed();
        let is_kept = self.changed.keep(held.packable(), length, budget, &mut self.gone);
        self.renew(core);
        is_kept
    }

    fn compress_changed(&mut self) {
        let Packing::With(learnt) = &mut self.packing else { return };
        while let Some(state) = self.changed.surplus() {
            state.pack(&mut |text| learnt.compress(text, &mut self.compressor));
        }
    }

    /// Whether there are texts that had better be compressed before too many are not.
    pub(super) fn is_behind(&self) -> bool {
        let is_filling = self.fresh.is_filling() || self.read.is_filling() || self.changed.is_filling();
        is_filling && matches!(self.packing, Packing::With(_))
    }

    /// Compresses the oldest of the texts that are not.
    pub(super) fn catch_up(&mut self, core: &Core) {
        self.compress_changed();
        let Packing::With(learnt) = &mut self.packing else { return };
        for recent in [&mut self.fresh, &mut self.read] {
            while let Some(state) = recent.surplus() {
                state.pack(&mut |text| learnt.compress(text, &mut self.compressor));
            }
        }
        self.renew(core);
    }

    /// Learns anew from what comes from now on, if that is due.
    fn renew(&mut self, core: &Core) {
        // Beyond the bound the worn one is better than none.
        if matches!(&self.packing, Packing::With(learnt) if learnt.is_worn)
            && core.dictionaries.load(Relaxed) < Core::DICTIONARIES
        {
            self.packing = Packing::Gathering(Gathering::default());
        }
    }
}

/// What texts have in common, and whether that still holds.
struct Learnt {
    dictionary: Arc<Dictionary>,
    wear: Wear,
    is_worn: bool,
}

impl Learnt {
    /// The text compressed; `None` if that does not make it smaller.
    fn compress(&mut self, text: &[u8], compressor: &mut Compressor) -> Option<Packed> {
        let packed = compressor.compress(text, &self.dictionary);
        self.is_worn |= self.wear.took(text.len(), packed.as_ref().map_or(text.len(), Packed::len));
        packed
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
        Packing::With(Learnt { dictionary, wear: Wear::new(), is_worn: false })
    }
}
