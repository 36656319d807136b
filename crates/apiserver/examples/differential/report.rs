//! Differences of a run, grouped.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::comparison::Difference;
use super::request::Request;

/// Differences of one kind.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) count: usize,
    /// The first one: story, requests that show it, and the difference.
    pub(crate) example: String,
}

/// Counts of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) requests: usize,
    pub(crate) stories: usize,
    /// By signature.
    pub(crate) findings: BTreeMap<String, Finding>,
    /// Numbers of known differences by reason and signature.
    pub(crate) known: BTreeMap<&'static str, BTreeMap<String, usize>>,
    /// Numbers of connections that the genuine server ended without a response, by subject and reason.
    pub(crate) ended: BTreeMap<(String, String), usize>,
    /// Numbers of requests by verb and status of the genuine server.
    pub(crate) statuses: BTreeMap<(String, u16), usize>,
    /// Numbers of requests by resource: those that the genuine server accepted, and the others.
    pub(crate) resources: BTreeMap<String, [usize; 2]>,
}

impl Report {
    /// Counts a difference. Returns whether it is the first one of its kind.
    pub(crate) fn count(&mut self, signature: &str) -> bool {
        let finding = Finding { count: 0, example: String::new() };
        let entry = self.findings.entry(signature.to_owned()).or_insert(finding);
        entry.count += 1;
        entry.count == 1
    }

    /// Returns the report as text, the most frequent differences first; `with_known` lists the known ones too.
    pub(crate) fn text(&self, with_known: bool) -> String {
        let mut out = String::new();
        let mut sorted: Vec<_> = self.findings.iter().collect();
        sorted.sort_by_key(|(_, finding)| finding.count);
        for (signature, finding) in sorted.into_iter().rev() {
            let _ = writeln!(out, "{} × {signature}\n{}", finding.count, finding.example);
        }
        for (reason, signatures) in &self.known {
            let _ = writeln!(out, "known: {} × {reason}", signatures.values().sum::<usize>());
            let mut sorted: Vec<_> = signatures.iter().filter(|_| with_known).collect();
            sorted.sort_by_key(|(_, count)| **count);
            for (signature, count) in sorted.into_iter().rev() {
                let _ = writeln!(out, "    {count} × {signature}");
            }
        }
        for ((subject, reason), count) in &self.ended {
            let _ = writeln!(out, "connection ended: {count} × {subject}: {reason}");
        }
        let mut verbs: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((verb, status), count) in &self.statuses {
            verbs.entry(verb).or_default().push(format!("{status}: {count}"));
        }
        for (verb, counts) in verbs {
            let _ = writeln!(out, "{verb}: {}", counts.join(", "));
        }
        let resources = self.resources.iter();
        let resources: Vec<String> =
            resources.map(|(name, [accepted, refused])| format!("{name} {accepted}+{refused}")).collect();
        let _ = writeln!(out, "accepted and refused requests: {}", resources.join(", "));
        let unknown: usize = self.findings.values().map(|finding| finding.count).sum();
        let known: usize = self.known.values().flat_map(BTreeMap::values).sum();
        let _ = writeln!(
            out,
            "{} requests in {} stories: {unknown} differences of {} kinds, {known} known differences",
            self.requests,
            self.stories,
            self.findings.len(),
        );
        out
    }
}

/// Returns the kind of a difference: its request's verb and resource, its path and both sides, without names, numbers and
/// indices.
pub(crate) fn signature(request: &Request, difference: &Difference) -> String {
    let side = |text: &str| general(text).chars().take(140).collect::<String>();
    format!(
        "{} | {} | {} | {}",
        request.subject,
        general(&difference.path),
        side(&difference.genuine),
        side(&difference.ours)
    )
}

/// Replaces quoted texts by `""` and numbers by `0`.
fn general(text: &str) -> String {
    let mut out = String::new();
    let mut is_quoted = false;
    for c in text.chars() {
        match c {
            '"' => {
                is_quoted = !is_quoted;
                out.push(c);
            }
            _ if is_quoted => {}
            '0'..='9' if out.ends_with('0') => {}
            '0'..='9' => out.push('0'),
            _ => out.push(c),
        }
    }
    out
}
