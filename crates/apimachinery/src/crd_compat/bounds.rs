//! Changes of lower and upper bounds.

use serde_json::Value;

use super::{Report, Rule};

/// Keywords of a bound, and the noun of the bounded amount.
const BOUNDS: [(&str, &str, Side); 8] = [
    ("maximum", "the value", Side::Upper),
    ("minimum", "the value", Side::Lower),
    ("maxLength", "the length", Side::Upper),
    ("minLength", "the length", Side::Lower),
    ("maxItems", "the number of items", Side::Upper),
    ("minItems", "the number of items", Side::Lower),
    ("maxProperties", "the number of fields", Side::Upper),
    ("minProperties", "the number of fields", Side::Lower),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Upper,
    Lower,
}

/// A bound: the number, and whether the number itself is excluded.
#[derive(Clone, Copy, PartialEq)]
struct NumberBound {
    limit: f64,
    is_exclusive: bool,
}

/// Compares the bounds of two schemas of one field.
pub(super) fn compare(report: &mut Report, path: &str, old: &Value, new: &Value) {
    for (keyword, amount, side) in BOUNDS {
        let Some(is) = bound(new, keyword, side) else { continue };
        let sign = is.sign(side);
        match bound(old, keyword, side) {
            None => {
                let rule = if side == Side::Upper { Rule::MaximumAdded } else { Rule::MinimumAdded };
                let advice = format!("objects with {} are refused. Remove {keyword}", side.beyond());
                report.add(rule, path, format!("limits {amount} to {sign} {}", new[keyword]), advice);
            }
            Some(was) if side.is_tighter(is, was) => {
                let rule = if side == Side::Upper { Rule::MaximumLowered } else { Rule::MinimumRaised };
                let fact = format!(
                    "limits {amount} to {sign} {} instead of {} {}",
                    new[keyword],
                    was.sign(side),
                    old[keyword]
                );
                let advice = format!("objects with {} are refused. Keep {keyword}", side.beyond());
                report.add(rule, path, fact, advice);
            }
            Some(_) => {}
        }
    }
    multiples(report, path, old, new);
}

/// Compares `multipleOf`: every multiple of the old number must be a multiple of the new one.
fn multiples(report: &mut Report, path: &str, old: &Value, new: &Value) {
    let (was, is) = (old["multipleOf"].as_f64(), new["multipleOf"].as_f64());
    let Some(is) = is else { return };
    if was.is_none_or(|was| was % is != 0.0) {
        let fact = format!("allows only multiples of {}", new["multipleOf"]);
        report.add(Rule::MultipleOfChanged, path, fact, "other numbers are refused. Remove multipleOf");
    }
}

/// Returns the bound of a keyword; `None` if it excludes nothing.
fn bound(schema: &Value, keyword: &str, side: Side) -> Option<NumberBound> {
    let limit = schema[keyword].as_f64()?;
    let exclusive = match keyword {
        "maximum" => "exclusiveMaximum",
        "minimum" => "exclusiveMinimum",
        // Lengths and counts are never below zero.
        _ if side == Side::Lower && limit <= 0.0 => return None,
        _ => "",
    };
    Some(NumberBound { limit, is_exclusive: schema[exclusive] == true })
}

impl NumberBound {
    fn sign(self, side: Side) -> &'static str {
        match (side, self.is_exclusive) {
            (Side::Upper, false) => "at most",
            (Side::Upper, true) => "less than",
            (Side::Lower, false) => "at least",
            (Side::Lower, true) => "more than",
        }
    }
}

impl Side {
    fn is_tighter(self, is: NumberBound, was: NumberBound) -> bool {
        let beyond = match self {
            Self::Upper => is.limit < was.limit,
            Self::Lower => is.limit > was.limit,
        };
        beyond || is.limit == was.limit && is.is_exclusive && !was.is_exclusive
    }

    fn beyond(self) -> &'static str {
        match self {
            Self::Upper => "more",
            Self::Lower => "less",
        }
    }
}
