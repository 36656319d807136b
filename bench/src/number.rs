//! Numbers formatted for people.

/// Formats a value with three significant digits and separated thousands.
pub(crate) fn shown(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size == 0.0 || size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => (2 - size.log10().floor() as i32).clamp(0, 6) as usize,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_once('.').map_or((&*text, String::new()), |(a, b)| (a, format!(".{b}")));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    format!("{sign}{}{rest}", groups.join(","))
}

/// Formats a value with its unit, scaled to a readable magnitude.
pub(crate) fn with_unit(value: f64, unit: &str) -> String {
    let steps: &[(f64, &str)] = match unit {
        "ns" => &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")],
        "s" => &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")],
        "B" => &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")],
        _ => return format!("{} {unit}", shown(value)).trim_end().to_owned(),
    };
    let step = steps.iter().find(|(size, _)| value.abs() >= *size).or(steps.last());
    let (size, name) = step.copied().unwrap_or((1.0, unit));
    format!("{} {name}", shown(value / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_thousands() {
        let cases = [(0.0, "0"), (0.01234, "0.0123"), (1.234, "1.23"), (12.34, "12.3"), (1234.5, "1,234")];
        for (value, text) in cases {
            assert_eq!(shown(value), text);
        }
        assert_eq!(shown(-1_234_567.0), "-1,234,567");
    }

    #[test]
    fn units_fit_the_size() {
        assert_eq!(with_unit(1_234.0, "ns"), "1.23 µs");
        assert_eq!(with_unit(0.0021, "s"), "2.10 ms");
        assert_eq!(with_unit(97.0, "B"), "97.0 B");
        assert_eq!(with_unit(83_000_000.0, "B"), "83.0 MB");
        assert_eq!(with_unit(25_000.0, "/s"), "25,000 /s");
        assert_eq!(with_unit(0.0, "s"), "0 µs");
    }
}
