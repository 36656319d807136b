//! Conditions with their values and errors.

mod cost_estimates;
mod costs;
mod custom_rules;
mod library;
mod policies;
mod syntax_errors;
mod texts;

use proptest::prelude::*;
use serde_json::json;

use super::issue::Issue;
use super::*;

static PERSON: ObjectType = ObjectType {
    name: "test.Person",
    field: |name| match name {
        "name" => Some(Type::String),
        "age" => Some(Type::Int),
        "tags" => Some(Type::List(Box::new(Type::String))),
        _ => None,
    },
};

fn environment() -> Environment {
    Environment::new(vec![
        ("object", Type::Dyn),
        ("person", Type::Object(&PERSON)),
        ("authorizer", Type::Object(&AUTHORIZER)),
    ])
}

/// Returns the value of a condition, or the error of its compilation or evaluation.
fn evaluated(text: &str) -> String {
    let program = match Program::condition(text, &environment()) {
        Ok(program) => program,
        Err(why) => return why,
    };
    let object = json!({
        "metadata": {"name": "web", "labels": {"app": "web"}}, "spec": {"replicas": 3, "list": ["a", "b"], "half": 0.5},
        "none": null,
    });
    let person = json!({"name": "Zoë", "age": 30, "tags": ["x"]});
    let authorizer = |query: &AccessQuery| AuthorizerDecision {
        allowed: query.verb == "get" && query.resource == "deployments",
        reason: "why not".to_owned(),
    };
    let variables = vec![("object", &object), ("person", &person)];
    let activation = Activation {
        variables,
        composition: None,
        authorizer: Some(&authorizer),
        request_resource: AccessQuery::default(),
    };
    match program.holds(&activation, &mut MATCH_CONDITIONS_BUDGET.clone()) {
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    }
}

fn check(text: &str, expected: &str) {
    assert_eq!(evaluated(text), expected, "{text}");
}

#[test]
fn conditions_have_values() {
    for text in [
        "object.metadata.name == 'web'",
        "object.metadata.name.startsWith('w') && object.metadata.name.size() == 3",
        "object.spec.replicas > 2 && object.spec.replicas <= 3.0 && object.spec.replicas + 1 == 4",
        "object.spec.half < 1",
        "object.none == null && object != null",
        "has(object.metadata.labels) && !has(object.metadata.annotations) && !has(object.none.deeper)",
        "'app' in object.metadata.labels && !('x' in object.metadata.labels) && 'a' in object.spec.list",
        "object.spec.list.all(x, x in ['a', 'b', 'c']) && object.spec.list.exists(x, x == 'b')",
        "object.spec.list.exists_one(x, x == 'a') && [1, 2, 3].filter(x, x % 2 == 1) == [1, 3]",
        "[1, 2].map(x, x * 2) == [2, 4] && [1, 2].map(x, x > 1, x * 2) == [4]",
        "object.metadata.labels.all(key, key.matches('^[a-z]+$'))",
        "object.metadata.labels['app'] == \"web\" && object.spec.list[1] == r'b'",
        "person.name.size() == 3 && person.age == 30 && person.tags[0] == 'x'",
        "{'a': 1}.a == 1 && {'a': 1} == {'a': 1} && size({'a': 1}) == 1",
        "(true ? 1 : 2) == 1 && -(-1) == 1 && !!true && 0x10 == 16 && 1u == 1u && 1e3 == 1000.0",
        "'a,b'.split(',').join('-') == 'a-b' && ' X '.trim().lowerAscii() == 'x' && 'abc'.substring(1, 2) == 'b'",
        "'hallo'.indexOf('l') == 2 && 'hallo'.replace('l', 'r') == 'harro' && 'ab1'.find('[0-9]') == '1'",
        "[3, 1].min() == 1 && [3, 1].max() == 3 && [1, 2].sum() == 3 && ![3, 1].isSorted()",
        "int('5') == 5 && string(5) == '5' && double(1) == 1.0 && bool('true') && type(1) == int",
        "object.missing == 1 || true",
        "!(object.missing == 1 && false)",
        "object.spec.list.exists(x, x.missing || x == 'b')",
        "authorizer.group('apps').resource('deployments').check('get').allowed()",
        "authorizer.group('apps').resource('deployments').check('get').reason() == 'why not'",
        "\n// a comment\ntrue",
        "-9223372036854775808 < 0",
    ] {
        check(text, "true");
    }
}

#[test]
fn errors_of_an_evaluation_are_those_of_cel_go() {
    check("object.metadata.annotations['missing'] == 'x'", "no such key: annotations");
    check("object.metadata.labels['missing'] == 'x'", "no such key: missing");
    check("object.none.deeper == 1", "no such key: deeper");
    check("object.spec.list[7] == 'x'", "index out of bounds: 7");
    check("1 / 0 == 1", "division by zero");
    check("object.metadata.name + 1 == 2", "no such overload");
    check("object.spec.replicas", "must evaluate to bool but got dyn");
    check("'a' + object.spec.replicas", "must evaluate to bool but got string");
    check("null", "must evaluate to bool but got null_type");
    check("authorizer.group('').resource('pods').check('get').allowed()", "false");
}

#[test]
fn errors_of_a_compilation_show_their_place() {
    check(
        "object.metadata.name ==",
        "compilation failed: ERROR: <input>:1:24: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', \
         '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | object.metadata.name \
         ==\n | .......................^",
    );
    check(
        "nosuchvariable == 1",
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nosuchvariable' (in container '')\n | \
         nosuchvariable == 1\n | ^",
    );
    check(
        "person.name == 5",
        "compilation failed: ERROR: <input>:1:13: found no matching overload for '_==_' applied to '(string, int)'\n | \
         person.name == 5\n | ............^",
    );
    let first_line = |text: &str| evaluated(text).lines().next().unwrap_or_default().to_owned();
    for (text, expected) in [
        ("person.size == 1", "1:7: undefined field 'size'"),
        ("person.name.first == 1", "1:12: type 'string' does not support field selection"),
        (
            "person.name.startsWith(1)",
            "1:23: found no matching overload for 'startsWith' applied to 'string.(int)'",
        ),
        ("person.age && true", "1:7: expected type 'bool' but found 'int'"),
        (
            "quantity('1') == 1",
            "1:15: found no matching overload for '_==_' applied to '(kubernetes.Quantity, int)'",
        ),
        ("startsWith('a')", "1:11: found no matching overload for 'startsWith' applied to '(string)'"),
        ("duration('x') > duration('1h')", "1:10: invalid duration argument"),
        ("timestamp('x') > timestamp('y')", "1:11: invalid timestamp argument"),
        ("[1, 'a'].size() == 1 && person.size", "1:31: undefined field 'size'"),
        ("nothing(1)", "1:8: undeclared reference to 'nothing' (in container '')"),
        ("true true", "1:6: Syntax error: extraneous input 'true' expecting <EOF>"),
        ("(true", "1:6: Syntax error: missing ')' at '<EOF>'"),
        ("true $", "1:6: Syntax error: token recognition error at: '$'"),
        ("[1, 'a'].size() == 2", "1:5: expected type 'int' but found 'string'"),
        ("{'a': 1, 'b': 'x'}.a == 1", "1:15: expected type 'int' but found 'string'"),
        ("'a' + object.x == 1", "1:16: found no matching overload for '_==_' applied to '(string, int)'"),
        ("object.x in [1, 2,", "1:19: Syntax error: missing ']' at '<EOF>'"),
        ("authorizer.foo", "1:11: unexpected failed resolution of 'kubernetes.authorization.Authorizer'"),
        (
            "has(authorizer.requestResource)",
            "1:4: unexpected failed resolution of 'kubernetes.authorization.Authorizer'",
        ),
        ("has(person)", "1:5: invalid argument to has() macro"),
    ] {
        assert_eq!(first_line(text), format!("compilation failed: ERROR: <input>:{expected}"), "{text}");
    }
}

#[test]
fn deep_expressions_are_refused() {
    for text in [
        format!("{}true{}", "(".repeat(5_000), ")".repeat(5_000)),
        format!("{}true", "!(".repeat(5_000)),
        format!("1{} == 1", " + 1".repeat(5_000)),
        format!("object{}", ".a".repeat(5_000)),
        format!("{}true", "true ? true : ".repeat(5_000)),
        format!("{}1{} == []", "[".repeat(5_000), "]".repeat(5_000)),
    ] {
        let why = Program::condition(&text, &environment()).unwrap_err();
        assert!(why.contains("expression recursion limit exceeded"), "{}", &why[..200.min(why.len())]);
    }
    let wide = format!("{}true", "true && ".repeat(5_000));
    assert!(Program::condition(&wide, &environment()).is_ok());
}

proptest! {
    #[test]
    fn no_text_makes_the_compiler_panic(text in "[a-z0-9'\"()\\[\\]{}.,:?!=<>&|+*/% é\\\\-]{0,40}") {
        let _ = evaluated(&text);
    }

    #[test]
    fn no_expression_makes_the_evaluation_panic(parts in prop::collection::vec(
        prop::sample::select(vec![
            "object", ".metadata", ".spec.list", "[0]", "['app']", " == ", " + ", " - ", " && ", " || ", " in ", "1", "'a'",
            "null", "true", ".size()", ".all(x, ", "x", ")", "(", "!", "-", "person.age", " % ", " / ", "0",
        ]),
        0..12,
    )) {
        let _ = evaluated(&parts.concat());
    }
}

/// Error of kube-apiserver v1.36.3.
#[test]
fn marks_below_wide_characters_are_wide() {
    let issue = Issue::new(3, "x");
    assert_eq!(issue.shown("Ünï"), "ERROR: <input>:1:3: x\n | Ünï\n | \u{ff0e}.\u{ff3e}");
    assert_eq!(issue.shown("a b"), "ERROR: <input>:1:4: x\n | a b\n | ...^");
}
