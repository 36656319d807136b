//! Entries at numbered places.
//!
//! Places are stable, so that FIFO lists, the heaps and the index can refer to an entry by a number of four bytes. Entries live in
//! chunks: growing moves none of them and wastes at most one chunk, where doubling a vector would waste half of it. An
//! entry is written and read in place and never moved as a whole: copying it would cost more than its lookup.
//!
//! A chunk without entries is freed, so a queue that was large gives back its memory in small steps. Low places are
//! used first. If few entries remain in many chunks, the core moves some of them to low places (`Core::compact`).

use std::mem;
use std::ops::{Index, IndexMut};

use super::entry::{Entry, State};
use super::vacancies::{Vacancies, fit};
use crate::Priority;

/// The place of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Id(u32);

impl Id {
    /// Means "no entry" in links between entries.
    pub(crate) const NONE: Self = Self(u32::MAX);

    fn of(place: usize) -> Self {
        // The highest number is reserved for `NONE`.
        let id = u32::try_from(place).ok().map(Self).filter(|id| *id != Self::NONE);
        id.expect("four thousand million keys do not fit into memory")
    }

    fn split(self) -> (usize, usize) {
        let place = self.0 as usize;
        (place / CHUNK, place % CHUNK)
    }
}

/// Entries per chunk: large enough to allocate rarely, small enough for a queue of few keys. The places of a chunk are the
/// bits of one word of [`Vacancies`].
const CHUNK: usize = 64;

/// Number of chunks that are not freed when they have no entries.
const KEPT_CHUNKS: usize = 16;

pub(crate) struct Slab<K> {
    /// `None` stands for a chunk without entries that was freed. The last chunk is present.
    chunks: Vec<Option<Chunk<K>>>,
    /// Places without an entry, in chunks that are present or were freed.
    vacancies: Vacancies,
    len: usize,
    /// Number of chunks that are present.
    present: usize,
    /// The place that [`next_to_sink`](Self::next_to_sink) considered last.
    sunk_above: usize,
}

type Chunk<K> = Box<[Entry<K>; CHUNK]>;

impl<K> Slab<K> {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), vacancies: Vacancies::new(), len: 0, present: 0, sunk_above: 0 }
    }

    /// Makes an entry for the key in `from`, which becomes `None`. The entry is in no FIFO list and no heap yet.
    #[inline]
    pub(crate) fn insert(&mut self, from: &mut Option<K>, hash: u64, flow: u32, priority: Priority) -> Id {
        let id = self.take_place();
        let entry = &mut self[id];
        // Swapped instead of moved: a direct copy, without one on the stack.
        mem::swap(&mut entry.key, from);
        (entry.hash, entry.flow, entry.priority, entry.state) = (hash, flow, priority, State::NEW);
        id
    }

    /// Takes the lowest vacant place.
    #[inline]
    fn take_place(&mut self) -> Id {
        let place = match self.vacancies.first() {
            Some(place) if self.chunks[place / CHUNK].is_some() => place,
            // The lowest vacant place may be in a chunk that was freed.
            other => self.grow(other),
        };
        self.vacancies.remove(place);
        self.len += 1;
        Id::of(place)
    }

    /// Allocates the chunk of a vacant place, or another chunk. Returns a vacant place in it.
    #[cold]
    fn grow(&mut self, vacant: Option<usize>) -> usize {
        let place = vacant.unwrap_or_else(|| {
            self.chunks.push(None);
            self.vacancies.grow();
            (self.chunks.len() - 1) * CHUNK
        });
        self.chunks[place / CHUNK] = Some(Box::new([const { Entry::VACANT }; CHUNK]));
        self.present += 1;
        place
    }

    /// Vacates the place of a key that was taken.
    #[inline]
    pub(crate) fn vacate(&mut self, id: Id) {
        // The entry is reused: its next key must not inherit this history.
        self[id].past = None;
        self.vacancies.insert(id.0 as usize);
        self.len -= 1;
        let (chunk, _) = id.split();
        if self.vacancies.taken(chunk) == 0 {
            self.free(chunk);
        }
    }

    /// Frees a chunk that has lost its last entry. The first chunks stay, and the one that the next key uses stays if few other
    /// places are vacant: a number of keys that swings should not allocate each time.
    #[cold]
    fn free(&mut self, chunk: usize) {
        let is_next = self.vacancies.first().is_some_and(|place| place / CHUNK == chunk);
        if chunk < KEPT_CHUNKS || is_next && self.places() - self.len < 2 * CHUNK {
            return;
        }
        // A chunk that stayed before may be the last one now. Free that instead, so that the list of chunks becomes shorter.
        let last = self.chunks.len() - 1;
        let chunk = if self.vacancies.taken(last) == 0 { last } else { chunk };
        self.chunks[chunk] = None;
        self.present -= 1;
        while let Some(None) = self.chunks.last() {
            self.chunks.pop();
            self.vacancies.shrink();
        }
        fit(&mut self.chunks);
    }

    /// Number of places in the chunks that are present.
    pub(crate) fn places(&self) -> usize {
        self.present * CHUNK
    }

    /// Returns whether entries should move together, because they use less than seven eighths of the places.
    #[inline]
    pub(crate) fn is_sparse(&self) -> bool {
        self.present > KEPT_CHUNKS && self.len < self.places() / 8 * 7
    }

    /// The next entry that could move to a lower chunk: from the last one downwards, and again from the last one when no lower
    /// place is vacant. `None` if none was found in a bounded number of steps.
    pub(crate) fn next_to_sink(&mut self) -> Option<Id> {
        let lowest = self.vacancies.first()? / CHUNK;
        let end = self.chunks.len() * CHUNK;
        self.sunk_above = self.sunk_above.min(end);
        for _ in 0..8 {
            if self.sunk_above <= (lowest + 1) * CHUNK {
                self.sunk_above = end;
            }
            let chunk = (self.sunk_above - 1) / CHUNK;
            // The taken places of the chunk below `sunk_above`: the shifts clear the bits from there on.
            let above = CHUNK - (self.sunk_above - chunk * CHUNK);
            let below = self.vacancies.taken(chunk) << above >> above;
            if below != 0 {
                self.sunk_above = chunk * CHUNK + below.ilog2() as usize;
                // An entry in the chunk with the lowest vacant place has no lower chunk to move to.
                return (chunk > lowest).then(|| Id::of(self.sunk_above));
            }
            self.sunk_above = chunk * CHUNK;
        }
        None
    }

    /// Moves an entry to the lowest vacant place. The caller updates everything that refers to the entry by its place.
    pub(crate) fn relocate(&mut self, from: Id) -> Id {
        let to = self.take_place();
        let entry = mem::replace(&mut self[from], Entry::VACANT);
        self[to] = entry;
        self.vacate(from);
        to
    }

    /// Number of pages.
    pub(crate) fn pages(&self) -> usize {
        self.chunks.len()
    }

    /// The entries at the places of one chunk.
    pub(crate) fn page(&self, page: usize) -> impl Iterator<Item = &Entry<K>> {
        let chunk = self.chunks.get(page).and_then(Option::as_deref);
        chunk.into_iter().flatten().filter(|entry| !entry.is_vacant())
    }

    /// The entries in the order of their places, which is that of memory.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id, &Entry<K>)> {
        let chunks = (0..)
            .zip(&self.chunks)
            .filter_map(|(number, chunk)| Some((number * CHUNK as u32, chunk.as_ref()?)));
        let entries = chunks.flat_map(|(first, chunk)| (first..).map(Id).zip(chunk.iter()));
        entries.filter(|(_, entry)| !entry.is_vacant())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry<K>> {
        let chunks = self.chunks.iter_mut().flatten();
        chunks.flat_map(|chunk| chunk.iter_mut()).filter(|entry| !entry.is_vacant())
    }
}

impl<K> Index<Id> for Slab<K> {
    type Output = Entry<K>;

    #[inline]
    fn index(&self, id: Id) -> &Entry<K> {
        let (chunk, place) = id.split();
        &self.chunks[chunk].as_ref().expect("the chunk of an entry is present")[place]
    }
}

impl<K> IndexMut<Id> for Slab<K> {
    #[inline]
    fn index_mut(&mut self, id: Id) -> &mut Entry<K> {
        let (chunk, place) = id.split();
        &mut self.chunks[chunk].as_mut().expect("the chunk of an entry is present")[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(keys: usize) -> (Slab<usize>, Vec<Id>) {
        let mut slab = Slab::new();
        let ids = (0..keys).map(|key| slab.insert(&mut Some(key), 0, 0, Priority::Normal)).collect();
        (slab, ids)
    }

    fn remove(slab: &mut Slab<usize>, id: Id) {
        slab[id].key = None;
        slab.vacate(id);
    }

    #[test]
    fn chunks_without_entries_are_freed_but_for_the_first_ones() {
        for from_the_front in [true, false] {
            let (mut slab, mut ids) = filled(100 * CHUNK);
            assert_eq!((slab.present, slab.pages(), slab.len), (100, 100, 100 * CHUNK));
            if !from_the_front {
                ids.reverse();
            }
            let mut most = Vec::new();
            for id in ids {
                remove(&mut slab, id);
                most.push(slab.places() as isize - slab.len as isize);
            }
            let stay = if from_the_front { KEPT_CHUNKS } else { KEPT_CHUNKS + 1 };
            assert_eq!((slab.present, slab.pages(), slab.len), (stay, stay, 0));
            assert!(slab.chunks.capacity() <= CHUNK);
            // Apart from the chunks that stay, at most the places of one chunk and of the current one are vacant.
            let kept = KEPT_CHUNKS * CHUNK;
            assert!(most.iter().all(|vacant| *vacant <= (kept + 2 * CHUNK) as isize), "{most:?}");
        }
    }

    #[test]
    fn a_number_of_keys_that_swings_around_a_chunk_does_not_allocate_each_time() {
        let (mut slab, _) = filled(20 * CHUNK);
        for _ in 0..3 {
            let more = slab.insert(&mut Some(0), 0, 0, Priority::Normal);
            assert_eq!(more, Id::of(20 * CHUNK));
            remove(&mut slab, more);
            assert_eq!(slab.present, 21, "the chunk that the next key uses stays");
        }
    }

    #[test]
    fn the_chunk_that_the_next_key_uses_stays_if_fewer_than_64_other_places_are_vacant() {
        for (others, present) in [(0, 23), (10, 23), (63, 23), (64, 22)] {
            let (mut slab, ids) = filled(23 * CHUNK);
            for id in ids[21 * CHUNK..].iter().step_by(2).take(others) {
                remove(&mut slab, *id);
            }
            for id in &ids[20 * CHUNK..21 * CHUNK] {
                remove(&mut slab, *id);
            }
            assert_eq!(slab.present, present, "{others}");
        }
    }

    #[test]
    fn the_lowest_free_places_are_used_first_also_in_freed_chunks() {
        let (mut slab, ids) = filled(100 * CHUNK);
        for id in &ids[30 * CHUNK..60 * CHUNK] {
            remove(&mut slab, *id);
        }
        assert_eq!((slab.present, slab.pages()), (71, 100), "the chunk that the next key uses stays");
        remove(&mut slab, ids[80 * CHUNK]);
        assert_eq!(slab.insert(&mut Some(1), 0, 0, Priority::Normal), ids[30 * CHUNK]);
        assert_eq!((slab.present, slab.iter().count()), (71, slab.len));
        // The chunk after it was freed, and is allocated again.
        let again = &ids[30 * CHUNK + 1..32 * CHUNK];
        for (key, id) in again.iter().enumerate() {
            assert_eq!(slab.insert(&mut Some(key), 0, 0, Priority::Normal), *id);
        }
        assert!(again.iter().enumerate().all(|(key, id)| slab[*id].key == Some(key)));
        assert_eq!((slab.present, slab.iter().count()), (72, slab.len));
    }

    #[test]
    fn entries_sink_from_the_last_chunk_downwards_and_again() {
        let (mut slab, ids) = filled(40 * CHUNK);
        assert!(!slab.is_sparse());
        for (place, id) in ids.iter().enumerate().filter(|(place, _)| place % 10 != 9) {
            remove(&mut slab, *id);
            let expected = slab.present > KEPT_CHUNKS && slab.len < slab.places() / 8 * 7;
            assert_eq!(slab.is_sparse(), expected, "after the removal of {place}");
        }
        let (mut last, mut steps) = (Id::NONE, 0);
        while slab.is_sparse() {
            steps += 1;
            let Some(from) = slab.next_to_sink() else { continue };
            assert!(from < last || last <= Id::of(5 * CHUNK), "{from:?} after {last:?}");
            let to = slab.relocate(from);
            assert!(to.0 as usize / CHUNK < from.0 as usize / CHUNK);
            last = from;
        }
        assert!(steps <= 300, "{steps}");
        assert_eq!((slab.len, slab.iter().count()), (40 * CHUNK / 10, 40 * CHUNK / 10));
    }

    #[test]
    fn entries_that_cannot_move_lower_are_not_visited() {
        let (mut slab, ids) = filled(40 * CHUNK);
        remove(&mut slab, ids[20 * CHUNK]);
        // None moves, so that each of those above is visited again and again.
        for id in ids[21 * CHUNK..].iter().rev().cycle().take(3000) {
            assert_eq!(slab.next_to_sink(), Some(*id));
        }
        let (mut slab, ids) = filled(40 * CHUNK);
        remove(&mut slab, ids[39 * CHUNK + 5]);
        assert_eq!(slab.next_to_sink(), None, "only the last chunk has a vacant place");
    }
}
