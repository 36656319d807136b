//! The operator changes the password of a database to the one of the user's Secret, and then notes it, because the next
//! change needs it. If the note is missing, it tries the wanted password in place of the noted one. If the user has
//! changed the Secret again by then, the database accepts neither of the two, and its password can never be changed.
//!
//! Expected: same objects or remotes. Minimum plan: a crash after the change, with the restart after the next one of
//! the Secret.

use controller_runtime::client::Patch;
use k8s_openapi::ByteString;

use crate::common::*;

/// Password of a new database.
const INITIAL: &str = "changeme";

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Login", namespaced)]
#[serde(default)]
struct LoginSpec {
    secret: String,
}

#[derive(Serialize)]
struct Postgres {
    password: String,
}

struct FakePostgres(Remote<Postgres>);

impl FakePostgres {
    async fn accepts(&self, password: &str) -> Result<bool, Lost> {
        let password = password.to_owned();
        self.0.effect("log in", "app", move |postgres| postgres.password == password).await
    }

    /// Logs in with a password, changes it, and returns whether the first one was accepted.
    async fn alter(&self, password: &str, new: &str) -> Result<bool, Lost> {
        let (password, new) = (password.to_owned(), new.to_owned());
        let alter = move |postgres: &mut Postgres| {
            let is_accepted = postgres.password == password;
            if is_accepted {
                postgres.password = new;
            }
            is_accepted
        };
        self.0.effect("alter user", "app", alter).await
    }

    async fn first_accepted(&self, passwords: Vec<String>) -> Result<Option<String>, Lost> {
        for password in passwords {
            if self.accepts(&password).await? {
                return Ok(Some(password));
            }
        }
        Ok(None)
    }
}

struct Logins {
    logins: Cached<Login>,
    postgres: FakePostgres,
    variant: Variant,
}

fn bytes(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

fn entry(secret: &Secret, name: &str) -> Option<String> {
    String::from_utf8(secret.data.as_ref()?.get(name)?.0.clone()).ok()
}

/// The Secret in which the operator notes passwords.
async fn notes_of(login: &Login, cx: &Context) -> Result<Secret, ReconcileError> {
    let name = format!("{}-notes", login.name_any());
    if let Some(notes) = cx.client().get(&in_default::<Secret>(&name)).await? {
        return Ok(notes);
    }
    let mut notes = Secret::default();
    (notes.metadata.name, notes.metadata.namespace) = (Some(name), Some("default".to_owned()));
    notes.data = Some([("current".to_owned(), bytes(INITIAL))].into());
    set_controller_reference(login, &mut notes)?;
    Ok(cx.client().create(&notes).await?)
}

impl Reconciler for Logins {
    type Request = ObjectKey<Login>;

    async fn reconcile(&self, key: &ObjectKey<Login>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(login) = self.logins.get(key)? else { return Ok(Action::done()) };
        let secret = cx.client().get(&in_default::<Secret>(&login.spec.secret)).await?;
        let Some(wanted) = secret.and_then(|secret| entry(&secret, "password")) else {
            return Ok(Action::done());
        };
        let mut notes = notes_of(&login, cx).await?;
        let notes_key = in_default::<Secret>(&notes.name_any());
        let (current, next) = (entry(&notes, "current").unwrap_or_default(), entry(&notes, "next"));
        if current == wanted && next.is_none() {
            return Ok(Action::done());
        }
        let is_changed = match self.variant {
            Variant::Buggy => {
                self.postgres.alter(&current, &wanted).await? || self.postgres.alter(&wanted, &wanted).await?
            }
            Variant::Twin => {
                let known: Vec<String> = [Some(current), next].into_iter().flatten().collect();
                let Some(accepted) = self.postgres.first_accepted(known).await? else {
                    return Err(ReconcileError::new("the database accepts no known password"));
                };
                if accepted != wanted {
                    let intent = json!({"data": {"current": bytes(&accepted), "next": bytes(&wanted)}});
                    let intent = Patch::merge(&intent).with_version_of(&notes);
                    notes = cx.client().patch(&notes_key, intent).await?;
                }
                self.postgres.alter(&accepted, &wanted).await?
            }
        };
        if !is_changed {
            return Err(ReconcileError::new("the database accepts no known password"));
        }
        let done = Patch::merge(&json!({"data": {"current": bytes(&wanted), "next": null}}));
        cx.client().patch(&notes_key, done.with_version_of(&notes)).await?;
        Ok(Action::done())
    }
}

/// The user's Secret, with a password in base64.
fn secret(password: &str) -> String {
    let head = "apiVersion: v1, kind: Secret, metadata: {name: app-password}";
    format!("{{{head}, data: {{password: {password}}}}}")
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let postgres = FakePostgres(Remote::of_this_run());
        let logins = Logins { logins: manager.cached(), postgres, variant };
        let to_login =
            |secret: &Secret| (secret.name_any() == "app-password").then(|| in_default::<Login>("app"));
        Builder::managed_by(manager)
            .for_kind::<Login>()
            .watches(Kind::new(MapFn(to_login)))
            .complete(logins)?;
        Ok(())
    };
    Simulation::new("logins", add)
        .crd::<Login>()
        .remote("postgres", || Postgres { password: INITIAL.to_owned() })
        .applies("there is a password", &secret("c3ByaW5n"))
        .applies(
            "a login is created",
            "{apiVersion: further.dev/v1, kind: Login, metadata: {name: app}, spec: {secret: app-password}}",
        )
        .applies("the password changes", &secret("c3VtbWVy"))
        .applies("it changes again", &secret("YXV0dW1u"))
}

#[test]
fn a_password_that_was_not_noted_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert!(matches!(finding.oracle(), Oracle::SameObjects | Oracle::SameRemotes), "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
