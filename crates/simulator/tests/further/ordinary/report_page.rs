//! No bug: a child with a generated name. Before it is created, the children are listed from the API server, not from the cache,
//! so that one whose creation was not answered is found.

use controller_runtime::{BoxError, is_controlled_by};

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "reports.example.com", version = "v1", kind = "Monthly", namespaced, status = "MonthlyStatus")]
#[serde(default)]
struct MonthlySpec {
    text: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(default)]
struct MonthlyStatus {
    /// Name of the ConfigMap with the text.
    page: String,
}

struct Monthlies {
    reports: Cached<Monthly>,
}

impl Reconciler for Monthlies {
    type Request = ObjectKey<Monthly>;

    async fn reconcile(&self, key: &ObjectKey<Monthly>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(report) = self.reports.get(key)? else { return Ok(Action::done()) };
        let selector = format!("report={}", key.name());
        let pages = cx.client().list::<ConfigMap>().in_namespace("default").labels(selector).await?;
        let own = pages.items.into_iter().find(|page| is_controlled_by(page, &*report));
        let data = Some([("text".to_owned(), report.spec.text.clone())].into());
        let page = match own {
            None => {
                let mut page = ConfigMap { data, ..ConfigMap::default() };
                page.metadata.generate_name = Some(format!("{}-", key.name()));
                page.metadata.namespace = report.namespace();
                page.metadata.labels = Some([("report".to_owned(), report.name_any())].into());
                set_controller_reference(&*report, &mut page)?;
                cx.client().create(&page).await?
            }
            Some(mut page) if page.data != data => {
                page.data = data;
                cx.client().update(&page).await?
            }
            Some(page) => page,
        };
        let status = MonthlyStatus { page: page.name_any() };
        if report.status.as_ref() != Some(&status) {
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::done())
    }
}

fn report(text: &str) -> String {
    let head = "apiVersion: reports.example.com/v1, kind: Monthly, metadata: {name: sales}";
    format!("{{{head}, spec: {{text: {text}}}}}")
}

pub(crate) fn simulation() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        Builder::managed_by(manager)
            .for_kind::<Monthly>()
            .owns::<ConfigMap>()
            .complete(Monthlies { reports: manager.cached() })?;
        Ok(())
    };
    Simulation::new("reports", add)
        .crd::<Monthly>()
        .applies("a report is created", &report("january"))
        .step("its text changes twice", async |user| {
            user.apply_yaml(&report("february")).await?;
            user.apply_yaml(&report("march")).await
        })
        .step("its page is deleted", async |user| {
            let pages = user.list::<ConfigMap>().in_namespace("default").labels("report=sales").await?;
            for page in &pages.items {
                user.delete_key(&in_default::<ConfigMap>(&page.name_any())).await?;
            }
            Ok::<_, BoxError>(())
        })
        .step("it is replaced", async |user| {
            user.delete_key(&in_default::<Monthly>("sales")).await?;
            user.apply_yaml(&report("april")).await
        })
        .step("it is deleted", async |user| user.delete_key(&in_default::<Monthly>("sales")).await)
}

#[test]
fn the_operator_has_no_finding() {
    find_nothing(simulation());
}
