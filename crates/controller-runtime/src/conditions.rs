//! Status conditions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Sets a condition in `conditions`, matched by its type. Returns whether anything changed.
///
/// `last_transition_time` is the time of the last change of *status*: it is copied from the existing condition if the status
/// stays the same, so that setting an equal condition again changes nothing.
///
/// ```
/// # use controller_runtime::set_condition;
/// # use k8s_openapi::{apimachinery::pkg::apis::meta::v1::{Condition, Time}, jiff::Timestamp};
/// # fn ready(now: i64) -> Condition {
/// #     Condition {
/// #         type_: "Ready".into(), status: "True".into(), reason: "Done".into(), message: String::new(),
/// #         last_transition_time: Time(Timestamp::from_second(now).unwrap()), observed_generation: None,
/// #     }
/// # }
/// let mut conditions = Vec::new();
/// assert!(set_condition(&mut conditions, ready(1)));
/// assert!(!set_condition(&mut conditions, ready(2)), "still ready since 1");
/// ```
#[doc(alias = "SetStatusCondition")]
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition) -> bool {
    match conditions.iter_mut().find(|known| known.type_ == condition.type_) {
        Some(known) => {
            if known.status == condition.status {
                condition.last_transition_time = known.last_transition_time.clone();
            }
            let changed = *known != condition;
            *known = condition;
            changed
        }
        None => {
            conditions.push(condition);
            true
        }
    }
}
