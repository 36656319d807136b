//! Wraps text to the width of a terminal. Continuation lines are aligned with the text of the first line.

use terminal_size::Width;
use textwrap::{Options, WordSplitter, WrapAlgorithm};

/// Indentation of the continuation of a line that begins at the left edge.
const INDENT: usize = 4;

/// Wraps lines at the width of the terminal. Without a terminal, lines stay as they are.
pub(crate) fn fit(text: &str, width: Option<Width>) -> String {
    let Some(Width(width)) = width else { return text.to_owned() };
    let width = usize::from(width);
    let fitting = text.split('\n').map(|line| {
        let column = text_column(line);
        // A single word, such as an address, cannot be wrapped.
        if !line.chars().skip(column).any(|character| character == ' ') {
            return line.to_owned();
        }
        let indent = " ".repeat(column.min(width / 2));
        let options = Options::new(width)
            .subsequent_indent(&indent)
            .word_splitter(WordSplitter::NoHyphenation)
            .wrap_algorithm(WrapAlgorithm::FirstFit)
            .break_words(false);
        textwrap::fill(line, options)
    });
    fitting.collect::<Vec<_>>().join("\n")
}

/// Column in which the text of a line begins: after the first word if the line is indented, as in `  next     the step`.
fn text_column(line: &str) -> usize {
    let word = line.trim_start_matches(' ');
    if word.len() == line.len() {
        return INDENT;
    }
    let text = word.trim_start_matches(|character| character != ' ').trim_start_matches(' ');
    line.chars().count() - text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_go_on_below_their_text() {
        let text = "guestbook, with controller-runtime 0.1.0\n  next     check its name and namespace\n   Installed short";
        let expected = "guestbook, with\n    controller-runtime\n    0.1.0\n  next     check its\n           name and\n           namespace\n   Installed short";
        assert_eq!(fit(text, Some(Width(22))), expected);
        assert_eq!(fit(text, None), text);
    }

    /// An address of the user's is copied in one piece.
    #[test]
    fn words_longer_than_a_line_stay_whole() {
        let text = "     Explain http://127.0.0.1:39021/explain/#token=5f0c";
        assert_eq!(fit(text, Some(Width(30))), text);
    }
}
