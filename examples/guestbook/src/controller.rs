//! The controller: creates and updates the Deployment and the ConfigMap of each Guestbook, and reports its condition.

use controller_runtime::{
    Action, Builder, Cached, Context, Kind, Lazy, Manager, ObjectKey, ReadError, ReconcileError, Reconciler,
    StaticObject, TryMapFn, has_finalizer, is_controlled_by, manager::AddError, predicate::GenerationChanged,
    set_condition,
};
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::ConfigMap},
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::ResourceExt;

use crate::{api::Guestbook, children};

/// Finalizer that delays the deletion of a Guestbook until its greeting is archived.
pub const FINALIZER: &str = "example.com/archive";

/// Adds the Guestbook controller to a manager.
///
/// # Errors
///
/// The manager already has a Guestbook controller.
pub fn add_to(manager: &Manager) -> Result<(), AddError> {
    build(manager, GuestbookReconciler::new(manager))
}

/// Like [`add_to`], but with the given reconciler.
///
/// # Errors
///
/// The manager already has a Guestbook controller.
pub fn build(
    manager: &Manager,
    reconciler: impl Reconciler<Request = ObjectKey<Guestbook>>,
) -> Result<(), AddError> {
    Builder::managed_by(manager)
        .for_kind::<Guestbook>()
        // Writes of the status and of finalizers do not change the generation, so the controller's own writes cause no reconcile.
        .with_predicate(GenerationChanged)
        .with_finalizer(FINALIZER)
        .owns::<Deployment>()
        .owns::<ConfigMap>()
        .watches(Kind::new(TryMapFn(users_of_theme(manager.cached()))))
        .complete(reconciler)?;
    Ok(())
}

/// Maps a theme's ConfigMap to the Guestbooks that use it.
fn users_of_theme(
    guestbooks: Cached<Guestbook>,
) -> impl Fn(&ConfigMap) -> Result<Vec<ObjectKey<Guestbook>>, ReadError> + Send + Sync {
    move |theme: &ConfigMap| {
        let mut users = guestbooks.list_lazy()?;
        // Decodes only Guestbooks in the theme's namespace, and skips a Guestbook that does not fit its type.
        users.retain(|guestbook| {
            guestbook.meta().namespace() == theme.metadata.namespace.as_deref()
                && guestbook.object().is_ok_and(|guestbook| guestbook.spec.theme == theme.metadata.name)
        });
        Ok(users.iter().map(Lazy::key).collect())
    }
}

/// Reconciles Guestbooks.
#[derive(Debug)]
pub struct GuestbookReconciler {
    guestbooks: Cached<Guestbook>,
    config_maps: Cached<ConfigMap>,
    deployments: Cached<Deployment>,
}

/// An object that this Guestbook does not control has the name of a child.
#[derive(Debug, thiserror::Error)]
#[error("{child} exists, but this Guestbook does not control it: rename one of them")]
struct NameTaken {
    child: String,
}

/// The theme of a Guestbook.
enum Theme {
    /// Style sheet of the theme; `None` if the Guestbook names no theme, or the theme has no style sheet.
    Style(Option<String>),
    NotFound(ThemeNotFound),
}

/// The theme of a Guestbook does not exist.
#[derive(Debug, thiserror::Error)]
#[error("theme not found: create ConfigMap {namespace}/{theme}, or name another one in spec.theme")]
struct ThemeNotFound {
    namespace: String,
    theme: String,
}

impl Reconciler for GuestbookReconciler {
    type Request = ObjectKey<Guestbook>;

    async fn reconcile(&self, key: &ObjectKey<Guestbook>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(guestbook) = self.guestbooks.get(key)? else {
            return Ok(Action::done()); // deleted; its children are garbage collected
        };
        if guestbook.metadata.deletion_timestamp.is_some() {
            return self.archive(&guestbook, cx).await;
        }
        // Before all other writes, so that a later deletion waits for the archive.
        cx.client().add_finalizer(&*guestbook, FINALIZER).await?;

        let style = match self.theme(&guestbook)? {
            Theme::Style(style) => style,
            Theme::NotFound(missing) => {
                cx.events().warning(&*guestbook, "ThemeNotFound", "ReadTheme", missing.to_string());
                self.set_ready(&guestbook, cx, "False", "ThemeNotFound", &missing.to_string()).await?;
                return Err(missing.into()); // retried with back-off, and when the theme is created
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
    /// Creates a reconciler with the manager's caches.
    #[must_use]
    pub fn new(manager: &Manager) -> Self {
        Self { guestbooks: manager.cached(), config_maps: manager.cached(), deployments: manager.cached() }
    }

    /// Reads the theme that the Guestbook names.
    fn theme(&self, guestbook: &Guestbook) -> Result<Theme, ReadError> {
        let Some(theme) = &guestbook.spec.theme else {
            return Ok(Theme::Style(None));
        };
        let namespace = guestbook.namespace().unwrap_or_default();
        let Some(config) = self.config_maps.get(&ObjectKey::new(&*namespace, &**theme))? else {
            return Ok(Theme::NotFound(ThemeNotFound { namespace, theme: theme.clone() }));
        };
        Ok(Theme::Style(config.data.as_ref().and_then(|files| files.get("style.css")).cloned()))
    }

    async fn apply_children(
        &self,
        guestbook: &Guestbook,
        style: Option<&str>,
        cx: &Context,
    ) -> Result<(), ReconcileError> {
        self.apply_child(guestbook, &children::page(guestbook, style)?, &self.config_maps, cx).await?;
        self.apply_child(guestbook, &children::deployment(guestbook)?, &self.deployments, cx).await
    }

    /// Applies a child and records an Event if the child changed.
    async fn apply_child<K: StaticObject>(
        &self,
        guestbook: &Guestbook,
        child: &K,
        cached: &Cached<K>,
        cx: &Context,
    ) -> Result<(), ReconcileError> {
        let before = ObjectKey::of(child).map(|key| cached.get(&key)).transpose()?.flatten();
        // The apply is forced: it would also overwrite fields of an object that this Guestbook does not control.
        if let Some(foreign) = before.as_deref().filter(|before| !is_controlled_by(*before, guestbook)) {
            let child = format!(
                "{} {}/{}",
                K::kind(&()),
                guestbook.namespace().unwrap_or_default(),
                foreign.name_any()
            );
            return Err(NameTaken { child }.into());
        }
        let after = cx.client().apply(child).await?;
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

    /// Archives the greeting, then removes the finalizer. The children are garbage collected, because the Guestbook owns them.
    async fn archive(&self, guestbook: &Guestbook, cx: &Context) -> Result<Action, ReconcileError> {
        if has_finalizer(guestbook, FINALIZER) {
            // The finalizer is removed last: a crash in between repeats the apply, which changes nothing.
            cx.client().apply(&children::archive(guestbook)).await?;
            if cx.client().remove_finalizer(guestbook, FINALIZER).await? {
                cx.events().normal(guestbook, "Archived", "Archive", "archived the greeting in a ConfigMap");
            }
        }
        Ok(Action::done())
    }

    /// Writes the `Ready` condition if the status changes.
    async fn set_ready(
        &self,
        guestbook: &Guestbook,
        cx: &Context,
        ready: &str,
        reason: &str,
        message: &str,
    ) -> Result<(), ReconcileError> {
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
        // `set_condition` keeps the time of an unchanged condition, so an equal status needs no write.
        if guestbook.status.as_ref() != Some(&status) {
            let Some(key) = ObjectKey::of(guestbook) else {
                return Ok(());
            };
            cx.client().apply_status(&key, &status).await?;
        }
        Ok(())
    }
}
