//! The controller: makes the cluster match each Guestbook.

use controller_runtime::{
    Action, Builder, Cached, Client, Context, Kind, Lazy, Manager, MapFn, ObjectKey, ReadError, Reconciler,
    StaticObject, has_finalizer, is_controlled_by, manager::AddError, predicate::GenerationChanged,
    reconcile, set_condition,
};
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::ConfigMap},
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::ResourceExt;

use crate::{api::Guestbook, children};

/// Keeps a Guestbook from going before its greeting is archived.
pub const FINALIZER: &str = "example.com/archive";

/// Gives the manager a controller of Guestbooks.
///
/// # Errors
///
/// The manager has one.
pub fn add_to(manager: &Manager) -> Result<(), AddError> {
    build(manager, GuestbookReconciler::new(manager))
}

/// Gives the manager a controller of Guestbooks that calls `reconciler`.
///
/// # Errors
///
/// The manager has one.
pub fn build(
    manager: &Manager,
    reconciler: impl Reconciler<Request = ObjectKey<Guestbook>>,
) -> Result<(), AddError> {
    Builder::managed_by(manager)
        .for_kind::<Guestbook>()
        // Our own writes of status and finalizers change no generation: they are no reason to come back.
        .with_predicate(GenerationChanged)
        .owns::<Deployment>()
        .owns::<ConfigMap>()
        .watches(Kind::new(MapFn(dressed_by(manager.cached()))))
        .complete(reconciler)?;
    Ok(())
}

/// The Guestbooks that a ConfigMap is the theme of.
fn dressed_by(
    guestbooks: Cached<Guestbook>,
) -> impl Fn(&ConfigMap) -> Vec<ObjectKey<Guestbook>> + Send + Sync {
    move |theme: &ConfigMap| {
        let mut dressed = guestbooks.list_lazy().expect("caches are complete before controllers start");
        dressed.retain(|guestbook| {
            guestbook.meta().namespace() == theme.metadata.namespace.as_deref()
                && guestbook.object().is_ok_and(|guestbook| guestbook.spec.theme == theme.metadata.name)
        });
        dressed.iter().map(Lazy::key).collect()
    }
}

/// Reconciles Guestbooks.
#[derive(Debug)]
pub struct GuestbookReconciler {
    client: Client,
    guestbooks: Cached<Guestbook>,
    config_maps: Cached<ConfigMap>,
    deployments: Cached<Deployment>,
}

/// Somebody else's object has the name that a child needs.
#[derive(Debug, thiserror::Error)]
#[error("{child} exists and is not ours: rename it or the Guestbook")]
struct NameTaken {
    child: String,
}

/// A Guestbook's theme does not exist.
#[derive(Debug, thiserror::Error)]
#[error("theme not found: create ConfigMap {namespace}/{theme}, or name another one in spec.theme")]
struct ThemeNotFound {
    namespace: String,
    theme: String,
}

impl Reconciler for GuestbookReconciler {
    type Request = ObjectKey<Guestbook>;

    async fn reconcile(&self, key: &ObjectKey<Guestbook>, cx: &Context) -> Result<Action, reconcile::Error> {
        let Some(guestbook) = self.guestbooks.get(key)? else {
            return Ok(Action::done()); // gone, and its children with it
        };
        if guestbook.metadata.deletion_timestamp.is_some() {
            return self.archive(&guestbook, cx).await;
        }
        self.client.add_finalizer(&*guestbook, FINALIZER).await?;

        let style = match self.style(&guestbook)? {
            Ok(style) => style,
            Err(missing) => {
                cx.events().warning(&*guestbook, "ThemeNotFound", "ReadTheme", missing.to_string());
                self.set_ready(&guestbook, cx, "False", "ThemeNotFound", &missing.to_string()).await?;
                return Err(missing.into()); // tried again, each time a little later
            }
        };
        self.apply_children(&guestbook, style.as_deref(), cx).await?;
        self.set_ready(
            &guestbook,
            cx,
            "True",
            "ChildrenExist",
            "Deployment and ConfigMap exist as specified",
        )
        .await?;
        Ok(Action::done())
    }
}

impl GuestbookReconciler {
    /// A reconciler that reads the manager's caches and writes in its name.
    #[must_use]
    pub fn new(manager: &Manager) -> Self {
        Self {
            client: manager.client(),
            guestbooks: manager.cached(),
            config_maps: manager.cached(),
            deployments: manager.cached(),
        }
    }

    /// The style sheet of the theme that the Guestbook names.
    fn style(&self, guestbook: &Guestbook) -> Result<Result<Option<String>, ThemeNotFound>, ReadError> {
        let Some(theme) = &guestbook.spec.theme else {
            return Ok(Ok(None));
        };
        let namespace = guestbook.namespace().unwrap_or_default();
        let config = self.config_maps.get(&ObjectKey::new(&*namespace, &**theme))?;
        let missing = ThemeNotFound { namespace, theme: theme.clone() };
        let style =
            |config: &ConfigMap| config.data.as_ref().and_then(|files| files.get("style.css")).cloned();
        Ok(config.map(|config| style(&config)).ok_or(missing))
    }

    async fn apply_children(
        &self,
        guestbook: &Guestbook,
        style: Option<&str>,
        cx: &Context,
    ) -> Result<(), reconcile::Error> {
        self.apply_child(guestbook, &children::page(guestbook, style)?, &self.config_maps, cx).await?;
        self.apply_child(guestbook, &children::deployment(guestbook)?, &self.deployments, cx).await
    }

    /// Makes a child be as given, and records it if that changed anything.
    async fn apply_child<K: StaticObject>(
        &self,
        guestbook: &Guestbook,
        child: &K,
        cached: &Cached<K>,
        cx: &Context,
    ) -> Result<(), reconcile::Error> {
        let before = ObjectKey::of(child).map(|key| cached.get(&key)).transpose()?.flatten();
        if let Some(stranger) = before.as_deref().filter(|before| !is_controlled_by(*before, guestbook)) {
            let child = format!(
                "{} {}/{}",
                K::kind(&()),
                guestbook.namespace().unwrap_or_default(),
                stranger.name_any()
            );
            return Err(NameTaken { child }.into());
        }
        let after = self.client.apply(child).await?;
        let kind = K::kind(&());
        match before {
            None => {
                cx.events().normal(guestbook, &format!("{kind}Created"), "Apply", format!("{kind} created"));
            }
            Some(before) if before.resource_version() != after.resource_version() => {
                cx.events().normal(guestbook, &format!("{kind}Updated"), "Apply", format!("{kind} updated"));
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Keeps the greeting, then lets the Guestbook go. Its children follow: it owns them.
    async fn archive(&self, guestbook: &Guestbook, cx: &Context) -> Result<Action, reconcile::Error> {
        if has_finalizer(guestbook, FINALIZER) {
            self.client.apply(&children::archive(guestbook)).await?;
            if self.client.remove_finalizer(guestbook, FINALIZER).await? {
                cx.events().normal(guestbook, "Archived", "Archive", "the greeting is kept in a ConfigMap");
            }
        }
        Ok(Action::done())
    }

    /// Writes the `Ready` condition, if that changes anything.
    async fn set_ready(
        &self,
        guestbook: &Guestbook,
        cx: &Context,
        ready: &str,
        reason: &str,
        message: &str,
    ) -> Result<(), reconcile::Error> {
        let mut status = guestbook.status.clone().unwrap_or_default();
        status.observed_generation = guestbook.metadata.generation;
        let condition = Condition {
            type_: "Ready".to_owned(),
            status: ready.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: guestbook.metadata.generation,
            last_transition_time: Time(cx.wall_time()),
        };
        set_condition(&mut status.conditions, condition);
        if guestbook.status.as_ref() != Some(&status) {
            let Some(key) = ObjectKey::of(guestbook) else {
                return Ok(());
            };
            self.client.apply_status(&key, &status).await?;
        }
        Ok(())
    }
}
