//! The report for people, and the same for programs.

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

/// Goals and rows, for programs.
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
        "Written by `cargo run --release -p bench`{}; do not edit. What was tried and learnt stands in `NOTES.md`.\n",
        if session.quick { " with `--quick`" } else { "" }
    ));
    put(format_args!("{}\n", machine.date));
    for line in &machine.lines {
        put(format_args!("- {line}"));
    }
    put(format_args!(
        "- {} rounds of each workload, the contenders by turns; {} pods in caches",
        session.rounds,
        shown(session.pods as f64)
    ));
    put(format_args!("- {}\n", took(session)));
    put(format_args!("## Goals\n"));
    let met = verdicts.iter().filter(|verdict| verdict.met).count();
    put(format_args!("{met} of {} are met.\n", verdicts.len()));
    put(format_args!("| what | figure | goal | met | how sure, or why not |\n|---|---|---|---|---|"));
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
        put(format_args!("| what | who | median | from – to | ours is better by |\n|---|---|---|---|---|"));
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
        put(format_args!("| what | median | from – to |\n|---|---|---|"));
    }
    for row in rows {
        put(format_args!("{row}"));
    }
    text
}

/// How long the run took, and where the time went.
pub(crate) fn took(session: &Session) -> String {
    let minutes = |took: Duration| took.as_secs_f64() / 60.0;
    let parts: Vec<String> =
        session.took.iter().map(|(part, took)| format!("{part} {:.1}", minutes(*took))).collect();
    let whole = session.took.iter().map(|(_, took)| *took).sum();
    format!("took {:.0} minutes once built: {}", minutes(whole), parts.join(", "))
}

/// What remains, with what people have found out about it.
fn missed(verdicts: &[Verdict], remarks: &Remarks) -> String {
    let mut text = String::new();
    for verdict in verdicts.iter().filter(|verdict| !verdict.met && verdict.figure.is_some()) {
        let Verdict { name, goal, unit, figure, .. } = verdict;
        let figure = figure.map(|figure| with_unit(figure, unit)).unwrap_or_default();
        let remark = remarks.of(name).unwrap_or("Nobody has looked into it yet.");
        text += &format!("\n### {name}\n\n{figure}, and {goal} was the goal. {remark}\n");
    }
    if text.is_empty() { text } else { format!("\n## What misses its goal, and why\n{text}") }
}

const HOW_TO_READ: &str = "\
*From – to* is an interval that holds the true median with the probability of the last column of the goals, whatever the \
distribution: with few rounds, all that was measured. Ratios are taken within a round, so that what the machine did besides \
concerns both sides; *ours is better by* is their median, in parentheses their interval: above 1 ours is faster or smaller, \
and the interval says how sure that is. *Bound* is what the machine would take for the same bytes at best. Memory is the \
resident set of the process for all. CPU is user and system time of the process that a row names; the API server, and who \
writes to it, are processes of their own.
";

const SERVER: &str = "\
The embedded server by its own load program (`just load`), a process of its own over TLS with eight connections; CPU is the \
server's alone. A ConfigMap is about 1 KB. Half load can be read in two ways, and there is a goal for each: half of the creates \
per second that the same connections reached just before, and 4,000/s, half of the creates that are asked for. A latency is from when a request was due to the end of its answer.
";

/// A row for each contender that was asked for a figure.
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

/// How many times better ours is than a contender.
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

/// Text that does not end the cell it is in.
fn cell(text: &str) -> String {
    text.replace('|', "/").replace('\n', " ")
}

#[cfg(test)]
mod tests;
