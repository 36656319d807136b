//! Bar charts as SVG.

use std::fmt::Write as _;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 420.0;
/// Corners of the plot. The labels are outside.
const LEFT: f64 = 90.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = HEIGHT - 60.0;

pub(crate) struct Bars<'a> {
    pub(crate) title: &'a str,
    pub(crate) x_label: &'a str,
    pub(crate) y_label: &'a str,
    pub(crate) scale: Scale,
    /// Name and value of each bar.
    pub(crate) bars: Vec<(String, f64)>,
}

#[derive(Clone, Copy)]
pub(crate) enum Scale {
    Linear,
    Logarithmic,
}

impl Bars<'_> {
    pub(crate) fn to_svg(&self) -> String {
        let axis = Axis::around(self.scale, self.bars.iter().map(|(_, value)| *value));
        let mut svg = format!(
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}' \
             font-family='sans-serif' font-size='12' fill='#333'>\n\
             <rect width='{WIDTH}' height='{HEIGHT}' fill='white'/>\n\
             <text x='{LEFT}' y='32' font-size='18' font-weight='bold'>{}</text>\n\
             <text x='{LEFT}' y='54' fill='#666'>{}</text>\n\
             <text x='{}' y='{}' text-anchor='middle' fill='#666'>{}</text>\n",
            self.title,
            self.y_label,
            (LEFT + RIGHT) / 2.0,
            HEIGHT - 16.0,
            self.x_label,
        );
        for tick in axis.ticks() {
            let y = axis.y(tick);
            push(
                &mut svg,
                format_args!("<line x1='{LEFT}' x2='{RIGHT}' y1='{y:.1}' y2='{y:.1}' stroke='#ddd'/>"),
            );
            let (x, y) = (LEFT - 8.0, y + 4.0);
            push(&mut svg, format_args!("<text x='{x}' y='{y:.1}' text-anchor='end'>{}</text>", plain(tick)));
        }
        let step = (RIGHT - LEFT) / self.bars.len().max(1) as f64;
        for (place, (name, value)) in self.bars.iter().enumerate() {
            let x = LEFT + step * place as f64;
            let (middle, top) = (x + step / 2.0, axis.y(*value));
            let (x, width, height) = (x + step * 0.12, step * 0.76, (BOTTOM - top).max(0.0));
            push(
                &mut svg,
                format_args!(
                    "<rect x='{x:.1}' y='{top:.1}' width='{width:.1}' height='{height:.1}' fill='#326ce5'/>"
                ),
            );
            let (above, below) = (top - 5.0, BOTTOM + 18.0);
            push(
                &mut svg,
                format_args!(
                    "<text x='{middle:.1}' y='{above:.1}' text-anchor='middle' font-size='10'>{}</text>",
                    plain(*value)
                ),
            );
            push(
                &mut svg,
                format_args!("<text x='{middle:.1}' y='{below:.1}' text-anchor='middle'>{name}</text>"),
            );
        }
        push(
            &mut svg,
            format_args!("<line x1='{LEFT}' x2='{RIGHT}' y1='{BOTTOM}' y2='{BOTTOM}' stroke='#333'/>"),
        );
        svg.push_str("</svg>\n");
        svg
    }
}

fn push(svg: &mut String, element: std::fmt::Arguments<'_>) {
    writeln!(svg, "{element}").expect("a string takes everything");
}

/// Formats a number with few digits: 0.005, 40.96, 70,000.
fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let groups: Vec<&str> =
        whole.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",") + rest
}

/// Converts values to heights.
struct Axis {
    scale: Scale,
    least: f64,
    most: f64,
    step: f64,
}

impl Axis {
    fn around(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let (mut least, mut most) = (f64::INFINITY, f64::MIN_POSITIVE);
        for value in values {
            (least, most) = (least.min(value), most.max(value));
        }
        match scale {
            Scale::Linear => {
                // Multiples of 1, 2 or 5 times a power of ten, which give about five lines.
                let magnitude = 10_f64.powf((most / 5.0).log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0]
                    .map(|factor| factor * magnitude)
                    .into_iter()
                    .find(|step| most / step <= 6.0);
                let step = step.unwrap_or(magnitude).max(1.0);
                Self { scale, least: 0.0, most: (most / step).ceil() * step, step }
            }
            Scale::Logarithmic => {
                let (least, most) = (least.max(1e-9).log10().floor(), most.log10().ceil());
                Self { scale, least, most, step: 1.0 }
            }
        }
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let count = ((self.most - self.least) / self.step).round() as u32;
        (0..=count).map(|tick| self.least + f64::from(tick) * self.step).map(|tick| match self.scale {
            Scale::Linear => tick,
            Scale::Logarithmic => 10_f64.powf(tick),
        })
    }

    fn y(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.log10(),
        };
        BOTTOM - (value - self.least) / (self.most - self.least) * (BOTTOM - TOP)
    }
}
