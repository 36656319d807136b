//! A generated password is stored in a Secret and set in the database. When the Secret exists already, the database gets another
//! one.
//!
//! Expected: same remotes. Minimum plan: the answer to the creation of the Secret is lost, and the retry comes before its event.

use k8s_openapi::ByteString;

use crate::common::*;

#[derive(Default, Serialize)]
struct Database {
    password: Option<String>,
}

struct Users {
    clusters: Cached<Cluster>,
    secrets: Cached<Secret>,
    database: Remote<Database>,
    variant: Variant,
}

fn password_of(secret: &Secret) -> Option<String> {
    let password = secret.data.as_ref()?.get("password")?;
    String::from_utf8(password.0.clone()).ok()
}

impl Reconciler for Users {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        if cluster.phase() == "Ready" {
            return Ok(Action::done());
        }
        let name = format!("{}-app-user", key.name());
        let password = match self.secrets.get(&in_default::<Secret>(&name))? {
            Some(secret) => password_of(&secret),
            None => {
                let password: String = std::iter::repeat_with(fastrand::alphanumeric).take(20).collect();
                let mut secret = Secret::default();
                (secret.metadata.name, secret.metadata.namespace) =
                    (Some(name.clone()), Some("default".to_owned()));
                secret.data =
                    Some([("password".to_owned(), ByteString(password.clone().into_bytes()))].into());
                set_controller_reference(&*cluster, &mut secret)?;
                match (self.variant, cx.client().create(&secret).await) {
                    // "It was created by an earlier reconcile."
                    (Variant::Buggy, Err(error)) if error.is_already_exists() => Some(password),
                    (Variant::Twin, Err(error)) if error.is_already_exists() => {
                        let stored = cx.client().get(&in_default::<Secret>(&name)).await?;
                        stored.as_ref().and_then(password_of)
                    }
                    (_, created) => password_of(&created?),
                }
            }
        };
        let Some(password) = password else { return Err(ReconcileError::new("the Secret has no password")) };
        self.database
            .effect("set password", "app", move |database| database.password = Some(password))
            .await?;
        let status = ClusterStatus { phase: Some("Ready".to_owned()), ..ClusterStatus::default() };
        cx.client().apply_status(key, &status).await?;
        Ok(Action::done())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let users = Users {
            clusters: manager.cached(),
            secrets: manager.cached(),
            database: Remote::of_this_run(),
            variant,
        };
        Builder::managed_by(manager).for_kind::<Cluster>().complete(users)?;
        Ok(())
    };
    Simulation::new("users", add)
        .crd::<Cluster>()
        .remote("database", Database::default)
        .cluster("a database is asked for", "{}")
        .cluster("it grows", "{size: 2}")
}

#[test]
fn a_password_that_nobody_knows_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameRemotes), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
