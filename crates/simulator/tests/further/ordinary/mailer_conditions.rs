//! No bug: conditions with `observedGeneration` and `lastTransitionTime`, written by an update with the version that was read. A
//! Secret that comes or goes reconciles the objects that name it. The predicate of generations hides only the operator's own
//! writes of the status.

use controller_runtime::{TryMapMeta, cache::Meta, conditions_schema, set_condition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "mail.example.com", version = "v1", kind = "Mailer", namespaced, status = "MailerStatus")]
#[serde(default, rename_all = "camelCase")]
struct MailerSpec {
    host: String,
    secret_name: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct MailerStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
    #[serde(default)]
    #[schemars(schema_with = "conditions_schema")]
    conditions: Vec<Condition>,
}

struct Mailers {
    mailers: Cached<Mailer>,
    secrets: Cached<Secret>,
}

impl Reconciler for Mailers {
    type Request = ObjectKey<Mailer>;

    async fn reconcile(&self, key: &ObjectKey<Mailer>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(mailer) = self.mailers.get(key)? else { return Ok(Action::done()) };
        let mut config = map("default", &format!("{}-config", key.name()), "host", &mailer.spec.host);
        set_controller_reference(&*mailer, &mut config)?;
        cx.client().apply(&config).await?;

        let generation = mailer.metadata.generation;
        let condition = |type_: &str, holds: bool, reason: &str| Condition {
            type_: type_.to_owned(),
            status: (if holds { "True" } else { "False" }).to_owned(),
            reason: reason.to_owned(),
            message: format!("Secret {}", mailer.spec.secret_name),
            observed_generation: generation,
            last_transition_time: Time(cx.wall_time()),
        };
        let is_found = self.secrets.get(&in_default(&mailer.spec.secret_name))?.is_some();
        let reason = if is_found { "SecretFound" } else { "SecretNotFound" };
        let mut status = mailer.status.clone().unwrap_or_default();
        status.observed_generation = generation;
        set_condition(&mut status.conditions, condition("Configured", true, "Applied"));
        set_condition(&mut status.conditions, condition("Ready", is_found, reason));
        if mailer.status.as_ref() != Some(&status) {
            let mut changed = Mailer::clone(&mailer);
            changed.status = Some(status);
            cx.client().update_status(&changed).await?;
        }
        Ok(Action::done())
    }
}

fn mailer(host: &str, secret: &str) -> String {
    let head = "apiVersion: mail.example.com/v1, kind: Mailer, metadata: {name: news}";
    format!("{{{head}, spec: {{host: {host}, secretName: {secret}}}}}")
}

fn secret(name: &str) -> String {
    format!("{{apiVersion: v1, kind: Secret, metadata: {{name: {name}}}, stringData: {{password: abc}}}}")
}

pub(crate) fn simulation() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let mailers = manager.cached::<Mailer>();
        let by_secret = mailers.index(|mailer: &Mailer| [mailer.spec.secret_name.clone()]);
        let of_secret = TryMapMeta(move |secret: &Meta| by_secret.keys(secret.name()));
        Builder::managed_by(manager)
            .for_kind::<Mailer>()
            .with_predicate(GenerationChanged)
            .owns::<ConfigMap>()
            .watches(Kind::<Secret, ObjectKey<Mailer>>::new(of_secret))
            .complete(Mailers { mailers, secrets: manager.cached() })?;
        Ok(())
    };
    Simulation::new("mailers", add)
        .crd::<Mailer>()
        .applies("a mailer is created without its Secret", &mailer("one.example.com", "first"))
        .applies("its Secret is created", &secret("first"))
        .applies("it names another Secret", &mailer("one.example.com", "second"))
        .step("that one is created, and the first one is deleted", async |user| {
            user.apply_yaml(&secret("second")).await?;
            user.delete_key(&in_default::<Secret>("first")).await?;
            Ok::<_, controller_runtime::BoxError>(())
        })
        .step("its host changes, and its Secret twice", async |user| {
            user.apply_yaml(&mailer("two.example.com", "first")).await?;
            user.apply_yaml(&mailer("two.example.com", "second")).await
        })
        .step("its Secret is deleted", async |user| user.delete_key(&in_default::<Secret>("second")).await)
        .step("it is replaced", async |user| {
            user.delete_key(&in_default::<Mailer>("news")).await?;
            user.apply_yaml(&mailer("three.example.com", "second")).await
        })
        .applies("its Secret is created again", &secret("second"))
        .step("it is deleted", async |user| user.delete_key(&in_default::<Mailer>("news")).await)
}

#[test]
fn the_operator_has_no_finding() {
    find_nothing(simulation());
}
