//! Ranges of sizes, and their products with costs. Results above the largest number are the largest number, as in cel-go.

/// Smallest and largest number of characters, bytes, elements or entries that a value can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SizeRange {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl SizeRange {
    /// Size of a value of which nothing is known.
    pub(super) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(super) const fn exactly(size: u64) -> Self {
        Self { min: size, max: size }
    }

    pub(super) const fn up_to(max: u64) -> Self {
        Self { min: 0, max }
    }

    /// Returns the range of all sizes; zero if there are none.
    pub(super) fn of_all(sizes: impl IntoIterator<Item = Self>) -> Self {
        sizes.into_iter().reduce(Self::union).unwrap_or(Self::exactly(0))
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Returns the highest cost of a visit of all parts, each of which costs `factor`.
    pub(super) fn cost(self, factor: f64) -> u64 {
        scaled(self.max, factor)
    }
}

/// Multiplies a number by a factor, and rounds up.
pub(super) fn scaled(number: u64, factor: f64) -> u64 {
    // The cast of a larger number gives the largest integer.
    (number as f64 * factor).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_end_at_the_largest_number() {
        assert_eq!(SizeRange::UNKNOWN.cost(0.1), 1_844_674_407_370_955_264);
        assert_eq!(SizeRange::UNKNOWN.cost(2.0), u64::MAX);
        assert_eq!(SizeRange::UNKNOWN.cost(0.0), 0);
        assert_eq!(SizeRange::exactly(101).cost(0.1), 11);
        assert_eq!(SizeRange::UNKNOWN.times(SizeRange::exactly(3)), SizeRange { min: 0, max: u64::MAX });
    }

    #[test]
    fn no_sizes_are_the_size_zero() {
        assert_eq!(SizeRange::of_all([]), SizeRange::exactly(0));
        assert_eq!(SizeRange::of_all([SizeRange::exactly(3), SizeRange::up_to(2)]), SizeRange::up_to(3));
    }
}
