//! [`Lazy`], one state of an object that is decoded on demand.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::{
    compression::CompressibleText,
    decode_error::DecodeError,
    decoded_object::DecodedObject,
    dictionary::CompressedText,
    incoming_object::{IngestOptions, PlainText, TextSource},
    object_codec::{CodecContext, DecodedBudget, KeptObject},
    reads::{ReadPattern, Reads},
    stats::{add, subtract},
    stored_text::StoredText,
};
use crate::{
    json::path::failed_at,
    object::{
        Object, ObjectKey,
        meta::{Interner, Meta, RawMeta},
    },
};

/// One state of an object. Its metadata are decoded, the object itself is decoded on demand.
///
/// A handle that is cheap to clone. It does not change when the object changes in the cluster.
///
/// ```
/// use controller_runtime::Lazy;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # fn example(config: &Lazy<ConfigMap>) -> Result<(), controller_runtime::DecodeError> {
/// if config.meta().labels().get("app") == Some("web") {
///     let config = config.object()?; // an Arc<ConfigMap>
///     println!("{:?}", config.data);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Lazy<K: Object> {
    state: Arc<ObjectState<K>>,
}

/// A state never changes. Only the form in which it is stored does, so a slow decode cannot bring back a state that has
/// been replaced since.
struct ObjectState<K> {
    meta: Meta,
    form: Mutex<StoredForm<K>>,
    /// Shared data of the informer; `None` for objects that were created with [`Lazy::of`].
    context: Option<Arc<CodecContext>>,
}

/// The text, the decoded object, or both.
struct StoredForm<K> {
    text: StoredText,
    object: Decoded<K>,
}

/// The decoded object of a state.
///
/// | from | on | to |
/// |---|---|---|
/// | `No`, `InBudget` after an eviction | a read that is worth keeping | `InBudget` |
/// | `No`, `InBudget` after an eviction | an error of the decoder | `Never` |
///
/// `Always` and `Never` are final: the text of a state never changes its meaning.
enum Decoded<K> {
    /// Not decoded, or not kept after it was decoded.
    No(Reads),
    /// Kept as long as the budget allows. The handle dangles after an eviction.
    InBudget(Weak<DecodedObject<K>>, Reads),
    /// Kept as long as the state. The number is the estimated size, or zero if it is not counted.
    Always(Arc<K>, u32),
    /// The object cannot be decoded as its type. The error was logged.
    Never(DecodeError),
}

impl<K: Object> Lazy<K> {
    /// Wraps a decoded object, for tests of predicates and handlers.
    ///
    /// Returns `None` if it has no name, or no namespace although its kind is namespaced. Objects of an API server
    /// always have both.
    pub fn of(object: impl Into<Arc<K>>) -> Option<Self> {
        Self::decoded(object.into(), &mut Interner::default())
    }

    pub(in crate::cache) fn decoded(object: Arc<K>, interner: &mut Interner) -> Option<Self> {
        let meta = Meta::new(&RawMeta::of(object.meta()), interner)?;
        Self::new(meta, StoredForm { text: StoredText::None, object: Decoded::Always(object, 0) }, None)
    }

    /// Creates a state from a text that is decoded on demand.
    pub(in crate::cache) fn from_text(
        meta: Meta,
        text: &[u8],
        compressed: Option<CompressedText>,
        reads: Reads,
        context: &Arc<CodecContext>,
    ) -> Option<Self> {
        let stored = compressed.map_or_else(|| StoredText::Plain(text.into()), StoredText::Compressed);
        Self::new(meta, StoredForm { text: stored, object: Decoded::No(reads) }, Some(Arc::clone(context)))
    }

    /// Creates a state from a text that is decoded now. The text is not kept, unless decoding fails.
    pub(in crate::cache) fn from_text_decoded(
        meta: Meta,
        text: &[u8],
        context: &Arc<CodecContext>,
    ) -> Option<Self> {
        let form = match decode::<K>(text, &meta, context) {
            // A clone has no spare capacity, unlike the values that serde creates.
            Ok(object) => {
                let bytes = u32::try_from(CodecContext::decoded_bytes::<K>(text.len())).unwrap_or(u32::MAX);
                StoredForm {
                    text: StoredText::None,
                    object: Decoded::Always(Arc::new(object.clone()), bytes),
                }
            }
            Err(error) => StoredForm { text: StoredText::Plain(text.into()), object: Decoded::Never(error) },
        };
        Self::new(meta, form, Some(Arc::clone(context)))
    }

    /// Creates a state that shares the text of another state.
    pub(in crate::cache) fn sharing(
        source: &Arc<dyn TextSource>,
        reads: Reads,
        context: &Arc<CodecContext>,
    ) -> Option<Self> {
        let form = StoredForm { text: StoredText::Shared(Arc::clone(source)), object: Decoded::No(reads) };
        Self::new(source.meta().clone(), form, Some(Arc::clone(context)))
    }

    /// Returns `None` if the metadata do not match the scope of the kind.
    fn new(meta: Meta, form: StoredForm<K>, context: Option<Arc<CodecContext>>) -> Option<Self> {
        ObjectKey::<K>::of_meta(&meta)?;
        if let Some(context) = &context {
            add(&context.counters.objects, 1);
            add(&context.counters.text_bytes, form.text.bytes());
            add(&context.counters.shared, usize::from(form.text.is_shared()));
            if let Decoded::Always(_, bytes) = form.object {
                add(&context.counters.decoded, 1);
                add(&context.counters.decoded_bytes, bytes as usize);
            }
        }
        Some(Self { state: Arc::new(ObjectState { meta, form: Mutex::new(form), context }) })
    }

    /// Returns the metadata. Decodes nothing.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.state.meta
    }

    /// Returns the object's key.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "a state without a key cannot be made")]
    pub fn key(&self) -> ObjectKey<K> {
        ObjectKey::of_meta(&self.state.meta).expect("a state is made only if it has a key")
    }

    /// Returns the object, and decodes it if necessary.
    ///
    /// The result stays valid as long as it is held, even if the cache evicts it.
    ///
    /// # Errors
    ///
    /// The object cannot be decoded as `K`.
    pub fn object(&self) -> Result<Arc<K>, DecodeError> {
        self.object_for(ReadPattern::Single)
    }

    /// Returns the number of additional bytes that a budget needs to keep the object decoded.
    pub(in crate::cache) fn bytes_to_keep(&self) -> usize {
        let form = self.state.form.lock();
        match &form.object {
            Decoded::Always(..) | Decoded::Never(_) => 0,
            Decoded::InBudget(kept, _) if kept.strong_count() > 0 => 0,
            Decoded::InBudget(..) | Decoded::No(_) => CodecContext::decoded_bytes::<K>(form.text.text_len()),
        }
    }

    /// Returns the budget that keeps such objects decoded, if there is one.
    pub(in crate::cache) fn budget(&self) -> Option<&DecodedBudget> {
        self.state.context.as_ref()?.budget()
    }

    /// Like [`Lazy::object`], for a read of this pattern.
    pub(in crate::cache) fn object_for(&self, pattern: ReadPattern) -> Result<Arc<K>, DecodeError> {
        let ObjectState { meta, form: shared, context } = &*self.state;
        let mut form = shared.lock();
        let reads = match &mut form.object {
            Decoded::Always(object, _) => return Ok(Arc::clone(object)),
            Decoded::Never(error) => return Err(error.clone()),
            Decoded::InBudget(kept, reads) => {
                let before = reads.count(pattern);
                if let Some(kept) = kept.upgrade() {
                    return Ok(kept.object());
                }
                before
            }
            Decoded::No(reads) => reads.count(pattern),
        };
        let context = context.as_ref().expect("a state without text is always decoded");
        let text = form.text.read(context);
        // The decoder is user code and must not run under the lock. Two readers may decode the same state at the same
        // time, which is rare.
        drop(form);
        let decoded = match text {
            Ok(text) => read::<K>(&text, meta, &context.resource).map(|object| (object, text.len())),
            Err(reason) => Err(context.damaged(meta, reason)),
        };
        add(&context.counters.decodes, 1);
        let (object, length) = match decoded {
            Ok(decoded) => decoded,
            Err(error) => {
                let mut form = shared.lock();
                if let Decoded::Never(_) = form.object {
                    return Err(error); // another reader has decoded it meanwhile, and has logged the error
                }
                form.object = Decoded::Never(error.clone());
                drop(form);
                context.report(meta, &error);
                return Err(error);
            }
        };
        let object = Arc::new(object);
        let worth_keeping = reads.predict_another_read() && !matches!(pattern, ReadPattern::LargeIteration);
        if !worth_keeping {
            return Ok(object);
        }
        let KeptObject { kept, evicted } = context.keep(&object, length, pattern);
        drop(evicted); // slow, so not under a lock
        if let Some(kept) = kept {
            // Other readers may have counted reads meanwhile: keep their counts.
            let mut form = shared.lock();
            let reads = form.object.reads();
            let before = std::mem::replace(&mut form.object, Decoded::InBudget(kept, reads));
            drop(form);
            // If two readers decoded it at the same time, the budget keeps only the second object.
            if let Decoded::InBudget(before, _) = before {
                drop(before.upgrade().and_then(|before| context.remove_decoded(before.id()?)));
            }
        }
        Ok(object)
    }

    /// Returns the error of an earlier attempt to decode the object; `None` also if there was no attempt.
    pub(in crate::cache) fn decode_error(&self) -> Option<DecodeError> {
        match &self.state.form.lock().object {
            Decoded::Never(error) => Some(error.clone()),
            Decoded::No(_) | Decoded::InBudget(..) | Decoded::Always(..) => None,
        }
    }

    /// Decodes the text as another type, for example a slim one with only the fields that you need.
    ///
    /// Decodes at each call, and stores nothing.
    ///
    /// # Errors
    ///
    /// The object cannot be decoded as `T`.
    pub fn decode_as<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        let ObjectState { meta, form, context } = &*self.state;
        // `Ok` holds the object of a state without text, `Err` the text of any other state.
        let held = {
            let form = form.lock();
            match (&form.text, context, &form.object) {
                (StoredText::None, _, Decoded::Always(object, _)) => Ok(Arc::clone(object)),
                (stored, Some(context), _) => Err((stored.read(context), context)),
                _ => unreachable!("there is a text, or the object is decoded"),
            }
        };
        let always = match held {
            Ok(always) => always,
            // The decoder is user code: the lock was released.
            Err((Ok(text), context)) => return read(&text, meta, &context.resource),
            Err((Err(reason), context)) => {
                let error = context.damaged(meta, reason);
                context.report(meta, &error);
                return Err(error);
            }
        };
        let resource = context.as_ref().map_or("object", |context| &*context.resource);
        let text = serde_json::to_vec(&*always)
            .map_err(|error| DecodeError::new(resource, meta, ".".to_owned(), error))?;
        read(&text, meta, resource)
    }

    /// Returns all metadata, including annotations, without decoding the rest.
    ///
    /// # Errors
    ///
    /// The metadata are invalid.
    pub fn object_meta(&self) -> Result<ObjectMeta, DecodeError> {
        self.decode_as::<PartialObjectMeta<K>>().map(|object| object.metadata)
    }

    /// Whether the state uses the text of another state.
    pub(in crate::cache) fn is_shared(&self) -> bool {
        self.state.form.lock().text.is_shared()
    }

    /// Replaces the text, stored or shared, by another text that `K` decodes to an equal object.
    pub(in crate::cache) fn replace_text(&self, text: &[u8], compressed: Option<CompressedText>) {
        let stored = compressed.map_or_else(|| StoredText::Plain(text.into()), StoredText::Compressed);
        let mut form = self.state.form.lock();
        let before = form.replace_text(stored, self.state.context.as_deref());
        drop(form);
        drop(before); // possibly the last handle of a state that stores a whole object
    }

    /// Returns the statistics of reads; empty if another thread has locked the state. They are read under the lock of the
    /// store and are not worth a wait.
    pub(in crate::cache) fn reads(&self) -> Reads {
        self.state.form.try_lock().map_or(Reads::default(), |form| form.object.reads())
    }

    /// Whether a budget keeps the object decoded.
    #[cfg(test)]
    pub(in crate::cache) fn is_kept(&self) -> bool {
        matches!(&self.state.form.lock().object, Decoded::InBudget(kept, _) if kept.strong_count() > 0)
    }

    /// Whether both are handles of the same state.
    pub(crate) fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Returns the state that stores the text, if there is one.
    pub(in crate::cache) fn text_source(&self) -> Option<Arc<dyn TextSource>> {
        match &self.state.form.lock().text {
            StoredText::None => None,
            StoredText::Plain(_) | StoredText::Compressed(_) => Some(Arc::clone(&self.state) as _),
            StoredText::Shared(source) => Some(Arc::clone(source)),
        }
    }

    pub(in crate::cache) fn compressible(&self) -> Weak<dyn CompressibleText> {
        let state: Weak<ObjectState<K>> = Arc::downgrade(&self.state);
        state
    }
}

impl<K: Object> CompressibleText for ObjectState<K> {
    fn compress(&self, compress: &mut dyn FnMut(&[u8]) -> Option<CompressedText>) {
        let mut form = self.form.lock();
        let compressed = match &form.text {
            StoredText::Plain(text) => compress(text),
            _ => None,
        };
        if let Some(compressed) = compressed {
            drop(form.replace_text(StoredText::Compressed(compressed), self.context.as_deref()));
        }
    }

    fn with_plain_text(&self, read: &mut dyn FnMut(&[u8])) {
        if let StoredText::Plain(text) = &self.form.lock().text {
            read(text);
        }
    }
}

impl<K: Object> TextSource for ObjectState<K> {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Locks this state. The caller may have locked its own state, which refers to this one; references never go the
    /// other way, so this cannot deadlock.
    fn text(&self) -> Result<PlainText, &'static str> {
        let context = self.context.as_ref().ok_or("it has no text")?;
        self.form.lock().text.read(context)
    }

    fn text_len(&self) -> usize {
        self.form.lock().text.text_len()
    }

    fn is_text_for(&self, ingest_options: &IngestOptions) -> bool {
        self.context.as_ref().is_some_and(|context| context.ingest_options == *ingest_options)
    }
}

impl<K> Drop for ObjectState<K> {
    fn drop(&mut self) {
        let Some(context) = &self.context else { return };
        let form = self.form.get_mut();
        subtract(&context.counters.objects, 1);
        subtract(&context.counters.text_bytes, form.text.bytes());
        subtract(&context.counters.shared, usize::from(form.text.is_shared()));
        match &form.object {
            // Without this, the budget would keep an unreachable object until it is evicted.
            Decoded::InBudget(kept, _) => {
                drop(kept.upgrade().and_then(|kept| context.remove_decoded(kept.id()?)));
            }
            Decoded::Always(_, bytes) => {
                subtract(&context.counters.decoded, 1);
                subtract(&context.counters.decoded_bytes, *bytes as usize);
            }
            Decoded::No(_) | Decoded::Never(_) => {}
        }
    }
}

impl<K> StoredForm<K> {
    /// Replaces the text, and returns the old one.
    fn replace_text(&mut self, text: StoredText, context: Option<&CodecContext>) -> StoredText {
        let before = std::mem::replace(&mut self.text, text);
        if let Some(context) = context {
            add(&context.counters.text_bytes, self.text.bytes());
            add(&context.counters.shared, usize::from(self.text.is_shared()));
            subtract(&context.counters.text_bytes, before.bytes());
            subtract(&context.counters.shared, usize::from(before.is_shared()));
        }
        before
    }
}

impl<K> Decoded<K> {
    fn reads(&self) -> Reads {
        match self {
            Self::No(reads) | Self::InBudget(_, reads) => *reads,
            Self::Always(..) | Self::Never(_) => Reads::default(),
        }
    }
}

/// Decodes for the first time, and logs an error.
fn decode<K: Object>(text: &[u8], meta: &Meta, context: &CodecContext) -> Result<K, DecodeError> {
    add(&context.counters.decodes, 1);
    read(text, meta, &context.resource).inspect_err(|error| context.report(meta, error))
}

fn read<T: DeserializeOwned>(text: &[u8], meta: &Meta, resource: &str) -> Result<T, DecodeError> {
    // One UTF-8 check of the whole text saves a check of each string.
    let text =
        std::str::from_utf8(text).map_err(|error| DecodeError::new(resource, meta, ".".to_owned(), error))?;
    serde_json::from_str(text)
        .map_err(|error| DecodeError::new(resource, meta, failed_at(text, &error), error))
}

impl<K: Object> Clone for Lazy<K> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state) }
    }
}

/// Prints key and version.
impl<K: Object> fmt::Debug for Lazy<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.meta(), f)
    }
}
