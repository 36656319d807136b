//! A budget is divided among tenants. What one tenant gains another one must have given up before. The operator changes the quotas in this
//! order, but goes on when a change is refused, so that one tenant does not keep the others waiting: then more is granted than there is.
//!
//! Expected: the check. Minimum plan: the write that makes a quota smaller is refused once.

use std::collections::BTreeMap;

use kube_simulator::Now;

use crate::common::*;

/// What all tenants have together.
const TOTAL: i32 = 10;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Budget", namespaced)]
#[serde(default)]
struct BudgetSpec {
    /// Shares by tenant.
    shares: BTreeMap<String, i32>,
}

struct Budgets {
    budgets: Cached<Budget>,
    variant: Variant,
}

fn limit(quota: &ConfigMap) -> i32 {
    let limit = quota.data.as_ref().and_then(|data| data.get("limit"));
    limit.and_then(|text| text.parse().ok()).unwrap_or_default()
}

impl Reconciler for Budgets {
    type Request = ObjectKey<Budget>;

    async fn reconcile(&self, key: &ObjectKey<Budget>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(budget) = self.budgets.get(key)? else { return Ok(Action::done()) };
        let mut changes = Vec::new();
        for (tenant, share) in &budget.spec.shares {
            let quota = cx.client().get(&in_default::<ConfigMap>(&format!("quota-{tenant}"))).await?;
            let before = quota.as_ref().map_or(0, limit);
            changes.push((*share - before, tenant.clone(), *share));
        }
        // Those that give something up come first.
        changes.sort();
        let mut failure = None;
        for (_, tenant, share) in changes {
            let mut quota = map("default", &format!("quota-{tenant}"), "limit", &share.to_string());
            set_controller_reference(&*budget, &mut quota)?;
            match (self.variant, cx.client().apply(&quota).await) {
                // "The others need not wait. This one is tried again later."
                (Variant::Buggy, Err(error)) => failure = Some(error),
                (_, applied) => drop(applied?),
            }
        }
        match failure {
            Some(error) => Err(ReconcileError::new(error)),
            None => Ok(Action::done()),
        }
    }
}

/// Whether the quotas together do not exceed the total.
fn no_more_than_all_is_granted(now: &Now<'_>) -> bool {
    now.all::<ConfigMap>().iter().map(limit).sum::<i32>() <= TOTAL
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let budgets = Budgets { budgets: manager.cached(), variant };
        Builder::managed_by(manager).for_kind::<Budget>().owns::<ConfigMap>().complete(budgets)?;
        Ok(())
    };
    let budget = |shares: &str| {
        format!(
            "{{apiVersion: further.dev/v1, kind: Budget, metadata: {{name: team}}, spec: {{shares: {shares}}}}}"
        )
    };
    Simulation::new("budgets", add)
        .crd::<Budget>()
        .applies("a budget is divided", &budget("{red: 6, blue: 4}"))
        .applies("red gives to blue", &budget("{red: 3, blue: 7}"))
        .always("no more than the total is granted", no_more_than_all_is_granted)
}

#[test]
fn the_bug_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Check, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
