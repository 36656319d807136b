//! Errors of a compilation.

/// An error at a place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issue {
    /// Offset in bytes.
    pub(super) at: usize,
    pub(super) message: String,
}

impl Issue {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }

    /// Returns the message with its place and the line.
    pub(super) fn shown(&self, text: &str) -> String {
        // For an empty text cel-go shows column 0 and no line.
        if text.is_empty() {
            return format!("ERROR: <input>:1:0: {}", self.message);
        }
        let before = &text[..self.at.min(text.len())];
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        let shown = text.split('\n').nth(line).unwrap_or_default().replace('\t', " ");
        // As in Go's library, marks below characters outside of ASCII have full width.
        let mut marks: String =
            shown.chars().take(column).map(|c| if c.is_ascii() { '.' } else { '\u{ff0e}' }).collect();
        let is_wide = shown.chars().nth(column).is_some_and(|c| !c.is_ascii());
        marks.push(if is_wide { '\u{ff3e}' } else { '^' });
        format!("ERROR: <input>:{}:{}: {}\n | {shown}\n | {marks}", line + 1, column + 1, self.message)
    }
}

/// Returns kube-apiserver's text for an expression with errors.
pub(super) fn compilation_failure(text: &str, issues: &[Issue]) -> String {
    let issues: Vec<String> = issues.iter().map(|issue| issue.shown(text)).collect();
    format!("compilation failed: {}", issues.join("\n"))
}
