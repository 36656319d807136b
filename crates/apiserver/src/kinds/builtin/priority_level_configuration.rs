//! PriorityLevelConfigurations.

use serde_json::{Value, json};

use super::builtin_kind::BuiltinKind;
use super::shared::fields::{set, within};
use crate::kind::WHOLE_METADATA;

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
        set(response, "type", json!("Reject"));
        within(response, "queuing", |queuing| {
            for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
                if queuing[field].as_i64().unwrap_or(0) == 0 {
                    queuing[field] = json!(value);
                }
            }
        });
    });
}
