//! Token files: kube-apiserver's `--token-auth-file`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{Tokens, UserInfo};

/// Reason why a token file is refused. Messages never contain tokens.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InvalidTokenFile {
    /// The file cannot be read.
    #[error("token file {} cannot be read", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file has no line with a user.
    #[error("token file {} has no tokens: write lines of token,user,uid,\"group1,group2\"", .0.display())]
    Empty(PathBuf),
    /// A line is invalid.
    #[error("token file {}: line {line}: {problem}", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line number, counted from 1.
        line: u64,
        /// The problem and the remedy.
        problem: String,
    },
}

impl Tokens {
    /// Reads a file of comma-separated values: token, user name, user UID, and optionally groups, in quotes if there are several. Empty
    /// lines are skipped.
    ///
    /// The format is kube-apiserver's, parsed more strictly. A fifth column (groups without quotes), an empty token and a repeated token
    /// are errors here. kube-apiserver then ignores all groups but the first, the line, or the first user.
    ///
    /// # Errors
    /// [`InvalidTokenFile`] names the file and the line.
    pub fn from_file(path: &Path) -> Result<Self, InvalidTokenFile> {
        let read = |source| InvalidTokenFile::Read { path: path.to_owned(), source };
        let text = std::fs::read(path).map_err(read)?;
        match parse(&text) {
            Ok(tokens) if tokens.users.is_empty() => Err(InvalidTokenFile::Empty(path.to_owned())),
            Ok(tokens) => Ok(tokens),
            Err((line, problem)) => Err(InvalidTokenFile::Line { path: path.to_owned(), line, problem }),
        }
    }
}

/// Parses the tokens of a text. The error is the number of the invalid line, and the problem.
fn parse(text: &[u8]) -> Result<Tokens, (u64, String)> {
    // Flexible, because groups are optional: lines have three or four columns.
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text);
    let mut tokens = Tokens::default();
    let mut lines = BTreeMap::new();
    let mut record = csv::StringRecord::new();
    loop {
        let line = reader.position().line();
        match reader.read_record(&mut record) {
            Ok(true) => {}
            Ok(false) => return Ok(tokens),
            Err(error) => {
                let line = error.position().map_or(line, csv::Position::line);
                return Err((line, "is not UTF-8".to_owned()));
            }
        }
        let line = record.position().map_or(line, |start| first_line(text, start));
        let (token, user) = user(&record).map_err(|problem| (line, problem))?;
        if let Some(first) = lines.insert(token.clone(), line) {
            return Err((
                line,
                format!("has the token of line {first} again: give each user one of their own"),
            ));
        }
        tokens.insert(&token, user);
    }
}

/// Returns the line of a record. The parser reports the position before the empty lines that precede the record.
fn first_line(text: &[u8], start: &csv::Position) -> u64 {
    let rest = usize::try_from(start.byte()).ok().and_then(|start| text.get(start..)).unwrap_or_default();
    let empty = rest.iter().take_while(|byte| b"\r\n".contains(byte)).filter(|byte| **byte == b'\n');
    start.line() + empty.count() as u64
}

fn user(record: &csv::StringRecord) -> Result<(String, UserInfo), String> {
    let columns: Vec<&str> = record.iter().collect();
    let (token, name, uid, groups) = match *columns.as_slice() {
        [token, name, uid] => (token, name, uid, ""),
        [token, name, uid, groups] => (token, name, uid, groups),
        ref columns if columns.len() < 3 => {
            let found = columns.len();
            return Err(format!("must have at least 3 columns (token, user name, user uid), found {found}"));
        }
        ref columns => {
            let found = columns.len();
            return Err(format!("has {found} columns instead of 4: put groups in quotes, \"group1,group2\""));
        }
    };
    if token.is_empty() {
        return Err("has an empty token".to_owned());
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(
            "has a token that cannot be sent in a header: use letters, digits and punctuation".to_owned()
        );
    }
    if name.is_empty() {
        return Err("has an empty user name".to_owned());
    }
    let groups = groups.split(',').filter(|group| !group.is_empty());
    Ok((token.to_owned(), UserInfo::new(name, uid, groups)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[expect(clippy::needless_pass_by_value, reason = "`expect!` returns values")]
    fn check(text: &str, expected: Expect) {
        let shown = match parse(text.as_bytes()) {
            Ok(tokens) => {
                let known = |token: &str| {
                    let user = tokens.user(token)?;
                    Some(format!("{token}: {} {} {}", user.name, user.uid, user.groups.join("+")))
                };
                let users: Vec<String> =
                    text.lines().filter_map(|line| known(line.split(',').next()?)).collect();
                format!("{}; preferred {}", users.join("; "), tokens.preferred().unwrap_or("none"))
            }
            Err((line, problem)) => format!("line {line}: {problem}"),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn each_line_is_a_user() {
        check("t,jane,u1", expect!["t: jane u1 system:authenticated; preferred t"]);
        check(
            "t,jane,u1,devs\n\nq,\"Bob \"\"B\"\"\",,\"system:masters,ops\"\r\nz,root,,system:masters\n",
            expect![
                "t: jane u1 devs+system:authenticated; q: Bob \"B\"  system:masters+ops+system:authenticated; z: root  system:masters+system:authenticated; preferred q"
            ],
        );
        check("", expect!["; preferred none"]);
    }

    #[test]
    fn invalid_lines_are_named_with_their_problem() {
        check(
            "t,jane,u1\n\n\nx,bob\n",
            expect!["line 4: must have at least 3 columns (token, user name, user uid), found 2"],
        );
        check(
            "t,jane,u1,devs,ops",
            expect!["line 1: has 5 columns instead of 4: put groups in quotes, \"group1,group2\""],
        );
        check("t,jane,u1\n,bob,u2", expect!["line 2: has an empty token"]);
        check("t,,u1", expect!["line 1: has an empty user name"]);
        check(
            "t t,jane,u1",
            expect![
                "line 1: has a token that cannot be sent in a header: use letters, digits and punctuation"
            ],
        );
        check(
            "a,b,c\nt,jane,u1\nt,bob,u2",
            expect!["line 3: has the token of line 2 again: give each user one of their own"],
        );
        let bad = parse(b"a,b,c\nt,\xff,u").map(|_| ()).unwrap_err();
        assert_eq!(bad, (2, "is not UTF-8".to_owned()));
    }

    #[test]
    fn a_file_without_tokens_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.csv");
        let absent = Tokens::from_file(&path).unwrap_err();
        assert_eq!(absent.to_string(), format!("token file {} cannot be read", path.display()));
        std::fs::write(&path, "\n").unwrap();
        assert!(matches!(Tokens::from_file(&path), Err(InvalidTokenFile::Empty(_))));
    }
}
