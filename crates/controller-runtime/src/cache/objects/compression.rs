//! Compression of received texts.
//!
//! The first texts of a kind are stored uncompressed. When there are [`TrainingSet::ENOUGH`] bytes of them, a
//! dictionary is trained on them. Then these and all later texts are compressed with it, except the latest ones
//! ([`uncompressed_queue`](crate::cache::objects::uncompressed_queue),
//! [`changed_texts`](crate::cache::objects::changed_texts)). So objects of a kind with few objects are never
//! compressed. Large texts are an exception: they are always compressed, without a dictionary.
//!
//! The reflector trains the dictionary on another thread, with copies of the texts ([`Compression::samples`]), and
//! passes the dictionary to [`Compression::set_dictionary`]. It waits for the training, so that few texts arrive in
//! between.

use std::sync::{Arc, Weak, atomic::Ordering::Relaxed};

use super::{
    changed_texts::ChangedTexts,
    decoded_object::AnyDecodedObject,
    dictionary::{CompressedText, Compressor, Dictionary, Samples, Staleness},
    lazy::Lazy,
    object_codec::{CodecContext, Retention},
    reads::Reads,
    stats::add,
    uncompressed_queue::UncompressedQueue,
};
use crate::object::{
    Object,
    meta::{Interner, Meta},
};

/// State of an informer's compression.
pub(in crate::cache) struct Compression {
    pub(in crate::cache) interner: Interner,
    /// Text of the object that is being stored. A field, so that its allocation is reused.
    pub(in crate::cache) text: Vec<u8>,
    phase: CompressionPhase,
    /// Empty dictionary for large texts. `None`: not created yet; `Some(None)`: memory could not be allocated.
    no_dictionary: Option<Option<Arc<Dictionary>>>,
    compressor: Compressor,
    /// Uncompressed texts of new objects, and after a training the samples. For
    /// [`Retain::Compact`](crate::cache::Retain) only the samples, until the next [`Compression::compress_backlog`].
    fresh: UncompressedQueue,
    /// Uncompressed texts of changed objects.
    changed: ChangedTexts,
    /// Uncompressed texts of objects that are read after each change.
    read: UncompressedQueue,
    /// Objects that the budget evicted. The caller drops them while no lock is held.
    pub(in crate::cache) evicted: Vec<Arc<dyn AnyDecodedObject>>,
}

/// Phase of compression: `Collecting` until there are enough texts, then `Trained` with a dictionary, and back to
/// `Collecting` when the dictionary no longer suits the texts.
enum CompressionPhase {
    /// Texts are stored uncompressed until there are enough of them to train a dictionary.
    Collecting(TrainingSet),
    Trained(TrainedDictionary),
}

impl Compression {
    /// Creates the state for objects that are stored in this form.
    pub(in crate::cache) fn new(retention: &Retention) -> Self {
        Self {
            interner: Interner::default(),
            text: Vec::new(),
            phase: CompressionPhase::Collecting(TrainingSet::default()),
            no_dictionary: None,
            compressor: Compressor::default(),
            fresh: UncompressedQueue::new(if matches!(retention, Retention::Compact) {
                0
            } else {
                UncompressedQueue::FRESH
            }),
            changed: ChangedTexts::default(),
            read: UncompressedQueue::new(UncompressedQueue::READ),
            evicted: Vec::new(),
        }
    }

    /// Creates a state that stores the current text. `replaced` has the reads of the object's previous version; `None` for a
    /// new object.
    ///
    /// Returns `None` if the metadata do not match the scope of the kind.
    pub(in crate::cache) fn store<K: Object>(
        &mut self,
        meta: Meta,
        replaced: Option<Reads>,
        context: &Arc<CodecContext>,
    ) -> Option<Lazy<K>> {
        let compressed = self.compress_current(context);
        let reads = replaced.unwrap_or_default().of_next();
        let state = Lazy::from_text(meta, &self.text, compressed, reads, context)?;
        self.enqueue(&state, replaced, context);
        Some(state)
    }

    /// Replaces a state's text, which may be shared with another state, by the current text.
    pub(in crate::cache) fn replace_text<K: Object>(&mut self, state: &Lazy<K>, context: &CodecContext) {
        let compressed = self.compress_current(context);
        state.replace_text(&self.text, compressed);
        self.enqueue(state, None, context);
    }

    /// Compresses the current text if that is due immediately: if it is large, or the kind is stored as `Compact`.
    fn compress_current(&mut self, context: &CodecContext) -> Option<CompressedText> {
        let text = &*self.text;
        if self.is_large() {
            let none = self.no_dictionary.get_or_insert_with(Dictionary::none).as_ref()?;
            return self.compressor.compress(text, none);
        }
        match &mut self.phase {
            CompressionPhase::Trained(trained) if matches!(context.retention, Retention::Compact) => {
                trained.compress(text, &mut self.compressor)
            }
            CompressionPhase::Trained(_) | CompressionPhase::Collecting(_) => None,
        }
    }

    fn is_large(&self) -> bool {
        self.text.len() >= Dictionary::LARGEST
    }

    /// Registers the state of the current text for later compression or training.
    fn enqueue<K: Object>(&mut self, state: &Lazy<K>, replaced: Option<Reads>, context: &CodecContext) {
        let length = self.text.len();
        if self.is_large() {
            return;
        }
        match &mut self.phase {
            CompressionPhase::Collecting(training_set) => training_set.add(state.compressible(), length),
            CompressionPhase::Trained(_) if matches!(context.retention, Retention::Compact) => {
                self.retrain_if_stale(context);
            }
            CompressionPhase::Trained(_) => {
                let is_read = replaced.is_some_and(Reads::predict_reads_of_all_states);
                // Objects that are read after each change have their own queue. Other changed objects borrow from the
                // budget; when it lends no more, they join the new objects.
                if replaced.is_some() && !is_read && self.push_changed(state, length, context) {
                    return;
                }
                let recent = if is_read { &mut self.read } else { &mut self.fresh };
                recent.push(state.compressible(), length);
                if recent.is_full() {
                    self.compress_backlog(context);
                }
            }
        }
    }

    /// Keeps the text of a changed object uncompressed, unless the budget has lent too much to other kinds.
    fn push_changed<K: Object>(&mut self, state: &Lazy<K>, length: usize, context: &CodecContext) -> bool {
        let Some(budget) = context.budget() else { return false };
        if self.changed.push(state.compressible(), length, budget, &mut self.evicted) {
            return true;
        }
        // The budget is exhausted: compress older texts of this kind, and try once more.
        self.compress_changed();
        let is_kept = self.changed.push(state.compressible(), length, budget, &mut self.evicted);
        self.retrain_if_stale(context);
        is_kept
    }

    /// Whether there are enough texts for a training.
    pub(in crate::cache) fn is_training_due(&self) -> bool {
        matches!(&self.phase, CompressionPhase::Collecting(training_set) if training_set.is_enough)
    }

    /// Copies texts for a training, if there are enough.
    pub(in crate::cache) fn samples(&mut self, context: &CodecContext) -> Option<Samples> {
        match &mut self.phase {
            CompressionPhase::Collecting(training_set) if training_set.is_enough => {
                training_set.samples(context)
            }
            CompressionPhase::Collecting(_) | CompressionPhase::Trained(_) => None,
        }
    }

    /// Takes the dictionary that was trained on samples; `None` if memory is short. Later calls of
    /// [`Compression::compress_backlog`] compress the collected texts with it.
    pub(in crate::cache) fn set_dictionary(
        &mut self,
        dictionary: Option<Arc<Dictionary>>,
        context: &CodecContext,
    ) {
        let CompressionPhase::Collecting(training_set) = &mut self.phase else { return };
        let training_set = std::mem::take(training_set);
        // Without a dictionary the collection starts again; these texts stay uncompressed.
        let Some(dictionary) = dictionary else { return };
        add(&context.counters.trainings, 1);
        self.phase = CompressionPhase::Trained(TrainedDictionary {
            dictionary,
            staleness: Staleness::new(),
            is_stale: false,
        });
        for (state, length) in training_set.states {
            self.fresh.push(state, length);
        }
    }

    fn compress_changed(&mut self) {
        let CompressionPhase::Trained(trained) = &mut self.phase else { return };
        while let Some(state) = self.changed.pop_surplus() {
            state.compress(&mut |text| trained.compress(text, &mut self.compressor));
        }
    }

    /// Whether there are texts to compress when no events are pending.
    pub(in crate::cache) fn has_backlog(&self) -> bool {
        let is_filling = self.fresh.is_filling() || self.read.is_filling() || self.changed.is_filling();
        is_filling && matches!(self.phase, CompressionPhase::Trained(_))
    }

    /// Compresses some of the oldest uncompressed texts: at most [`UncompressedQueue::AT_ONCE`] bytes of each queue.
    pub(in crate::cache) fn compress_backlog(&mut self, context: &CodecContext) {
        self.compress_changed();
        let CompressionPhase::Trained(trained) = &mut self.phase else { return };
        for recent in [&mut self.fresh, &mut self.read] {
            for state in recent.pop_surplus() {
                state.compress(&mut |text| trained.compress(text, &mut self.compressor));
            }
        }
        self.retrain_if_stale(context);
    }

    /// Starts to collect texts for a new dictionary, if that is due.
    fn retrain_if_stale(&mut self, context: &CodecContext) {
        // At the maximum number of dictionaries a stale one is better than none.
        if matches!(&self.phase, CompressionPhase::Trained(trained) if trained.is_stale)
            && context.dictionaries.load(Relaxed) < CodecContext::DICTIONARIES
        {
            self.phase = CompressionPhase::Collecting(TrainingSet::default());
        }
    }
}

/// A dictionary, and how well it still compresses the texts.
struct TrainedDictionary {
    dictionary: Arc<Dictionary>,
    staleness: Staleness,
    is_stale: bool,
}

impl TrainedDictionary {
    /// Compresses a text; `None` if that does not make it smaller.
    fn compress(&mut self, text: &[u8], compressor: &mut Compressor) -> Option<CompressedText> {
        let compressed = compressor.compress(text, &self.dictionary);
        self.is_stale |=
            self.staleness.record(text.len(), compressed.as_ref().map_or(text.len(), CompressedText::len));
        compressed
    }
}

/// A state with a text that may be compressed later.
pub(in crate::cache) trait CompressibleText: Send + Sync {
    /// Replaces the text, if it is uncompressed and `compress` makes it smaller.
    fn compress(&self, compress: &mut dyn FnMut(&[u8]) -> Option<CompressedText>);

    /// Calls `read` with the text, if it is uncompressed.
    fn with_plain_text(&self, read: &mut dyn FnMut(&[u8]));
}

/// States with the texts for the training of a dictionary.
pub(in crate::cache) struct TrainingSet {
    /// The states and the lengths of their texts.
    states: Vec<(Weak<dyn CompressibleText>, usize)>,
    /// Bytes of the texts: those that existed at the last check, and those added since.
    bytes: usize,
    /// Number of bytes at which to check which states still exist.
    check_at: usize,
    /// Whether there were enough bytes at the last check.
    is_enough: bool,
}

impl Default for TrainingSet {
    fn default() -> Self {
        Self { states: Vec::new(), bytes: 0, check_at: Self::ENOUGH, is_enough: false }
    }
}

impl TrainingSet {
    /// Bytes of text that a training needs; it takes about 50 ms. Kinds with less text are not compressed.
    pub(in crate::cache) const ENOUGH: usize = 512 << 10;

    fn add(&mut self, state: Weak<dyn CompressibleText>, length: usize) {
        self.states.push((state, length));
        self.bytes += length;
        if self.bytes < self.check_at {
            return;
        }
        // Do not count texts that have been replaced.
        self.states.retain(|(state, _)| state.strong_count() > 0);
        self.bytes = self.states.iter().map(|(_, length)| length).sum();
        // Check again only after another `ENOUGH / 2` bytes. If objects are replaced all the time, a check for each text
        // would be wasted work.
        self.check_at = self.bytes + Self::ENOUGH / 2;
        self.is_enough = self.bytes >= Self::ENOUGH;
    }

    /// Copies texts. Returns `None` if too many have been replaced since the check.
    fn samples(&mut self, context: &CodecContext) -> Option<Samples> {
        let mut samples = Samples::new(&context.dictionaries);
        let states = self.states.iter().filter_map(|(state, _)| state.upgrade());
        for state in states {
            state.with_plain_text(&mut |text| samples.add(text));
            if samples.bytes() >= Self::ENOUGH {
                return Some(samples);
            }
        }
        // The next check decides again. Until then no texts are copied.
        self.is_enough = false;
        None
    }
}
