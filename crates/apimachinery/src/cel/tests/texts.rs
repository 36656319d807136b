//! Texts and patterns: values, errors and literals as in cel-go.

use super::{check, evaluated};
use crate::cel::program::INSTANTIATION;

/// Observed with cel-go 0.26.
#[test]
fn functions_of_texts_are_those_of_cel_go() {
    for (text, expected) in [
        ("string(1e6) == '1e+06' && string(100000.0) == '100000' && string(0.00001) == '1e-05'", "true"),
        (
            "'abc'.split('', 2) == ['a', 'bc'] && 'abc'.split('') == ['a', 'b', 'c'] && ''.split('') == []",
            "true",
        ),
        (
            "'abc'.split('', 0) == [] && 'abc'.split('', 9) == ['a', 'b', 'c'] && ''.split(',') == ['']",
            "true",
        ),
        ("'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'a,b,'.split(',') == ['a', 'b', '']", "true"),
        ("'abc'.indexOf('c', 9) == -1 && 'abc'.indexOf('', 9) == 9 && 'abc'.indexOf('c', 2) == 2", "true"),
        ("'abc'.lastIndexOf('c', 9) == -1 && 'abc'.lastIndexOf('a', 2) == 0", "true"),
        ("'abab'.lastIndexOf('ab', 1) == 0 && 'abab'.lastIndexOf('ab', 2) == 2", "true"),
        ("'abab'.lastIndexOf('ab', 3) == 2 && 'éa'.lastIndexOf('') == 2", "true"),
        ("'abc'.indexOf('a', -1) == 0", "index out of range: -1"),
        ("'abc'.lastIndexOf('a', -2) == 0", "index out of range: -2"),
        ("'abc'.charAt(3) == '' && 'äb'.charAt(1) == 'b'", "true"),
        ("'abc'.charAt(4) == ''", "index out of range: 4"),
        ("'abc'.substring(4) == ''", "index out of range: 4"),
        ("'abc'.substring(2, 9) == ''", "index out of range: 9"),
        ("'abc'.substring(2, 1) == ''", "invalid substring range. start: 2, end: 1"),
        ("dyn([1]).join() == ''", "join: invalid input: 1"),
    ] {
        check(text, expected);
    }
}

/// Observed with cel-go 0.26.
#[test]
fn conversions_are_those_of_cel_go() {
    for (text, expected) in [
        ("int(9.2e18) == 9200000000000000000 && int(-9.2233720368547748e18) == -9223372036854774784", "true"),
        ("int(9.3e18) == 0", "integer overflow"),
        ("int(-9223372036854775808.0) == 0", "integer overflow"),
        ("uint(-1) == 0u", "unsigned integer overflow"),
        ("uint(1.8446744073709550e19) == 18446744073709549568u", "true"),
        ("uint('+1') == 1u", "type conversion error from 'string' to 'uint'"),
        ("int('+1') == 1 && double('1e3') == 1000.0 && double('-Inf') < 0.0", "true"),
        ("double('1e400') > 0.0", "type conversion error from 'string' to 'double'"),
        ("bool('yes')", "type conversion error from 'string' to 'bool'"),
        (r"string(b'\xff') == ''", "invalid UTF-8 in bytes, cannot convert to string"),
    ] {
        // kube-apiserver computes constants when it compiles an expression.
        let prefix = if expected == "true" { "" } else { INSTANTIATION };
        check(text, &format!("{prefix}{expected}"));
    }
}

#[test]
fn patterns_have_the_syntax_of_go() {
    for (text, expected) in [
        (r"'٣'.matches('^\\d$')", "false"),
        ("'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1b22'.findAll('[0-9]+', 1) == ['1']", "true"),
        ("'a1b22'.find('[0-9]+$') == '22' && 'abc'.find('x') == '' && 'abc'.find('b') == 'b'", "true"),
        // An empty match right after another one does not count.
        (
            "'baab'.findAll('a*') == ['', 'aa', ''] && 'é'.findAll('') == ['', ''] && ''.findAll('x*') == ['']",
            "true",
        ),
        ("'abcabc'.findAll('abc|ab') == ['abc', 'abc'] && 'abab'.findAll('ab|abab') == ['ab', 'ab']", "true"),
        (r"'foo bar'.findAll('\\bb?') == ['', '', 'b', ''] && 'aXbX'.find('a.*?X') == 'aX'", "true"),
        (r"'é\U0001f600'.findAll('\\B') == ['', '', '']", "true"),
        ("'x'.matches(person.name + '(')", "error parsing regexp: missing closing ): `Zoë(`"),
        (
            "'x'.find(person.name + '(') == ''",
            "Illegal regex: error parsing regexp: missing closing ): `Zoë(`",
        ),
        ("'x'.matches(person.name + '(') || true", "true"),
    ] {
        check(text, expected);
    }
    let first_line = |text: &str| evaluated(text).lines().next().unwrap_or_default().to_owned();
    let issue = "compilation failed: ERROR: <input>:1:13: invalid matches argument";
    assert_eq!(first_line("'x'.matches('(')"), issue);
    let why = "program instantiation failed: error parsing regexp: missing closing ): `(`";
    assert_eq!(first_line("'x'.find('(') == ''"), why);
    assert_eq!(first_line("matches('x', '(')"), why);
}

/// Observed with cel-go 0.26.
#[test]
fn literals_and_commas_are_those_of_cel_go() {
    for text in [
        ".person.age == 30 && .size('ab') == 2 && .object.spec.replicas == 3",
        "[1,] == [1] && [,] == [] && {'a': 1,}.a == 1 && {,} == {}",
        "'''a\r\nb''' == 'a\\nb'",
        r"r'\d' == '\\d' && '\x41\u00e9\101' == 'AéA' && '\?\`' == '?`'",
        "-9223372036854775808 < 0 && - 9223372036854775808 < 0 && 0 - 9223372036854775807 < 0",
    ] {
        check(text, "true");
    }
    let first_line = |text: &str| evaluated(text).lines().next().unwrap_or_default().to_owned();
    for (text, expected) in [
        (
            "size('a',) == 1",
            "1:10: Syntax error: mismatched input ')' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', \
             NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        ),
        ("1 - 9223372036854775808 < 0", "1:5: invalid int literal"),
        ("9223372036854775808 > 0", "1:1: invalid int literal"),
        (r#""\x1" == """#, r#"1:1: Syntax error: token recognition error at: '"\x1"'"#),
        (r#""\x+1" == """#, r#"1:1: Syntax error: token recognition error at: '"\x+'"#),
        (r#""\q" == """#, r#"1:1: Syntax error: token recognition error at: '"\q'"#),
        (".nothing == 1", "1:2: undeclared reference to '.nothing' (in container '')"),
    ] {
        assert_eq!(first_line(text), format!("compilation failed: ERROR: <input>:{expected}"), "{text}");
    }
}
