//! The picture of a finding: one HTML file with an inline SVG, readable without scripts.
//!
//! Each process has a lane, as have the user and the server. Below the lane of a process a band shows how far it is behind: red while
//! lines about changes have not reached it. A crash tears the lane, and the first write that the run without faults lacks glows.

use std::fmt::Write as _;

use crate::{
    explore::Finding,
    names::Actor,
    trace::{Action, Entry, guilty},
};

/// Largest number of columns: later actions are left out, and the picture says so.
const COLUMNS: usize = 160;

/// Sizes in pixels.
const LEFT: usize = 120;
const COLUMN: usize = 26;
const LANE: usize = 74;
const TOP: usize = 220;

const STYLE: &str = "\
:root{--bg:#fbfaf7;--ink:#22262e;--soft:#8b91a0;--rule:#e3e1da;--user:#5b6abf;--server:#7a7f8c;--op:#1f7a5c;--bad:#c8322b;\
--hold:#d98a1f;--glow:#ffd9d3}\
@media (prefers-color-scheme:dark){:root{--bg:#14171c;--ink:#e4e6eb;--soft:#868d9b;--rule:#2a2f38;--user:#93a0f0;\
--server:#9aa1ae;--op:#4cc39a;--bad:#ff6d63;--hold:#f0b253;--glow:#4a211e}}\
body{margin:32px;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,sans-serif}\
h1{font-size:20px;font-weight:600;margin:0 0 4px;max-width:70em}p{margin:0 0 12px;color:var(--soft)}\
code,text,li{font-family:ui-monospace,Menlo,Consolas,monospace}\
code{background:var(--rule);padding:1px 6px;border-radius:4px;color:var(--ink)}\
.frame{overflow-x:auto;border:1px solid var(--rule);border-radius:10px;padding:8px;margin:16px 0}\
svg{display:block}text{fill:var(--ink);font-size:11px}.name{font-size:13px;font-weight:600}.time{fill:var(--soft);font-size:10px}\
.rail{stroke:var(--rule);stroke-width:2}.pale{opacity:.35}\
ol{padding-left:3.2em;margin:0}li{font-size:12.5px;white-space:pre-wrap;padding:1px 6px;border-radius:4px}\
li.bad{color:var(--bad);font-weight:600}li.step{color:var(--user)}li.guilty{background:var(--glow)}li::marker{color:var(--soft)}";

/// Draws a finding as a page.
pub(crate) fn html(finding: &Finding, simulation: &str) -> String {
    let mut page = String::from("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    let (title, simulation) = (escaped(finding.title()), escaped(simulation));
    let _ = write!(
        page,
        "<meta name=\"viewport\" content=\"width=device-width\"><title>{simulation}: {title}</title><style>{STYLE}</style></head>\
         <body><h1>{title}</h1><p>simulation <code>{simulation}</code> · violates <code>{}</code>",
        finding.oracle()
    );
    for deviation in &finding.plan().deviations {
        let _ = write!(page, " · <code>{}</code>", escaped(&deviation.to_string()));
    }
    page.push_str("</p>");
    let shown = shown(finding.entries());
    let guilty = guilty_place(&shown, finding.without_faults());
    let _ = write!(page, "<div class=\"frame\">{}</div>", svg(&shown, guilty, false));
    let left_out = finding.entries().iter().filter(is_shown).count().saturating_sub(shown.len());
    if left_out > 0 {
        let _ = write!(page, "<p>{left_out} later actions are left out.</p>");
    }
    page.push_str("<ol>");
    for (place, entry) in shown.iter().enumerate() {
        let class = match &entry.action {
            _ if guilty == Some(place) => "guilty",
            action if action.is_deviation() => "bad",
            Action::Step(_) => "step",
            _ => "",
        };
        let _ = write!(page, "<li class=\"{class}\">{}</li>", escaped(&entry.to_string()));
    }
    page.push_str("</ol>");
    let without = shown_of(finding.without_faults());
    if !without.is_empty() {
        let _ = write!(
            page,
            "<p>The run without faults:</p><div class=\"frame\">{}</div>",
            svg(&without, None, true)
        );
    }
    page.push_str("</body></html>\n");
    page
}

fn is_shown(entry: &&Entry) -> bool {
    entry.action.is_notable()
        || matches!(entry.action, Action::Delivered { .. } | Action::ReconcileBegan { .. })
}

fn shown_of(entries: &[Entry]) -> Vec<&Entry> {
    entries.iter().filter(is_shown).take(COLUMNS).collect()
}

/// Actions of a picture. If the fault is later than the first columns, they begin shortly before it.
fn shown(entries: &[Entry]) -> Vec<&Entry> {
    let all: Vec<&Entry> = entries.iter().filter(is_shown).collect();
    let fault = all.iter().position(|entry| entry.action.is_deviation()).unwrap_or_default();
    let first = fault.saturating_sub(COLUMNS / 2).min(all.len().saturating_sub(COLUMNS));
    all.into_iter().skip(first).take(COLUMNS).collect()
}

/// Column of the first change of an operator that the run without faults lacks.
fn guilty_place(shown: &[&Entry], without_faults: &[Entry]) -> Option<usize> {
    if without_faults.is_empty() {
        return None;
    }
    let actions: Vec<Action> = shown.iter().map(|entry| entry.action.clone()).collect();
    let others: Vec<Action> = without_faults.iter().map(|entry| entry.action.clone()).collect();
    guilty(&actions, &others)
}

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

fn mark(entry: &Entry, last_process: Actor) -> Mark {
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
        Action::Held { .. } | Action::Released { .. } | Action::Expired { .. } => {
            (last_process, MarkKind::Fault)
        }
        Action::Step(_) | Action::StepDone(_) => (Actor::User, MarkKind::Step),
        Action::Quiet => (Actor::User, MarkKind::Quiet),
    };
    Mark { actor, kind, text: text(&entry.action) }
}

/// Lane of an actor: all lives of a process share one.
fn lane(actor: Actor) -> (u8, String) {
    match actor {
        Actor::User => (0, "user".to_owned()),
        Actor::Server => (1, "server".to_owned()),
        Actor::Process { process, .. } => (if process.is_tested { 2 } else { 3 }, process.to_string()),
    }
}

fn svg(entries: &[&Entry], guilty: Option<usize>, is_pale: bool) -> String {
    let first_process = entries.iter().find_map(|entry| match entry.action {
        Action::Start(actor) => Some(actor),
        _ => None,
    });
    let marks: Vec<Mark> =
        entries.iter().map(|entry| mark(entry, first_process.unwrap_or(Actor::User))).collect();
    let mut lanes: Vec<(u8, String)> = marks.iter().map(|mark| lane(mark.actor)).collect();
    lanes.sort();
    lanes.dedup();
    let row = |actor: Actor| lanes.iter().position(|known| *known == lane(actor)).unwrap_or_default();
    let (x, y) = (|place: usize| LEFT + 20 + place * COLUMN, |row: usize| TOP + row * LANE);
    let (width, height) = (x(entries.len()) + 180, y(lanes.len()) + 10);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" class=\"{}\" role=\"img\">",
        if is_pale { "pale" } else { "" }
    );
    for (place, (_, name)) in lanes.iter().enumerate() {
        let _ = write!(
            svg,
            "<text class=\"name\" x=\"8\" y=\"{}\">{}</text><line class=\"rail\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{at}\" y2=\"{at}\"/>",
            y(place) + 4,
            escaped(name),
            end = width - 20,
            at = y(place),
        );
    }
    bands(&mut svg, &marks, &row, &x, &y);
    let (mut last_time, mut free) = (String::new(), 0);
    for (place, mark) in marks.iter().enumerate() {
        let (x, y) = (x(place), y(row(mark.actor)));
        let colour = match (mark.kind, mark.actor) {
            (MarkKind::Fault | MarkKind::End, _) => "var(--bad)",
            (_, Actor::User) => "var(--user)",
            (_, Actor::Server) => "var(--server)",
            (..) => "var(--op)",
        };
        if guilty == Some(place) {
            let _ = write!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"15\" fill=\"var(--glow)\"/>");
        }
        let _ = write!(svg, "<g><title>{}</title>", escaped(&entries[place].to_string()));
        let _ = match mark.kind {
            MarkKind::Write => write!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"6\" fill=\"{colour}\"/>"),
            MarkKind::Effect => {
                write!(
                    svg,
                    "<rect x=\"{}\" y=\"{}\" width=\"11\" height=\"11\" fill=\"{colour}\"/>",
                    x - 5,
                    y - 5
                )
            }
            MarkKind::Delivery => {
                write!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"2.5\" fill=\"var(--soft)\"/>")
            }
            MarkKind::Reconcile | MarkKind::Start => write!(
                svg,
                "<path d=\"M{} {}h10l5 5l-5 5h-10z\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
                x - 7,
                y - 5
            ),
            MarkKind::Fault | MarkKind::End => write!(
                svg,
                "<path d=\"M{0} {1}l12 12m0 -12l-12 12\" stroke=\"{colour}\" stroke-width=\"3\" fill=\"none\"/>",
                x - 6,
                y - 6
            ),
            MarkKind::Step | MarkKind::Quiet => write!(
                svg,
                "<line x1=\"{x}\" x2=\"{x}\" y1=\"{}\" y2=\"{}\" stroke=\"{colour}\" stroke-dasharray=\"3 4\"/>",
                y - 10,
                height - 10
            ),
        };
        svg.push_str("</g>");
        if !matches!(mark.kind, MarkKind::Delivery | MarkKind::Reconcile | MarkKind::Quiet) {
            let short = shortened(&mark.text);
            let _ = write!(
                svg,
                "<text transform=\"translate({},{}) rotate(-52)\"{}>{}</text>",
                x + 3,
                TOP - 26,
                if matches!(mark.kind, MarkKind::Fault | MarkKind::End) {
                    " style=\"fill:var(--bad)\""
                } else {
                    ""
                },
                escaped(&short)
            );
        }
        let time = format!("{:.0} s", entries[place].at.as_secs_f64());
        if time != last_time && x >= free {
            let _ = write!(svg, "<text class=\"time\" x=\"{x}\" y=\"{}\">{time}</text>", height - 2);
            (last_time, free) = (time, x + 2 * COLUMN);
        }
    }
    svg.push_str("</svg>");
    svg
}

/// Draws under the lane of each tested process how far it is behind: from a change until lines are handed over to it.
fn bands(
    svg: &mut String,
    marks: &[Mark],
    row: &dyn Fn(Actor) -> usize,
    x: &dyn Fn(usize) -> usize,
    y: &dyn Fn(usize) -> usize,
) {
    let mut lanes: Vec<(u8, String)> =
        marks.iter().filter(|mark| mark.actor.is_operator()).map(|mark| lane(mark.actor)).collect();
    lanes.sort();
    lanes.dedup();
    for process in lanes {
        let is_own = |mark: &Mark| lane(mark.actor) == process;
        let Some(first) = marks.iter().find(|mark| is_own(mark)) else { continue };
        let y = y(row(first.actor)) + 16;
        let mut behind_since: Option<usize> = None;
        for (place, mark) in marks.iter().enumerate() {
            let is_news = is_own(mark) && matches!(mark.kind, MarkKind::Delivery | MarkKind::Start);
            if mark.kind == MarkKind::Write && behind_since.is_none() {
                behind_since = Some(place);
            }
            if (is_news || place + 1 == marks.len())
                && let Some(since) = behind_since.take()
            {
                let width = x(place) - x(since);
                let _ = write!(
                    svg,
                    "<rect x=\"{}\" y=\"{y}\" width=\"{width}\" height=\"7\" rx=\"3\" fill=\"var(--hold)\" opacity=\".8\"/>",
                    x(since)
                );
            }
        }
    }
}

/// Text that fits above the lanes.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 36;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use tokio::time::Duration;

    use super::*;
    use crate::names::{CallName, OPERATOR, ProcessName};

    fn entry(action: Action) -> Entry {
        Entry { at: Duration::ZERO, action }
    }

    #[test]
    fn a_picture_has_a_lane_for_each_process_and_a_cross_for_a_crash() {
        let process = |replica| ProcessName { program: OPERATOR, replica, is_tested: true };
        let actor = |replica| Actor::Process { process: process(replica), life: 0 };
        let entries = [
            entry(Action::Start(actor(0))),
            entry(Action::Start(actor(1))),
            entry(Action::Crashed { actor: actor(0), at: "before <x>".to_owned() }),
        ];
        let svg = svg(&entries.iter().collect::<Vec<_>>(), None, false);
        assert!(svg.contains(">operator</text>") && svg.contains(">operator-2</text>"), "{svg}");
        assert!(svg.contains("before &lt;x&gt;") && !svg.contains("<x>"), "{svg}");
        assert_eq!(svg.matches("<title>").count(), 3);
    }

    #[test]
    fn a_long_run_is_shown_around_its_fault() {
        let name = CallName::of_effect("cloud", "create", "x");
        let effect = || entry(Action::CarriedOut { actor: Actor::User, name: name.clone() });
        let mut entries: Vec<Entry> = (0..3 * COLUMNS).map(|_| effect()).collect();
        entries.insert(2 * COLUMNS, entry(Action::Crashed { actor: Actor::User, at: "here".to_owned() }));
        let shown = shown(&entries);
        assert_eq!(shown.len(), COLUMNS);
        assert!(shown.iter().any(|entry| entry.action.is_deviation()));
    }
}
