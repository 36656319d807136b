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
    arrival::{Intake, Source, Text},
    decode_error::DecodeError,
    hot::Hot,
    inlet::Packable,
    pack::Packed,
    reads::{Readers, Reads},
    shelf::{Core, HotBudget, Kept},
    stats::{add, subtract},
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
    state: Arc<State<K>>,
}

/// A state never changes. Only the form in which it is stored does, so a slow decode cannot bring back a state that has
/// been replaced since.
struct State<K> {
    meta: Meta,
    form: Mutex<Form<K>>,
    /// Shared data of the informer; `None` for objects that were created with [`Lazy::of`].
    core: Option<Arc<Core>>,
}

/// The text, the decoded object, or both.
struct Form<K> {
    cold: Cold,
    object: Decoded<K>,
}

/// The text of a state.
enum Cold {
    /// No text: the object is always decoded.
    None,
    Plain(Arc<[u8]>),
    Packed(Packed),
    /// The text of another Rust type's state.
    Of(Arc<dyn Source>),
}

/// The decoded object of a state.
enum Decoded<K> {
    No(Reads),
    /// Kept as long as the budget allows.
    Hot(Weak<Hot<K>>, Reads),
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
        Self::new(meta, Form { cold: Cold::None, object: Decoded::Always(object, 0) }, None)
    }

    /// Creates a state from a text, to be decoded on demand.
    pub(in crate::cache) fn cold(
        meta: Meta,
        text: &[u8],
        packed: Option<Packed>,
        reads: Reads,
        core: &Arc<Core>,
    ) -> Option<Self> {
        let cold = packed.map_or_else(|| Cold::Plain(text.into()), Cold::Packed);
        Self::new(meta, Form { cold, object: Decoded::No(reads) }, Some(Arc::clone(core)))
    }

    /// Creates a state from a text that is decoded now. The text is dropped if that succeeds.
    pub(in crate::cache) fn warm(meta: Meta, text: &[u8], core: &Arc<Core>) -> Option<Self> {
        let form = match decode::<K>(text, &meta, core) {
            // A clone has no spare capacity, unlike the values that serde creates.
            Ok(object) => {
                let bytes = u32::try_from(Core::decoded_bytes::<K>(text.len())).unwrap_or(u32::MAX);
                Form { cold: Cold::None, object: Decoded::Always(Arc::new(object.clone()), bytes) }
            }
            Err(error) => Form { cold: Cold::Plain(text.into()), object: Decoded::Never(error) },
        };
        Self::new(meta, form, Some(Arc::clone(core)))
    }

    /// Creates a state that shares the text of another state.
    pub(in crate::cache) fn of_source(
        source: &Arc<dyn Source>,
        reads: Reads,
        core: &Arc<Core>,
    ) -> Option<Self> {
        let form = Form { cold: Cold::Of(Arc::clone(source)), object: Decoded::No(reads) };
        Self::new(source.meta().clone(), form, Some(Arc::clone(core)))
    }

    /// Returns `None` if the metadata do not match the scope of the kind.
    fn new(meta: Meta, form: Form<K>, core: Option<Arc<Core>>) -> Option<Self> {
        ObjectKey::<K>::of_meta(&meta)?;
        if let Some(core) = &core {
            add(&core.counters.objects, 1);
            add(&core.counters.cold_bytes, form.cold.bytes());
            add(&core.counters.shared, usize::from(form.cold.is_shared()));
            if let Decoded::Always(_, bytes) = form.object {
                add(&core.counters.hot, 1);
                add(&core.counters.hot_bytes, bytes as usize);
            }
        }
        Some(Self { state: Arc::new(State { meta, form: Mutex::new(form), core }) })
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
        self.object_among(Readers::One)
    }

    /// Returns the number of additional bytes that a budget needs to keep the object decoded.
    pub(in crate::cache) fn to_keep(&self) -> usize {
        let form = self.state.form.lock();
        match &form.object {
            Decoded::Always(..) | Decoded::Never(_) => 0,
            Decoded::Hot(hot, _) if hot.strong_count() > 0 => 0,
            Decoded::Hot(..) | Decoded::No(_) => Core::decoded_bytes::<K>(form.cold.text_len()),
        }
    }

    /// Returns the budget that keeps such objects decoded, if there is one.
    pub(in crate::cache) fn budget(&self) -> Option<&HotBudget> {
        self.state.core.as_ref()?.budget()
    }

    /// Like [`Lazy::object`], for a reader of this type.
    pub(in crate::cache) fn object_among(&self, readers: Readers) -> Result<Arc<K>, DecodeError> {
        let State { meta, form: shared, core } = &*self.state;
        let mut form = shared.lock();
        let reads = match &mut form.object {
            Decoded::Always(object, _) => return Ok(Arc::clone(object)),
            Decoded::Never(error) => return Err(error.clone()),
            Decoded::Hot(hot, reads) => {
                let before = reads.count(readers);
                if let Some(hot) = hot.upgrade() {
                    return Ok(hot.object());
                }
                before
            }
            Decoded::No(reads) => reads.count(readers),
        };
        let core = core.as_ref().expect("a state without text is always decoded");
        let text = form.cold.text(core);
        // The decoder is user code and must not run under the lock. Two readers may decode the same state at the same
        // time, which is rare.
        drop(form);
        let decoded = match text {
            Ok(text) => read::<K>(&text, meta, &core.resource).map(|object| (object, text.len())),
            Err(reason) => Err(core.damaged(meta, reason)),
        };
        add(&core.counters.decodes, 1);
        let (object, length) = match decoded {
            Ok(decoded) => decoded,
            Err(error) => {
                let mut form = shared.lock();
                if let Decoded::Never(_) = form.object {
                    return Err(error); // another reader has logged it
                }
                form.object = Decoded::Never(error.clone());
                drop(form);
                core.report(meta, &error);
                return Err(error);
            }
        };
        let object = Arc::new(object);
        let worth_keeping = reads.promise_more() && !matches!(readers, Readers::TooMany);
        if !worth_keeping {
            return Ok(object);
        }
        let Kept { hot, gone } = core.keep(&object, length, readers);
        drop(gone); // slow, so not under a lock
        if let Some(hot) = hot {
            // Reads were counted meanwhile: keep those.
            let mut form = shared.lock();
            let reads = form.object.reads();
            let before = std::mem::replace(&mut form.object, Decoded::Hot(hot, reads));
            drop(form);
            // If two readers decoded it at the same time, the budget keeps only the second object.
            if let Decoded::Hot(before, _) = before {
                drop(before.upgrade().and_then(|before| core.give_up(before.place()?)));
            }
        }
        Ok(object)
    }

    /// Decodes the text as another type, for example a slim one with only the fields that you need.
    ///
    /// Decodes at each call, and stores nothing.
    ///
    /// # Errors
    ///
    /// The object cannot be decoded as `T`.
    pub fn decode_as<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        let State { meta, form, core } = &*self.state;
        let held = {
            let form = form.lock();
            match (&form.cold, core, &form.object) {
                (Cold::None, _, Decoded::Always(object, _)) => Ok(Arc::clone(object)),
                (cold, Some(core), _) => Err((cold.text(core), core)),
                _ => unreachable!("there is a text, or the object is decoded"),
            }
        };
        let always = match held {
            Ok(always) => always,
            // The decoder is user code: the lock was released.
            Err((Ok(text), core)) => return read(&text, meta, &core.resource),
            Err((Err(reason), core)) => {
                let error = core.damaged(meta, reason);
                core.report(meta, &error);
                return Err(error);
            }
        };
        let resource = core.as_ref().map_or("object", |core| &*core.resource);
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

    /// Whether the text is that of another state.
    pub(in crate::cache) fn is_shared(&self) -> bool {
        self.state.form.lock().cold.is_shared()
    }

    /// Replaces the text, stored or shared, by this one, which has the same content as far as `K` is concerned.
    pub(in crate::cache) fn hold_instead(&self, text: &[u8], packed: Option<Packed>) {
        let cold = packed.map_or_else(|| Cold::Plain(text.into()), Cold::Packed);
        let mut form = self.state.form.lock();
        let before = form.replace_cold(cold, self.state.core.as_deref());
        drop(form);
        drop(before); // possibly the last handle of a state that stores a whole object
    }

    /// Returns the statistics of reads; empty if another thread has locked the state.
    pub(in crate::cache) fn reads(&self) -> Reads {
        self.state.form.try_lock().map_or(Reads::default(), |form| form.object.reads())
    }

    /// Whether a budget keeps the object decoded.
    #[cfg(test)]
    pub(in crate::cache) fn is_hot(&self) -> bool {
        matches!(&self.state.form.lock().object, Decoded::Hot(hot, _) if hot.strong_count() > 0)
    }

    /// Whether both are handles of the same state.
    pub(crate) fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Returns the state that stores the text, if there is one.
    pub(in crate::cache) fn source(&self) -> Option<Arc<dyn Source>> {
        match &self.state.form.lock().cold {
            Cold::None => None,
            Cold::Plain(_) | Cold::Packed(_) => Some(Arc::clone(&self.state) as _),
            Cold::Of(source) => Some(Arc::clone(source)),
        }
    }

    pub(in crate::cache) fn packable(&self) -> Weak<dyn Packable> {
        let state: Weak<State<K>> = Arc::downgrade(&self.state);
        state
    }
}

impl<K: Object> Packable for State<K> {
    fn pack(&self, pack: &mut dyn FnMut(&[u8]) -> Option<Packed>) {
        let mut form = self.form.lock();
        let packed = match &form.cold {
            Cold::Plain(text) => pack(text),
            _ => None,
        };
        if let Some(packed) = packed {
            drop(form.replace_cold(Cold::Packed(packed), self.core.as_deref()));
        }
    }

    fn plain(&self, read: &mut dyn FnMut(&[u8])) {
        if let Cold::Plain(text) = &self.form.lock().cold {
            read(text);
        }
    }
}

impl<K: Object> Source for State<K> {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Locks this state. The caller may have locked its own state, which refers to this one; references never go the
    /// other way, so this cannot deadlock.
    fn text(&self) -> Result<Text, &'static str> {
        let core = self.core.as_ref().ok_or("it has no text")?;
        self.form.lock().cold.text(core)
    }

    fn text_len(&self) -> usize {
        self.form.lock().cold.text_len()
    }

    fn is_of(&self, intake: &Intake) -> bool {
        self.core.as_ref().is_some_and(|core| core.intake == *intake)
    }
}

impl<K> Drop for State<K> {
    fn drop(&mut self) {
        let Some(core) = &self.core else { return };
        let form = self.form.get_mut();
        subtract(&core.counters.objects, 1);
        subtract(&core.counters.cold_bytes, form.cold.bytes());
        subtract(&core.counters.shared, usize::from(form.cold.is_shared()));
        match &form.object {
            Decoded::Hot(hot, _) => drop(hot.upgrade().and_then(|hot| core.give_up(hot.place()?))),
            Decoded::Always(_, bytes) => {
                subtract(&core.counters.hot, 1);
                subtract(&core.counters.hot_bytes, *bytes as usize);
            }
            Decoded::No(_) | Decoded::Never(_) => {}
        }
    }
}

impl<K> Form<K> {
    /// Replaces the text, and returns the old one.
    fn replace_cold(&mut self, cold: Cold, core: Option<&Core>) -> Cold {
        let before = std::mem::replace(&mut self.cold, cold);
        if let Some(core) = core {
            add(&core.counters.cold_bytes, self.cold.bytes());
            add(&core.counters.shared, usize::from(self.cold.is_shared()));
            subtract(&core.counters.cold_bytes, before.bytes());
            subtract(&core.counters.shared, usize::from(before.is_shared()));
        }
        before
    }
}

impl<K> Decoded<K> {
    fn reads(&self) -> Reads {
        match self {
            Self::No(reads) | Self::Hot(_, reads) => *reads,
            Self::Always(..) | Self::Never(_) => Reads::default(),
        }
    }
}

impl Cold {
    fn bytes(&self) -> usize {
        match self {
            Self::None | Self::Of(_) => 0,
            Self::Plain(text) => text.len(),
            Self::Packed(packed) => packed.len(),
        }
    }

    fn text_len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Plain(text) => text.len(),
            Self::Packed(packed) => packed.text_len().unwrap_or_default(),
            Self::Of(source) => source.text_len(),
        }
    }

    fn is_shared(&self) -> bool {
        matches!(self, Self::Of(_))
    }

    /// Returns the text, to be read after the lock is released.
    fn text(&self, core: &Core) -> Result<Text, &'static str> {
        match self {
            Self::None => Err("it has no text"),
            Self::Plain(text) => Ok(Text::Shared(Arc::clone(text))),
            Self::Packed(packed) => core.expander.expand(packed).map(Text::Expanded),
            Self::Of(source) => source.text(),
        }
    }
}

/// Decodes for the first time, and logs an error.
fn decode<K: Object>(text: &[u8], meta: &Meta, core: &Core) -> Result<K, DecodeError> {
    add(&core.counters.decodes, 1);
    read(text, meta, &core.resource).inspect_err(|error| core.report(meta, error))
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

/// Key and version.
impl<K: Object> fmt::Debug for Lazy<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.meta(), f)
    }
}
