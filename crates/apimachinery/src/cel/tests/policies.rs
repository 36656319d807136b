//! Expressions of admission policies: variables and constructed objects.

use serde_json::{Value, json};

use super::super::*;

/// Evaluates an expression with `object` and variables of a policy. Returns its JSON value, or the error of its evaluation.
fn evaluated(text: &str, variables: &[(&str, &str)]) -> Result<Value, String> {
    let variables = Variables::new(variables.iter().copied());
    let program = Program::untyped(text)?;
    let object = json!({"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": {"replicas": 3}});
    let activation = Activation {
        variables: vec![("object", &object)],
        composition: Some(Composition::new(&variables)),
        ..Activation::default()
    };
    let value = program.value(&activation, &mut POLICY_BUDGET.clone()).map_err(|error| error.to_string())?;
    if text.starts_with('[') {
        return value.patch_operations();
    }
    match value.text() {
        Some(text) => Ok(json!(text)),
        None if value.is_true() || value.is_false() => Ok(json!(value.is_true())),
        None => value.configuration(),
    }
}

fn check(text: &str, expected: &Value) {
    assert_eq!(evaluated(text, &[]), Ok(expected.clone()), "{text}");
}

fn check_error(text: &str, expected: &str) {
    assert_eq!(evaluated(text, &[]), Err(expected.to_owned()), "{text}");
}

#[test]
fn an_expression_constructs_a_configuration() {
    check("Object{}", &json!({}));
    check(
        "Object{metadata: Object.metadata{labels: {'a': object.metadata.name + '!'}}, spec: Object.spec{replicas: 5,},}",
        &json!({"metadata": {"labels": {"a": "web!"}}, "spec": {"replicas": 5}}),
    );
    check(
        "Object{spec: Object.spec{list: [1, 2].map(n, Object.spec.list{n: n}), labels: object.metadata.labels, half: 2.5}}",
        &json!({"spec": {"list": [{"n": 1}, {"n": 2}], "labels": {"app": "web"}, "half": 2.5}}),
    );
    check("Object{spec: Object.spec{a: 1}} == Object{spec: Object.spec{a: 1}}", &json!(true));
    check("Object{spec: Object.spec{a: 1}} == Object{spec: Object.spec{a: 2}}", &json!(false));
    check(
        "Object{spec: Object.spec{?a: optional.of(1), ?b: optional.none(), ?c: object.spec.?replicas}}",
        &json!({"spec": {"a": 1, "c": 3}}),
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn values_without_a_counterpart_in_a_configuration_are_refused() {
    let unfit =
        |why: &str| format!("error applying patch: failed to convert patch object to typed object: {why}");
    check_error(
        "Object{spec: Object.spec.wrong{replicas: 1}}",
        "type mismatch: unexpected type name \"Object.spec.wrong\", expected \"Object.spec\", which matches field name path \
         from root Object type",
    );
    check_error(
        "Object{spec: Object.spec{list: [{'name': 'x'}]}}",
        &unfit(".spec.list: element 0: associative list with keys may not have non-map elements"),
    );
    check_error(
        "Object{spec: Object.spec{priority: 5u}}",
        &unfit(".spec.priority: expected numeric (int or float), got uint64"),
    );
    check_error(
        "Object{binaryData: {'b': b'xy'}}",
        &unfit(".binaryData.b: expected string, got &value.valueUnstructured{Value:[]uint8{0x78, 0x79}}"),
    );
    check_error("Object.spec{a: object.spec.nope}", "no such key: nope");
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn an_expression_constructs_the_operations_of_a_json_patch() {
    check(
        "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: {'x': [1, null, 2.5]}}]",
        &json!([{"op": "add", "path": "/metadata/labels/a~1b~0c", "value": {"x": [1, null, 2.5]}}]),
    );
    check(
        "[JSONPatch{op: 'copy', from: '/a', path: '/b'}, JSONPatch{op: 'add'}]",
        &json!([{"op": "copy", "path": "/b", "from": "/a"}, {"op": "add", "path": ""}]),
    );
    check(
        "[JSONPatch{op: 'add', path: '/a', value: Object.metadata.labels{a: 9007199254740993}}]",
        &json!([{"op": "add", "path": "/a", "value": {"a": "9007199254740993"}}]),
    );
    check_error(
        "[JSONPatch{op: 'add', path: '/a', value: Object.metadata.labels{a: Object.foo{}}}]",
        "type mismatch: unexpected type name \"Object.foo\", expected \"Object.metadata.labels.a\", which matches field \
         name path from root Object type",
    );
    check_error(
        "[JSONPatch{op: 'add', path: '/a', value: {1: 'b'}}]",
        "JSONPath valueExpression evaluated to a type that could not marshal to JSON: unsupported type conversion from \
         'int' to string",
    );
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn constructions_are_checked_when_they_are_compiled() {
    let environment = Environment::new(vec![("object", Type::Dyn)]);
    let with_patches = environment.clone().with_patches();
    let first_line = |text: &str, environment: &Environment| {
        let why = Program::condition(text, environment).unwrap_err();
        why.lines().next().unwrap_or_default().to_owned()
    };
    for (text, expected) in [
        (
            "Object{",
            "1:8: Syntax error: mismatched input '<EOF>' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}",
        ),
        ("[JSONPatch{foo: 1}]", "1:15: expected type of field 'foo' is '' but provided type is 'int'"),
        ("[JSONPatch{op: 1}]", "1:14: expected type of field 'op' is 'string' but provided type is 'int'"),
        ("Foo{a: 1}", "1:4: undeclared reference to 'Foo' (in container '')"),
    ] {
        let expected = format!("compilation failed: ERROR: <input>:{expected}");
        assert_eq!(first_line(text, &with_patches), expected, "{text}");
    }
    assert_eq!(
        first_line("Object{}", &environment),
        "compilation failed: ERROR: <input>:1:7: undeclared reference to 'Object' (in container '')"
    );
    let wrong = Program::condition("Object{spec: Object.spec{a: 1}}", &with_patches).unwrap_err();
    assert_eq!(wrong, "must evaluate to bool but got Object");
    assert!(Program::condition("jsonpatch.escapeKey('a') == 'a'", &with_patches).is_ok());
}

/// Recorded from kube-apiserver v1.36.3.
#[test]
fn variables_are_evaluated_at_their_first_use() {
    let variables = [
        ("name", "object.metadata.name"),
        ("loud", "variables.name.upperAscii() + '!'"),
        ("broken", "object.nope"),
        ("again", "variables.broken"),
        ("twice", "'one'"),
        ("twice", "'two'"),
    ];
    let of = |text: &str| evaluated(text, &variables);
    assert_eq!(of("variables.loud"), Ok(json!("WEB!")));
    assert_eq!(of("variables.twice"), Ok(json!("two")));
    assert_eq!(of("variables.?name.orValue('none') == 'web'"), Ok(json!(true)));
    assert_eq!(of("has(variables.name) && (true || variables.broken)"), Ok(json!(true)));
    assert_eq!(
        of("variables.again"),
        Err("composited variable \"again\" fails to evaluate: composited variable \"broken\" fails to evaluate: no such key: \
             nope"
            .to_owned())
    );
}

#[test]
fn variables_that_use_themselves_or_are_nested_too_deep_fail() {
    let loop_of_two = [("a", "1"), ("a", "variables.a + 1")];
    let error = evaluated("variables.a == 1", &loop_of_two).unwrap_err();
    assert!(error.contains("variable \"a\" uses itself"), "{error}");
    let names: Vec<String> = (0..1000).map(|n| format!("v{n}")).collect();
    let texts: Vec<String> = (0..1000)
        .map(|n| if n == 0 { "1".to_owned() } else { format!("variables.v{} + 1", n - 1) })
        .collect();
    let chain: Vec<(&str, &str)> = names.iter().zip(&texts).map(|(name, text)| (&**name, &**text)).collect();
    let error = evaluated("variables.v999 == 1000", &chain).unwrap_err();
    assert!(error.contains("the expressions of variables are nested too deep"), "{error}");
    assert_eq!(evaluated("variables.v50 == 51", &chain), Ok(json!(true)));
}

#[test]
fn variables_cost_as_much_as_their_expressions() {
    let expensive =
        "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(x, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(y, x + y > 0))";
    let variables = Variables::new([("v", expensive)].into_iter());
    let activation =
        || Activation { composition: Some(Composition::new(&variables)), ..Activation::default() };
    let shared = activation();
    let program = Program::untyped("variables.v").unwrap();
    let mut budget = POLICY_BUDGET;
    assert!(program.value(&shared, &mut budget).unwrap().is_true());
    let first = POLICY_BUDGET - budget;
    assert!(first > 300, "{first}");
    // The value is known now.
    let before = budget;
    assert!(program.value(&shared, &mut budget).unwrap().is_true());
    assert!(before - budget < 10, "{}", before - budget);
    let mut small = 100;
    assert_eq!(program.value(&activation(), &mut small).unwrap_err(), EvaluationError::OutOfBudget);
}
