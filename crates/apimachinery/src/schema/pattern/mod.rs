//! Regular expressions of schemas and of CEL expressions, with the syntax of Go's `regexp`.
//!
//! Definitions come from clients, and a few characters can describe an automaton of gigabytes. Therefore a pattern is only parsed with its
//! definition, which finds every error. It is compiled when it is first matched; until then its size is estimated from its syntax.
//!
//! Bounds for the distinct patterns of one schema: [`TEXT`] bytes of source, and [`SIZE`] bytes of automata with at most [`LARGEST`] for
//! one. A pattern beyond the bounds is accepted, as by kube-apiserver, but not checked, and the response has a warning. All matches of an
//! object share a [`Budget`]; an object that needs more is refused.

mod automaton;
mod refusal;
mod size;
mod translate;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use regex_syntax::ast::ErrorKind;
use regex_syntax::hir::HirKind;

use automaton::Automaton;
pub(crate) use automaton::{Budget, Exhausted};
use translate::translate;

/// Maximum size of all pattern sources that are parsed, in bytes. Parsing them takes about 20 ms.
const TEXT: usize = 128 << 10;
/// Maximum estimated size of all automata, in bytes. Compiling them takes about 25 ms.
const SIZE: usize = 1 << 20;
/// Maximum estimated size of one automaton, in bytes.
const LARGEST: usize = 512 << 10;
/// Maximum size of a compiled automaton, in bytes. It leaves room for an estimate that is too low.
const COMPILED: usize = 10 * LARGEST;

/// A regular expression.
#[derive(Debug)]
pub(crate) struct Pattern {
    source: String,
    translated: String,
    /// The text to search for, if the pattern has no special characters. Such a text is found without an automaton, which would take
    /// quadratic time for `aaa…`.
    literal: Option<String>,
    /// Compiled at the first match; `None` if that fails.
    automaton: OnceLock<Option<Automaton>>,
    /// Like `automaton`, for the starts of matches.
    reversed: OnceLock<Option<Automaton>>,
    /// Estimated size of the automaton in bytes.
    size: usize,
}

/// Result of matching a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Match {
    Yes,
    No,
    /// The budget was exhausted before the result was known.
    Unknown,
}

impl Pattern {
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Returns the estimated size of the automaton in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Whether the pattern occurs in `text`.
    pub(super) fn matches(&self, text: &str, budget: &Budget) -> Match {
        match self.is_match(text, budget) {
            Ok(true) => Match::Yes,
            Ok(false) => Match::No,
            Err(Exhausted) => Match::Unknown,
        }
    }

    /// Whether the pattern occurs in `text`.
    pub(crate) fn is_match(&self, text: &str, budget: &Budget) -> Result<bool, Exhausted> {
        if let Some(literal) = &self.literal {
            return Ok(text.contains(literal.as_str()));
        }
        // Compiling fails only if the estimate is far too low.
        self.automaton().map_or(Ok(true), |automaton| automaton.matches(text, budget))
    }

    fn automaton(&self) -> Option<&Automaton> {
        self.automaton.get_or_init(|| Automaton::new(&self.translated, COMPILED)).as_ref()
    }

    /// Returns the first match that begins at or after `from`, the offset of a character.
    pub(crate) fn find_at(
        &self,
        text: &str,
        mut from: usize,
        budget: &Budget,
    ) -> Result<Option<Range<usize>>, Exhausted> {
        if let Some(literal) = &self.literal {
            let start = text[from..].find(literal.as_str()).map(|at| from + at);
            return Ok(start.map(|start| start..start + literal.len()));
        }
        let reversed = self.reversed.get_or_init(|| Automaton::reversed(&self.translated, COMPILED));
        let (Some(automaton), Some(reversed)) = (self.automaton(), reversed) else { return Err(Exhausted) };
        while let Some(end) = automaton.end_of_match(text, from, budget)? {
            let start = reversed.start_of_match(text, from, end, budget)?.unwrap_or(end);
            if text.is_char_boundary(start) && text.is_char_boundary(end) {
                return Ok(Some(start..end));
            }
            // The automaton reads bytes, and finds empty matches inside of a character too.
            from = end + 1;
        }
        Ok(None)
    }
}

/// Distinct patterns of a schema, within the bounds.
#[derive(Debug)]
pub(crate) struct Patterns {
    known: BTreeMap<String, Option<Arc<Pattern>>>,
    text: usize,
    size: usize,
}

impl Default for Patterns {
    fn default() -> Self {
        Self { known: BTreeMap::new(), text: TEXT, size: SIZE }
    }
}

impl Patterns {
    /// Returns the pattern with this source; `None` if it exceeds the bounds.
    ///
    /// # Errors
    /// Go's message for an invalid pattern.
    pub(crate) fn get(&mut self, source: &str) -> Result<Option<Arc<Pattern>>, String> {
        // A source counts once towards the bounds, however often the schema has it.
        if let Some(known) = self.known.get(source) {
            return Ok(known.clone());
        }
        let pattern = self.parse(source)?.map(Arc::new);
        self.known.insert(source.to_owned(), pattern.clone());
        Ok(pattern)
    }

    fn parse(&mut self, source: &str) -> Result<Option<Pattern>, String> {
        let Some(text) = self.text.checked_sub(source.len()) else {
            return Ok(None);
        };
        self.text = text;
        let translation = translate(source);
        let ast = match regex_syntax::ast::parse::Parser::new().parse(&translation.text) {
            Ok(ast) => ast,
            // Go allows four times the nesting of this parser.
            Err(error) if matches!(error.kind(), ErrorKind::NestLimitExceeded(_)) => return Ok(None),
            Err(error) => return Err(refusal::of_syntax(&error, source, &translation)),
        };
        // Repetitions are checked before the size, so that an invalid pattern beyond the bounds is still refused.
        refusal::of_repetition(&ast, source, &translation)?;
        let size = size::of(&ast);
        let Some(left) = self.size.checked_sub(size).filter(|_| size <= LARGEST) else {
            return Ok(None);
        };
        self.size = left;
        // The translation finds unknown Unicode classes.
        let hir = regex_syntax::hir::translate::Translator::new()
            .translate(&translation.text, &ast)
            .map_err(|error| refusal::of_meaning(&error, source, &translation))?;
        let literal = match hir.kind() {
            HirKind::Literal(literal) => String::from_utf8(literal.0.to_vec()).ok(),
            _ => None,
        };
        Ok(Some(Pattern {
            source: source.to_owned(),
            translated: translation.text,
            literal,
            automaton: OnceLock::new(),
            reversed: OnceLock::new(),
            size,
        }))
    }

    /// Returns a pattern that exceeds the bounds, if there is one.
    pub(super) fn unchecked(&self) -> Option<&str> {
        self.known.iter().find(|(_, pattern)| pattern.is_none()).map(|(source, _)| source.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(source: &str) -> Arc<Pattern> {
        Patterns::default().get(source).unwrap().unwrap()
    }

    /// Matches with a budget of its own.
    fn matches(pattern: &Pattern, text: &str) -> Match {
        pattern.matches(text, &Budget::default())
    }

    #[track_caller]
    fn check(source: &str, good: &[&str], bad: &[&str]) {
        let pattern = pattern(source);
        for text in good {
            assert_eq!(matches(&pattern, text), Match::Yes, "{source} should match {text}");
        }
        for text in bad {
            assert_eq!(matches(&pattern, text), Match::No, "{source} should not match {text}");
        }
    }

    #[test]
    fn classes_are_about_ascii() {
        check(r"^\d+$", &["12"], &["١٢", ""]);
        check(r"^[\w.-]+$", &["a_b.c-d"], &["ä"]);
        check(r"^\S+$", &["ä"], &["a b"]);
        check(r"^[^\s]+$", &["ä"], &["a b"]);
        check(r"\bx\b", &["a x b", "äxä"], &["axb"]);
    }

    #[test]
    fn characters_special_only_to_the_regex_crate_are_literals() {
        check(r"^a{,5}$", &["a{,5}"], &["aaa"]);
        check(r"^a{2,3}$", &["aa"], &["a"]);
        check(r"^\{a}$", &["{a}"], &["a"]);
        check(r"^[[&&~]+$", &["[&~"], &["a"]);
        check(r"^[]a]+$", &["]a"], &["b"]);
        check(r"^[^]a]+$", &["b"], &["]"]);
        check(r"^[[:alpha:]_]+$", &["ab_"], &["1"]);
        check(r"^(?i)abc$", &["ABC"], &["abd"]);
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn invalid_patterns_are_refused_with_gos_message() {
        for (source, why) in [
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("x[a", "missing closing ]: `[a`"),
            ("é|{2}", "missing argument to repetition operator: `{2}`"),
            ("é|*?", "missing argument to repetition operator: `*?`"),
            ("+a", "missing argument to repetition operator: `+`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(a{100}){11}", "invalid repeat count: `{11}`"),
            ("a{3,2}", "invalid repeat count: `{3,2}`"),
            (r"\y", r"invalid escape sequence: `\y`"),
            (r"(a)\1", r"invalid escape sequence: `\1`"),
            ("a\\", "trailing backslash at end of expression: ``"),
            ("[z-a]", "invalid character class range: `z-a`"),
            (r"\p{Nope}", r"invalid character class range: `\p{Nope}`"),
            (r"[\y]", r"invalid escape sequence: `\y`"),
            ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
            ("a+?*", "invalid nested repetition operator: `+?*`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?z)a", "invalid or unsupported Perl syntax: `(?z`"),
            ("(?<!a)", "invalid named capture: `(?<!a)`"),
            ("(?P<n", "invalid named capture: `(?P<n`"),
        ] {
            let error = Patterns::default().get(source).unwrap_err();
            assert_eq!(error, format!("error parsing regexp: {why}"), "{source}");
        }
    }

    #[test]
    fn patterns_that_go_accepts_are_accepted() {
        check(r"^\p{Greek}\PL\x{3b1}$", &["\u{3b1}1\u{3b1}"], &["a1a"]);
        check(r"^\Qa.b\E$", &["a.b"], &["axb"]);
        check(r"^(a{2}){3}$", &["aaaaaa"], &["aa"]);
        for odd in ["a{,5}", "^*", "$+", r"\bq{0}", "(?i)(?s).*"] {
            pattern(odd);
        }
        let deep = format!("{}a{}", "(".repeat(300), ")".repeat(300));
        assert!(Patterns::default().get(&deep).unwrap().is_none(), "accepted, and not checked");
    }

    /// Rule of `repeatIsValid` in Go's `regexp/syntax/parse.go`.
    #[test]
    fn repetitions_inside_of_a_part_that_never_occurs_do_not_count() {
        check(r"^((a{1000}){0}b){2}$", &["bb"], &["ab", "b"]);
        assert!(Patterns::default().get(r"((a{1000}){0,0}b){1000}").is_ok());
        for (source, count) in [("((a{1000}){0,}b){2}", "{2}"), ("((a{1001}){0}b){2}", "{1001}")] {
            let error = Patterns::default().get(source).unwrap_err();
            assert_eq!(error, format!("error parsing regexp: invalid repeat count: `{count}`"), "{source}");
        }
    }

    #[test]
    fn a_pattern_beyond_the_bounds_is_not_checked_and_the_others_are() {
        let mut patterns = Patterns::default();
        assert!(patterns.get(r"(\pL{50}){20}").unwrap().is_none(), "its automaton has 16 MB");
        assert_eq!(patterns.unchecked(), Some(r"(\pL{50}){20}"));
        assert!(patterns.get(&"a".repeat(TEXT)).unwrap().is_none());
        let small = patterns.get("^[a-z]{1,253}$").unwrap().unwrap();
        assert_eq!((matches(&small, "abc"), matches(&small, "ABC")), (Match::Yes, Match::No));
        // Each pattern is small enough, but all together are not.
        let many = (0..100).filter(|n| patterns.get(&format!(r"\pL{n}{{10}}")).unwrap().is_some()).count();
        assert!((1..100).contains(&many), "{many}");
        // A known pattern is not counted again.
        assert!(patterns.get("^[a-z]{1,253}$").unwrap().is_some());
    }

    #[test]
    fn octal_escapes_repeated_names_and_dashes_are_those_of_go() {
        check(r"^\07\101$", &["\u{7}A"], &["0"]);
        check(r"^[\60-\62]$", &["1"], &["3"]);
        check(r"^(?P<a>x)(?<a>y)$", &["xy"], &["x"]);
        check(r"^[+--]$", &["+", ",", "-"], &["."]);
        check(r"^[--0]$", &["-", ".", "0"], &["1"]);
        assert!(Patterns::default().get("[a--b]").is_err());
        assert!(Patterns::default().get(r"\1").is_err());
    }

    #[test]
    fn a_long_plain_text_is_found_in_linear_time() {
        let long = pattern(&"a".repeat(4000));
        // An automaton would need too many steps.
        assert_eq!(matches(&long, &"a".repeat(1 << 20)), Match::Yes);
        assert_eq!(matches(&long, &"ab".repeat(1 << 19)), Match::No);
        assert_eq!(matches(&pattern("^.{1,1000}$"), &"é".repeat(1000)), Match::Yes);
    }

    #[test]
    fn usual_patterns_are_matched_with_the_largest_texts_that_fit_into_a_body() {
        let largest = 3 << 20;
        for source in ["^[a-z]*$", r"^[a-z]([-a-z]*[a-z])?(\.[a-z]+)*$", r"^\pL+$", "[0-9]{3}|^a", "(?i)A$"] {
            assert_eq!(matches(&pattern(source), &"a".repeat(largest)), Match::Yes, "{source}");
        }
        let certificate = pattern(r"^-----BEGIN CERTIFICATE-----[\s\S]+-----END CERTIFICATE-----\s*$");
        let body = "MIIB+x/Q4c\n".repeat(200_000);
        let text = format!("-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n");
        assert_eq!((matches(&certificate, &text), matches(&certificate, &body)), (Match::Yes, Match::No));
    }

    #[test]
    fn a_pattern_that_needs_a_new_transition_for_each_character_uses_up_its_budget() {
        for (source, last) in [
            ("^(a?){1000}a{1000}$", "a"),
            ("^(?:[ab]?){1000}(?:[ac]?){1000}[ad]*[de]$", "d"),
            ("^[ab]*a[ab]{60}[ab]*[cd]$", "c"),
            ("a[ab]{150}[cd]", "a"),
        ] {
            let pattern = pattern(source);
            let mut random = fastrand::Rng::with_seed(1);
            let mixed: String = (0..300_000).map(|_| random.choice(["a", "b"]).unwrap()).collect();
            let texts = ["a".repeat(1999) + last, mixed + last];
            assert!(texts.iter().any(|text| matches(&pattern, text) == Match::Unknown), "{source}");
            // A second attempt has the same result.
            let attempt = || texts.each_ref().map(|text| matches(&pattern, text));
            assert_eq!(attempt(), attempt(), "{source}");
            assert_ne!(matches(&pattern, &"a".repeat(100)), Match::Unknown, "{source}");
        }
    }

    #[test]
    fn the_texts_of_an_object_share_a_budget() {
        let pattern = pattern("^[ab]*a[ab]{20}[ab]*[cd]$");
        let budget = Budget::default();
        let mut random = fastrand::Rng::with_seed(1);
        let mut text = || -> String { (0..1000).map(|_| random.choice(["a", "b"]).unwrap()).collect() };
        assert_eq!(pattern.matches(&text(), &budget), Match::No);
        assert!((0..1000).any(|_| pattern.matches(&text(), &budget) == Match::Unknown));
        assert_eq!(matches(&pattern, &text()), Match::No, "another object has its own");
    }

    proptest! {
        #[test]
        fn no_pattern_makes_it_panic(
            source in r"[\\\[\]{}()^$a-c\-&~:,0-9wdspPLä.*+?|]{0,12}", text in "[a-cä{}]{0,4}",
        ) {
            if let Ok(Some(pattern)) = Patterns::default().get(&source) {
                let compiled = regex::Regex::new(&pattern.translated);
                prop_assert!(compiled.is_ok(), "{} does not compile", source);
                let expected = if compiled.unwrap().is_match(&text) { Match::Yes } else { Match::No };
                // Twice: first with new transitions, then with remembered ones.
                prop_assert_eq!([matches(&pattern, &text), matches(&pattern, &text)], [expected; 2]);
            }
        }
    }
}
