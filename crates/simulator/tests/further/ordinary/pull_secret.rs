//! No bug: a Secret is copied into each namespace with a label, and the copy is deleted when the label is gone. Changes of the
//! Secret reconcile all namespaces, changes of a copy its own.

use controller_runtime::{Lazy, ReadError, TryMapFn};
use k8s_openapi::api::core::v1::Namespace;

use crate::common::*;

/// Name of the Secret in the namespace `default`, and of its copies.
const SECRET: &str = "registry";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

struct PullSecrets {
    namespaces: Cached<Namespace>,
    secrets: Cached<Secret>,
}

fn is_copy(secret: &Secret) -> bool {
    secret.labels().get(MANAGED_BY).is_some_and(|manager| manager == "pull-secrets")
}

impl Reconciler for PullSecrets {
    type Request = ObjectKey<Namespace>;

    async fn reconcile(&self, key: &ObjectKey<Namespace>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(namespace) = self.namespaces.get(key)? else { return Ok(Action::done()) };
        if namespace.metadata.deletion_timestamp.is_some() || key.name() == "default" {
            return Ok(Action::done());
        }
        let is_wanted = namespace.labels().get("pull-secret").is_some_and(|value| value == "enabled");
        let source = self.secrets.get(&in_default(SECRET))?;
        if let Some(source) = source.filter(|_| is_wanted) {
            let mut copy =
                Secret { type_: source.type_.clone(), data: source.data.clone(), ..Secret::default() };
            copy.metadata.name = Some(SECRET.to_owned());
            copy.metadata.namespace = Some(key.name().to_owned());
            copy.metadata.labels = Some([(MANAGED_BY.to_owned(), "pull-secrets".to_owned())].into());
            cx.client().apply(&copy).await?;
            return Ok(Action::done());
        }
        let copy = self.secrets.get(&ObjectKey::new(key.name(), SECRET))?;
        if let Some(copy) = copy.filter(|copy| is_copy(copy)) {
            cx.client().delete(&*copy).await?;
        }
        Ok(Action::done())
    }
}

fn namespace(name: &str, labels: &str) -> String {
    format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {labels}}}}}")
}

fn label(value: Option<&str>) -> serde_json::Value {
    json!({"metadata": {"labels": {"pull-secret": value}}})
}

fn key(name: &str) -> ObjectKey<Namespace> {
    ObjectKey::new((), name)
}

pub(crate) fn simulation() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let namespaces = manager.cached::<Namespace>();
        let all = namespaces.clone();
        let of_secret = move |secret: &Secret| -> Result<Vec<ObjectKey<Namespace>>, ReadError> {
            if secret.name_any() != SECRET {
                return Ok(Vec::new());
            }
            let namespace = secret.namespace().unwrap_or_default();
            if namespace == "default" {
                return Ok(all.list_lazy()?.iter().map(Lazy::key).collect());
            }
            Ok(vec![key(&namespace)])
        };
        Builder::managed_by(manager)
            .for_kind::<Namespace>()
            .watches(Kind::new(TryMapFn(of_secret)))
            .complete(PullSecrets { namespaces, secrets: manager.cached() })?;
        Ok(())
    };
    let namespaces =
        format!("{}\n---\n{}", namespace("red", "{pull-secret: enabled}"), namespace("blue", "{team: blue}"));
    Simulation::new("pull-secrets", add)
        .applies(
            "a Secret is issued",
            "{apiVersion: v1, kind: Secret, metadata: {name: registry}, stringData: {token: one}}",
        )
        .applies("there are two namespaces", &namespaces)
        .step("the other one gets the label", async |user| {
            user.merge_patch(&key("blue"), &label(Some("enabled"))).await
        })
        .step("the Secret is rotated", async |user| {
            let rotated = json!({"stringData": {"token": "two"}});
            user.merge_patch(&in_default::<Secret>(SECRET), &rotated).await
        })
        .step("a label is removed", async |user| user.merge_patch(&key("red"), &label(None)).await)
        .step("the other label goes and comes back", async |user| {
            user.merge_patch(&key("blue"), &label(None)).await?;
            user.merge_patch(&key("blue"), &label(Some("enabled"))).await
        })
        .step("a copy is deleted by hand", async |user| {
            user.delete_key(&ObjectKey::<Secret>::new("blue", SECRET)).await
        })
        .step("a namespace is deleted", async |user| user.delete_key(&key("blue")).await)
}

#[test]
fn the_operator_has_no_finding() {
    find_nothing(simulation());
}
