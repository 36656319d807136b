//! Kubernetes quantities: `500m`, `1.5Gi`, `1e3`.
//!
//! Syntax follows Go's `resource.ParseQuantity`, which accepts more than the regular expression in its message: a number
//! without digits is zero.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

const WRONG_FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const WRONG_SUFFIX: &str = "unable to parse quantity's suffix";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Suffix {
    Decimal,
    Binary,
    Exponent,
}

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Returns Go's message if `text` is not a quantity, otherwise `None`.
#[must_use]
pub fn refusal(text: &str) -> Option<&'static str> {
    Notation::read(text).err()
}

/// Returns the amount in billionths, for comparisons. `None` if the value is not a quantity, or too large.
#[must_use]
pub fn value(of: &Value) -> Option<i128> {
    let amount = parse(of.as_str()?)?;
    let power = 10i128.checked_pow(u32::try_from(amount.exponent + 9).ok()?)?;
    let value = amount.mantissa.checked_mul(power)?;
    Some(if amount.negative { -value } else { value })
}

/// Returns the form in which an amount is stored: the fewest digits before the largest suffix that needs no fraction. `None` if the text is
/// not a quantity, or too large.
#[must_use]
pub fn canonical(text: &str) -> Option<String> {
    write(parse(text)?)
}

/// Returns the mantissa and the power of ten of an amount that Go keeps in 64 bits. `None` for longer numbers, binary fractions, and
/// amounts below a billionth.
#[must_use]
pub fn small(text: &str) -> Option<(i64, i32)> {
    let Notation { negative, whole, fraction, scale } = Notation::read(text).ok()?;
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() && fraction.is_empty() { "0" } else { whole };
    let length = i32::try_from(whole.len() + fraction.len()).ok()?;
    // Number of digits that are left, as Go estimates it.
    let (factor, power, left) = match scale {
        Scale::Binary(place) => {
            let power = i32::try_from(10 * place).ok()?;
            let left = if fraction.is_empty() { 14 - length - 3 * power / 10 } else { -1 };
            (1_i64.checked_shl(10 * place)?, 0, left)
        }
        Scale::Decimal(power) => (1, power, 18 - length),
        Scale::Exponent(power) => (1, i32::try_from(power).ok()?, 18 - length),
    };
    let power = power.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    if left < 0 || power < -9 {
        return None;
    }
    let mantissa: i64 = format!("{whole}{fraction}").parse().ok()?;
    let mantissa = mantissa.checked_mul(factor)?;
    Some((if negative { -mantissa } else { mantissa }, power))
}

/// Writes an amount in its canonical form. `None` if it is too large.
fn write(amount: Amount) -> Option<String> {
    let Amount { negative, mut mantissa, mut exponent, suffix } = amount;
    while mantissa != 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    if mantissa == 0 {
        return Some("0".to_owned());
    }
    let sign = if negative { "-" } else { "" };
    // As in Go, binary amounts below 1024 and those with a fraction are written in decimal notation.
    if suffix == Suffix::Binary
        && exponent >= 0
        && let Some(value) =
            10i128.checked_pow(exponent.unsigned_abs()).and_then(|power| mantissa.checked_mul(power))
        && value >= 1024
    {
        let (mut value, mut place) = (value, 0);
        while value % 1024 == 0 && place < BINARY.len() {
            value /= 1024;
            place += 1;
        }
        let suffix = place.checked_sub(1).map_or("", |place| BINARY[place]);
        return Some(format!("{sign}{value}{suffix}"));
    }
    // Only multiples of 3 have a suffix.
    while exponent.rem_euclid(3) != 0 {
        mantissa = mantissa.checked_mul(10)?;
        exponent -= 1;
    }
    // `E`, the largest suffix, stands for 10¹⁸.
    while suffix != Suffix::Exponent && exponent > 18 {
        mantissa = mantissa.checked_mul(1000)?;
        exponent -= 3;
    }
    if suffix == Suffix::Exponent && exponent != 0 {
        return Some(format!("{sign}{mantissa}e{exponent}"));
    }
    let (suffix, _) = DECIMAL.iter().find(|(_, power)| *power == exponent)?;
    Some(format!("{sign}{mantissa}{suffix}"))
}

/// An amount for arithmetic, with the notation in which it is shown.
///
/// Like Go's `Quantity`, a sum has the notation of its first operand that is not zero. An amount beyond the range of 64-bit integers
/// becomes the limit of the range.
///
/// ```
/// # use kube_apimachinery::quantity::Quantity;
/// let memory = Quantity::read("512Mi").zip(Quantity::read("1.5Gi"));
/// assert_eq!(memory.map(|(a, b)| a.plus(b).to_string()).as_deref(), Some("2Gi"));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    /// Amount in billionths.
    nanos: i128,
    suffix: Suffix,
}

const NANOS: i128 = 1_000_000_000;
/// Number of digits above which an amount is shown as it was written.
const DIGITS: usize = 27;
/// Largest amount, in billionths.
const LIMIT: i128 = i64::MAX as i128 * NANOS;

impl Quantity {
    /// Zero, in decimal notation.
    pub const ZERO: Self = Self { nanos: 0, suffix: Suffix::Decimal };

    /// Returns a whole number in decimal notation.
    #[must_use]
    pub fn whole(number: i64) -> Self {
        Self { nanos: i128::from(number) * NANOS, suffix: Suffix::Decimal }
    }

    /// Parses an amount; `None` if the text is not a quantity.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let written = Notation::read(text).ok()?;
        let is_zero = !format!("{}{}", written.whole, written.fraction).contains(|digit| digit != '0');
        // Amount of a number with too many digits or too large an exponent: the limit, or one billionth for a negative exponent.
        let beyond = match written.scale {
            _ if is_zero => 0,
            Scale::Exponent(..0) => 1,
            _ => LIMIT,
        };
        let sign = if written.negative { -1 } else { 1 };
        let Some(Amount { mantissa, exponent, suffix, .. }) = amount(written, 30) else {
            return Some(Self { nanos: sign * beyond, suffix: Suffix::Decimal });
        };
        let power = u32::try_from(exponent + 9).ok().and_then(|exponent| 10i128.checked_pow(exponent));
        let nanos = power.and_then(|power| mantissa.checked_mul(power)).unwrap_or(LIMIT);
        Some(Self { nanos: sign * nanos.min(LIMIT), suffix })
    }

    /// Returns the sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let suffix = if self.nanos == 0 { other.suffix } else { self.suffix };
        // Two amounts within the limit do not overflow.
        Self { nanos: (self.nanos + other.nanos).clamp(-LIMIT, LIMIT), suffix }
    }

    /// Returns the difference.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.plus(Self { nanos: -other.nanos, suffix: other.suffix })
    }

    /// Returns the nearest float.
    #[must_use]
    pub fn approximate(self) -> f64 {
        // A whole amount is divided first, so that only one rounding happens.
        match self.nanos % NANOS {
            0 => (self.nanos / NANOS) as f64,
            _ => self.nanos as f64 / NANOS as f64,
        }
    }

    /// Whether the amount is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Returns the amount in thousandths, rounded up.
    #[must_use]
    pub fn millis(self) -> i128 {
        let unit = NANOS / 1000;
        self.nanos.div_euclid(unit) + i128::from(self.nanos.rem_euclid(unit) != 0)
    }

    /// Returns the amount in whole units, rounded up.
    #[must_use]
    pub fn whole_units(self) -> i128 {
        self.rounded_up().nanos / NANOS
    }

    /// Returns the amount rounded to thousandths, away from zero.
    #[must_use]
    pub fn in_thousandths(self) -> Self {
        let unit = NANOS / 1000;
        let whole = self.nanos / unit + self.nanos.signum() * i128::from(self.nanos % unit != 0);
        Self { nanos: whole * unit, suffix: self.suffix }
    }

    /// Returns the amount rounded up to a whole number.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        let whole = self.nanos.div_euclid(NANOS) + i128::from(self.nanos.rem_euclid(NANOS) != 0);
        Self { nanos: whole * NANOS, suffix: self.suffix }
    }
}

/// Amounts are equal whatever their notation.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// Formats in canonical form, like [`canonical`].
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = Amount {
            negative: self.nanos < 0,
            mantissa: self.nanos.abs(),
            exponent: -9,
            suffix: self.suffix,
        };
        // The canonical form exists: amounts are within the limit.
        f.write_str(&write(amount).unwrap_or_default())
    }
}

/// Parts of a quantity as written.
#[derive(Clone, Copy)]
struct Notation<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    scale: Scale,
}

/// Factor of a suffix.
#[derive(Clone, Copy)]
enum Scale {
    /// A power of ten.
    Decimal(i32),
    /// A power of 1024.
    Binary(u32),
    /// A power of ten in exponent notation.
    Exponent(i64),
}

impl<'a> Notation<'a> {
    fn read(text: &'a str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err(WRONG_FORMAT);
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, rest) = digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
        let letters = suffix.find(|c| !"eEinumkKMGTP".contains(c)).unwrap_or(suffix.len());
        let (_, power) = suffix.split_at(letters);
        let (_, rest) = digits(power.strip_prefix(['+', '-']).unwrap_or(power));
        if !rest.is_empty() {
            return Err(WRONG_FORMAT);
        }
        let scale = Scale::of(suffix).ok_or(WRONG_SUFFIX)?;
        Ok(Self { negative: text.starts_with('-'), whole, fraction, scale })
    }
}

/// Splits a text after its leading digits.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

impl Scale {
    fn of(suffix: &str) -> Option<Self> {
        if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
            return Some(Self::Decimal(*power));
        }
        if let Some(place) = BINARY.iter().position(|known| *known == suffix) {
            return Some(Self::Binary(u32::try_from(place).ok()? + 1));
        }
        suffix.strip_prefix(['e', 'E'])?.parse().ok().map(Self::Exponent)
    }
}

/// Value of a quantity: a number, a power of ten as its factor, and the style of its suffix.
#[derive(Clone, Copy)]
struct Amount {
    negative: bool,
    mantissa: i128,
    exponent: i32,
    suffix: Suffix,
}

/// Parses an amount; `None` if the text is not a quantity, or has more than [`DIGITS`] digits.
fn parse(text: &str) -> Option<Amount> {
    amount(Notation::read(text).ok()?, DIGITS)
}

/// Returns the value of a quantity; `None` if it has more than `longest` digits, or is too large.
fn amount(written: Notation<'_>, longest: usize) -> Option<Amount> {
    let Notation { negative, whole, fraction, scale } = written;
    let digits = format!("{whole}{fraction}");
    if digits.len() > longest {
        return None;
    }
    let mut mantissa: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let mut exponent = -i32::try_from(fraction.len()).ok()?;
    let suffix = match scale {
        Scale::Decimal(power) => {
            exponent += power;
            Suffix::Decimal
        }
        Scale::Binary(power) => {
            mantissa = mantissa.checked_mul(1i128.checked_shl(10 * power)?)?;
            Suffix::Binary
        }
        Scale::Exponent(power) => {
            let power = i32::try_from(power).ok()?;
            exponent = exponent.checked_add(power).filter(|power| power.abs() < 18)?;
            Suffix::Exponent
        }
    };
    // Binary amounts end with the range of 64-bit integers; decimal ones do not.
    let limit =
        10i128.checked_pow(exponent.unsigned_abs()).and_then(|unit| i128::from(i64::MAX).checked_mul(unit));
    if suffix == Suffix::Binary && limit.is_some_and(|limit| mantissa > limit) {
        (mantissa, exponent) = (i128::from(i64::MAX), 0);
    }
    // As in Go, amounts below a billionth are rounded away from zero.
    while exponent < -9 {
        mantissa = mantissa / 10 + i128::from(mantissa % 10 != 0);
        exponent += 1;
    }
    Some(Amount { negative, mantissa, exponent, suffix })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_have_one_form() {
        for (text, form) in [
            ("0", "0"),
            ("0Mi", "0"),
            ("1", "1"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("1000Mi", "1000Mi"),
            ("512", "512"),
            ("0.5Ki", "512"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("123456", "123456"),
            ("1000000", "1M"),
            ("-100M", "-100M"),
            ("+2", "2"),
            ("1e3", "1e3"),
            ("100e1", "1e3"),
            ("1E6", "1e6"),
            ("0.0000000001", "1n"),
            ("12.30", "12300m"),
            ("9223372036854775808", "9223372036854775808"),
            ("9223372036854776000", "9223372036854776k"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("8Ei", "9223372036854775807"),
            ("7.5Ei", "7680Pi"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(form), "{text}");
        }
    }

    #[test]
    fn quantities_compare_by_their_amount() {
        for (less, more) in [("999m", "1"), ("1k", "1Ki"), ("-1", "0"), ("1n", "1u"), ("2e3", "2001")] {
            assert!(value(&json!(less)) < value(&json!(more)), "{less} {more}");
        }
        assert_eq!(value(&json!("0.5Gi")), value(&json!("512Mi")));
        assert_eq!(value(&json!("x")), None);
    }

    #[test]
    fn a_sum_has_the_notation_of_its_first_operand_that_is_not_zero() {
        let read = |text: &str| Quantity::read(text).unwrap();
        for (one, other, sum, difference) in [
            ("1", "500m", "1500m", "500m"),
            ("0", "1Gi", "1Gi", "-1Gi"),
            ("1000Mi", "24Mi", "1Gi", "976Mi"),
            ("1Gi", "1", "1073741825", "1073741823"),
            ("1k", "1Ki", "2024", "-24"),
            ("1e3", "0", "1e3", "1e3"),
            ("2", "2", "4", "0"),
        ] {
            assert_eq!(read(one).plus(read(other)).to_string(), sum, "{one} + {other}");
            assert_eq!(read(one).minus(read(other)).to_string(), difference, "{one} - {other}");
        }
    }

    #[test]
    fn amounts_are_compared_rounded_and_limited() {
        let read = |text: &str| Quantity::read(text).unwrap();
        assert_eq!(read("1024Mi"), read("1Gi"));
        assert!(read("999m") < read("1"));
        assert_eq!(read("1.2").rounded_up(), Quantity::whole(2));
        assert_eq!((read("1u").millis(), read("-1u").millis(), read("2").millis()), (1, 0, 2000));
        assert_eq!(read("100E").plus(read("100E")), read("1000E"));
        assert_eq!(read("12345678901234567890123"), read("1000E"));
        assert_eq!(Quantity::read("lots"), None);
        assert!(Quantity::ZERO.is_zero() && read("0Mi").is_zero());
    }

    #[test]
    fn text_that_is_not_a_quantity_is_refused_with_gos_message() {
        for text in ["", "lots", "1x", "1.2.3", "{}", "true", "1 Gi", "1Kib", "-3.01e-x"] {
            assert_eq!((refusal(text), canonical(text)), (Some(WRONG_FORMAT), None), "{text}");
        }
        for text in ["1i", "1K", "1mm", "0.1EE", "1e", "1e-", "1ki", "1M3", "1i-", "--1"] {
            assert_eq!((refusal(text), canonical(text)), (Some(WRONG_SUFFIX), None), "{text}");
        }
        // Go accepts these texts: very many digits stay as they are, and no digits are zero.
        for text in ["1234567890123456789012345678", "1e99"] {
            assert_eq!((refusal(text), canonical(text)), (None, None), "{text}");
        }
        for text in ["e3", ".", "-", "k"] {
            assert_eq!((refusal(text), canonical(text).as_deref()), (None, Some("0")), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_quantities_panic(text in "[+-]?[0-9.]{0,24}[a-zA-Z0-9-]{0,4}") {
            if let Some(form) = canonical(&text) {
                proptest::prop_assert_eq!(refusal(&text), None);
                proptest::prop_assert_eq!(canonical(&form), Some(form.clone()));
            }
            proptest::prop_assert_eq!(Quantity::read(&text).is_some(), refusal(&text).is_none());
            if let Some(amount) = Quantity::read(&text) {
                proptest::prop_assert_eq!(Quantity::read(&amount.to_string()), Some(amount));
            }
        }
    }
}
