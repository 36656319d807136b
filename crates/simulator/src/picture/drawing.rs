//! The lanes of a picture, as SVG.

use std::fmt::Write as _;

use super::escaped;
use crate::{
    names::Actor,
    trace::{Action, Entry},
};

/// Sizes in pixels.
const LEFT: usize = 130;
const COLUMN: usize = 26;
const LANE: usize = 76;
const TOP: usize = 236;
/// Height of the names of steps.
const STEPS: usize = 18;

/// Explains the marks.
pub(super) const LEGEND: &str = "<p class=\"legend\">\
    <span><svg width=\"14\" height=\"14\"><circle cx=\"7\" cy=\"7\" r=\"6\" fill=\"var(--op)\"/></svg>write</span>\
    <span><svg width=\"14\" height=\"14\"><rect x=\"1.5\" y=\"1.5\" width=\"11\" height=\"11\" fill=\"var(--op)\"/></svg>effect on a remote system</span>\
    <span><svg width=\"20\" height=\"14\"><path d=\"M2 2h10l5 5l-5 5h-10z\" fill=\"none\" stroke=\"var(--op)\" stroke-width=\"1.5\"/></svg>start or reconcile</span>\
    <span><svg width=\"14\" height=\"14\"><circle cx=\"7\" cy=\"7\" r=\"3\" fill=\"var(--soft)\"/></svg>lines of a watch</span>\
    <span><svg width=\"26\" height=\"14\"><rect y=\"4\" width=\"26\" height=\"7\" rx=\"3\" fill=\"var(--late)\"/></svg>behind the server</span>\
    <span><svg width=\"14\" height=\"14\"><path d=\"M1 1l12 12m0 -12l-12 12\" stroke=\"var(--bad)\" stroke-width=\"3\"/></svg>fault</span>\
    <span><svg width=\"22\" height=\"22\"><circle cx=\"11\" cy=\"11\" r=\"11\" fill=\"var(--glow)\"/><circle cx=\"11\" cy=\"11\" r=\"6\" fill=\"var(--op)\"/></svg>guilty write</span></p>";

/// A mark in a lane.
struct Mark {
    actor: Actor,
    kind: MarkKind,
    text: String,
}

#[derive(Clone, Copy, PartialEq)]
enum MarkKind {
    Write,
    Effect,
    Delivery,
    Reconcile,
    Start,
    End,
    Fault,
    Step,
    Quiet,
}

/// Returns the mark of an entry.
fn mark(entry: &Entry) -> Mark {
    let text = |action: &Action| action.to_string().split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
    let (actor, kind) = match &entry.action {
        Action::Start(actor) => (*actor, MarkKind::Start),
        Action::CarriedOut { actor, .. } => (*actor, MarkKind::Effect),
        Action::Refused { actor, .. } | Action::AnswerLost { actor, .. } => (*actor, MarkKind::Fault),
        Action::Paused { actor, .. } | Action::Resumed { actor } => (*actor, MarkKind::Fault),
        Action::Delivered { actor, .. } | Action::Answered { actor, .. } => (*actor, MarkKind::Delivery),
        Action::ReconcileBegan { actor, .. } => (*actor, MarkKind::Reconcile),
        Action::Committed(change) => (change.actor, MarkKind::Write),
        Action::Crashed { actor, .. } | Action::Ended { actor, .. } => (*actor, MarkKind::End),
        Action::Held { actor, .. } | Action::Released { actor, .. } | Action::Expired { actor, .. } => {
            (*actor, MarkKind::Fault)
        }
        Action::Step(_) | Action::StepDone(_) => (Actor::User, MarkKind::Step),
        Action::Quiet => (Actor::User, MarkKind::Quiet),
    };
    let text = match &entry.action {
        Action::Step(name) => name.clone(),
        Action::Held { what, .. } => format!("held back: {what}"),
        Action::Released { .. } => format!("released: {}", text(&entry.action)),
        action => text(action),
    };
    Mark { actor, kind, text }
}

/// Lane of an actor. All runs of a process share a lane.
fn lane(actor: Actor) -> (u8, String) {
    match actor {
        Actor::User => (0, "user".to_owned()),
        Actor::Server => (1, "server".to_owned()),
        Actor::Process { process, .. } => (if process.is_tested { 2 } else { 3 }, process.to_string()),
    }
}

fn colour(mark: &Mark) -> &'static str {
    match (mark.kind, mark.actor) {
        (MarkKind::Fault | MarkKind::End, _) => "var(--bad)",
        (_, Actor::User) => "var(--user)",
        (_, Actor::Server) => "var(--server)",
        (_, actor) if actor.is_operator() => "var(--op)",
        _ => "var(--other)",
    }
}

/// Intensity of a picture's colors: full for the run with the fault, pale for the run without faults.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shade {
    Full,
    Pale,
}

/// Draws a run: a column for each entry, a lane for each process.
pub(super) fn svg(entries: &[&Entry], guilty: Option<usize>, shade: Shade) -> String {
    let marks: Vec<Mark> = entries.iter().map(|entry| mark(entry)).collect();
    let mut lanes: Vec<(u8, String)> = marks.iter().map(|mark| lane(mark.actor)).collect();
    lanes.sort();
    lanes.dedup();
    let drawing = Drawing { entries, marks, lanes };
    let (width, height) = (drawing.x(entries.len()) + 200, drawing.y(drawing.lanes.len()) - 20);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" class=\"{}\" role=\"img\">",
        match shade {
            Shade::Full => "",
            Shade::Pale => "pale",
        }
    );
    // Later parts cover earlier ones: bands, lanes, deliveries, and the marks on top.
    drawing.steps(&mut svg, width, height);
    drawing.rails(&mut svg, width);
    drawing.deliveries(&mut svg);
    for place in 0..drawing.marks.len() {
        drawing.mark(&mut svg, place, guilty == Some(place));
    }
    drawing.times(&mut svg, height);
    svg.push_str("</svg>");
    svg
}

struct Drawing<'e> {
    entries: &'e [&'e Entry],
    marks: Vec<Mark>,
    lanes: Vec<(u8, String)>,
}

impl Drawing<'_> {
    fn x(&self, place: usize) -> usize {
        LEFT + 24 + place * COLUMN
    }

    fn y(&self, row: usize) -> usize {
        TOP + row * LANE
    }

    fn y_of(&self, actor: Actor) -> usize {
        self.y(self.lanes.iter().position(|known| *known == lane(actor)).unwrap_or_default())
    }

    /// Background bands of the steps, every other one shaded, with the names of the steps at the top.
    fn steps(&self, svg: &mut String, width: usize, height: usize) {
        let is_step = |place: &usize| self.marks[*place].kind == MarkKind::Step;
        let begins: Vec<usize> = (0..self.marks.len()).filter(is_step).collect();
        for (number, begin) in begins.iter().enumerate() {
            let left = self.x(*begin) - COLUMN / 2;
            let right = begins.get(number + 1).map_or(width, |next| self.x(*next) - COLUMN / 2);
            let fill = if number % 2 == 0 { "var(--band)" } else { "none" };
            let _ = write!(
                svg,
                "<rect x=\"{left}\" y=\"0\" width=\"{}\" height=\"{height}\" fill=\"{fill}\"/>",
                right - left
            );
            let room = (right - left) / 8;
            let name = shortened(&self.marks[*begin].text, room.max(4));
            let _ = write!(
                svg,
                "<g><title>{}</title><text class=\"stepname\" x=\"{}\" y=\"{STEPS}\">{}</text></g>",
                escaped(&self.marks[*begin].text),
                left + 6,
                escaped(&name)
            );
        }
    }

    /// Lanes with their names. A lane is dotted between the end of a process and its next start.
    fn rails(&self, svg: &mut String, width: usize) {
        for (row, (_, name)) in self.lanes.iter().enumerate() {
            let y = self.y(row);
            let _ = write!(svg, "<text class=\"name\" x=\"8\" y=\"{}\">{}</text>", y + 4, escaped(name));
            let mut rail = |from: usize, to: usize, class: &str| {
                let _ =
                    write!(svg, "<line class=\"{class}\" x1=\"{from}\" x2=\"{to}\" y1=\"{y}\" y2=\"{y}\"/>");
            };
            let (mut from, mut is_alive) = (LEFT, true);
            for (place, mark) in self.marks.iter().enumerate() {
                let x = self.x(place);
                match mark.kind {
                    _ if lane(mark.actor).1 != *name => {}
                    MarkKind::End if is_alive => {
                        rail(from, x, "rail");
                        (from, is_alive) = (x, false);
                    }
                    MarkKind::Start if !is_alive => {
                        rail(from + 10, x - 10, "dead");
                        (from, is_alive) = (x, true);
                    }
                    _ => {}
                }
            }
            rail(from, width - 20, if is_alive { "rail" } else { "dead" });
        }
    }

    /// Lines from changes to the deliveries that report them, and bands below the lanes of tested processes while deliveries to
    /// them are pending.
    fn deliveries(&self, svg: &mut String) {
        let mut lanes: Vec<(u8, String)> =
            self.marks.iter().filter(|mark| mark.actor.is_operator()).map(|mark| lane(mark.actor)).collect();
        lanes.sort();
        lanes.dedup();
        for process in lanes {
            let is_own = |mark: &Mark| lane(mark.actor) == process;
            let Some(first) = self.marks.iter().find(|mark| is_own(mark)) else { continue };
            let y = self.y_of(first.actor);
            let (mut behind_since, mut last_write): (Option<usize>, Option<usize>) = (None, None);
            for (place, mark) in self.marks.iter().enumerate() {
                let is_delivery = is_own(mark) && matches!(mark.kind, MarkKind::Delivery | MarkKind::Start);
                if mark.kind == MarkKind::Write {
                    behind_since = behind_since.or(Some(place));
                    last_write = Some(place);
                }
                let is_end = place + 1 == self.marks.len();
                if !(is_delivery || is_end) {
                    continue;
                }
                // A process that starts lists all objects, so the band ends there as well as at a delivery.
                if let Some(since) = behind_since.take() {
                    let (left, right) = (self.x(since), self.x(place));
                    let _ = write!(
                        svg,
                        "<rect x=\"{left}\" y=\"{}\" width=\"{}\" height=\"6\" rx=\"3\" fill=\"var(--late)\" opacity=\".85\"/>",
                        y + 17,
                        right - left
                    );
                }
                // One curve for all writes that a delivery reports: one for each would hide the lane.
                if let Some(write) = last_write.take().filter(|_| is_delivery) {
                    let (from, to) = (self.x(write), self.x(place));
                    let (above, middle) = (self.y_of(self.marks[write].actor), usize::midpoint(from, to));
                    let _ = write!(
                        svg,
                        "<path class=\"arc\" d=\"M{from} {above}C{middle} {above} {middle} {y} {to} {y}\"/>"
                    );
                }
            }
        }
    }

    fn mark(&self, svg: &mut String, place: usize, is_guilty: bool) {
        let mark = &self.marks[place];
        let (x, y, colour) = (self.x(place), self.y_of(mark.actor), colour(mark));
        let _ = write!(svg, "<g><title>{}</title>", escaped(&self.entries[place].to_string()));
        if is_guilty {
            let _ = write!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"17\" fill=\"var(--glow)\"/>");
        }
        let _ = match mark.kind {
            MarkKind::Write => write!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"6.5\" fill=\"{colour}\"/>"),
            MarkKind::Effect => {
                let (left, top) = (x - 5, y - 5);
                write!(
                    svg,
                    "<rect x=\"{left}\" y=\"{top}\" width=\"11\" height=\"11\" rx=\"1\" fill=\"{colour}\"/>"
                )
            }
            MarkKind::Delivery => {
                write!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"var(--soft)\"/>")
            }
            MarkKind::Reconcile | MarkKind::Start => write!(
                svg,
                "<path d=\"M{} {}h10l5 5l-5 5h-10z\" fill=\"var(--card)\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
                x - 7,
                y - 5
            ),
            MarkKind::Fault | MarkKind::End => write!(
                svg,
                "<path d=\"M{0} {1}l12 12m0 -12l-12 12\" stroke=\"{colour}\" stroke-width=\"3\" stroke-linecap=\"round\" fill=\"none\"/>",
                x - 6,
                y - 6
            ),
            MarkKind::Step | MarkKind::Quiet => Ok(()),
        };
        let has_label = matches!(
            mark.kind,
            MarkKind::Write | MarkKind::Effect | MarkKind::Start | MarkKind::Fault | MarkKind::End
        );
        if has_label {
            let style = match mark.kind {
                _ if is_guilty => " style=\"fill:var(--bad);font-weight:700\"",
                MarkKind::Fault | MarkKind::End => " style=\"fill:var(--bad)\"",
                _ => "",
            };
            let _ = write!(
                svg,
                "<text transform=\"translate({},{}) rotate(-52)\"{style}>{}</text>",
                x + 3,
                TOP - 24,
                escaped(&shortened(&mark.text, 34))
            );
        }
        svg.push_str("</g>");
    }

    /// Virtual seconds below the lanes.
    fn times(&self, svg: &mut String, height: usize) {
        let (mut last, mut free) = (String::new(), 0);
        for (place, entry) in self.entries.iter().enumerate() {
            let (time, x) = (format!("{:.0} s", entry.at.as_secs_f64()), self.x(place));
            if time != last && x >= free {
                let _ = write!(svg, "<text class=\"time\" x=\"{x}\" y=\"{}\">{time}</text>", height - 4);
                (last, free) = (time, x + 2 * COLUMN);
            }
        }
    }
}

/// Text of at most this many characters.
fn shortened(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    text.chars().take(longest - 1).chain(['…']).collect()
}
