//! The report as Markdown, and the same data as JSON.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::time::Duration;

use crate::figures::{Better, Figure, SECTIONS, Section, find};
use crate::goals::Verdict;
use crate::machine::Machine;
use crate::number::{shown, with_unit};
use crate::remarks::Remarks;
use crate::samples::Samples;
use crate::session::{OURS, Session};
use crate::stats::Summary;
use crate::svg::{Bar, chart};
use crate::workloads::server;

/// Writes the report to `path`, and its charts to the folder `charts` beside it.
pub(crate) fn write(
    path: &Path,
    machine: &Machine,
    session: &Session,
    verdicts: &[Verdict],
    remarks: &Remarks,
) -> anyhow::Result<()> {
    let charts = path.with_file_name("charts");
    fs::create_dir_all(&charts).with_context(|| format!("{}", charts.display()))?;
    for section in SECTIONS {
        let bars = bars(section, session);
        if !bars.is_empty() {
            fs::write(charts.join(format!("{}.svg", section.id)), chart(section.title, &bars))?;
        }
    }
    fs::write(path, markdown(machine, session, verdicts, remarks))
        .with_context(|| format!("{}", path.display()))
}

/// Goals and rows as JSON.
pub(crate) fn json(session: &Session, verdicts: &[Verdict]) -> Value {
    let row = |(figure, contender, series): (&str, &str, &crate::samples::Series)| {
        let summary = Summary::of(series.values());
        let known = find(figure);
        json!({
            "figure": figure,
            "what": known.map_or(figure, |figure| figure.what),
            "unit": known.map(|figure| figure.unit).or(session.samples.unit_of(figure)),
            "contender": contender,
            "samples": series.values(),
            "median": summary.map(|summary| summary.median),
            "low": summary.map(|summary| summary.low),
            "high": summary.map(|summary| summary.high),
            "confidence": summary.map(|summary| summary.confidence),
            "missing": series.missing(),
        })
    };
    json!({"goals": verdicts, "rows": session.samples.rows().map(row).collect::<Vec<Value>>()})
}

fn markdown(machine: &Machine, session: &Session, verdicts: &[Verdict], remarks: &Remarks) -> String {
    let mut text = String::new();
    let mut put =
        |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a String takes everything");
    put(format_args!("# Side by side\n"));
    put(format_args!(
        "Written by `cargo run --release -p bench`{}; do not edit. `NOTES.md` describes profiles and experiments.\n",
        if session.quick { " with `--quick`" } else { "" }
    ));
    put(format_args!("{}\n", machine.date));
    for line in &machine.lines {
        put(format_args!("- {line}"));
    }
    put(format_args!(
        "- {} rounds of each workload, the contenders in turn; {} pods in caches",
        session.rounds,
        shown(session.pods as f64)
    ));
    put(format_args!("- {}\n", took(session)));
    put(format_args!("## Goals\n"));
    let met = verdicts.iter().filter(|verdict| verdict.met).count();
    put(format_args!("{met} of {} are met.\n", verdicts.len()));
    put(format_args!("| goal of | figure | goal | met | confidence, or reason |\n|---|---|---|---|---|"));
    for Verdict { name, goal, figure, unit, met, reason } in verdicts {
        let figure = figure.map_or_else(|| "not measured".to_owned(), |figure| with_unit(figure, unit));
        let met = if *met { "yes" } else { "**no**" };
        put(format_args!("| {name} | {figure} | {goal} | {met} | {} |", cell(reason)));
    }
    put(format_args!("{}", missed(verdicts, remarks).trim_end()));
    put(format_args!("\n## How to read\n\n{HOW_TO_READ}"));
    for section in SECTIONS {
        put(format_args!("\n## {}\n\n{}\n", section.title, section.how));
        let rows = rows(section, session);
        if rows.is_empty() {
            put(format_args!("Not part of this run."));
            continue;
        }
        put(format_args!("![{}](charts/{}.svg)\n", section.title, section.id));
        put(format_args!(
            "| figure | contender | median | interval | ours is better by |\n|---|---|---|---|---|"
        ));
        for row in rows {
            put(format_args!("{row}"));
        }
    }
    put(format_args!("\n## API server\n\n{SERVER}"));
    let rows: Vec<String> =
        session.samples.rows().filter_map(|row| server_row(&session.samples, row)).collect();
    if rows.is_empty() {
        put(format_args!("Not part of this run."));
    } else {
        put(format_args!("| figure | median | interval |\n|---|---|---|"));
    }
    for row in rows {
        put(format_args!("{row}"));
    }
    text
}

/// Formats the duration of the run and of its parts.
pub(crate) fn took(session: &Session) -> String {
    let minutes = |took: Duration| took.as_secs_f64() / 60.0;
    let parts: Vec<String> =
        session.took.iter().map(|(part, took)| format!("{part} {:.1}", minutes(*took))).collect();
    let whole = session.took.iter().map(|(_, took)| *took).sum();
    format!("took {:.0} minutes after the build: {}", minutes(whole), parts.join(", "))
}

/// Formats the missed goals with the remarks on them.
fn missed(verdicts: &[Verdict], remarks: &Remarks) -> String {
    let mut text = String::new();
    for verdict in verdicts.iter().filter(|verdict| !verdict.met && verdict.figure.is_some()) {
        let Verdict { name, goal, unit, figure, .. } = verdict;
        let figure = figure.map(|figure| with_unit(figure, unit)).unwrap_or_default();
        let remark = remarks.of(name).unwrap_or("Not analysed yet.");
        text += &format!("\n### {name}\n\n{figure}; the goal is {goal}. {remark}\n");
    }
    if text.is_empty() { text } else { format!("\n## Missed goals\n{text}") }
}

const HOW_TO_READ: &str = "\
*Interval* contains the true median with the confidence stated in the table of goals, for any distribution; with few rounds \
it is the whole range of the samples. Ratios are computed within a round, so that disturbances of the machine affect both \
sides. *Ours is better by* is the median of these ratios, with their interval in parentheses: above 1 ours is faster or \
smaller. *Bound* is the least time that the machine needs to process the same bytes. Memory is the resident set of a \
process. CPU is user and system time of the process that the row names; the API server and the clients that write to it are \
separate processes.
";

const SERVER: &str = "\
The embedded server, measured by its own load program (`just load`), which is a separate process with eight TLS connections; CPU is \
the server's only. A ConfigMap has about 1 KB. Latencies are measured at half load, with a goal for each of its two meanings: half \
of the creates per second that the same connections reached just before, and 4,000/s, half of the creates per CPU second that the \
goal demands. A latency is measured from the time at which a request was due to the end of its answer.
";

/// Formats a row for each contender that measured a figure or tried to.
fn rows(section: &Section, session: &Session) -> Vec<String> {
    let mut rows = Vec::new();
    for figure in section.figures {
        let mut what = figure.what.to_owned();
        for contender in &session.contenders {
            let Some(series) = session.samples.series(figure.id, contender) else { continue };
            let (median, interval) = match Summary::of(series.values()) {
                Some(summary) => (with_unit(summary.median, figure.unit), interval(&summary, figure.unit)),
                None => ("not measured".to_owned(), cell(series.missing().unwrap_or_default())),
            };
            let better = advantage(figure, contender, &session.samples).map(|ratio| {
                format!("{} ({} – {})", shown(ratio.median), shown(ratio.low), shown(ratio.high))
            });
            let better = better.unwrap_or_default();
            rows.push(format!("| {what} | {contender} | {median} | {interval} | {better} |"));
            what.clear();
        }
        if let Some(bound) = session.samples.bound_of(figure.id).filter(|_| what.is_empty()) {
            rows.push(format!("| | bound | {} | {} | |", with_unit(bound.value, figure.unit), bound.why));
        }
    }
    rows
}

/// Ratio by which ours is better than a contender.
fn advantage(figure: &Figure, contender: &str, samples: &Samples) -> Option<Summary> {
    if contender.starts_with(OURS.name) {
        return None;
    }
    let (ours, theirs) = ((figure.id, OURS.name), (figure.id, contender));
    match figure.better {
        Better::Less => samples.ratio(theirs, ours),
        Better::More => samples.ratio(ours, theirs),
        Better::Neither => return None,
    }
    .ok()
}

fn bars(section: &Section, session: &Session) -> Vec<Bar> {
    let mut bars = Vec::new();
    for figure in section.figures {
        for contender in &session.contenders {
            let ratio = advantage(figure, contender, &session.samples);
            bars.extend(ratio.filter(|ratio| ratio.low > 0.0).map(|ratio| Bar {
                figure: figure.what.to_owned(),
                contender: (*contender).to_owned(),
                ratio: ratio.median,
                low: ratio.low,
                high: ratio.high,
            }));
        }
    }
    bars
}

fn server_row(
    samples: &Samples,
    (figure, _, series): (&str, &str, &crate::samples::Series),
) -> Option<String> {
    let what = figure.strip_prefix(server::PREFIX)?;
    let Some(summary) = Summary::of(series.values()) else {
        return Some(format!("| {what} | not measured | {} |", cell(series.missing().unwrap_or_default())));
    };
    let unit = samples.unit_of(figure).unwrap_or_default();
    Some(format!("| {what} | {} | {} |", with_unit(summary.median, unit), interval(&summary, unit)))
}

fn interval(summary: &Summary, unit: &str) -> String {
    format!("{} – {}", with_unit(summary.low, unit), with_unit(summary.high, unit))
}

/// Escapes text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "/").replace('\n', " ")
}

#[cfg(test)]
mod tests;
