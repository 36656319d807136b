//! The picture of a finding: one HTML file with an inline SVG, readable without scripts.
//!
//! Each process, the user and the server have a lane. A thin line leads from a change to its delivery to a process, and a band below the
//! lane shows how long the delivery was pending. The lane is dotted while the process does not run, and the guilty write is highlighted.

mod drawing;

use std::fmt::Write as _;

use self::drawing::{LEGEND, Shade, svg};
use crate::{
    explore::Finding,
    names::is_masked_resource,
    trace::{Action, Entry, Guilty, MARK, guilty},
};

/// Maximum number of columns. Later actions are left out, and the picture states their number.
const COLUMNS: usize = 160;

const STYLE: &str = include_str!("style.css");

/// Draws a finding as a page.
pub(crate) fn html(finding: &Finding, simulation: &str) -> String {
    let mut page = String::from("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    let (title, simulation) = (escaped(finding.title()), escaped(simulation));
    let _ = write!(
        page,
        "<meta name=\"viewport\" content=\"width=device-width\"><title>{simulation}: {title}</title><style>{STYLE}</style></head>\
         <body><h1>{title}</h1><p>simulation <code>{simulation}</code> violates <code>{}</code></p><pre>",
        finding.oracle()
    );
    for line in finding.to_string().lines().skip(1) {
        let _ = writeln!(page, "<span class=\"{}\">{}</span>", class_of_line(line), escaped(line.trim_end()));
    }
    page.push_str("</pre><h2>With the fault</h2>");
    let shown = shown(finding.entries());
    let guilty = guilty_place(&shown, finding);
    let _ = write!(page, "<div class=\"frame\">{}</div>{LEGEND}", svg(&shown, guilty, Shade::Full));
    let left_out = finding.entries().iter().filter(is_shown).count().saturating_sub(shown.len());
    if left_out > 0 {
        let _ = write!(page, "<p>{left_out} other actions are left out.</p>");
    }
    let without = shown_of(finding.without_faults());
    if !without.is_empty() {
        let picture = svg(&without, None, Shade::Pale);
        let _ = write!(page, "<h2>Without faults</h2><div class=\"frame\">{picture}</div>");
    }
    page.push_str("<details><summary>All actions of the picture, in words</summary><ol>");
    for (place, entry) in shown.iter().enumerate() {
        let class = match &entry.action {
            _ if guilty == Some(place) => "guilty",
            action if action.is_deviation() => "bad",
            Action::Step(_) => "step",
            _ => "",
        };
        let _ = write!(page, "<li class=\"{class}\">{}</li>", escaped(&entry.to_string()));
    }
    page.push_str("</ol></details></body></html>\n");
    page
}

/// Class of a line of the story.
fn class_of_line(line: &str) -> &'static str {
    let after_number = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let begins = |words: &[&str]| words.iter().any(|word| after_number.starts_with(word));
    if line.contains(MARK) {
        "guilty"
    } else if begins(&["CRASH", "HELD BACK", "RELEASED", "EXPIRED", "PAUSED", "RESUMED"])
        || line.ends_with("the answer is lost")
    {
        "bad"
    } else if begins(&["STEP"]) {
        "step"
    } else {
        ""
    }
}

/// Whether an entry has a column. All actions of a story have one, and so do reconciles and deliveries of events about compared objects.
fn is_shown(entry: &&Entry) -> bool {
    match &entry.action {
        Action::ReconcileBegan { .. } => true,
        Action::Delivered { name, lines, .. } => {
            !is_masked_resource(&name.target) && lines.iter().any(|line| !line.starts_with("BOOKMARK"))
        }
        action => action.is_notable(),
    }
}

fn shown_of(entries: &[Entry]) -> Vec<&Entry> {
    entries.iter().filter(is_shown).take(COLUMNS).collect()
}

/// Actions of a picture. If the fault is beyond the first columns, the picture starts shortly before the fault.
fn shown(entries: &[Entry]) -> Vec<&Entry> {
    let all: Vec<&Entry> = entries.iter().filter(is_shown).collect();
    let fault = all.iter().position(|entry| entry.action.is_deviation()).unwrap_or_default();
    let first = fault.saturating_sub(COLUMNS / 2).min(all.len().saturating_sub(COLUMNS));
    all.into_iter().skip(first).take(COLUMNS).collect()
}

/// Column of the guilty write.
fn guilty_place(shown: &[&Entry], finding: &Finding) -> Option<usize> {
    let actions =
        |entries: &[Entry]| entries.iter().map(|entry| entry.action.clone()).collect::<Vec<Action>>();
    let (run, without_faults) = (actions(finding.entries()), actions(finding.without_faults()));
    let place = guilty(&run, &without_faults, finding.suspect()).and_then(Guilty::place)?;
    shown.iter().position(|entry| std::ptr::eq(*entry, &finding.entries()[place]))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::Duration;

    use super::*;
    use crate::names::{Actor, CallName, OPERATOR, ProcessName};

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
        let svg = svg(&entries.iter().collect::<Vec<_>>(), None, Shade::Full);
        assert!(svg.contains(">operator</text>") && svg.contains(">operator-2</text>"), "{svg}");
        assert!(svg.contains("before &lt;x&gt;") && !svg.contains("<x>"), "{svg}");
        assert_eq!(svg.matches("<title>").count(), 3);
    }

    #[test]
    fn a_fault_is_drawn_in_the_lane_of_its_process() {
        let actor = |replica| Actor::Process {
            process: ProcessName { program: OPERATOR, replica, is_tested: true },
            life: 0,
        };
        let height = |held: Actor| {
            let entries = [
                entry(Action::Start(actor(0))),
                entry(Action::Start(actor(1))),
                entry(Action::Held { actor: held, what: "lines about pods".to_owned() }),
            ];
            let svg = svg(&entries.iter().collect::<Vec<_>>(), None, Shade::Full);
            let cross = svg.split("HELD BACK").nth(1).and_then(|rest| rest.split("<path d=\"M").nth(1));
            let height = cross.and_then(|path| path.split(&[' ', 'l'][..]).nth(1)?.parse::<usize>().ok());
            height.expect("a cross")
        };
        assert!(height(actor(0)) < height(actor(1)));
    }

    #[test]
    fn a_long_run_is_shown_around_its_fault() {
        let name = Arc::new(CallName::of_effect("cloud", "create", "x"));
        let effect = || {
            let name = Arc::clone(&name);
            entry(Action::CarriedOut { actor: Actor::User, name, changed: Arc::default() })
        };
        let mut entries: Vec<Entry> = (0..3 * COLUMNS).map(|_| effect()).collect();
        entries.insert(2 * COLUMNS, entry(Action::Crashed { actor: Actor::User, at: "here".to_owned() }));
        let shown = shown(&entries);
        assert_eq!(shown.len(), COLUMNS);
        assert!(shown.iter().any(|entry| entry.action.is_deviation()));
    }
}
