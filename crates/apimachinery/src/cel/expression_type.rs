//! Types of expressions that are compiled and not evaluated, such as those of admission policies.
//!
//! Functions that this implementation lacks make the type unknown, so that no valid expression is refused.

use super::environment::Environment;
use super::identifier::without_dot;
use super::issue::compilation_failure;
use super::program::{Program, parsed};
use super::syntax_tree::Expr;
use super::token::{Spanned, Token, tokens};
use super::type_checker;
use super::types::Type;

/// Namespace of functions that kube-apiserver has for some kinds of expressions, and that this implementation lacks.
const BINDINGS: &str = "cel";
/// Beginning of the issue about deep nesting. This implementation allows fewer levels than cel-go.
const NESTED_TOO_DEEP: &str = "expression recursion limit exceeded";

/// Compiles an expression with a type of one of the names `expected`, or any type if there are none. The result is `None` if the expression
/// contains functions that this implementation lacks, or is nested too deep for it.
///
/// # Errors
/// kube-apiserver's text for an invalid expression: `compilation failed: …`, or `must evaluate to … but got …`.
pub fn expression_type(
    text: &str,
    environment: &Environment,
    expected: &[&str],
) -> Result<Option<Type>, String> {
    if environment.has_bindings && tokens(text).is_ok_and(|tokens| has_bindings(&tokens)) {
        return Ok(None);
    }
    let root = match parsed(text) {
        Ok(root) => root,
        Err(why) if why.contains(NESTED_TOO_DEEP) => return Ok(None),
        Err(why) => return Err(why),
    };
    let of = type_checker::check(&root, environment).map_err(|issues| compilation_failure(text, &issues))?;
    let name = match (&of, &root.expr) {
        (Type::Type, Expr::Ident(named)) => format!("type({})", without_dot(named)),
        _ => result_type_name(&of),
    };
    let mismatch = match expected {
        [] => None,
        expected if expected.contains(&&*name) => None,
        [one] => Some(format!("must evaluate to {one} but got {name}")),
        several => Some(format!("must evaluate to one of [{}] but got {name}", several.join(" "))),
    };
    Program::with_patterns(text, root, mismatch)?;
    Ok(Some(of))
}

/// Returns the name of the type of a result, which differs from that in other messages.
#[must_use]
pub fn result_type_name(of: &Type) -> String {
    match of {
        Type::Null => "null_type".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::Optional(value) => format!("optional_type({})", result_type_name(value)),
        Type::List(element) => format!("list({})", result_type_name(element)),
        Type::Map(key, value) => format!("map({}, {})", result_type_name(key), result_type_name(value)),
        other => other.to_string(),
    }
}

/// Whether tokens contain calls of functions that are not implemented.
fn has_bindings(tokens: &[Spanned]) -> bool {
    let is_dot =
        |index: usize| matches!(tokens.get(index).map(|spanned| &spanned.token), Some(Token::Sign(".")));
    tokens.iter().enumerate().any(|(index, spanned)| match &spanned.token {
        Token::Ident(name) => name == BINDINGS && is_dot(index + 1) && !(index > 0 && is_dot(index - 1)),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        let mut environment = Environment::new(vec![("object", Type::Dyn)]).with_variables();
        environment.add_policy_variable("n", Type::Int);
        environment.add_policy_variable("o", Type::Optional(Box::new(Type::Int)));
        environment.add_policy_variable("l", Type::List(Box::new(Type::Type)));
        environment
    }

    fn check(text: &str, expected: &[&str], error: &str) {
        assert_eq!(
            expression_type(text, &environment(), expected).map(drop),
            Err(error.to_owned()),
            "{text}"
        );
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn the_type_of_a_result_is_one_of_those_expected() {
        check("1", &["bool"], "must evaluate to bool but got int");
        check("null", &["bool"], "must evaluate to bool but got null_type");
        check("[1]", &["list(JSONPatch)"], "must evaluate to list(JSONPatch) but got list(int)");
        check("[]", &["list(JSONPatch)"], "must evaluate to list(JSONPatch) but got list(dyn)");
        let patches = expression_type("JSONPatch", &environment().with_patches(), &["list(JSONPatch)"]);
        assert_eq!(patches, Err("must evaluate to list(JSONPatch) but got type(JSONPatch)".to_owned()));
        check("int", &["bool"], "must evaluate to bool but got type(int)");
        check("object", &["string", "null_type"], "must evaluate to one of [string null_type] but got dyn");
        let of = |text: &str| expression_type(text, &environment(), &[]).unwrap();
        assert_eq!(of("variables.n"), Some(Type::Int));
        // Optional values are not kept.
        assert_eq!(of("variables.o"), Some(Type::Dyn));
        assert_eq!(of("variables.l"), Some(Type::List(Box::new(Type::Dyn))));
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn variables_have_fields_with_types() {
        check(
            "variables.b",
            &[],
            "compilation failed: ERROR: <input>:1:10: undefined field 'b'\n | variables.b\n | .........^",
        );
        check(
            "variables.n == \"a\"",
            &["bool"],
            "compilation failed: ERROR: <input>:1:13: found no matching overload for '_==_' applied to '(int, string)'\n | variables.n == \"a\"\n | ............^",
        );
        check(
            "variables == \"a\"",
            &["bool"],
            "compilation failed: ERROR: <input>:1:11: found no matching overload for '_==_' applied to '(kubernetes.variables, string)'\n | variables == \"a\"\n | ..........^",
        );
    }

    /// kube-apiserver v1.36.3 accepts these expressions.
    #[test]
    fn the_whole_library_has_types() {
        let of = |text: &str| {
            let environment = environment().with_patches();
            expression_type(text, &environment, &[]).map(|of| of.map_or("?".to_owned(), |of| of.to_string()))
        };
        for (text, expected) in [
            ("object.a.b.?c.orValue(1) == 1", "bool"),
            ("[1].all(i, v, v > 0)", "bool"),
            ("ip(\"1\").isLoopback()", "bool"),
            ("sets.contains([1],[1])", "bool"),
            ("[JSONPatch{op: \"add\", path: \"/x\", value: \"y\"}]", "list(JSONPatch)"),
            ("Object{spec: Object.spec{a: 1}}", "Object"),
            ("quantity(\"1\").isGreaterThan(quantity(\"2\"))", "bool"),
            ("optional.of([1])[0]", "optional_type(int)"),
            ("[1, 2].sortBy(n, -n)", "list(int)"),
            ("{'a': 1}.transformMap(k, v, string(v))", "map(string, string)"),
            ("timestamp('2026-01-01T00:00:00Z') - duration('1h')", "timestamp"),
        ] {
            assert_eq!(of(text), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn functions_that_are_not_implemented_are_accepted() {
        let environment = environment().with_bindings();
        assert_eq!(expression_type("cel.bind(a, 1, a == 1)", &environment, &["x"]), Ok(None));
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn namespaces_that_the_library_lacks_are_unknown_variables() {
        check(
            "math.abs(1) == 1",
            &["bool"],
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'math' (in container '')\n | math.abs(1) == 1\n | ^\n\
             ERROR: <input>:1:9: undeclared reference to 'abs' (in container '')\n | math.abs(1) == 1\n | ........^",
        );
        check(
            "jsonpatch.escapeKey(\"a/b~c\")",
            &["string"],
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'jsonpatch' (in container '')\n | jsonpatch.escapeKey(\"a/b~c\")\n | ^\n\
             ERROR: <input>:1:20: undeclared reference to 'escapeKey' (in container '')\n | jsonpatch.escapeKey(\"a/b~c\")\n | ...................^",
        );
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn templates_and_conversions_of_literals_are_checked() {
        for (text, error) in [
            (
                "\"%d\".format([\"a\"]) == \"\"",
                "compilation failed: ERROR: <input>:1:14: error during formatting: decimal clause can only be used on integers, was \
                 given string\n | \"%d\".format([\"a\"]) == \"\"\n | .............^",
            ),
            (
                "\"%d %s\".format([1]) == \"\"",
                "compilation failed: ERROR: <input>:1:15: index 1 out of range\n | \"%d %s\".format([1]) == \"\"\n | ..............^",
            ),
            (
                "\"%q\".format([1]) == \"\"",
                "compilation failed: ERROR: <input>:1:12: could not parse formatting clause: unrecognized formatting clause \"q\"\n \
                 | \"%q\".format([1]) == \"\"\n | ...........^",
            ),
            ("int(\"x\") == 1", "program instantiation failed: type conversion error from 'string' to 'int'"),
            ("uint(-1) == 1u", "program instantiation failed: unsigned integer overflow"),
        ] {
            check(text, &["bool"], error);
        }
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn texts_that_are_not_tokens_end_after_the_wrong_character() {
        for (text, error) in [
            (
                "object == 1 &&& true",
                "compilation failed: ERROR: <input>:1:15: Syntax error: token recognition error at: '& '\n | object == 1 &&& true\n \
                 | ..............^",
            ),
            (
                "object = 1",
                "compilation failed: ERROR: <input>:1:8: Syntax error: token recognition error at: '= '\n | object = 1\n | .......^\n\
                 ERROR: <input>:1:10: Syntax error: extraneous input '1' expecting <EOF>\n | object = 1\n | .........^",
            ),
            (
                "object.",
                "compilation failed: ERROR: <input>:1:8: Syntax error: no viable alternative at input '.'\n | object.\n | .......^",
            ),
            (
                "object == 1e400",
                "compilation failed: ERROR: <input>:1:11: invalid double literal\n | object == 1e400\n | ..........^",
            ),
        ] {
            check(text, &["bool"], error);
        }
    }
}
