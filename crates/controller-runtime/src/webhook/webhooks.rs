//! The registered webhooks of a manager.

use std::{
    fmt,
    future::Future,
    sync::{Arc, OnceLock},
};

use futures::FutureExt;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use super::{
    admission::Admission,
    answer,
    authentication::{AuthenticateFn, Authenticated, TokenRequest},
    registration::{AdmitFn, Hook, RegisterError, Registration, WebhookRegistrations},
    rejection::{Rejection, Verdict},
    rule::{AdmissionPhase, Rule},
};
use crate::{error::BoxError, metrics::WebhookMetrics};

/// The webhooks of a manager: [`Manager::webhooks`](crate::Manager::webhooks).
///
/// A handle: its clones refer to the same webhooks. Those of a kind are registered by the builder
/// ([`defaulted`](crate::ControllerBuilder::defaulted), [`validated`](crate::ControllerBuilder::validated),
/// [`converted`](crate::ControllerBuilder::converted)), handlers of any kind by the methods of this type.
#[derive(Clone)]
#[doc(alias = "webhook.Server")]
pub struct Webhooks {
    pub(super) inner: Arc<WebhooksInner>,
}

pub(super) struct WebhooksInner {
    registrations: RwLock<WebhookRegistrations>,
    /// Number of changes of the registrations, and whether there are any.
    registered: watch::Sender<(u64, bool)>,
    pub(super) metrics: WebhookMetrics,
    pub(super) max_conversion_bytes: usize,
    /// Room for the bodies of running requests, in units of [`answer::UNIT`] bytes.
    pub(super) bodies: Semaphore,
    /// Turns of large conversion reviews, one for each thread of the runtime. Created by the first review, because before that no
    /// runtime may exist.
    pub(super) conversions: OnceLock<Semaphore>,
}

impl Webhooks {
    pub(crate) fn new(metrics: WebhookMetrics, max_conversion_bytes: usize) -> Self {
        Self {
            inner: Arc::new(WebhooksInner {
                registrations: RwLock::default(),
                registered: watch::Sender::new((0, false)),
                metrics,
                max_conversion_bytes,
                bodies: Semaphore::new(answer::MAX_BYTES_IN_FLIGHT / answer::UNIT),
                conversions: OnceLock::new(),
            }),
        }
    }

    /// Adds a handler that may change objects: it returns the changed object, or `None`. Handlers with the same rule run in the
    /// order of registration, each on the object that the previous one returned.
    ///
    /// ```
    /// use controller_runtime::webhook::{Admission, RegisterError, Rule, Webhooks};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// fn register(webhooks: &Webhooks) -> Result<(), RegisterError> {
    ///     webhooks.mutating(Rule::of::<Pod>(), async |cx: Admission| {
    ///         let before: Pod = cx.object()?;
    ///         let mut after = before.clone();
    ///         after.metadata.labels.get_or_insert_default().insert("example.com/seen".into(), "true".into());
    ///         cx.changed(&before, &after)
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The path is invalid or taken by another rule; the rule has no operations.
    pub fn mutating<F, A>(&self, rule: Rule, handler: F) -> Result<(), RegisterError>
    where
        F: Fn(Admission) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Option<Value>, Rejection>> + Send + 'static,
    {
        self.add(AdmissionPhase::Mutating, rule, Box::new(move |cx| handler(cx).boxed()))
    }

    /// Adds a handler that validates operations. All handlers with the same rule run, and all must accept.
    ///
    /// ```
    /// use controller_runtime::webhook::{Admission, Operation, RegisterError, Rejection, Rule, Webhooks};
    /// use k8s_openapi::api::core::v1::Namespace;
    ///
    /// fn register(webhooks: &Webhooks) -> Result<(), RegisterError> {
    ///     let deletions = Rule::of::<Namespace>().operations(&[Operation::Delete]);
    ///     webhooks.validating(deletions, async |cx: Admission| {
    ///         let namespace: Namespace = cx.old_object()?;
    ///         match namespace.metadata.labels.is_some_and(|labels| labels.contains_key("example.com/keep")) {
    ///             true => Err(Rejection::forbidden("the namespace has the label example.com/keep")),
    ///             false => Ok(()),
    ///         }
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The path is invalid or taken by another rule; the rule has no operations.
    pub fn validating<F, A>(&self, rule: Rule, handler: F) -> Result<(), RegisterError>
    where
        F: Fn(Admission) -> A + Send + Sync + 'static,
        A: Future<Output = Verdict> + Send + 'static,
    {
        let admit: AdmitFn = Box::new(move |cx| handler(cx).map(|verdict| verdict.map(|()| None)).boxed());
        self.add(AdmissionPhase::Validating, rule, admit)
    }

    /// Adds a handler that authenticates bearer tokens for kube-apiserver
    /// (`--authentication-token-webhook-config-file`). It returns the user, `None` for an unknown token, or the reason
    /// why the token cannot be checked.
    ///
    /// ```
    /// use controller_runtime::webhook::{Authenticated, RegisterError, TokenRequest, Webhooks};
    /// use k8s_openapi::api::authentication::v1::UserInfo;
    ///
    /// fn register(webhooks: &Webhooks) -> Result<(), RegisterError> {
    ///     webhooks.authentication("/authenticate", async |request: TokenRequest| {
    ///         let jane = UserInfo { username: Some("jane".into()), ..UserInfo::default() };
    ///         Ok((request.token() == "secret of jane").then(|| Authenticated::from(jane)))
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The path is invalid or taken.
    pub fn authentication<F, A>(&self, path: impl Into<String>, handler: F) -> Result<(), RegisterError>
    where
        F: Fn(TokenRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Option<Authenticated>, BoxError>> + Send + 'static,
    {
        let authenticate: AuthenticateFn = Arc::new(move |request| handler(request).boxed());
        self.register(vec![Registration::Authentication { path: path.into(), authenticate }]).map(drop)
    }

    fn add(&self, phase: AdmissionPhase, rule: Rule, admit: AdmitFn) -> Result<(), RegisterError> {
        let hook = Hook { phase, rule, role: None, admit };
        self.register(vec![Registration::Admission(Arc::new(hook))]).map(drop)
    }

    /// Registers all webhooks, or none if one is refused. Returns the number with which [`unregister`](Self::unregister) removes
    /// them.
    pub(crate) fn register(&self, all: Vec<Registration>) -> Result<u64, RegisterError> {
        let mut registrations = self.inner.registrations.write();
        let registered = registrations.register(all)?;
        for path in registrations.served_paths() {
            self.inner.metrics.of(path);
        }
        self.announce(&registrations);
        Ok(registered)
    }

    pub(crate) fn unregister(&self, registered: u64) {
        let mut registrations = self.inner.registrations.write();
        registrations.unregister(registered);
        self.announce(&registrations);
    }

    fn announce(&self, registrations: &WebhookRegistrations) {
        self.inner
            .registered
            .send_modify(|(changes, any)| (*changes, *any) = (*changes + 1, !registrations.is_empty()));
    }

    /// Reads the registrations.
    pub(super) fn with_registrations<T>(&self, read: impl FnOnce(&WebhookRegistrations) -> T) -> T {
        read(&self.inner.registrations.read())
    }

    /// Returns whether there is no webhook.
    pub(crate) fn is_empty(&self) -> bool {
        self.with_registrations(WebhookRegistrations::is_empty)
    }

    /// Names of the definitions with a converter.
    pub(super) fn converted(&self) -> Vec<String> {
        self.with_registrations(|registrations| {
            registrations.converters.values().map(|(_, converter)| converter.hub().to_string()).collect()
        })
    }

    /// Waits until there is a webhook to serve.
    pub(crate) async fn registered(&self) {
        // Cannot fail, because `self` holds the sender.
        let _ = self.inner.registered.subscribe().wait_for(|(_, any)| *any).await;
    }

    /// Receiver that is notified when a webhook is registered or removed.
    pub(crate) fn changes(&self) -> watch::Receiver<(u64, bool)> {
        self.inner.registered.subscribe()
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_registrations(|registrations| {
            let kinds = registrations.converters.keys().map(|(group, kind)| format!("{kind}.{group}"));
            f.debug_struct("Webhooks")
                .field("paths", &registrations.served_paths().collect::<Vec<_>>())
                .field("converters", &kinds.collect::<Vec<_>>())
                .finish()
        })
    }
}
