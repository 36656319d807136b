//! Syntax errors, compared with those of kube-apiserver.

use crate::cel::parser;

/// Expressions with their errors. Its first line describes its form.
const TABLE: &str = include_str!("syntax_errors.txt");
/// Tokens with which an expression begins.
const BEGIN: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

#[test]
fn syntax_errors_are_those_of_antlr() {
    let mut differences = Vec::new();
    for line in TABLE.lines().skip(1) {
        let mut parts = line.split('\t');
        let text = parts.next().unwrap_or_default();
        let expected: Vec<String> = parts.map(|error| error.replace("BEGIN", BEGIN)).collect();
        let issues = parser::parse(text).err().unwrap_or_default();
        let found: Vec<String> = issues
            .iter()
            .map(|issue| {
                let message = issue.message.strip_prefix("Syntax error: ").unwrap_or(&issue.message);
                format!("{} {message}", issue.at)
            })
            .collect();
        if found != expected {
            differences.push(format!("{text}\nexpected {expected:#?}\ngot      {found:#?}"));
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn errors_in_deep_expressions_end() {
    for text in
        ["(".repeat(5000), "/(".repeat(5000), "[1 2,".repeat(5000), "!".repeat(5000), "-".repeat(5000)]
    {
        assert!(!parser::parse(&text).unwrap_err().is_empty());
    }
}
