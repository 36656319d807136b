//! Costs of expressions, and their limit.

use serde_json::{Value, json};

use super::super::*;
use super::environment;

/// Evaluates a condition about `object`, and returns its result and cost.
fn cost(text: &str, object: &Value) -> (Result<bool, EvaluationError>, u64) {
    let program = Program::condition(text, &environment()).unwrap_or_else(|why| panic!("{text}: {why}"));
    let mut budget = MATCH_CONDITIONS_BUDGET;
    let result = holds(&program, object, &mut budget);
    (result, MATCH_CONDITIONS_BUDGET - budget)
}

fn holds(program: &Program, object: &Value, budget: &mut u64) -> Result<bool, EvaluationError> {
    let activation = Activation {
        variables: vec![("object", object)],
        composition: None,
        authorizer: Some(&|_| AuthorizerDecision::default()),
        request_resource: AccessQuery::default(),
    };
    program.holds(&activation, budget)
}

/// A thousand values that take long to compare, and long texts.
fn large() -> Value {
    let one = |n: usize| json!({"name": format!("n{n}"), "list": [n, [n, n], {"a": n}]});
    let list: Vec<Value> = (0..1000).map(one).collect();
    let nested = (0..100).fold(json!("x"), |inner, _| json!([inner]));
    json!({
        "list": list, "copy": list, "text": "ab".repeat(50_000), "same": "ab".repeat(50_000), "nested": nested,
        "pattern": "(a|b)*a(a|b){200}c", "numbers": (0..1000).collect::<Vec<_>>(),
        "words": vec!["ab".repeat(500); 200],
    })
}

#[test]
fn an_operation_costs_as_much_as_the_values_that_it_visits() {
    let object = large();
    for (text, least) in [
        // Each of the thousand elements has eight values.
        ("object.list == object.copy", 8_000),
        ("[object.list] == [object.copy]", 8_000),
        ("{'a': object.list} == {'a': object.copy}", 8_000),
        ("object.list in [object.copy]", 8_000),
        ("[object.copy].indexOf(object.list) == 0", 8_000),
        // A tenth of the length.
        ("object.text == object.same", 10_000),
        ("object.text <= object.same", 10_000),
        ("[object.text, object.same].isSorted()", 10_000),
        ("[object.text, object.same].max() != ''", 10_000),
        ("object.same in [object.text]", 10_000),
        ("object.text.contains('c') || true", 10_000),
        ("object.text.size() == 100000", 10_000),
        ("object.text.split('a', -1).size() > 0", 50_000),
        ("object.text.replace('a', 'xxxxxxxxxx') != ''", 50_000),
        // A step for each character.
        ("object.text.matches('^(ab)*$')", 3_000),
        ("object.text.find('b*$') != 'x'", 3_000),
        ("object.text.findAll('a').size() == 50000", 50_000),
        // Two automata of a thousand states are compiled.
        ("'x'.find(object.pattern) == ''", 5_000),
    ] {
        let (result, cost) = cost(text, &object);
        assert_eq!(result, Ok(true), "{text}");
        assert!((least..50 * least).contains(&cost), "{text} costs {cost}");
    }
    // Values that differ at once, or have different sizes, are not visited.
    for text in [
        "object == {}",
        "object.list == []",
        "object.list != [object.list]",
        "object.numbers == object.words",
    ] {
        let (_, cost) = cost(text, &object);
        assert!(cost < 100, "{text} costs {cost}");
    }
}

#[test]
fn a_pattern_in_the_expression_is_compiled_once() {
    let object = json!({"words": vec!["a"; 1000], "pattern": "^[a-z]+(-[a-z]+)*$"});
    let (_, constant) = cost("object.words.all(word, word.matches('^[a-z]+(-[a-z]+)*$'))", &object);
    let (_, dynamic) = cost("object.words.all(word, word.matches(object.pattern))", &object);
    assert!(constant < 30_000 && dynamic > 10 * constant, "{constant} and {dynamic}");
}

/// Expressions that do as much work per unit of cost as possible.
#[test]
fn an_expression_ends_with_its_limit() {
    let mut object = large();
    let long = "x".repeat(30_000);
    object["names"] = json!({ &long: 1 });
    let nothing = format!("object.list.exists(a, object.list.exists(b, b.{long} == 1))");
    let name = format!("object.list.all({long}, object.list.all(b, {long} != 1))");
    let zeros = format!("object.list.all(a, object.list.all(b, [{}0].size() > 0))", "0,".repeat(20_000));
    let map: String = (0..5_000).map(|n| format!("{n}:0,")).collect();
    let map = format!("object.list.all(a, {{{map}}} == {{{map}}})");
    for text in [
        "object.list.all(a, object.list.all(b, object.list.all(c, [object.list] == [object.copy])))",
        "object.list.all(a, object.list.all(b, object.text < object.same || object.text == object.same))",
        "object.list.all(a, object.list.all(b, object.list.all(c, object.nested == object.nested)))",
        "object.list.all(a, object.list.all(b, object.text.matches(object.pattern) || true))",
        "object.words.all(a, object.words.all(b, object.words.all(c, !c.matches('[ab]*a[ab]{30}[ab]*c'))))",
        "object.list.all(a, object.list.all(b, object.text.findAll('a.*c|a').size() > 0))",
        "object.words.all(a, object.words.all(b, object.words.all(c, !'x'.matches(a + 'y'))))",
        "object.list.all(a, object.list.all(b, object.list.all(c, ''.find(object.pattern) == '')))",
        "object.list.all(a, object.list.all(b, object.list.all(c, 'x'.matches(c.name.substring(0, 0)))))",
        "object.list.all(a, object.list.all(b, object.text.split('').size() > 0))",
        "object.list.all(a, object.list.all(b, object.text.replace('', object.text) != ''))",
        "[object.text + 'x'].all(t, object.list.all(a, object.list.all(b, object.list.all(c, [t, t] != []))))",
        "object.list.all(a, object.list.all(b, object.words.join(object.text) != ''))",
        "object.list.all(a, object.list.all(b, object.text.lowerAscii().upperAscii().trim().indexOf('X') < 0))",
        "object.list.all(a, object.list.all(b, object.list.all(c, authorizer.group(object.text).resource(object.text) != null)))",
        "object.numbers.all(a, object.numbers.all(b, object.numbers.all(c, c in object.numbers || c < 0)))",
        "object.numbers.exists(a, object.numbers.exists(b, object.numbers.exists(c, object.list[c + 1000] == 1)))",
        &nothing,
        &name,
        &zeros,
        &map,
    ] {
        let (result, cost) = cost(text, &object);
        let shown = &text[..text.len().min(120)];
        assert_eq!(result, Err(EvaluationError::TooExpensive), "{shown} costs {cost}");
        assert_eq!(cost, EXPRESSION_LIMIT, "{shown}");
    }
}

#[test]
fn expressions_share_a_budget() {
    let object = large();
    let program = Program::condition("object.list.all(a, object.list.all(b, true))", &environment()).unwrap();
    let mut budget = MATCH_CONDITIONS_BUDGET;
    assert_eq!(holds(&program, &object, &mut budget), Err(EvaluationError::TooExpensive));
    assert_eq!(holds(&program, &object, &mut budget), Err(EvaluationError::TooExpensive));
    assert_eq!(budget, MATCH_CONDITIONS_BUDGET - 2 * EXPRESSION_LIMIT);
    assert_eq!(holds(&program, &object, &mut budget), Err(EvaluationError::OutOfBudget));
    assert_eq!(budget, 0);
}

#[test]
fn an_expression_can_ask_the_authorizer_twice() {
    let check = "authorizer.path('/x').check('get').allowed()";
    let (result, cost_of_two) = cost(&format!("{check} || {check}"), &Value::Null);
    assert_eq!(result, Ok(false));
    assert!((700_000..700_100).contains(&cost_of_two), "{cost_of_two}");
    let (result, _) = cost(&format!("{check} || {check} || {check}"), &Value::Null);
    assert_eq!(result, Err(EvaluationError::TooExpensive));
}
