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
    meta::{Interner, Meta, RawMeta},
    pack::Packed,
    reads::{Readers, Reads},
    shelf::{Core, HotBudget, Kept},
    stats::{add, subtract},
};
use crate::{
    json_path::failed_at,
    object::{Object, ObjectKey},
};

/// One state of an object: its metadata at hand, the object itself when asked for.
///
/// A handle, cheap to clone. It stays what it is whatever happens to the object in the cluster.
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

/// A state never changes. What changes is the form in which it is held, so a decode that takes long cannot bring back what
/// has been replaced since.
struct State<K> {
    meta: Meta,
    form: Mutex<Form<K>>,
    /// Of the informer that holds it; none for objects that never were on a wire.
    core: Option<Arc<Core>>,
}

/// The text, the object, or both.
struct Form<K> {
    cold: Cold,
    object: Decoded<K>,
}

enum Cold {
    /// There is no text: the object is always decoded.
    None,
    Plain(Arc<[u8]>),
    Packed(Packed),
    /// It is that of a state of another type.
    Of(Arc<dyn Source>),
}

enum Decoded<K> {
    No(Reads),
    /// As long as the budget allows.
    Hot(Weak<Hot<K>>, Reads),
    /// As long as the state is held. The number is what it takes, as estimated, if that is counted.
    Always(Arc<K>, u32),
    /// It does not fit its type, which has been reported.
    Never(DecodeError),
}

impl<K: Object> Lazy<K> {
    /// Wraps an object that is decoded already, as tests of predicates and handlers do.
    ///
    /// `None` if it has no name, or no namespace although its kind is namespaced: no object read from an API server is
    /// like that.
    pub fn of(object: impl Into<Arc<K>>) -> Option<Self> {
        Self::decoded(object.into(), &mut Interner::default())
    }

    pub(super) fn decoded(object: Arc<K>, interner: &mut Interner) -> Option<Self> {
        let meta = Meta::new(&RawMeta::of(object.meta()), interner)?;
        Self::new(meta, Form { cold: Cold::None, object: Decoded::Always(object, 0) }, None)
    }

    /// Of a text that is to be decoded when asked for.
    pub(super) fn cold(
        meta: Meta,
        text: &[u8],
        packed: Option<Packed>,
        reads: Reads,
        core: &Arc<Core>,
    ) -> Option<Self> {
        let cold = packed.map_or_else(|| Cold::Plain(text.into()), Cold::Packed);
        Self::new(meta, Form { cold, object: Decoded::No(reads) }, Some(Arc::clone(core)))
    }

    /// Of a text that is decoded at once, and forgotten if that goes well.
    pub(super) fn warm(meta: Meta, text: &[u8], core: &Arc<Core>) -> Option<Self> {
        let form = match decode::<K>(text, &meta, core) {
            // What serde makes has room to grow; a clone has not.
            Ok(object) => {
                let bytes = u32::try_from(Core::decoded_bytes::<K>(text.len())).unwrap_or(u32::MAX);
                Form { cold: Cold::None, object: Decoded::Always(Arc::new(object.clone()), bytes) }
            }
            Err(error) => Form { cold: Cold::Plain(text.into()), object: Decoded::Never(error) },
        };
        Self::new(meta, form, Some(Arc::clone(core)))
    }

    /// Of the text that another state holds.
    pub(super) fn of_source(source: &Arc<dyn Source>, reads: Reads, core: &Arc<Core>) -> Option<Self> {
        let form = Form { cold: Cold::Of(Arc::clone(source)), object: Decoded::No(reads) };
        Self::new(source.meta().clone(), form, Some(Arc::clone(core)))
    }

    /// `None` if the metadata are those of another scope.
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

    /// The metadata, without decoding anything.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.state.meta
    }

    /// The object's key.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "a state without a key cannot be made")]
    pub fn key(&self) -> ObjectKey<K> {
        ObjectKey::of_meta(&self.state.meta).expect("a state is made only if it has a key")
    }

    /// The object, decoded now unless it is decoded already.
    ///
    /// Stays valid as long as you hold it, also when the cache has let go of it.
    ///
    /// # Errors
    ///
    /// It does not fit `K`.
    pub fn object(&self) -> Result<Arc<K>, DecodeError> {
        self.object_among(Readers::One)
    }

    /// What a budget would have to keep for the object to be decoded, beyond what it keeps now.
    pub(super) fn to_keep(&self) -> usize {
        let form = self.state.form.lock();
        match &form.object {
            Decoded::Always(..) | Decoded::Never(_) => 0,
            Decoded::Hot(hot, _) if hot.strong_count() > 0 => 0,
            Decoded::Hot(..) | Decoded::No(_) => Core::decoded_bytes::<K>(form.cold.text_len()),
        }
    }

    /// The budget that keeps such objects decoded, if there is one.
    pub(super) fn budget(&self) -> Option<&HotBudget> {
        self.state.core.as_ref()?.budget()
    }

    /// The same as [`Lazy::object`] for who reads more than one.
    pub(super) fn object_among(&self, readers: Readers) -> Result<Arc<K>, DecodeError> {
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
        let core = core.as_ref().expect("what never was on a wire is always decoded");
        let text = form.cold.text(core);
        // A decoder is user code. Two readers may decode the same state at the same time, which is rare.
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
                    return Err(error); // another reader has reported it
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
        drop(gone); // takes a while, and locks nothing
        if let Some(hot) = hot {
            let mut form = shared.lock();
            let reads = form.object.reads();
            let before = std::mem::replace(&mut form.object, Decoded::Hot(hot, reads));
            drop(form);
            // Of two readers that decoded it at the same time the budget keeps one object.
            if let Decoded::Hot(before, _) = before {
                drop(before.upgrade().and_then(|before| core.give_up(before.place()?)));
            }
        }
        Ok(object)
    }

    /// The object as another type that takes what it needs of the same text: a slim one of your own, say.
    ///
    /// Decodes at each call, and keeps nothing.
    ///
    /// # Errors
    ///
    /// It does not fit `T`.
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
            // A decoder is user code: the lock is not held any more.
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

    /// All of the metadata, annotations as well, without decoding the rest.
    ///
    /// # Errors
    ///
    /// It does not fit Kubernetes' metadata.
    pub fn object_meta(&self) -> Result<ObjectMeta, DecodeError> {
        self.decode_as::<PartialObjectMeta<K>>().map(|object| object.metadata)
    }

    /// Whether it refers to the text of another state.
    pub(super) fn is_shared(&self) -> bool {
        self.state.form.lock().cold.is_shared()
    }

    /// Holds this text, which has the same in it as far as `K` goes, in place of the one held or referred to.
    pub(super) fn hold_instead(&self, text: &[u8], packed: Option<Packed>) {
        let cold = packed.map_or_else(|| Cold::Plain(text.into()), Cold::Packed);
        let mut form = self.state.form.lock();
        let before = form.replace_cold(cold, self.state.core.as_deref());
        drop(form);
        drop(before); // the last state that held a whole object may go with it
    }

    /// How often it was read. Unknown while somebody decodes it, who is not waited for.
    pub(super) fn reads(&self) -> Reads {
        self.state.form.try_lock().map_or(Reads::default(), |form| form.object.reads())
    }

    /// Whether a budget keeps it decoded.
    #[cfg(test)]
    pub(super) fn is_hot(&self) -> bool {
        matches!(&self.state.form.lock().object, Decoded::Hot(hot, _) if hot.strong_count() > 0)
    }

    /// Whether both are handles of the same state.
    pub(crate) fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// The state that holds the text, if one does.
    pub(super) fn source(&self) -> Option<Arc<dyn Source>> {
        match &self.state.form.lock().cold {
            Cold::None => None,
            Cold::Plain(_) | Cold::Packed(_) => Some(Arc::clone(&self.state) as _),
            Cold::Of(source) => Some(Arc::clone(source)),
        }
    }

    pub(super) fn packable(&self) -> Weak<dyn Packable> {
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

    /// Locks this state. Whoever asks holds the lock of its own, which refers to this one: never the reverse.
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
    /// Holds another text, and returns the one that was held.
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

    /// The text, which can be read when the lock is released.
    fn text(&self, core: &Core) -> Result<Text, &'static str> {
        match self {
            Self::None => Err("it has no text"),
            Self::Plain(text) => Ok(Text::Shared(Arc::clone(text))),
            Self::Packed(packed) => core.expander.expand(packed).map(Text::Expanded),
            Self::Of(source) => source.text(),
        }
    }
}

/// Decodes for the first time, which is when an unreadable object is reported.
fn decode<K: Object>(text: &[u8], meta: &Meta, core: &Core) -> Result<K, DecodeError> {
    add(&core.counters.decodes, 1);
    read(text, meta, &core.resource).inspect_err(|error| core.report(meta, error))
}

fn read<T: DeserializeOwned>(text: &[u8], meta: &Meta, resource: &str) -> Result<T, DecodeError> {
    // To know at once that all of it is UTF-8 saves a check of each string.
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
