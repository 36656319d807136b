//! Storage of the objects of one kind.
//!
//! A received object is split ([`split`](crate::cache::objects::split)): its metadata become a [`Meta`], the rest stays
//! text, which is compressed sooner or later ([`compression`](crate::cache::objects::compression)).

use std::{
    marker::PhantomData,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;

use super::{
    budget::{Budget, EntryId},
    compression::Compression,
    decode_error::DecodeError,
    decoded_object::{AnyDecodedObject, DecodedObject},
    dictionary::{Dictionary, Expander, Samples},
    incoming_object::{IncomingObject, IngestOptions, TextSource},
    lazy::Lazy,
    reads::{ReadPattern, Reads},
    retain::Retain,
    stats::{Counters, Stats, add},
};
use crate::object::{Object, meta::Meta, resource_name_of};

/// Decoded objects that are kept for reads, of all kinds that share the budget.
pub(crate) type DecodedBudget = Arc<Mutex<Budget<Arc<dyn AnyDecodedObject>>>>;

pub(crate) fn decoded_budget(bytes: usize) -> DecodedBudget {
    Arc::new(Mutex::new(Budget::new(bytes)))
}

/// Decodes and stores the objects of one kind. Each informer has one.
pub(crate) struct ObjectCodec<K: Object> {
    context: Arc<CodecContext>,
    compression: Mutex<Compression>,
    /// Whether there are texts to compress when no events are pending.
    has_backlog: AtomicBool,
    /// Whether a dictionary is to be trained.
    training_due: AtomicBool,
    kind: PhantomData<fn() -> K>,
}

/// Form in which a codec stores objects.
#[derive(Debug, Clone)]
pub(crate) enum Retention {
    /// As text, and decoded as long as the budget keeps it ([`Retain::Budget`]).
    Budget(DecodedBudget),
    /// Decoded, without text ([`Retain::Decoded`]).
    Decoded,
    /// As compressed text ([`Retain::Compact`]).
    Compact,
}

impl Retention {
    /// Returns the form that an option asks for.
    pub(crate) fn of(retain: Retain) -> Self {
        match retain {
            Retain::Budget(bytes) => Self::Budget(decoded_budget(bytes)),
            Retain::Decoded => Self::Decoded,
            Retain::Compact => Self::Compact,
        }
    }
}

/// Data that the states of a codec share.
pub(in crate::cache) struct CodecContext {
    /// Name of the resource in messages.
    pub(in crate::cache) resource: String,
    pub(in crate::cache) retention: Retention,
    pub(in crate::cache) ingest_options: IngestOptions,
    pub(in crate::cache) expander: Expander,
    pub(in crate::cache) counters: Arc<Counters>,
    /// Number of dictionaries with which stored texts are compressed.
    pub(in crate::cache) dictionaries: Arc<AtomicUsize>,
}

/// Version of an object that the store has when a state of the object arrives.
pub(crate) enum StoredVersion<K: Object> {
    /// The version that arrived.
    Same(Lazy<K>),
    /// Another version.
    Other {
        /// Statistics of the reads of that version.
        reads: Reads,
    },
    /// None: the object is not in the store.
    None,
}

impl<K: Object> ObjectCodec<K> {
    /// Creates the codec of the kind that `info` names.
    pub(crate) fn new(info: &K::DynamicType, retention: Retention, ingest_options: IngestOptions) -> Self {
        let context = CodecContext {
            resource: resource_name_of::<K>(info),
            retention,
            ingest_options,
            expander: Expander::default(),
            counters: Arc::default(),
            dictionaries: Arc::default(),
        };
        Self {
            compression: Mutex::new(Compression::new(&context.retention)),
            context: Arc::new(context),
            has_backlog: AtomicBool::new(false),
            training_due: AtomicBool::new(false),
            kind: PhantomData,
        }
    }

    /// Stores a received object.
    ///
    /// Returns `None` if it has no name, or no namespace although its kind is namespaced. Such an object is counted as
    /// unreadable and logged.
    pub(crate) fn ingest(&self, object: &IncomingObject<'_>) -> Option<Lazy<K>> {
        self.ingest_unless(object, |_| StoredVersion::None)
    }

    /// Like [`ObjectCodec::ingest`], but returns the state in the store if `stored` finds the same version there.
    pub(crate) fn ingest_unless(
        &self,
        object: &IncomingObject<'_>,
        stored: impl FnOnce(&Meta) -> StoredVersion<K>,
    ) -> Option<Lazy<K>> {
        let state = match object.text_for(&self.context.ingest_options) {
            Some(source) => match stored(source.meta()) {
                StoredVersion::Same(same) => Some(same),
                StoredVersion::Other { reads } => Self::refer(&self.context, source, reads),
                StoredVersion::None => Self::refer(&self.context, source, Reads::default()),
            },
            None => self.ingest_text(object, stored),
        };
        if state.is_none() {
            add(&self.context.counters.unreadable, 1);
            tracing::error!(
                resource = &*self.context.resource,
                "the cache leaves out an object that the API server sent: it has no name, or no namespace although its kind is \
                 namespaced"
            );
        }
        // Other informers may read whole objects, and the text of a metadata-only state may contain only metadata, so
        // it is not offered.
        if !K::metadata_api() {
            object.offer_text(state.as_ref().and_then(Lazy::text_source));
        }
        state
    }

    fn ingest_text(
        &self,
        object: &IncomingObject<'_>,
        stored: impl FnOnce(&Meta) -> StoredVersion<K>,
    ) -> Option<Lazy<K>> {
        let IngestOptions { managed_fields, transform } = &self.context.ingest_options;
        let changed = transform.as_ref().and_then(|transform| {
            transform.apply(object.split.json(), object.split.meta().namespace(), &self.context.resource)
        });
        let changed = changed.as_ref().map(IncomingObject::new);
        let split = &changed.as_ref().unwrap_or(object).split;
        let mut guard = self.compression.lock();
        let compression = &mut *guard;
        let meta = Meta::new(split.meta(), &mut compression.interner)?;
        let stored = stored(&meta);
        // A metadata-only state that shares the text of a whole object gets its own text below.
        if let StoredVersion::Same(same) = &stored
            && !(K::metadata_api() && same.is_shared())
        {
            return Some(same.clone());
        }
        compression.text.clear();
        if K::metadata_api() {
            split.keep_metadata(*managed_fields, &mut compression.text);
        } else {
            split.keep(*managed_fields, &mut compression.text);
        }
        if matches!(self.context.retention, Retention::Decoded) && !matches!(stored, StoredVersion::Same(_)) {
            // The decoder is user code and must not run under the lock.
            let text = std::mem::take(&mut compression.text);
            drop(guard);
            let state = Lazy::from_text_decoded(meta, &text, &self.context);
            self.compression.lock().text = text; // reuses the allocation
            return state;
        }
        let state = match stored {
            // The shared watch now delivers metadata alone: store them, so that the text of the whole object can be
            // freed.
            StoredVersion::Same(same) => {
                compression.replace_text(&same, &self.context);
                Some(same)
            }
            StoredVersion::Other { reads } => compression.store(meta, Some(reads), &self.context),
            StoredVersion::None => compression.store(meta, None, &self.context),
        };
        self.note_pending_work(compression);
        let evicted = std::mem::take(&mut compression.evicted);
        drop(guard);
        drop(evicted); // destructors of objects are user code and must not run under the lock
        state
    }

    /// Whether there are texts to compress when no events are pending.
    pub(crate) fn has_backlog(&self) -> bool {
        self.has_backlog.load(Relaxed)
    }

    /// Compresses some of the texts that wait for a pause between events.
    pub(crate) fn compress_backlog(&self) {
        let mut compression = self.compression.lock();
        compression.compress_backlog(&self.context);
        self.note_pending_work(&compression);
        let evicted = std::mem::take(&mut compression.evicted);
        drop(compression);
        drop(evicted); // destructors of objects are user code and must not run under the lock
    }

    /// Whether there are enough texts to train a dictionary, so that [`ObjectCodec::samples`] may return samples.
    pub(crate) fn is_training_due(&self) -> bool {
        self.training_due.load(Relaxed)
    }

    /// Copies texts for the training of a dictionary, if that is due.
    pub(crate) fn samples(&self) -> Option<Samples> {
        let mut compression = self.compression.lock();
        let samples = compression.samples(&self.context);
        self.note_pending_work(&compression);
        samples
    }

    /// Takes the dictionary that was trained on samples; `None` if none could be created.
    pub(crate) fn set_dictionary(&self, dictionary: Option<Arc<Dictionary>>) {
        let mut compression = self.compression.lock();
        compression.set_dictionary(dictionary, &self.context);
        self.note_pending_work(&compression);
    }

    /// Updates the flags that are read without the lock.
    fn note_pending_work(&self, compression: &Compression) {
        // Both are hints, so no ordering is needed: a stale value delays the work a little.
        self.has_backlog.store(compression.has_backlog(), Relaxed);
        self.training_due.store(compression.is_training_due(), Relaxed);
    }

    /// Creates a state that shares the text of another Rust type's state.
    fn refer(context: &Arc<CodecContext>, source: &Arc<dyn TextSource>, before: Reads) -> Option<Lazy<K>> {
        match context.retention {
            Retention::Decoded => {
                let text = source.text().ok()?;
                Lazy::from_text_decoded(source.meta().clone(), &text, context)
            }
            Retention::Budget(_) | Retention::Compact => Lazy::sharing(source, before.of_next(), context),
        }
    }

    pub(crate) fn count_failure(&self) {
        add(&self.context.counters.failures, 1);
    }

    pub(crate) fn count_list(&self) {
        add(&self.context.counters.lists, 1);
    }

    pub(crate) fn count_watch(&self) {
        add(&self.context.counters.watches, 1);
    }

    pub(crate) fn count_dead_watch(&self) {
        add(&self.context.counters.dead_watches, 1);
    }

    pub(crate) fn count_probe(&self) {
        add(&self.context.counters.probes, 1);
    }

    pub(crate) fn stats(&self) -> Stats {
        self.context.counters.read()
    }
}

/// Result of adding a decoded object to the budget.
pub(in crate::cache) struct KeptObject<K> {
    /// Weak handle of the kept object; `None` if it was not kept.
    pub(in crate::cache) kept: Option<Weak<DecodedObject<K>>>,
    /// Evicted objects. Must be dropped while no lock is held, because dropping is slow.
    pub(in crate::cache) evicted: Vec<Arc<dyn AnyDecodedObject>>,
}

impl<K> KeptObject<K> {
    pub(in crate::cache) fn nothing() -> Self {
        Self { kept: None, evicted: Vec::new() }
    }
}

impl CodecContext {
    /// Maximum number of dictionaries of a kind; each takes about 150 KiB.
    pub(in crate::cache) const DICTIONARIES: usize = 4;

    /// Decoded bytes per byte of text, measured with pods, which have the highest ratio of all builtin kinds.
    const DECODED_PER_TEXT_BYTE: usize = 5;

    /// Estimates the size of a decoded object from the length of its text.
    pub(in crate::cache) fn decoded_bytes<K>(text: usize) -> usize {
        size_of::<K>() + Self::DECODED_PER_TEXT_BYTE * text
    }

    /// Keeps a decoded object as long as the budget allows.
    pub(in crate::cache) fn keep<K: Object>(
        &self,
        object: &Arc<K>,
        text: usize,
        pattern: ReadPattern,
    ) -> KeptObject<K> {
        let Some(budget) = self.budget() else { return KeptObject::nothing() };
        let bytes = Self::decoded_bytes::<K>(text);
        let mut budget = budget.lock();
        // Objects that are read by an iteration must not evict others.
        if matches!(pattern, ReadPattern::Iteration) && bytes > budget.room() {
            return KeptObject::nothing();
        }
        let decoded = Arc::new(DecodedObject::new(object, bytes, &self.counters));
        let (id, evicted) = budget.admit(Arc::clone(&decoded) as Arc<dyn AnyDecodedObject>, bytes);
        if let Some(id) = id {
            decoded.set_id(id);
        }
        KeptObject { kept: id.map(|_| Arc::downgrade(&decoded)), evicted }
    }

    /// Removes a decoded object from the budget.
    pub(in crate::cache) fn remove_decoded(&self, id: EntryId) -> Option<Arc<dyn AnyDecodedObject>> {
        self.budget()?.lock().remove(id)
    }

    /// Returns the budget for decoded objects, if there is one.
    pub(in crate::cache) fn budget(&self) -> Option<&DecodedBudget> {
        match &self.retention {
            Retention::Budget(budget) => Some(budget),
            Retention::Decoded | Retention::Compact => None,
        }
    }

    /// Logs and counts an unreadable object. Called once per state.
    pub(in crate::cache) fn report(&self, meta: &Meta, error: &DecodeError) {
        add(&self.counters.unreadable, 1);
        tracing::error!(resource = &*self.resource, object = %meta, "the cache cannot decode an object: {error:?}");
    }

    /// Returns the error for a stored text that cannot be expanded, which is a bug.
    pub(in crate::cache) fn damaged(&self, meta: &Meta, reason: &'static str) -> DecodeError {
        DecodeError::new(&self.resource, meta, ".".to_owned(), reason)
    }
}

#[cfg(test)]
mod tests;
