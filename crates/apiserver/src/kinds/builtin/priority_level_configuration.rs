//! PriorityLevelConfigurations.

use kube_apimachinery::go_struct::internal_text;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::flow_schema::validate_conditions;
use super::shared::field_checks::invalid_text;
use super::shared::fields::{put, set, text, within};
use crate::kind::WHOLE_METADATA;
use crate::kind::resource::Resource;

#[derive(Debug)]
pub(super) struct PriorityLevelConfiguration;

impl BuiltinKind for PriorityLevelConfiguration {
    fn default(&self, level: &mut Value) {
        within(level, "spec", |spec| {
            within(spec, "exempt", |exempt| {
                set(exempt, "nominalConcurrencyShares", json!(0));
                set(exempt, "lendablePercent", json!(0));
            });
            within(spec, "limited", default_limited);
        });
    }

    fn validate(&self, _resource: &Resource, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let (name, spec) = (text(&new["metadata"], "name"), &new["spec"]);
        let mut errors = validate(name, spec);
        errors.extend(validate_fixed(name, spec));
        errors.extend(validate_conditions(&new["status"]));
        errors
    }

    fn validate_subresource(&self, _subresource: &str, _old: &Value, new: &Value) -> Vec<FieldError> {
        validate_conditions(&new["status"])
    }

    fn status_keeps(&self) -> &'static [&'static str] {
        &WHOLE_METADATA
    }

    fn resets(&self, subresource: &str) -> Option<&'static [&'static str]> {
        (subresource == "status").then_some(&["metadata", "spec"])
    }
}

fn default_limited(limited: &mut Value) {
    set(limited, "nominalConcurrencyShares", json!(30));
    set(limited, "lendablePercent", json!(0));
    within(limited, "limitResponse", |response| {
        within(response, "queuing", |queuing| {
            for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
                // In Go, these numbers are not pointers, so zero means absent.
                if queuing[field].as_i64().unwrap_or(0) == 0 {
                    queuing[field] = json!(value);
                }
            }
        });
    });
}

/// Checks that the two mandatory levels have their fixed spec. The field `exempt` of the level `exempt` may differ.
fn validate_fixed(name: &str, spec: &Value) -> Option<FieldError> {
    let (fixed, exception) = match name {
        "exempt" => (json!({"type": "Exempt"}), " except the 'spec.exempt' field"),
        "catch-all" => {
            let limited = json!({
                "nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"},
            });
            (json!({"type": "Limited", "limited": limited}), "")
        }
        _ => return None,
    };
    let mut compared = spec.clone();
    if name == "exempt" {
        // Its shares decide how much capacity other levels can borrow, so administrators may adjust them.
        put(&mut compared, "exempt", Value::Null);
    }
    (compared != fixed).then(|| {
        let shown = internal_text("flowcontrol.PriorityLevelConfigurationSpec", spec);
        FieldError::invalid(
            "spec",
            &shown,
            &format!("spec of '{name}'{exception} must equal the fixed value"),
        )
    })
}

fn validate(name: &str, spec: &Value) -> Vec<FieldError> {
    const TYPE: &str = "spec.type";
    let kind = text(spec, "type");
    let [limited, exempt] = ["limited", "exempt"].map(|field| &spec[field]);
    let mut errors = Vec::new();
    // Requests of an exempt level are never queued or refused, so no other level may have this type.
    if (name == "exempt") != (kind == "Exempt") {
        errors.push(invalid_text(TYPE, kind, "must be 'Exempt' if and only if `name` is 'exempt'"));
    }
    match kind {
        "Exempt" => {
            if !limited.is_null() {
                let why = "must be nil if the type is not Limited";
                errors.push(FieldError::forbidden("spec.limited", why));
            }
            errors.extend(validate_shares(exempt, "spec.exempt"));
            errors.extend(validate_lendable(exempt, "spec.exempt"));
        }
        "Limited" => {
            if !exempt.is_null() {
                errors.push(FieldError::forbidden("spec.exempt", "must be nil if the type is Limited"));
            }
            if limited.is_null() {
                let why = "must not be empty when type is Limited";
                errors.push(FieldError::required("spec.limited", why));
            } else {
                errors.extend(validate_limited(limited, "spec.limited"));
            }
        }
        "" => errors.push(FieldError::required(TYPE, "")),
        _ => errors.push(FieldError::not_supported(TYPE, kind, &["Exempt", "Limited"])),
    }
    errors
}

/// Checks the number in `field`. An absent number is valid.
fn check(
    object: &Value,
    field: &str,
    path: &str,
    is_valid: impl Fn(i64) -> bool,
    why: &str,
) -> Option<FieldError> {
    let number = object[field].as_i64().filter(|number| !is_valid(*number))?;
    Some(FieldError::invalid(format!("{path}.{field}"), &number.to_string(), why))
}

fn validate_shares(level: &Value, path: &str) -> Option<FieldError> {
    let why = "must be a non-negative integer";
    check(level, "nominalConcurrencyShares", path, |number| number >= 0, why)
}

fn validate_lendable(level: &Value, path: &str) -> Option<FieldError> {
    let why = "must be between 0 and 100, inclusive";
    check(level, "lendablePercent", path, |number| (0..=100).contains(&number), why)
}

fn validate_limited(limited: &Value, path: &str) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = validate_shares(limited, path).into_iter().collect();
    errors.extend(validate_response(&limited["limitResponse"], &format!("{path}.limitResponse")));
    errors.extend(validate_lendable(limited, path));
    let why = "if specified, must be a non-negative integer";
    errors.extend(check(limited, "borrowingLimitPercent", path, |number| number >= 0, why));
    errors
}

/// Validates the handling of requests beyond the limit. kube-apiserver's messages say `Limited` where they mean the type `Queue`.
fn validate_response(response: &Value, path: &str) -> Vec<FieldError> {
    let queuing = &response["queuing"];
    let field = format!("{path}.queuing");
    match (text(response, "type"), queuing.is_null()) {
        ("Reject", false) => {
            vec![FieldError::forbidden(field, "must be nil if limited.limitResponse.type is not Limited")]
        }
        ("Queue", true) => {
            vec![FieldError::required(field, "must not be empty if limited.limitResponse.type is Limited")]
        }
        ("Queue", false) => validate_queuing(queuing, &field),
        ("Reject", true) => Vec::new(),
        ("", _) => vec![FieldError::required(format!("{path}.type"), "")],
        (kind, _) => {
            vec![FieldError::not_supported(format!("{path}.type"), kind, &["Queue", "Reject"])]
        }
    }
}

/// Validates the queues. Shuffle sharding deals each flow a hand of queues from a hash, of which it may use 60 bits.
fn validate_queuing(queuing: &Value, path: &str) -> Vec<FieldError> {
    const MAX_QUEUES: i64 = 10_000_000;
    const MAX_BITS: f64 = 60.0;
    let number = |field: &str| queuing[field].as_i64().unwrap_or_default();
    let (queues, hand) = (number("queues"), number("handSize"));
    let mut errors = Vec::new();
    let mut refuse = |field: &str, why: &str| {
        errors.push(FieldError::invalid(format!("{path}.{field}"), &number(field).to_string(), why));
    };
    if number("queueLengthLimit") <= 0 {
        refuse("queueLengthLimit", "must be positive");
    }
    if queues <= 0 {
        refuse("queues", "must be positive");
    } else if queues > MAX_QUEUES {
        refuse("queues", &format!("must not be greater than {MAX_QUEUES}"));
    }
    if hand <= 0 {
        refuse("handSize", "must be positive");
    } else if hand > queues {
        refuse("handSize", &format!("should not be greater than queues ({queues})"));
    // Of the 64 bits of the hash, only 60 are used. Otherwise the last queue of a hand would not be chosen evenly enough.
    } else if needed_bits(queues, hand) > MAX_BITS {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MAX_BITS}"
        );
        refuse("handSize", &why);
    }
    errors
}

/// Estimates the number of hash bits that dealing a hand of queues needs.
#[expect(clippy::cast_precision_loss, reason = "the estimate is a float, as in kube-apiserver")]
fn needed_bits(queues: i64, hand: i64) -> f64 {
    ((queues as f64).log2() * hand as f64).ceil()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin::test_helpers::check;

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn two_levels_are_fixed() {
        let check = |name: &str, spec: Value, expected: &[&str]| {
            let level = json!({"metadata": {"name": name}, "spec": spec});
            check("PriorityLevelConfiguration", &level, None, expected);
        };
        let exempt = |shares: i64| json!({"nominalConcurrencyShares": shares, "lendablePercent": 0});
        check("exempt", json!({"type": "Exempt", "exempt": exempt(0)}), &[]);
        check("exempt", json!({"type": "Exempt", "exempt": exempt(5)}), &[]);
        let limited = |shares: i64| {
            json!({"type": "Limited", "limited": {
                "nominalConcurrencyShares": shares, "lendablePercent": 0, "limitResponse": {"type": "Reject"},
            }})
        };
        check("catch-all", limited(5), &[]);
        check(
            "catch-all",
            limited(7),
            &[
                r#"spec: Invalid value: {"Type":"Limited","Limited":{"NominalConcurrencyShares":7,"LimitResponse":{"Type":"Reject","Queuing":null},"LendablePercent":0,"BorrowingLimitPercent":null},"Exempt":null}: spec of 'catch-all' must equal the fixed value"#,
            ],
        );
        check(
            "exempt",
            limited(30),
            &[
                "spec.type: Invalid value: \"Limited\": must be 'Exempt' if and only if `name` is 'exempt'",
                r#"spec: Invalid value: {"Type":"Limited","Limited":{"NominalConcurrencyShares":30,"LimitResponse":{"Type":"Reject","Queuing":null},"LendablePercent":0,"BorrowingLimitPercent":null},"Exempt":null}: spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"#,
            ],
        );
    }
}
