//! Warnings to the client, in `Warning` headers.

use std::sync::Arc;

use http::header::{self, HeaderMap, HeaderValue};
use parking_lot::Mutex;

/// Maximum number of characters in all warnings of a response. Beyond it, each warning is truncated and the last ones
/// are dropped.
const MAX_TOTAL: usize = 4096;
/// Length of a truncated warning in characters.
const CUT_LENGTH: usize = 256;
/// Maximum number of `Warning` header lines. Clients limit all header lines together, hyper to 100.
const MAX_LINES: usize = 32;

/// Warnings of a request, without duplicates. Clones share them, so that every stage of the request can add some.
#[derive(Debug, Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<WarningTexts>>);

impl Warnings {
    /// Adds a warning, unless it is empty or a duplicate, or would be dropped. As in kube-apiserver, texts with control characters are
    /// dropped, because a header cannot contain them.
    pub(crate) fn add(&self, text: String) {
        self.0.lock().add(text);
    }

    /// Appends the headers. The last line holds all warnings that do not fit into lines of their own.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        self.0.lock().write(headers);
    }
}

#[derive(Debug, Default)]
struct WarningTexts {
    texts: Vec<String>,
    /// Number of characters in `texts`.
    total: usize,
    /// Number of characters in `texts` after truncation.
    total_cut: usize,
}

impl WarningTexts {
    fn add(&mut self, text: String) {
        if text.is_empty() || text.contains(char::is_control) || self.is_full() || self.texts.contains(&text)
        {
            return;
        }
        let length = text.chars().count();
        self.total += length;
        self.total_cut += length.min(CUT_LENGTH);
        self.texts.push(text);
    }

    /// Whether the limit is reached even after truncation. Bounds the number of stored texts.
    fn is_full(&self) -> bool {
        self.is_cut() && self.total_cut >= MAX_TOTAL
    }

    fn is_cut(&self) -> bool {
        self.total > MAX_TOTAL
    }

    fn write(&self, headers: &mut HeaderMap) {
        let cut = if self.is_cut() { CUT_LENGTH } else { MAX_TOTAL };
        let mut written = 0;
        let mut values = Vec::new();
        for text in &self.texts {
            if written >= MAX_TOTAL {
                break;
            }
            let shown: String = text.chars().take(cut).collect();
            written += shown.chars().count();
            values.push(value(&shown));
        }
        let (alone, together) = values.split_at(values.len().min(MAX_LINES - 1));
        let together = (!together.is_empty()).then(|| together.join(", "));
        for line in alone.iter().cloned().chain(together) {
            if let Ok(line) = HeaderValue::try_from(line) {
                headers.append(header::WARNING, line);
            }
        }
    }
}

/// Formats a warning with code 299, for miscellaneous warnings.
fn value(text: &str) -> String {
    format!("299 - \"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: impl IntoIterator<Item = String>) -> Vec<String> {
        let warnings = Warnings::default();
        texts.into_iter().for_each(|text| warnings.add(text));
        let mut headers = HeaderMap::new();
        warnings.write(&mut headers);
        let values = headers.get_all(header::WARNING).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    }

    #[test]
    fn each_text_without_control_characters_is_sent_once_and_quoted() {
        let texts = ["a \"b\"\\", "", "c\nd", "a \"b\"\\"].map(str::to_owned);
        assert_eq!(lines(texts), [r#"299 - "a \"b\"\\""#]);
    }

    #[test]
    fn warnings_up_to_the_limit_are_whole() {
        let texts = ["a".repeat(MAX_TOTAL - 300), "é".repeat(300)];
        let whole: Vec<String> = texts.iter().map(|text| format!("299 - \"{text}\"")).collect();
        assert_eq!(lines(texts), whole);
    }

    #[test]
    fn beyond_the_limit_warnings_are_truncated_and_the_last_ones_dropped() {
        let long = |n: usize| format!("{n:02}{}", "x".repeat(4000));
        let sent = lines((0..90).map(long));
        let cut = |n: usize| format!("299 - \"{}\"", &long(n)[..CUT_LENGTH]);
        assert_eq!(sent, (0..MAX_TOTAL / CUT_LENGTH).map(cut).collect::<Vec<_>>());
    }

    #[test]
    fn many_warnings_share_the_last_line() {
        let sent = lines((0..120).map(|n| format!("w{n}")));
        assert_eq!(sent.len(), MAX_LINES);
        assert_eq!(sent[MAX_LINES - 2], format!("299 - \"w{}\"", MAX_LINES - 2));
        let last: Vec<String> = (MAX_LINES - 1..120).map(|n| format!("299 - \"w{n}\"")).collect();
        assert_eq!(sent[MAX_LINES - 1], last.join(", "));
    }

    #[test]
    fn warnings_that_would_be_dropped_are_not_stored() {
        let warnings = Warnings::default();
        (0..50_000).for_each(|n| warnings.add(format!("unknown field \"u{n}\"")));
        let kept = warnings.0.lock().texts.len();
        assert!(kept < MAX_TOTAL / 10, "{kept}");
    }
}
