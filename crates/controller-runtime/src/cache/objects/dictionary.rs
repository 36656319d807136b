//! Compression of similar texts with a trained dictionary.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use zstd::zstd_safe::{CCtx, CDict, DCtx, DDict, compress_bound, get_frame_content_size};

/// zstd dictionary with the common parts of the texts of a kind, trained on some of them.
///
/// Exists as long as a stored text needs it.
pub(crate) struct Dictionary {
    compress: CDict<'static>,
    expand: DDict<'static>,
    /// Number of dictionaries of the kind that exist.
    alive: Arc<AtomicUsize>,
}

impl Dictionary {
    /// A low level: for pods, level 3 takes a quarter more time and five times as much memory for the dictionary, and
    /// saves 5 %.
    const LEVEL: i32 = 1;

    /// Maximum size in bytes. Larger dictionaries save little and do not fit the L1 cache of common processors. Texts of at
    /// least this size are compressed without a dictionary.
    pub(in crate::cache) const LARGEST: usize = 32 << 10;

    /// Creates an empty dictionary, for texts that are compressed on their own.
    pub(in crate::cache) fn none() -> Option<Arc<Self>> {
        Self::new(&[], &Arc::default())
    }

    /// Returns `None` if memory cannot be allocated.
    fn new(content: &[u8], alive: &Arc<AtomicUsize>) -> Option<Arc<Self>> {
        let compress = CDict::try_create(content, Self::LEVEL)?;
        let expand = DDict::try_create(content)?;
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

/// Copies of texts, for the training of a dictionary.
pub(crate) struct Samples {
    texts: Vec<u8>,
    lengths: Vec<usize>,
    /// Number of dictionaries of the kind that exist.
    alive: Arc<AtomicUsize>,
}

impl Samples {
    /// Creates an empty set of samples, for a dictionary that `alive` counts.
    pub(in crate::cache) fn new(alive: &Arc<AtomicUsize>) -> Self {
        Self { texts: Vec::new(), lengths: Vec::new(), alive: Arc::clone(alive) }
    }

    /// Adds a text.
    pub(in crate::cache) fn add(&mut self, text: &[u8]) {
        self.lengths.push(text.len());
        self.texts.extend_from_slice(text);
    }

    /// Length of all texts.
    pub(in crate::cache) fn bytes(&self) -> usize {
        self.texts.len()
    }

    /// Trains a dictionary, which takes about 50 ms. Returns `None` if memory is short, and an empty dictionary if the
    /// samples have nothing in common.
    pub(crate) fn train(&self) -> Option<Arc<Dictionary>> {
        let Self { texts, lengths, alive } = self;
        let content = zstd::dict::from_continuous(texts, lengths, Dictionary::LARGEST).unwrap_or_default();
        Dictionary::new(&content, alive)
    }
}

/// A compressed text, and the dictionary to expand it.
pub(in crate::cache) struct CompressedText {
    bytes: Box<[u8]>,
    dictionary: Arc<Dictionary>,
}

impl CompressedText {
    pub(in crate::cache) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the length of the text, which zstd stores with it.
    pub(in crate::cache) fn text_len(&self) -> Option<usize> {
        let length = get_frame_content_size(&self.bytes).ok().flatten();
        length.and_then(|length| usize::try_from(length).ok())
    }
}

/// Compresses one text at a time.
#[derive(Default)]
pub(in crate::cache) struct Compressor {
    context: Option<CCtx<'static>>,
    buffer: Vec<u8>,
}

impl Compressor {
    /// Compresses a text; `None` if that does not make it smaller.
    pub(in crate::cache) fn compress(
        &mut self,
        text: &[u8],
        dictionary: &Arc<Dictionary>,
    ) -> Option<CompressedText> {
        // zstd writes into the spare capacity and does not grow the buffer.
        self.buffer.clear();
        self.buffer.reserve(compress_bound(text.len()));
        let context = self.context.get_or_insert_with(CCtx::create);
        context.compress_using_cdict(&mut self.buffer, text, &dictionary.compress).ok()?;
        (self.buffer.len() < text.len())
            .then(|| CompressedText { bytes: Box::from(&*self.buffer), dictionary: Arc::clone(dictionary) })
    }
}

/// Expands texts, which takes about 1 µs each.
#[derive(Default)]
pub(in crate::cache) struct Expander {
    /// Contexts that are not in use: at most one per thread that has expanded texts at the same time.
    contexts: Mutex<Vec<DCtx<'static>>>,
}

impl Expander {
    /// Expands a text.
    ///
    /// # Errors
    ///
    /// The compressed text is damaged.
    pub(in crate::cache) fn expand(&self, compressed: &CompressedText) -> Result<Vec<u8>, &'static str> {
        let mut text =
            Vec::with_capacity(compressed.text_len().ok_or("a compressed text without its length")?);
        let CompressedText { bytes: compressed, dictionary } = compressed;
        // Taken out, so that no lock is held while the text is expanded.
        let context = self.contexts.lock().pop();
        let mut context = context.unwrap_or_else(DCtx::create);
        let expanded = context.decompress_using_ddict(&mut text, compressed, &dictionary.expand);
        self.contexts.lock().push(context);
        expanded.map_err(zstd::zstd_safe::get_error_name)?;
        Ok(text)
    }
}

/// Decides when to train a new dictionary. Pure.
///
/// A dictionary suits texts like those it was trained on. A new one is due when the compression ratio of recent texts
/// is 50 % worse than that of the first texts after the training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::cache) struct Staleness {
    /// Number of recorded texts.
    texts: u32,
    /// Compressed bytes per byte of text: mean of the first texts.
    at_first: f64,
    /// Moving average of the same ratio for recent texts.
    lately: f64,
}

impl Staleness {
    /// Number of texts that determine the initial ratio.
    const FIRST: u32 = 256;

    /// Minimum number of texts per dictionary, so that training stays a small part of the work.
    const AT_LEAST: u32 = 4096;

    /// Ratio of `lately` to `at_first` at which a new dictionary is due.
    const STALE: f64 = 1.5;

    pub(in crate::cache) fn new() -> Self {
        Self { texts: 0, at_first: 0.0, lately: 0.0 }
    }

    /// Records that a text of `text` bytes was compressed to `compressed` bytes. Returns whether a new dictionary is
    /// due.
    pub(in crate::cache) fn record(&mut self, text: usize, compressed: usize) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = compressed as f64 / text.max(1) as f64;
        self.texts = self.texts.saturating_add(1);
        if self.texts <= Self::FIRST {
            self.at_first += (ratio - self.at_first) / f64::from(self.texts);
            self.lately = self.at_first;
            return false;
        }
        self.lately += (ratio - self.lately) / f64::from(Self::FIRST);
        self.texts >= Self::AT_LEAST && self.lately > Self::STALE * self.at_first
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trained(samples: &[Vec<u8>]) -> (Arc<Dictionary>, Arc<AtomicUsize>) {
        let alive = Arc::default();
        let mut texts = Samples::new(&alive);
        samples.iter().for_each(|sample| texts.add(sample));
        (texts.train().expect("memory"), alive)
    }

    fn pod(number: usize) -> Vec<u8> {
        let hash = number.wrapping_mul(2_654_435_761);
        format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web-{hash:x}","namespace":"default"}},"spec":{{"nodeName":"node-{}"}}}}"#, number % 7).into_bytes()
    }

    #[test]
    fn similar_texts_compress_well() {
        let (dictionary, alive) = trained(&(0..500).map(pod).collect::<Vec<_>>());
        let text = pod(70_001);
        let compressed = Compressor::default().compress(&text, &dictionary).expect("it becomes smaller");
        assert!(compressed.len() * 2 < text.len(), "{} of {}", compressed.len(), text.len());
        assert_eq!(Expander::default().expand(&compressed), Ok(text));
        assert_eq!(alive.load(Ordering::Relaxed), 1);
        drop(dictionary);
        assert_eq!(alive.load(Ordering::Relaxed), 1, "a text is compressed with it");
        drop(compressed);
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn texts_are_compressed_even_without_a_trained_dictionary() {
        let (dictionary, _) = trained(&[b"a".repeat(100)]);
        let text = b"la".repeat(5000);
        let compressed = Compressor::default().compress(&text, &dictionary).expect("it becomes smaller");
        assert_eq!(Expander::default().expand(&compressed), Ok(text));
    }

    #[test]
    fn another_dictionary_is_an_error_and_no_panic() {
        let (one, _) = trained(&(0..500).map(pod).collect::<Vec<_>>());
        let (other, _) = trained(&(0..500).map(|i| pod(i * 31 + 7)).collect::<Vec<_>>());
        let CompressedText { bytes, .. } =
            Compressor::default().compress(&pod(9), &one).expect("it becomes smaller");
        let expand = |bytes: Box<[u8]>| {
            Expander::default().expand(&CompressedText { bytes, dictionary: Arc::clone(&other) })
        };
        assert_ne!(expand(bytes), Ok(pod(9)));
        assert!(expand(Box::from(*b"garbage")).is_err());
    }

    #[test]
    fn a_dictionary_becomes_stale_when_texts_compress_worse() {
        let mut staleness = Staleness::new();
        assert!((0..10_000).all(|_| !staleness.record(1000, 100)));
        assert!((0..10_000).all(|_| !staleness.record(1000, 140)), "a little worse is good enough");
        assert!((0..1000).any(|_| staleness.record(1000, 200)));
    }

    proptest! {
        #[test]
        fn any_text_expands_to_itself(texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..8)) {
            let (dictionary, _) = trained(&texts);
            let (mut compressor, expander) = (Compressor::default(), Expander::default());
            for text in texts {
                if let Some(compressed) = compressor.compress(&text, &dictionary) {
                    prop_assert!(compressed.len() < text.len());
                    prop_assert_eq!(expander.expand(&compressed), Ok(text));
                }
            }
        }
    }
}
