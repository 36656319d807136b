//! ResourceQuotas: their validation, the usage of objects, and whether a write stays within the limits.
//!
//! The rules are pure functions. The admission plugin `ResourceQuota` and the controller that counts existing objects share them.

mod counter;
mod scope;
mod validate_quota;

use jiff::Timestamp;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

pub(crate) use counter::{ObjectCounter, QuotaOperation, storage_class};
use scope::QuotaScope;

use super::builtin_kind::BuiltinKind;
use super::shared::amounts::{self, Amounts};
use super::shared::fields::within;
use crate::kind::resource::Resource;

/// Rules of ResourceQuotas as objects.
#[derive(Debug)]
pub(super) struct ResourceQuota;

impl BuiltinKind for ResourceQuota {
    fn default(&self, quota: &mut Value) {
        within(quota, "spec", |spec| amounts::round_fields(spec, &["hard"]));
        within(quota, "status", |status| amounts::round_fields(status, &["hard", "used"]));
    }

    fn validate(&self, _resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate_quota::validate(new, old)
    }

    fn validate_subresource(&self, subresource: &str, _old: &Value, new: &Value) -> Vec<FieldError> {
        if subresource == "status" { validate_quota::validate_status(new) } else { Vec::new() }
    }

    fn warnings(&self, _resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_none() { validate_quota::warnings(object) } else { Vec::new() }
    }
}

/// A ResourceQuota, decoded for computations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Quota {
    name: String,
    /// Limits in `spec.hard`. They apply once the controller has copied them to `status.hard`.
    wanted: Amounts,
    /// Limits in force, from `status.hard`. Empty until the controller has counted the usage.
    hard: Amounts,
    /// Usage, from `status.used`.
    used: Amounts,
    scopes: Vec<QuotaScope>,
}

/// A write that quotas may limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuotaWrite<'a> {
    pub(crate) operation: QuotaOperation<'a>,
    /// Name of the subresource; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// The object after the write.
    pub(crate) object: &'a Value,
    /// Current time.
    pub(crate) now: Timestamp,
}

impl Quota {
    pub(crate) fn read(object: &Value) -> Self {
        Self {
            name: kube_apimachinery::metadata::text(object, "name").to_owned(),
            wanted: Amounts::read(&object["spec"]["hard"]),
            hard: Amounts::read(&object["status"]["hard"]),
            used: Amounts::read(&object["status"]["used"]),
            scopes: QuotaScope::of(&object["spec"]),
        }
    }

    /// Builds the status of a quota.
    pub(crate) fn status(hard: &Amounts, used: &Amounts) -> Value {
        json!({"hard": hard.to_json(), "used": used.to_json()})
    }

    /// Limits in `spec.hard`.
    pub(crate) fn wanted(&self) -> &Amounts {
        &self.wanted
    }

    /// Limits in force.
    pub(crate) fn hard(&self) -> &Amounts {
        &self.hard
    }

    /// Usage in the status.
    pub(crate) fn used(&self) -> &Amounts {
        &self.used
    }

    /// Whether the status already has the limits of the spec and this usage.
    pub(crate) fn is_at(&self, used: &Amounts) -> bool {
        self.hard == self.wanted && self.used == *used
    }

    /// Whether an object is in all scopes of the quota.
    pub(crate) fn covers(&self, counter: &ObjectCounter, object: &Value) -> bool {
        self.scopes.iter().all(|scope| counter.is_within(scope, object))
    }

    /// Whether the quota has scopes, so that it may not cover every object.
    pub(crate) fn has_scopes(&self) -> bool {
        !self.scopes.is_empty()
    }

    /// Returns the names of the limits in force that the counted resource can use.
    fn limited(&self, counter: &ObjectCounter) -> Vec<&str> {
        self.hard.names().filter(|name| counter.tracks(name)).collect()
    }
}

/// Returns the new usage of each quota that a write changes, with the quota's index.
///
/// A quota whose usage has not been counted yet has no limits in force and allows everything.
///
/// # Errors
/// The reason why the write is refused.
pub(crate) fn charge(
    quotas: &[Quota],
    counter: &ObjectCounter,
    write: QuotaWrite<'_>,
) -> Result<Vec<(usize, Amounts)>, String> {
    let QuotaWrite { operation, subresource, object, now } = write;
    if !counter.handles(operation, subresource, object) {
        return Ok(Vec::new());
    }
    let mut concerned = Vec::new();
    for (index, quota) in quotas.iter().enumerate() {
        let limited = quota.limited(counter);
        if limited.is_empty() || !quota.covers(counter, object) {
            continue;
        }
        counter
            .check_stated(&limited, object)
            .map_err(|why| format!("failed quota: {}: {why}", quota.name))?;
        // Until the controller has counted the existing objects, the free part of the limit is unknown.
        if limited.iter().any(|name| quota.used.get(name).is_none()) {
            return Err(format!(
                "status unknown for quota: {}, resources: {}",
                quota.name,
                limited.join(",")
            ));
        }
        concerned.push((index, quota));
    }
    if concerned.is_empty() {
        return Ok(Vec::new());
    }
    let usage = counter.usage(object, now);
    let negative = usage.only(|_, amount| amount < kube_apimachinery::quantity::Quantity::ZERO);
    if !negative.is_empty() {
        let names: Vec<&str> = negative.names().collect();
        return Err(format!("quota usage is negative for resource(s): {}", names.join(",")));
    }
    let mut charged = Vec::new();
    for (index, quota) in concerned {
        let added = match operation {
            // An object that was already in the scopes is charged for the difference only.
            QuotaOperation::Update(old) if quota.covers(counter, old) => {
                usage.beyond(&counter.usage(old, now))
            }
            _ => usage.clone(),
        };
        // A write that adds nothing to limited amounts is allowed, even if the quota is already exceeded.
        let added = added.only(|name, amount| !amount.is_zero() && quota.hard.get(name).is_some());
        if added.is_empty() {
            continue;
        }
        let mut used = quota.used.clone();
        used.add(&added);
        let is_exceeded = |name: &str| used.get(name) > quota.hard.get(name);
        let exceeded = added.only(|name, _| is_exceeded(name));
        // A claim's status reports an allocation that has already happened, so refusing it would not help.
        if !exceeded.is_empty() && subresource != "status" {
            let of_exceeded = |list: &Amounts| list.only(|name, _| exceeded.get(name).is_some());
            return Err(format!(
                "exceeded quota: {}, requested: {exceeded}, used: {}, limited: {}",
                quota.name,
                of_exceeded(&quota.used),
                of_exceeded(&quota.hard)
            ));
        }
        charged.push((index, used));
    }
    Ok(charged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(name: &str, spec: &Value, used: &Value) -> Quota {
        let hard = &spec["hard"];
        Quota::read(
            &json!({"metadata": {"name": name}, "spec": spec, "status": {"hard": hard, "used": used}}),
        )
    }

    fn check(
        quotas: &[Quota],
        plural: &str,
        write: (QuotaOperation<'_>, &str, &Value),
        expected: Result<&str, &str>,
    ) {
        let (operation, subresource, object) = write;
        let write = QuotaWrite { operation, subresource, object, now: Timestamp::UNIX_EPOCH };
        let counter = ObjectCounter::of("", plural).unwrap();
        let charged = charge(quotas, &counter, write).map(|charged| {
            let shown = charged.iter().map(|(index, used)| format!("{}: {used}", quotas[*index].name));
            shown.collect::<Vec<_>>().join("; ")
        });
        assert_eq!(charged.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn a_create_is_charged_up_to_the_limit() {
        let quotas = |used: u8| {
            [
                quota(
                    "q",
                    &json!({"hard": {"secrets": "2", "pods": "1"}}),
                    &json!({"secrets": used.to_string(), "pods": "1"}),
                ),
                quota("other", &json!({"hard": {"pods": "1"}}), &json!({"pods": "1"})),
            ]
        };
        let secret = json!({});
        let create = (QuotaOperation::Create, "", &secret);
        check(&quotas(1), "secrets", create, Ok("q: pods=1,secrets=2"));
        check(
            &quotas(2),
            "secrets",
            create,
            Err("exceeded quota: q, requested: secrets=1, used: secrets=2, limited: secrets=2"),
        );
        check(&quotas(2), "configmaps", create, Ok(""));
        check(&quotas(2), "secrets", (QuotaOperation::Update(&secret), "", &secret), Ok(""));
    }

    #[test]
    fn a_quota_that_was_not_counted_allows_everything() {
        let uncounted = Quota::read(&json!({"metadata": {"name": "q"}, "spec": {"hard": {"secrets": "0"}}}));
        let secret = json!({});
        check(&[uncounted], "secrets", (QuotaOperation::Create, "", &secret), Ok(""));
        let partly =
            quota("q", &json!({"hard": {"secrets": "1", "count/secrets": "1"}}), &json!({"secrets": "0"}));
        check(
            &[partly],
            "secrets",
            (QuotaOperation::Create, "", &secret),
            Err("status unknown for quota: q, resources: count/secrets,secrets"),
        );
    }

    #[test]
    fn pods_are_charged_for_their_requests() {
        let pod = |cpu: &str| json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
        let quotas = [quota(
            "q",
            &json!({"hard": {"requests.cpu": "2", "pods": "10", "requests.memory": "1Gi"}}),
            &json!({"requests.cpu": "1500m", "pods": "3", "requests.memory": "0"}),
        )];
        check(
            &quotas,
            "pods",
            (QuotaOperation::Create, "", &pod("1")),
            Err("failed quota: q: must specify requests.memory for: c"),
        );
        let quotas = [quota(
            "q",
            &json!({"hard": {"requests.cpu": "2", "pods": "10"}}),
            &json!({"requests.cpu": "1500m", "pods": "3"}),
        )];
        check(&quotas, "pods", (QuotaOperation::Create, "", &pod("500m")), Ok("q: pods=4,requests.cpu=2"));
        check(
            &quotas,
            "pods",
            (QuotaOperation::Create, "", &pod("1")),
            Err(
                "exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1500m, limited: requests.cpu=2",
            ),
        );
        check(
            &quotas,
            "pods",
            (QuotaOperation::Create, "", &pod("-1")),
            Err("quota usage is negative for resource(s): cpu,requests.cpu"),
        );
        let (old, new) = (pod("1"), pod("1250m"));
        check(
            &quotas,
            "pods",
            (QuotaOperation::Update(&old), "resize", &new),
            Ok("q: pods=3,requests.cpu=1750m"),
        );
        check(&quotas, "pods", (QuotaOperation::Update(&new), "resize", &old), Ok(""));
    }

    #[test]
    fn scopes_decide_which_quota_is_charged() {
        let quotas = [
            quota("best", &json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]}), &json!({"pods": "0"})),
            quota("timed", &json!({"hard": {"pods": "5"}, "scopes": ["Terminating"]}), &json!({"pods": "2"})),
        ];
        let (open, timed) = (json!({"spec": {}}), json!({"spec": {"activeDeadlineSeconds": 1}}));
        check(&quotas, "pods", (QuotaOperation::Create, "", &open), Ok("best: pods=1"));
        check(&quotas, "pods", (QuotaOperation::Create, "", &timed), Ok("best: pods=1; timed: pods=3"));
        // A pod that enters a scope is charged there in full.
        check(&quotas, "pods", (QuotaOperation::Update(&open), "", &timed), Ok("timed: pods=3"));
    }

    #[test]
    fn finished_allocations_are_charged_beyond_the_limit() {
        let quotas =
            [quota("q", &json!({"hard": {"requests.storage": "1Gi"}}), &json!({"requests.storage": "1Gi"}))];
        let claim = |allocated: &str| {
            json!({
                "spec": {"resources": {"requests": {"storage": "1Gi"}}}, "status": {"allocatedResources": {"storage": allocated}},
            })
        };
        let (old, new) = (claim("1Gi"), claim("2Gi"));
        check(
            &quotas,
            "persistentvolumeclaims",
            (QuotaOperation::Update(&old), "status", &new),
            Ok("q: requests.storage=2Gi"),
        );
    }
}
