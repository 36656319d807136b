//! Functions of cel-go and Kubernetes: values and errors of kube-apiserver v1.36.3, which has evaluated each expression as a rule of a
//! custom resource. An error that it reports for a constant when the definition is written is one of the evaluation here.

mod kubernetes_cases;
mod overload_cases;
mod time_cases;
mod typed_cases;

use serde_json::{Value, json};

use self::kubernetes_cases::LIBRARIES;
use self::overload_cases::OVERLOADS;
use self::time_cases::TIMES;
use self::typed_cases::{OBJECT, SCHEMA, TYPED};
use crate::cel::program::INSTANTIATION;
use crate::cel::value::Val;
use crate::cel::value_schema::ValueSchema;
use crate::cel::{Activation, EXPRESSION_LIMIT, Program};

/// Evaluates an expression about a value with a schema.
fn evaluated(text: &str, schema: &ValueSchema, object: &Value) -> String {
    let program = match Program::untyped(text) {
        Ok(program) => program,
        Err(why) => return why.strip_prefix(INSTANTIATION).unwrap_or(&why).to_owned(),
    };
    let variables = vec![("self", schema.value(object))];
    match program.evaluate(&Activation::default(), variables, &mut EXPRESSION_LIMIT.clone()) {
        Ok(Val::Bool(value)) => value.to_string(),
        Ok(other) => format!("{other:?}"),
        Err(error) => error.to_string(),
    }
}

/// Compares a table with the evaluation, and reports all differences together.
fn check(cases: &[(&str, &str)], schema: &Value, object: &Value) {
    let schema = ValueSchema::read(&json!({"type": "object", "properties": schema}));
    let different: Vec<String> = cases
        .iter()
        .map(|(text, expected)| (text, expected, evaluated(text, &schema, object)))
        .filter(|(_, expected, found)| **expected != found)
        .map(|(text, expected, found)| format!("{text}\n  expected {expected}\n  found    {found}"))
        .collect();
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn timestamps_durations_and_formatted_texts_are_those_of_cel_go() {
    check(&TIMES, &json!({}), &json!({}));
}

#[test]
fn functions_of_kubernetes_are_those_of_kube_apiserver() {
    check(&LIBRARIES, &json!({}), &json!({}));
}

#[test]
fn operands_of_other_types_are_refused_like_in_cel_go() {
    check(
        &OVERLOADS,
        &json!({"a": {"type": "string"}, "i": {"type": "integer"}}),
        &json!({"a": "x", "i": 5}),
    );
}

#[test]
fn values_have_the_types_of_their_schema() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let object: Value = serde_json::from_str(OBJECT).unwrap();
    check(&TYPED, &schema, &object);
}

/// Scientific notation, observed as the message of a rule: the precision is the width of the whole text.
#[test]
fn floats_are_formatted_like_in_kube_apiserver() {
    for (template, number, expected) in [
        ("%e", "1234.5", "1.234500×10⁰³"),
        ("%.2e", "0.0", "0.000000×10⁰⁰"),
        ("%.2e", "-0.00012", "-1.200000×10⁻⁰⁴"),
        ("%.2e", "1e100", "1.000000×10¹⁰⁰"),
        ("%e", "double('inf')", "     ∞"),
        ("%e", "double('nan')", "   NaN"),
        ("%.3f", "-0.0", "0.000"),
        ("%f", "double('-inf')", "-∞"),
        ("%.1e", "9.96", "9.960000×10⁰⁰"),
    ] {
        let text = format!("'{template}'.format([{number}]) == '{expected}'");
        assert_eq!(evaluated(&text, &ValueSchema::default(), &json!({})), "true", "{text}");
    }
}
