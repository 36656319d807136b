//! Compressed texts of objects that resemble each other.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use zstd::zstd_safe::{CCtx, CDict, DCtx, DDict, compress_bound, get_frame_content_size};

/// What many objects of a kind have in common, learnt from some of them.
///
/// Lives as long as a text is compressed with it.
pub(super) struct Dictionary {
    compress: CDict<'static>,
    expand: DDict<'static>,
    /// How many there are of a kind.
    alive: Arc<AtomicUsize>,
}

impl Dictionary {
    /// Fast rather than thorough: for pods, level 3 takes a quarter more time and a dictionary five times as large, and saves
    /// one part in twenty.
    const LEVEL: i32 = 1;

    /// How large a dictionary is at most. Larger ones save little, and are too large for the processor's nearest caches.
    pub(super) const LARGEST: usize = 32 << 10;

    /// Learns from samples that stand one after another in `texts`, `lengths` bytes each.
    ///
    /// Samples that teach nothing give an empty dictionary.
    pub(super) fn train(texts: &[u8], lengths: &[usize], alive: &Arc<AtomicUsize>) -> Option<Arc<Self>> {
        let learnt = zstd::dict::from_continuous(texts, lengths, Self::LARGEST).unwrap_or_default();
        Self::new(&learnt, alive)
    }

    /// An empty one, with which each text is compressed by itself.
    pub(super) fn none() -> Option<Arc<Self>> {
        Self::new(&[], &Arc::default())
    }

    /// `None` if memory is short.
    fn new(learnt: &[u8], alive: &Arc<AtomicUsize>) -> Option<Arc<Self>> {
        let compress = CDict::try_create(learnt, Self::LEVEL)?;
        let expand = DDict::try_create(learnt)?;
        alive.fetch_add(1, Ordering::Relaxed);
        Some(Arc::new(Self { compress, expand, alive: Arc::clone(alive) }))
    }
}

impl Drop for Dictionary {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary").finish_non_exhaustive()
    }
}

/// A compressed text, with what it takes to expand it.
pub(super) struct Packed {
    bytes: Box<[u8]>,
    dictionary: Arc<Dictionary>,
}

impl Packed {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// How long the text is, which says the text itself.
    pub(super) fn text_len(&self) -> Option<usize> {
        let length = get_frame_content_size(&self.bytes).ok().flatten();
        length.and_then(|length| usize::try_from(length).ok())
    }
}

/// Compresses, one text at a time.
#[derive(Default)]
pub(super) struct Compressor {
    context: Option<CCtx<'static>>,
    buffer: Vec<u8>,
}

impl Compressor {
    /// The text compressed; `None` if that does not make it smaller.
    pub(super) fn compress(&mut self, text: &[u8], dictionary: &Arc<Dictionary>) -> Option<Packed> {
        self.buffer.clear();
        self.buffer.reserve(compress_bound(text.len()));
        let context = self.context.get_or_insert_with(CCtx::create);
        context.compress_using_cdict(&mut self.buffer, text, &dictionary.compress).ok()?;
        (self.buffer.len() < text.len())
            .then(|| Packed { bytes: Box::from(&*self.buffer), dictionary: Arc::clone(dictionary) })
    }
}

/// Expands what was compressed, one text at a time: that takes about a microsecond.
#[derive(Default)]
pub(super) struct Expander {
    context: Mutex<Option<DCtx<'static>>>,
}

impl Expander {
    /// The text again.
    ///
    /// # Errors
    ///
    /// It is not what was compressed.
    pub(super) fn expand(&self, packed: &Packed) -> Result<Vec<u8>, &'static str> {
        let mut text = Vec::with_capacity(packed.text_len().ok_or("a compressed text without its length")?);
        let Packed { bytes: packed, dictionary } = packed;
        let mut context = self.context.lock();
        let context = context.get_or_insert_with(DCtx::create);
        let expanded = context.decompress_using_ddict(&mut text, packed, &dictionary.expand);
        expanded.map_err(zstd::zstd_safe::get_error_name)?;
        Ok(text)
    }
}

/// When to learn anew. Pure.
///
/// A dictionary is good for what it was trained on. When texts take half as much again as those right after the training
/// did, relative to their own length, it is time for another one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Wear {
    texts: u32,
    /// Compressed bytes per byte of text, of the first texts.
    at_first: f64,
    /// The same of the latest.
    lately: f64,
}

impl Wear {
    /// How many texts say how good a dictionary is.
    const FIRST: u32 = 256;

    /// How many texts a dictionary serves at least, so that training stays a small part of the work.
    const AT_LEAST: u32 = 4096;

    /// How much worse than at first is too bad.
    const WORN: f64 = 1.5;

    pub(super) fn new() -> Self {
        Self { texts: 0, at_first: 0.0, lately: 0.0 }
    }

    /// A text of `text` bytes took `packed`. Whether the dictionary is worn out now.
    pub(super) fn took(&mut self, text: usize, packed: usize) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = packed as f64 / text.max(1) as f64;
        self.texts = self.texts.saturating_add(1);
        if self.texts <= Self::FIRST {
            self.at_first += (ratio - self.at_first) / f64::from(self.texts);
            self.lately = self.at_first;
            return false;
        }
        self.lately += (ratio - self.lately) / f64::from(Self::FIRST);
        self.texts >= Self::AT_LEAST && self.lately > Self::WORN * self.at_first
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trained(samples: &[Vec<u8>]) -> (Arc<Dictionary>, Arc<AtomicUsize>) {
        let alive = Arc::default();
        let lengths: Vec<_> = samples.iter().map(Vec::len).collect();
        (Dictionary::train(&samples.concat(), &lengths, &alive).expect("memory"), alive)
    }

    fn pod(number: usize) -> Vec<u8> {
        let hash = number.wrapping_mul(2_654_435_761);
        format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web-{hash:x}","namespace":"default"}},"spec":{{"nodeName":"node-{}"}}}}"#, number % 7).into_bytes()
    }

    #[test]
    fn alike_texts_become_small() {
        let (dictionary, alive) = trained(&(0..500).map(pod).collect::<Vec<_>>());
        let text = pod(70_001);
        let packed = Compressor::default().compress(&text, &dictionary).expect("it becomes smaller");
        assert!(packed.len() * 2 < text.len(), "{} of {}", packed.len(), text.len());
        assert_eq!(Expander::default().expand(&packed), Ok(text));
        assert_eq!(alive.load(Ordering::Relaxed), 1);
        drop(dictionary);
        assert_eq!(alive.load(Ordering::Relaxed), 1, "a text is compressed with it");
        drop(packed);
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn samples_that_teach_nothing_still_let_texts_be_compressed() {
        let (dictionary, _) = trained(&[b"a".repeat(100)]);
        let text = b"la".repeat(5000);
        let packed = Compressor::default().compress(&text, &dictionary).expect("it becomes smaller");
        assert_eq!(Expander::default().expand(&packed), Ok(text));
    }

    #[test]
    fn another_dictionary_is_an_error_and_no_panic() {
        let (one, _) = trained(&(0..500).map(pod).collect::<Vec<_>>());
        let (other, _) = trained(&(0..500).map(|i| pod(i * 31 + 7)).collect::<Vec<_>>());
        let Packed { bytes, .. } = Compressor::default().compress(&pod(9), &one).expect("it becomes smaller");
        let expand =
            |bytes: Box<[u8]>| Expander::default().expand(&Packed { bytes, dictionary: Arc::clone(&other) });
        assert_ne!(expand(bytes), Ok(pod(9)));
        assert!(expand(Box::from(*b"garbage")).is_err());
    }

    #[test]
    fn a_dictionary_wears_out_when_texts_grow_worse_and_not_before() {
        let mut wear = Wear::new();
        assert!((0..10_000).all(|_| !wear.took(1000, 100)));
        assert!((0..10_000).all(|_| !wear.took(1000, 140)), "a little worse is good enough");
        assert!((0..1000).any(|_| wear.took(1000, 200)));
    }

    proptest! {
        #[test]
        fn any_text_comes_out_as_it_went_in(texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..8)) {
            let (dictionary, _) = trained(&texts);
            let (mut compressor, expander) = (Compressor::default(), Expander::default());
            for text in texts {
                if let Some(packed) = compressor.compress(&text, &dictionary) {
                    prop_assert!(packed.len() < text.len());
                    prop_assert_eq!(expander.expand(&packed), Ok(text));
                }
            }
        }
    }
}
