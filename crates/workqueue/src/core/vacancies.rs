//! Set of vacant places, of which the lowest is found first.
//!
//! Low places are used first, so that the high ones of a queue that was large become vacant and their memory can be freed.
//!
//! A bit for each place; above it a bit for each word that is not zero, and another level above that. Finding the lowest
//! vacant place of a million takes one look at each level and at four words of the highest one.

/// Bits of a word.
const BITS: usize = u64::BITS as usize;

pub(crate) struct Vacancies {
    /// The lowest level first.
    levels: [Vec<u64>; 3],
}

impl Vacancies {
    pub(crate) const fn new() -> Self {
        Self { levels: [const { Vec::new() }; 3] }
    }

    /// The lowest vacant place.
    #[inline]
    pub(crate) fn first(&self) -> Option<usize> {
        let [places, words, top] = &self.levels;
        let word = top.iter().position(|word| *word != 0)?;
        let word = word * BITS + lowest(top[word]);
        let word = word * BITS + lowest(words[word]);
        Some(word * BITS + lowest(places[word]))
    }

    #[cfg(test)]
    fn contains(&self, place: usize) -> bool {
        self.levels[0].get(place / BITS).is_some_and(|word| word & bit(place) != 0)
    }

    /// The places of one word that are not vacant, as bits.
    #[inline]
    pub(crate) fn taken(&self, word: usize) -> u64 {
        !self.levels[0][word]
    }

    /// Adds a place that is not vacant.
    #[inline]
    pub(crate) fn insert(&mut self, mut place: usize) {
        for level in &mut self.levels {
            let word = &mut level[place / BITS];
            let was = *word;
            *word |= bit(place);
            // The higher levels know already that the word is not zero.
            if was != 0 {
                return;
            }
            place /= BITS;
        }
    }

    /// Removes a place that is vacant.
    #[inline]
    pub(crate) fn remove(&mut self, mut place: usize) {
        for level in &mut self.levels {
            let word = &mut level[place / BITS];
            *word &= !bit(place);
            // The word is still not zero, so the higher levels stay as they are.
            if *word != 0 {
                return;
            }
            place /= BITS;
        }
    }

    /// Adds a word of vacant places behind all others.
    pub(crate) fn grow(&mut self) {
        let word = self.levels[0].len();
        self.levels[0].push(u64::MAX);
        let mut place = word;
        for level in &mut self.levels[1..] {
            if place / BITS == level.len() {
                level.push(0);
            }
            level[place / BITS] |= bit(place);
            place /= BITS;
        }
    }

    /// Drops the last word, whose places are all vacant. The higher levels keep their length, at most a 64th of the lowest one.
    pub(crate) fn shrink(&mut self) {
        self.levels[0].pop();
        fit(&mut self.levels[0]);
        let mut place = self.levels[0].len();
        for level in &mut self.levels[1..] {
            level[place / BITS] &= !bit(place);
            if level[place / BITS] != 0 {
                return;
            }
            place /= BITS;
        }
    }
}

/// Shrinks the allocation of a vector of small items that uses less than a quarter of it.
pub(crate) fn fit<T>(items: &mut Vec<T>) {
    if items.capacity() > BITS && items.len() < items.capacity() / 4 {
        items.shrink_to(items.len() * 2);
    }
}

#[inline]
fn bit(place: usize) -> u64 {
    1 << (place % BITS)
}

#[inline]
fn lowest(word: u64) -> usize {
    word.trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_lowest_vacant_place_comes_first() {
        let mut vacancies = Vacancies::new();
        assert_eq!(vacancies.first(), None);
        vacancies.grow();
        vacancies.grow();
        for place in 0..128 {
            assert_eq!(vacancies.first(), Some(place));
            vacancies.remove(place);
        }
        assert_eq!(vacancies.first(), None);
        for place in [100, 70, 3] {
            vacancies.insert(place);
            assert_eq!(vacancies.first(), Some(place));
        }
        assert_eq!((vacancies.taken(0), vacancies.taken(1)), (!8, !(1 << 6 | 1 << 36)));
    }

    #[test]
    fn a_place_is_found_in_any_of_many_words() {
        const WORDS: usize = 2 * BITS * BITS + 100;
        let mut vacancies = Vacancies::new();
        (0..WORDS).for_each(|_| vacancies.grow());
        (0..WORDS * BITS).for_each(|place| vacancies.remove(place));
        assert_eq!(vacancies.first(), None);
        for place in [WORDS * BITS - 1, 300_000, 262_144, 262_143, 4096, 4095, 64, 0] {
            vacancies.insert(place);
            assert_eq!(vacancies.first(), Some(place));
        }
        for place in [0, 64, 4095, 4096, 262_143, 262_144, 300_000, WORDS * BITS - 1] {
            assert_eq!(vacancies.first(), Some(place));
            vacancies.remove(place);
        }
        assert_eq!(vacancies.first(), None);
        for word in (0..WORDS).rev() {
            (word * BITS..(word + 1) * BITS).for_each(|place| vacancies.insert(place));
            vacancies.shrink();
            assert_eq!(vacancies.first(), None);
        }
        assert!(vacancies.levels[0].capacity() <= BITS);
        vacancies.grow();
        assert_eq!(vacancies.first(), Some(0));
    }

    #[test]
    fn vectors_that_use_less_than_a_quarter_of_many_places_shrink_to_twice_their_length() {
        for (places, used, expected) in
            [(64, 0, 64), (65, 0, 0), (400, 100, 400), (400, 99, 198), (400, 300, 400)]
        {
            let mut items = Vec::with_capacity(places);
            assert_eq!(items.capacity(), places);
            items.extend(0..used);
            fit(&mut items);
            assert_eq!(items.capacity(), expected, "{used} of {places}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_sequence_finds_the_place_that_an_ordered_set_finds(
            steps in prop::collection::vec((0..10_u8, 0..10_000_usize), 1..200),
        ) {
            let (mut vacancies, mut model, mut words) = (Vacancies::new(), BTreeSet::new(), 0);
            for (step, place) in steps {
                match step {
                    0 => for _ in 0..place / 1000 {
                        vacancies.grow();
                        model.extend(words * BITS..(words + 1) * BITS);
                        words += 1;
                    },
                    1 if words > 0 => {
                        words -= 1;
                        (words * BITS..(words + 1) * BITS)
                            .filter(|taken| model.insert(*taken))
                            .for_each(|taken| vacancies.insert(taken));
                        vacancies.shrink();
                        model.split_off(&(words * BITS));
                    },
                    2..=5 => for _ in 0..place / 100 {
                        let Some(first) = model.pop_first() else { break };
                        prop_assert_eq!(vacancies.first(), Some(first));
                        vacancies.remove(first);
                    },
                    _ => if place < words * BITS && model.insert(place) {
                        vacancies.insert(place);
                    },
                }
                prop_assert_eq!(vacancies.first(), model.first().copied());
                prop_assert_eq!(vacancies.contains(place), model.contains(&place));
            }
        }
    }
}
