//! Carries out the steps of the rotation: sends its requests, waits, and watches for changes.

use std::{fmt, sync::Arc, time::Duration};

use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use k8s_openapi::api::core::v1::Secret;
use kube_clock::Clock;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tokio_rustls::rustls::crypto::ring;

use super::{
    SelfManagedCertificates,
    authority::{self, Material},
    rotation::{Generation, Now, Rotation, RotationStep},
    secret,
    targets::Targets,
};
use crate::{
    client::{Client, DynamicClient},
    error::{BoxError, text_with_causes},
    metrics::WebhookMetrics,
    object::{DynamicKind, ObjectKey},
    serving::CurrentCertificate,
    webhook::{WebhookService, Webhooks},
};

/// Delays after failed requests, doubled from the first to the last.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Time after which applied configurations are read even if no change was reported.
const RESYNC: Duration = Duration::from_secs(5 * 60);

/// Shortest time between two writes to `caBundle`s. It limits the load if another program keeps overwriting them.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// State of the certificates and configurations, for readiness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeeperState {
    /// No certificate is served yet, or API servers do not trust it yet.
    Pending,
    /// API servers trust the certificate, and configurations are applied.
    Ready,
    /// Requests fail.
    Failing(String),
}

/// Keeps certificates and configurations up to date.
pub(crate) struct Keeper {
    client: Client,
    clock: Clock,
    started: Instant,
    targets: Targets,
    webhooks: Webhooks,
    certificates: Option<SelfManaged>,
    /// Whether configurations must be applied.
    is_apply_due: bool,
    next_resync: Instant,
    /// Earliest time of the next write to `caBundle`s.
    next_write: Instant,
    /// The last failure that was logged as a warning, until all steps succeed.
    reported: Option<String>,
    state: Arc<watch::Sender<KeeperState>>,
    metrics: WebhookMetrics,
}

/// Self-managed certificates of this replica.
struct SelfManaged {
    options: SelfManagedCertificates,
    rotation: Rotation<Material>,
    /// The Secret as last read.
    secret: Option<Secret>,
    current: Arc<CurrentCertificate>,
    /// ID of the generation that is served.
    served: Option<String>,
}

/// Dependencies of a keeper.
pub(crate) struct KeeperContext {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) webhooks: Webhooks,
    pub(crate) metrics: WebhookMetrics,
    pub(crate) current: Arc<CurrentCertificate>,
    pub(crate) state: Arc<watch::Sender<KeeperState>>,
    /// Name of the operator.
    pub(crate) name: Arc<str>,
}

/// A reported change.
#[derive(Debug, Clone, Copy)]
enum ChangedObject {
    Secret,
    Configurations,
}

impl Keeper {
    /// Makes a keeper; `None` if there is nothing to keep up to date.
    pub(crate) fn new(
        certificates: Option<SelfManagedCertificates>,
        apply: Option<WebhookService>,
        context: KeeperContext,
    ) -> Option<Self> {
        let KeeperContext { client, clock, webhooks, metrics, current, state, name } = context;
        let service = match (&certificates, &apply) {
            (Some(certificates), _) => (certificates.namespace.clone(), certificates.service.clone()),
            (None, Some(service)) => (service.namespace.clone(), service.name.clone()),
            (None, None) => return None,
        };
        let certificates = certificates.map(|options| SelfManaged {
            rotation: Rotation::new(options.names.clone(), options.propagation),
            options,
            secret: None,
            current,
            served: None,
        });
        Some(Self {
            targets: Targets::new(&client, &webhooks, service, apply, &name),
            client,
            clock,
            started: Instant::now(),
            webhooks,
            certificates,
            is_apply_due: true,
            next_resync: Instant::now() + RESYNC,
            next_write: Instant::now(),
            reported: None,
            state,
            metrics,
        })
    }

    /// Runs until dropped.
    pub(crate) async fn run(mut self) {
        let mut registrations = self.webhooks.changes();
        let mut failures = 0;
        loop {
            // Marked before the configurations are computed, so that a later registration is noticed.
            registrations.mark_unchanged();
            let mut changes = self.watch();
            loop {
                let wake = match self.step().await {
                    Ok(wake) => {
                        // A step before the one that failed may succeed each time, such as a read before a write.
                        if wake.is_some() {
                            failures = 0;
                            self.reported = None;
                        }
                        wake
                    }
                    Err(error) => {
                        failures += 1;
                        self.report_failure(&error);
                        Some(Instant::now() + backoff(failures))
                    }
                };
                // `None`: the next step follows at once.
                let Some(wake) = wake else { continue };
                if failures > 0 {
                    // Changes also end the wait: one of them may remove the cause of the failure.
                    sleep(BACKOFF.0).await;
                }
                tokio::select! {
                    // Registrations come first, because they change the watched objects.
                    biased;
                    Ok(()) = registrations.changed() => {
                        self.is_apply_due = true;
                        self.changed(ChangedObject::Configurations);
                        break;
                    }
                    Some(change) = changes.next() => self.changed(change),
                    () = sleep_until(wake) => {}
                }
            }
        }
    }

    /// Records a change that a watch or a registration has reported.
    fn changed(&mut self, change: ChangedObject) {
        match (&mut self.certificates, change) {
            (Some(certificates), ChangedObject::Secret) => certificates.rotation.secret_changed(),
            (Some(certificates), ChangedObject::Configurations) => certificates.rotation.bundles_changed(),
            (None, _) => self.next_resync = Instant::now(),
        }
    }

    /// Carries out the next step. Returns the time of the next one; `None` if it is due at once.
    async fn step(&mut self) -> Result<Option<Instant>, BoxError> {
        let now = self.now();
        if self.certificates.is_none() {
            if !self.is_apply_due && Instant::now() >= self.next_resync {
                self.is_apply_due = self.targets.is_apply_needed().await?;
                // Only now, so that a check that fails is repeated.
                self.next_resync = Instant::now() + RESYNC;
            }
            if self.is_apply_due {
                // Another program may remove the same conversion each time.
                sleep_until(self.next_write).await;
                self.apply(now).await?;
            }
            self.announce(KeeperState::Ready);
            return Ok(Some(self.next_resync));
        }
        let started = self.started;
        let Some(certificates) = &mut self.certificates else { return Ok(None) };
        let step = certificates.rotation.next(now);
        // Before the step, which may fail or wait: the certificate to serve does not depend on it.
        certificates.serve(now, &self.metrics)?;
        match step {
            RotationStep::ReadSecret => certificates.read(&self.client, now).await?,
            RotationStep::WriteSecret { mint } => {
                let minted = mint.then(|| certificates.mint(now)).transpose()?;
                certificates.write(&self.client, minted, now).await?;
            }
            RotationStep::Publish { ids } => {
                let generations = certificates.rotation.proposal(None);
                sleep_until(self.next_write).await;
                if !self.is_apply_due {
                    self.is_apply_due = self.targets.is_apply_needed().await?;
                }
                if self.is_apply_due {
                    self.apply(now).await?;
                }
                let published = self.targets.publish(&generations, now.wall).await?;
                self.metrics.ca_bundles_written(published.writes);
                if published.writes > 0 {
                    self.next_write = Instant::now() + BETWEEN_WRITES;
                }
                // Read again after the requests, because the propagation time starts when they have ended.
                let now = self.now();
                let Some(certificates) = &mut self.certificates else { return Ok(None) };
                certificates.rotation.bundles_lacked(&published.lacked);
                certificates.rotation.bundles_have(&ids, now);
                if certificates.rotation.is_trusted(now) {
                    self.announce(KeeperState::Ready);
                }
            }
            RotationStep::Wait { until } => {
                let is_trusted = certificates.rotation.is_trusted(now);
                self.announce(if is_trusted { KeeperState::Ready } else { KeeperState::Pending });
                return Ok(Some(started + until));
            }
        }
        Ok(None)
    }

    /// Applies the configurations of the registered webhooks.
    async fn apply(&mut self, now: Now) -> Result<(), BoxError> {
        let generations = self
            .certificates
            .as_ref()
            .map(|certificates| certificates.rotation.proposal(None))
            .unwrap_or_default();
        let writes = self.targets.apply(&generations, now.wall).await?;
        self.is_apply_due = false;
        if writes > 0 {
            self.next_write = Instant::now() + BETWEEN_WRITES;
            tracing::info!(writes, "applied the webhook configurations");
        }
        Ok(())
    }

    /// Reads both clocks.
    fn now(&self) -> Now {
        let wall = u64::try_from(self.clock.now().as_second()).unwrap_or_default();
        Now { wall: Duration::from_secs(wall), monotonic: self.started.elapsed() }
    }

    /// Sets the state for readiness. Notifies its receivers only if it differs from the current one.
    fn announce(&self, state: KeeperState) {
        self.state.send_if_modified(|current| {
            let is_new = *current != state;
            *current = state;
            is_new
        });
    }

    /// Counts and logs a failure, and shows it in readiness unless API servers trust the certificate. It is logged as a warning the first
    /// time, and at debug level while it stays the same.
    fn report_failure(&mut self, error: &BoxError) {
        self.metrics.certificate_failed();
        let reason = text_with_causes(&**error);
        let is_trusted = self
            .certificates
            .as_ref()
            .is_some_and(|certificates| certificates.rotation.is_trusted(self.now()));
        self.state.send_if_modified(|current| {
            let failing = KeeperState::Failing(reason.clone());
            let is_new = *current != failing && (*current != KeeperState::Ready || !is_trusted);
            if is_new {
                *current = failing;
            }
            is_new
        });
        if self.reported.as_ref() == Some(&reason) {
            tracing::debug!("cannot update webhook certificates or configurations, retrying: {reason}");
        } else {
            tracing::warn!("cannot update webhook certificates or configurations, retrying: {reason}");
            self.reported = Some(reason);
        }
    }

    /// Changes of the Secret and of the configurations, as the API server reports them.
    fn watch(&self) -> BoxStream<'static, ChangedObject> {
        let secret = self.certificates.iter().map(|certificates| {
            let SelfManagedCertificates { namespace, secret, .. } = &certificates.options;
            let secrets = self.client.of(DynamicKind::of::<Secret>());
            changes(secrets, Some(namespace.clone()), Some(secret.clone()))
                .map(|()| ChangedObject::Secret)
                .boxed()
        });
        let targets = self.targets.watched().into_iter();
        let targets = targets.map(|(client, name)| {
            changes(client, None, name).map(|()| ChangedObject::Configurations).boxed()
        });
        stream::select_all(secret.chain(targets)).boxed()
    }
}

impl SelfManaged {
    /// Key of the Secret.
    fn key(&self) -> ObjectKey<Secret> {
        ObjectKey::new(&*self.options.namespace, &*self.options.secret)
    }

    /// Reads the Secret.
    async fn read(&mut self, client: &Client, now: Now) -> Result<(), BoxError> {
        self.secret = client.get(&self.key()).await?;
        let secret = self.secret.clone().unwrap_or_default();
        let generations = secret::generations(&secret)
            .map_err(|error| format!("Secret {} cannot be used: {error}", self.key()))?;
        self.rotation.secret_has(generations, now);
        Ok(())
    }

    /// Makes a generation.
    fn mint(&self, now: Now) -> Result<Generation<Material>, BoxError> {
        authority::mint(&self.options.names, now.wall, self.options.validity)
    }

    /// Writes the known generations, and the new one if there is one. A conflict is not an error: the Secret is read again.
    async fn write(
        &mut self,
        client: &Client,
        minted: Option<Generation<Material>>,
        now: Now,
    ) -> Result<(), BoxError> {
        let id = minted.as_ref().map(|minted| minted.id.clone());
        let generations = self.rotation.proposal(minted);
        let mut secret = self.secret.clone().unwrap_or_default();
        secret.data = Some(secret::data(&generations));
        // Until a response or a read confirms it, it is unknown whether the Secret has them.
        self.rotation.secret_changed();
        let is_update = self.secret.is_some();
        let written = if is_update {
            client.update(&secret).not_to_cache().await
        } else {
            secret.metadata.name = Some(self.options.secret.clone());
            secret.metadata.namespace = Some(self.options.namespace.clone());
            client.create(&secret).not_to_cache().await
        };
        match written {
            Ok(secret) => {
                self.secret = Some(secret);
                self.rotation.secret_has(generations, now);
                let secret = self.key();
                if let Some(id) = id {
                    tracing::info!(%secret, id, "created a webhook certificate");
                } else {
                    tracing::info!(%secret, "restored the webhook certificates in the Secret");
                }
                Ok(())
            }
            // Another replica was faster. The Secret is read next, because it counts as changed since above.
            Err(error) if error.is_conflict() || error.is_already_exists() => Ok(()),
            // The Secret was deleted meanwhile, and is created after the next read. A creation that is answered with 404 is an error: its
            // namespace does not exist, and another read of the Secret would not show that.
            Err(error) if error.is_not_found() && is_update => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Changes to the certificate that the rotation selects.
    fn serve(&mut self, now: Now, metrics: &WebhookMetrics) -> Result<(), BoxError> {
        let secret = self.key().to_string();
        let Some(generation) = self.rotation.serve(now) else { return Ok(()) };
        if self.served.as_ref() == Some(&generation.id) {
            return Ok(());
        }
        let key = authority::certified_key(&generation.material, &ring::default_provider())?;
        self.current.replace(key);
        metrics.certificate_served(&secret, generation.not_after);
        tracing::info!(id = generation.id, "serving a webhook certificate");
        self.served = Some(generation.id.clone());
        Ok(())
    }
}

/// Changes of the objects of a kind, or of one of them. When the watch ends, it starts again. Its first event reports the changes
/// that it may have missed.
fn changes(
    client: DynamicClient,
    namespace: Option<String>,
    name: Option<String>,
) -> impl Stream<Item = ()> + Send {
    let watches = stream::unfold(0, move |failures: u32| {
        // A watch from version 0 begins with the existing objects, so that no change before the watch is lost.
        let mut watch = client.watch_metadata("0");
        if let Some(namespace) = &namespace {
            watch = watch.in_namespace(namespace.clone());
        }
        if let Some(name) = &name {
            watch = watch.fields(format!("metadata.name={name}"));
        }
        async move {
            if failures > 0 {
                sleep(backoff(failures)).await;
            }
            let mut events = watch.stream().boxed();
            // The first event shows whether the watch works. One that does not is started again after a growing pause; one that did,
            // after the shortest pause, that of one failure.
            let first = events.next().await;
            let failures = match &first {
                Some(Ok(_)) => 1,
                Some(Err(error)) => {
                    tracing::debug!("a watch for webhook certificates failed: {error}");
                    failures.saturating_add(1)
                }
                None => failures.saturating_add(1),
            };
            let rest = events.take_while(|event| std::future::ready(event.is_ok()));
            let first = stream::iter(first.filter(Result::is_ok)).map(|_| ());
            Some((first.chain(rest.map(|_| ())), failures))
        }
    });
    watches.flatten()
}

fn backoff(failures: u32) -> Duration {
    let (first, last) = BACKOFF;
    first.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(last)
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("state", &*self.state.borrow()).finish_non_exhaustive()
    }
}
