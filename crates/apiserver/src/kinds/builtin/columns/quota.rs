//! Cells of ResourceQuotas.

use serde_json::{Value, json};

use super::CellFn;
use super::cell_values::plain;
use crate::kinds::builtin::pod::resources::AmountKind;

pub(super) fn cell(name: &str) -> Option<CellFn> {
    Some(match name {
        "Request" => |object, _| usage(object, AmountKind::Requests),
        "Limit" => |object, _| usage(object, AmountKind::Limits),
        _ => return None,
    })
}

/// Lists used and available amounts as `pods: 1/10`. The column of requests shows every amount that is not a limit.
fn usage(quota: &Value, kind: AmountKind) -> Value {
    let status = &quota["status"];
    let hard = status["hard"].as_object().into_iter().flatten();
    let is_shown = |name: &str| name.starts_with("limits.") == matches!(kind, AmountKind::Limits);
    let texts: Vec<String> = hard
        .filter(|(name, _)| is_shown(name))
        .map(|(name, hard)| {
            // A missing amount is Go's zero quantity.
            let used = status["used"][name].as_str().unwrap_or("0");
            format!("{name}: {used}/{}", plain(hard))
        })
        .collect();
    json!(texts.join(", "))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn a_quota_shows_what_is_used_of_it() {
        let quota = json!({"status": {
            "hard": {"limits.cpu": "2", "pods": "10", "requests.cpu": "1"}, "used": {"limits.cpu": "500m", "pods": "3"},
        }});
        let shown = |name: &str, quota: &Value| cell(name).unwrap()(quota, Timestamp::UNIX_EPOCH);
        assert_eq!(shown("Request", &quota), "pods: 3/10, requests.cpu: 0/1");
        assert_eq!(shown("Limit", &quota), "limits.cpu: 500m/2");
        assert_eq!(shown("Request", &json!({})), "");
    }
}
