//! The operator keeps a private key in a Secret, orders a certificate for it from an authority, and adds it to the
//! Secret. A user who wants another key deletes the Secret. If the order for the old key is still open then, the
//! operator makes a new key, finds an order of the same name, and adds its certificate, which is for the old key: no
//! client can connect any more. The corrected operator withdraws an order for another key than that of the Secret.
//!
//! Expected: the check. Minimum plan: the user deletes the Secret before the certificate is added; or a crash while the
//! order is open, with the restart after the user's deletion.

use std::collections::BTreeMap;

use controller_runtime::{BoxError, client::Patch};
use k8s_openapi::ByteString;
use kube_simulator::Now;

use crate::common::*;

const KEY: &str = "tls.key";
const CERTIFICATE: &str = "tls.crt";

/// Open orders by name, each with its public key.
#[derive(Default, Serialize)]
struct Authority {
    orders: BTreeMap<String, String>,
}

struct FakeAuthority(Remote<Authority>);

impl FakeAuthority {
    /// Orders a certificate, unless an order of this name is open. Returns the public key of the order.
    async fn order(&self, name: &str, public: &str) -> Result<String, Lost> {
        let (order, public) = (name.to_owned(), public.to_owned());
        let create = move |authority: &mut Authority| authority.orders.entry(order).or_insert(public).clone();
        self.0.effect("order", name, create).await
    }

    async fn close(&self, name: &str) -> Result<(), Lost> {
        let order = name.to_owned();
        self.0.effect("close", name, move |authority| drop(authority.orders.remove(&order))).await
    }
}

fn public_of(private: &str) -> String {
    format!("public part of {private}")
}

fn certificate_of(public: &str) -> String {
    format!("certificate for the {public}")
}

fn entry(secret: &Secret, name: &str) -> Option<String> {
    String::from_utf8(secret.data.as_ref()?.get(name)?.0.clone()).ok()
}

/// A Secret with a new key.
fn secret_of(cluster: &Cluster, name: &str) -> Result<Secret, ReconcileError> {
    let private: String = std::iter::repeat_with(fastrand::alphanumeric).take(16).collect();
    let mut secret = Secret::default();
    (secret.metadata.name, secret.metadata.namespace) = (Some(name.to_owned()), Some("default".to_owned()));
    secret.data = Some([(KEY.to_owned(), ByteString(private.into_bytes()))].into());
    set_controller_reference(cluster, &mut secret)?;
    Ok(secret)
}

struct Keys {
    clusters: Cached<Cluster>,
    authority: FakeAuthority,
    variant: Variant,
}

impl Reconciler for Keys {
    type Request = ObjectKey<Cluster>;

    async fn reconcile(&self, key: &ObjectKey<Cluster>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(cluster) = self.clusters.get(key)? else { return Ok(Action::done()) };
        let secret_key = in_default::<Secret>(&format!("{}-tls", key.name()));
        let secret = match cx.client().get(&secret_key).await? {
            Some(secret) => secret,
            None => cx.client().create(&secret_of(&cluster, secret_key.name())?).await?,
        };
        if entry(&secret, CERTIFICATE).is_none() {
            let public = public_of(&entry(&secret, KEY).unwrap_or_default());
            let ordered = self.authority.order(key.name(), &public).await?;
            if self.variant == Variant::Twin && ordered != public {
                self.authority.close(key.name()).await?;
                return Ok(Action::requeue());
            }
            let certificate = ByteString(certificate_of(&ordered).into_bytes());
            let change = Patch::merge(&json!({"data": {CERTIFICATE: certificate}}));
            cx.client().patch(&secret_key, change.with_version_of(&secret)).await?;
        }
        // Also if the process before has ended before it came to this.
        self.authority.close(key.name()).await?;
        Ok(Action::done())
    }
}

/// Whether each certificate is that of the key beside it.
fn certificates_fit_their_keys(now: &Now<'_>) -> bool {
    now.all::<Secret>().iter().all(|secret| {
        let expected = entry(secret, KEY).map(|private| certificate_of(&public_of(&private)));
        entry(secret, CERTIFICATE).is_none_or(|certificate| Some(certificate) == expected)
    })
}

fn simulation(variant: Variant) -> Simulation {
    let add = move |manager: &Manager| -> Result<(), AddError> {
        let authority = FakeAuthority(Remote::of_this_run());
        let keys = Keys { clusters: manager.cached(), authority, variant };
        Builder::managed_by(manager).for_kind::<Cluster>().owns::<Secret>().complete(keys)?;
        Ok(())
    };
    Simulation::new("keys", add)
        .crd::<Cluster>()
        .remote("authority", Authority::default)
        .cluster("a cluster is created", "{}")
        .step("the user deletes the Secret", async |user| {
            let secret = user.get(&in_default::<Secret>("db-tls")).await?;
            let secret = secret.ok_or("the Secret does not exist yet")?;
            user.delete(&secret).any_version().await?;
            Ok::<_, BoxError>(())
        })
        .always("certificates fit their keys", certificates_fit_their_keys)
}

#[test]
fn a_certificate_for_another_key_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::Check, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
