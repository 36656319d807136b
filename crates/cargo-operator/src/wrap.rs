//! Lines that fit a terminal: broken between words, the rest below the text of the first line.

use terminal_size::Width;
use textwrap::{Options, WordSplitter, WrapAlgorithm};

/// Indent of the rest of a line that begins at the left edge.
const INDENT: usize = 4;

/// Breaks lines at the width of a terminal; leaves them as they are without one.
pub(crate) fn fit(text: &str, width: Option<Width>) -> String {
    let Some(Width(width)) = width else { return text.to_owned() };
    let width = usize::from(width);
    let fitting = text.split('\n').map(|line| {
        let column = text_column(line);
        // One word, such as an address, is longer than a line or fits.
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

/// Column of the text of a line, which is behind the first word if the line is indented: `  next     the step`.
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
