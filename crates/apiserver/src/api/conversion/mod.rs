//! Conversion of custom objects by webhooks.
//!
//! Objects are stored in the storage version of their definition. A verb that reads them in another version calls [`Converter::read`],
//! which returns them as if they were stored in the version of the request; the rest of the verb does not depend on webhooks. A verb that
//! writes calls [`Converter::document`] before the commit. Server-side apply and the tracking of field owners compare objects in other
//! versions (see [`Memo`]). Kinds without a webhook need none of this.
//!
//! No lock is held during a call. Controllers of the server never convert: they read and write metadata, which is equal in all versions, in
//! the version in which an object is stored. So a broken webhook stops neither garbage collection nor the deletion of namespaces and
//! definitions.
//!
//! Bounds: a review has at most [`OBJECTS`] objects with about [`BYTES`] bytes; a call takes at most [`TIMEOUT`]; a read waits for at most
//! [`CALLS`] calls at a time; at most 32 MiB of converted objects are kept.

mod cache;
mod conversion_review;
mod converted_text;
mod memo;
mod response_text;
mod restored_metadata;
mod sent_object;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::convert::Infallible;
use std::iter;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use kube_apimachinery::metadata;
use kube_apimachinery::schema;
use kube_apimachinery::status::ApiError;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Duration, Instant, timeout_at};

use self::cache::{Cache, Id};
use self::conversion_review::Review;
use self::converted_text::ConvertedText;
pub(crate) use self::memo::Memo;
use self::sent_object::{SentAsStored, original};
use crate::kind::registry::ServedKind;
use crate::kind::storage_version::version_number;
use crate::kind::webhook_conversion::{ObjectVersion, WebhookConversion};
use crate::state::{ClusterState, Turns};
use crate::store::{Document, Stored};
use crate::webhook_client::TimeoutQuery;

/// Maximum number of objects of a review.
const OBJECTS: usize = 500;
/// Size in bytes after which no more objects are added to a review. A single object may be larger.
const BYTES: usize = 512 << 10;
/// Estimated size of the type of an object in a review, and of the separators around it, in bytes.
const AROUND_OBJECT: usize = 96;
/// Maximum number of calls for one read at a time: while the webhook converts one batch, the server writes the next or reads the last.
const CALLS: usize = 3;
/// Maximum duration of a call, equal to the longest timeout of an admission webhook. kube-apiserver has no limit of its own.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An object with its position in a list.
type Placed<'a> = (usize, &'a Arc<Stored>);
/// Converted objects with their positions.
type ConvertedBatch = Vec<(usize, Arc<Stored>)>;

/// Whether a read accepts an object that was converted earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EarlierConversion {
    /// For lists and watches, which kube-apiserver serves from its watch cache of converted objects.
    Accepted,
    /// For a GET of the current state, which kube-apiserver reads from etcd and converts each time.
    Ignored,
}

/// Locks of the work on the reviews of one read: at most one review is written, and at most one answer is read, at a time.
///
/// Both yield. Without locks, all reviews would be written in turns: the webhook would idle until the last one is written, and the server
/// until the last one is answered. With one lock for both, answers that have arrived would delay the next review, and the webhook would
/// idle meanwhile.
#[derive(Default)]
struct Work {
    writing: tokio::sync::Mutex<()>,
    reading: tokio::sync::Mutex<()>,
}

/// Calls conversion webhooks, and keeps converted objects.
#[derive(Default)]
pub(crate) struct Converter {
    cache: Mutex<Cache>,
    /// Objects that are being converted. The receivers are notified when the call ends, successfully or not.
    underway: Mutex<BTreeMap<Id, watch::Receiver<()>>>,
}

impl Converter {
    /// Returns objects in the version of `served`, in the same order. Objects that are stored in this version are returned unchanged.
    /// Objects that are kept from an earlier conversion need no call.
    ///
    /// Dropping the future ends the call.
    ///
    /// # Errors
    /// 500 if the webhook fails.
    pub(crate) async fn read(
        &self,
        cluster: &ClusterState,
        served: &ServedKind,
        objects: &[Arc<Stored>],
    ) -> Result<Vec<Arc<Stored>>, ApiError> {
        let Some(webhook) = &served.webhook else { return Ok(objects.to_vec()) };
        let mut converted: Vec<Option<Arc<Stored>>> = vec![None; objects.len()];
        self.find(served, objects, &mut converted);
        // Objects that another read is converting are not sent to the webhook twice.
        let calls = self.calls_of_others(served, objects, &converted);
        if !calls.is_empty() {
            let deadline = Instant::now() + TIMEOUT;
            for mut call in calls {
                // An error means that the call ended. Waiting has a deadline, because the task of the other call may no longer be polled.
                let _ = timeout_at(deadline, call.changed()).await;
            }
            // The objects of a call that failed are still missing, and are converted below.
            self.find(served, objects, &mut converted);
        }
        let missing = (0..objects.len()).filter(|at| converted[*at].is_none());
        let missing: Vec<Placed<'_>> = missing.map(|at| (at, &objects[at])).collect();
        if missing.is_empty() {
            return Ok(converted.into_iter().flatten().collect());
        }
        // Lives until this read ends. On an error or a cancellation its drop also wakes the reads that wait
        // for it.
        let _underway = self.begin(served, &missing);
        let work = Work::default();
        let calls: Vec<_> = batches(&missing)
            .into_iter()
            .map(|batch| self.convert_batch(cluster, served, webhook, batch, &work))
            .collect();
        let mut calls = stream::iter(calls).buffered(CALLS);
        while let Some(results) = calls.try_next().await? {
            for (at, object) in results {
                converted[at] = Some(object);
            }
        }
        Ok(converted.into_iter().flatten().collect())
    }

    /// Converts objects, each with its position, in one review.
    fn convert_batch<'a>(
        &'a self,
        cluster: &'a ClusterState,
        served: &'a ServedKind,
        webhook: &'a WebhookConversion,
        batch: &'a [Placed<'a>],
        work: &'a Work,
    ) -> BoxFuture<'a, Result<ConvertedBatch, ApiError>> {
        let converted = async move {
            let objects: Vec<&Stored> = batch.iter().map(|(_, stored)| &***stored).collect();
            let results = self.convert(cluster, served, webhook, &objects, work).await?;
            Ok(batch.iter().map(|(at, _)| *at).zip(results).collect())
        };
        converted.boxed()
    }

    /// Converts the objects of one review, and keeps the results.
    async fn convert(
        &self,
        cluster: &ClusterState,
        served: &ServedKind,
        webhook: &WebhookConversion,
        objects: &[&Stored],
        work: &Work,
    ) -> Result<Vec<Arc<Stored>>, ApiError> {
        let version = webhook.version(&served.resource.version).ok_or_else(|| {
            let api_version = &served.kind.api_version;
            ApiError::internal(format!("request to convert CR to an invalid group/version: {api_version}"))
        })?;
        let documents =
            Self::convert_stored(cluster, served, webhook, version, objects, work).await?.into_iter();
        let mut cache = self.cache.lock();
        let kept = objects.iter().zip(documents).map(|(stored, document)| {
            let object = Arc::new(Stored::new(stored.revision, document));
            // Revision 0 means that the object is not stored.
            if stored.revision != 0 {
                cache.insert((served.id, stored.revision), &object);
            }
            object
        });
        Ok(kept.collect())
    }

    /// Converts stored objects to `version`, which is that of `served`, with one call. Yields between the objects. Most of them are neither
    /// parsed nor encoded, except for the converted fields.
    async fn convert_stored(
        cluster: &ClusterState,
        served: &ServedKind,
        webhook: &WebhookConversion,
        version: &ObjectVersion,
        objects: &[&Stored],
        work: &Work,
    ) -> Result<Vec<Document>, ApiError> {
        let unchanged = SentAsStored::of(cluster, served, webhook);
        let mut turns = Turns::default();
        let writing = work.writing.lock().await;
        let size = objects.iter().map(|stored| stored.document.len() + AROUND_OBJECT).sum();
        let mut review = Review::new(webhook.review, cluster.audit_id(), &version.kind.api_version, size);
        for stored in objects {
            match unchanged.as_ref().filter(|unchanged| unchanged.applies_to(stored)) {
                Some(SentAsStored { version, .. }) => review.push_stored(&stored.document, &version.kind),
                None => review.push(original(webhook, stored)?),
            }
            turns.pass().await;
        }
        // Released before the call, so that the next review is written while the webhook works on this one.
        drop(writing);
        let answer = Self::answer(cluster, webhook, &mut review).await?;
        let _reading = work.reading.lock().await;
        let restored = |review: &Review<'_>, at: usize, converted: ConvertedText<'_>| {
            let prune = |content: &mut Value| served.schema.prune(content);
            let (written_as, stored_in) = (served.id, version_number(&served.resource.version));
            review.restored(at, converted, &objects.get(at)?.document, prune, written_as, stored_in)
        };
        let answered = review.objects(&answer, &mut turns, restored).await.map_err(ApiError::internal)?;
        let mut documents = Vec::with_capacity(answered.len());
        for object in answered {
            documents.push(match object {
                Ok(document) => document,
                Err(unchecked) => {
                    let mut value = review.check(unchecked).map_err(ApiError::internal)?;
                    served.schema.prune(&mut value);
                    turns.pass().await;
                    served.document(&value)
                }
            });
        }
        Ok(documents)
    }

    /// Calls the webhook with a review.
    async fn answer(
        cluster: &ClusterState,
        webhook: &WebhookConversion,
        review: &mut Review<'_>,
    ) -> Result<Bytes, ApiError> {
        let answer = cluster.call_webhook(&webhook.client, review.body(), TIMEOUT, TimeoutQuery::Omitted);
        answer.await.map_err(|error| ApiError::internal(review.failed(&error.to_string())))
    }

    /// Returns the stored form of an object of `served`.
    ///
    /// # Errors
    /// 500 if the webhook fails.
    pub(crate) async fn document(
        &self,
        cluster: &ClusterState,
        served: &ServedKind,
        object: &Value,
    ) -> Result<Document, ApiError> {
        let storage = served.webhook.as_ref().filter(|_| served.converts_writes());
        let Some((webhook, storage)) =
            storage.and_then(|webhook| Some((webhook, webhook.version(&webhook.storage)?)))
        else {
            check_metadata(served, object)?;
            return Ok(served.document(object));
        };
        let original = object;
        let mut object = original.clone();
        metadata::of(&mut object).remove("resourceVersion");
        let documents = Self::call(cluster, webhook, storage, iter::once(Ok(object)), |mut converted| {
            storage.schema.prune(&mut converted);
            schema::coerce_stored_metadata(&storage.schema, &mut converted);
            // The document is written without a schema: a reader in the storage version sets its defaults.
            Document::new(&converted, 0, version_number(&storage.name))
        });
        let document = documents.await?.pop().expect("the answer has as many objects as the review");
        check_metadata(served, original)?;
        Ok(document)
    }

    /// Returns one object in the version of `served`, like [`read`](Self::read). With [`EarlierConversion::Ignored`] the webhook is always
    /// called.
    ///
    /// # Errors
    /// Like [`read`](Self::read).
    pub(crate) async fn read_one(
        &self,
        cluster: &ClusterState,
        served: &ServedKind,
        stored: Arc<Stored>,
        kept: EarlierConversion,
    ) -> Result<Arc<Stored>, ApiError> {
        let Some(webhook) = served.webhook.as_ref().filter(|_| served.awaits_conversion(&stored)) else {
            return Ok(stored);
        };
        let converted = match kept {
            EarlierConversion::Accepted => self.read(cluster, served, std::slice::from_ref(&stored)).await?,
            EarlierConversion::Ignored => {
                self.convert(cluster, served, webhook, &[&stored], &Work::default()).await?
            }
        };
        Ok(converted.into_iter().next().unwrap_or(stored))
    }

    /// Returns an object of a request in the version of `to`, neither defaulted nor pruned by the schema of that version. Admission
    /// webhooks receive objects in the version of their rules.
    ///
    /// # Errors
    /// 500 if the webhook fails.
    pub(crate) async fn between(
        cluster: &ClusterState,
        to: &ServedKind,
        mut object: Value,
    ) -> Result<Value, ApiError> {
        let webhook = to.webhook.as_ref();
        let Some((webhook, version)) =
            webhook.and_then(|webhook| Some((webhook, webhook.version(&to.resource.version)?)))
        else {
            return Ok(object);
        };
        // Reviews of conversions contain no revision.
        let revision = metadata::of(&mut object).remove("resourceVersion");
        let converted = Self::call(cluster, webhook, version, iter::once(Ok(object)), |mut converted| {
            if let Some(revision) = &revision {
                metadata::of(&mut converted).insert("resourceVersion".to_owned(), revision.clone());
            }
            converted
        });
        Ok(converted.await?.pop().expect("the answer has as many objects as the review"))
    }

    /// Converts an object that is not stored to its stored form and back, so that it equals the object that a reader would receive after a
    /// commit.
    ///
    /// # Errors
    /// 500 if the webhook fails.
    pub(crate) async fn round_trip(
        &self,
        cluster: &ClusterState,
        served: &ServedKind,
        object: Value,
    ) -> Result<Value, ApiError> {
        if !served.converts_writes() {
            check_metadata(served, &object)?;
            return Ok(object);
        }
        let document = self.document(cluster, served, &object).await?;
        // No commit has revision 0.
        let stored = self
            .read_one(cluster, served, Arc::new(Stored::new(0, document)), EarlierConversion::Ignored)
            .await?;
        let mut shown = served.value(&stored);
        let revision = object["metadata"].get("resourceVersion").cloned();
        let fields = metadata::of(&mut shown);
        match revision {
            Some(revision) => fields.insert("resourceVersion".to_owned(), revision),
            None => fields.remove("resourceVersion"),
        };
        Ok(shown)
    }

    /// Converts objects of other versions to one version, with one call. Returns the result of `keep` for each object, in order. Yields
    /// between the objects.
    ///
    /// # Errors
    /// The first error of `objects`, or 500 if the webhook fails.
    async fn call<T>(
        cluster: &ClusterState,
        webhook: &WebhookConversion,
        desired: &ObjectVersion,
        objects: impl Iterator<Item = Result<Value, ApiError>>,
        mut keep: impl FnMut(Value) -> T,
    ) -> Result<Vec<T>, ApiError> {
        let mut turns = Turns::default();
        let mut review = Review::new(webhook.review, cluster.audit_id(), &desired.kind.api_version, 0);
        for object in objects {
            review.push(object?);
            turns.pass().await;
        }
        let answer = Self::answer(cluster, webhook, &mut review).await?;
        let objects = review.objects(&answer, &mut turns, |_, _, _| None);
        let objects = objects.await.map_err(ApiError::internal)?;
        let mut kept = Vec::with_capacity(objects.len());
        for Err::<Infallible, _>(object) in objects {
            kept.push(keep(review.check(object).map_err(ApiError::internal)?));
            turns.pass().await;
        }
        Ok(kept)
    }

    /// Fills `converted` with the objects that need no conversion, and with those in the cache.
    fn find(&self, served: &ServedKind, objects: &[Arc<Stored>], converted: &mut [Option<Arc<Stored>>]) {
        let cache = self.cache.lock();
        for (stored, converted) in objects.iter().zip(converted).filter(|(_, converted)| converted.is_none())
        {
            *converted = if served.awaits_conversion(stored) {
                cache.get((served.id, stored.revision))
            } else {
                Some(Arc::clone(stored))
            };
        }
    }

    /// Returns the calls of other tasks that currently convert missing objects.
    fn calls_of_others(
        &self,
        served: &ServedKind,
        objects: &[Arc<Stored>],
        converted: &[Option<Arc<Stored>>],
    ) -> Vec<watch::Receiver<()>> {
        let underway = self.underway.lock();
        let missing = objects.iter().zip(converted).filter(|(_, converted)| converted.is_none());
        let mut calls: Vec<watch::Receiver<()>> = Vec::new();
        for (stored, _) in missing {
            if let Some(call) = underway.get(&(served.id, stored.revision))
                && !calls.iter().any(|known| known.same_channel(call))
            {
                calls.push(call.clone());
            }
        }
        calls
    }

    /// Records that this caller converts objects, until the result is dropped. Objects that another caller already converts stay recorded
    /// for that caller.
    fn begin(&self, served: &ServedKind, objects: &[Placed<'_>]) -> Underway<'_> {
        let (sender, receiver) = watch::channel(());
        let mut underway = self.underway.lock();
        let mut ids = Vec::new();
        for (_, stored) in objects.iter().filter(|(_, stored)| stored.revision != 0) {
            let id = (served.id, stored.revision);
            // Another read may have begun with the object since. Its entry stays, and its own guard removes
            // it.
            if let Entry::Vacant(vacant) = underway.entry(id) {
                vacant.insert(receiver.clone());
                ids.push(id);
            }
        }
        Underway { converter: self, ids, _ends: sender }
    }
}

/// Objects that a caller converts. Dropping it wakes the callers that wait for these objects.
struct Underway<'a> {
    converter: &'a Converter,
    ids: Vec<Id>,
    _ends: watch::Sender<()>,
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        // The body of `drop` runs before the sender is dropped. Therefore a caller that wakes does not find
        // the entry of the ended call.
        let mut underway = self.converter.underway.lock();
        for id in &self.ids {
            underway.remove(id);
        }
    }
}

/// Splits objects into batches for one review each.
fn batches<'a, 'b>(objects: &'a [Placed<'b>]) -> Vec<&'a [Placed<'b>]> {
    let mut batches = Vec::new();
    let (mut first, mut bytes) = (0, 0);
    for (at, (_, stored)) in objects.iter().enumerate() {
        if at > first && (at - first == OBJECTS || bytes + stored.document.len() > BYTES) {
            batches.push(&objects[first..at]);
            (first, bytes) = (at, 0);
        }
        bytes += stored.document.len();
    }
    if first < objects.len() {
        batches.push(&objects[first..]);
    }
    batches
}

/// Checks the metadata of an object that is stored in another version, which must be those of ObjectMeta.
///
/// # Errors
/// 500 with Go's message.
fn check_metadata(served: &ServedKind, object: &Value) -> Result<(), ApiError> {
    if !served.is_stored_in_another_version() && !served.converts_writes() {
        return Ok(());
    }
    let mut metadata = json!({"metadata": object["metadata"]});
    schema::coerce_metadata(&served.schema, &mut metadata).map_err(ApiError::internal)
}
