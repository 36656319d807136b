//! Bar charts of ratios on a logarithmic axis, as SVG.

use std::fmt::Write as _;

/// A bar from 1 to `ratio`, with whiskers at the bounds of the confidence interval.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) figure: String,
    pub(crate) contender: String,
    pub(crate) ratio: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

const WIDTH: f64 = 960.0;
/// Left edge of the plot, after the names.
const LEFT: f64 = 430.0;
const RIGHT: f64 = WIDTH - 70.0;
const TOP: f64 = 56.0;
const ROW: f64 = 20.0;

/// Draws a chart. At ratio 1 a contender equals ours.
pub(crate) fn chart(title: &str, bars: &[Bar]) -> String {
    let reach =
        |of: fn(f64, f64) -> f64| bars.iter().flat_map(|bar| [bar.low, bar.high]).fold(1.0, of).log10();
    let (from, to) = (reach(f64::min).floor(), reach(f64::max).ceil().max(1.0));
    let x = |ratio: f64| LEFT + (ratio.log10() - from) / (to - from) * (RIGHT - LEFT);
    let bottom = TOP + ROW * bars.len() as f64;
    let height = bottom + 40.0;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12"><!-- Written by bench: do not edit. --><rect width="{WIDTH}" height="{height}" fill="white"/>"#
    );
    let mut put = |text: std::fmt::Arguments<'_>| svg.write_fmt(text).expect("a String takes everything");
    put(format_args!(r#"<text x="20" y="26" font-size="16">{}</text>"#, escaped(title)));
    put(format_args!(
        r#"<text x="{RIGHT}" y="44" text-anchor="end" fill="dimgray">right of 1: ours is so many times better</text>"#
    ));
    for power in from as i32..=to as i32 {
        let (at, ratio) = (x(10_f64.powi(power)), 10_f64.powi(power));
        put(format_args!(r#"<path d="M{at:.1} {TOP}V{bottom}" stroke="lightgray"/>"#));
        put(format_args!(
            r#"<text x="{at:.1}" y="{:.1}" text-anchor="middle">{ratio}</text>"#,
            bottom + 18.0
        ));
    }
    let mut last = "";
    for (row, bar) in bars.iter().enumerate() {
        let middle = TOP + ROW * (row as f64 + 0.5);
        let (one, end) = (x(1.0), x(bar.ratio));
        let colour = if bar.ratio >= 1.0 { "seagreen" } else { "firebrick" };
        if bar.figure != last {
            put(format_args!(
                r#"<text x="10" y="{:.1}">{}</text>"#,
                middle + 4.0,
                escaped(&shortened(&bar.figure))
            ));
            last = &bar.figure;
        }
        put(format_args!(
            r#"<text x="{:.1}" y="{:.1}" text-anchor="end" fill="dimgray" font-size="10">{}</text>"#,
            LEFT - 6.0,
            middle + 4.0,
            escaped(&bar.contender)
        ));
        put(format_args!(
            r#"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="12" fill="{colour}"/>"#,
            one.min(end),
            middle - 6.0,
            (end - one).abs().max(1.0)
        ));
        put(format_args!(r#"<path d="M{:.1} {middle:.1}H{:.1}" stroke="black"/>"#, x(bar.low), x(bar.high)));
        put(format_args!(
            r#"<text x="{:.1}" y="{:.1}">{}</text>"#,
            x(bar.high).max(one) + 5.0,
            middle + 4.0,
            crate::number::shown(bar.ratio)
        ));
    }
    put(format_args!(r#"<path d="M{0:.1} {TOP}V{bottom}" stroke="black"/></svg>"#, x(1.0)));
    svg.push('\n');
    svg
}

/// Shortens a figure's name to fit beside those of the contenders.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 44;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}

fn escaped(text: &str) -> String {
    text.replace('`', "").replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_and_worse_lie_on_either_side_of_one() {
        let bar = |ratio: f64| Bar {
            figure: "time < 1".to_owned(),
            contender: "theirs".to_owned(),
            ratio,
            low: ratio * 0.9,
            high: ratio * 1.1,
        };
        let svg = chart("times & spaces", &[bar(4.0), bar(0.5)]);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("seagreen") && svg.contains("firebrick"));
        assert!(svg.contains("times &amp; spaces") && svg.contains("time &lt; 1"));
        assert_eq!(svg.matches("time &lt; 1").count(), 1, "a figure is named once");
    }
}
