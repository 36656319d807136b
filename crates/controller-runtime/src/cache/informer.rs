//! The shell around [`ListWatch`]: asks the API server, keeps the store, tells the subscribers.

use std::sync::Arc;

use futures::StreamExt;
use http_body_util::BodyExt;
use kube::{
    client::Body,
    core::{
        Request as ApiRequest,
        params::{ListParams, WatchParams},
    },
};
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::watch,
    time::{Duration, Instant, sleep, timeout_at},
};

use super::{
    list_watch::{Failure, Input, ListWatch, Step},
    store::Store,
    wire::{self, Line, Lines, Page, Rejected},
};
use crate::{
    client::describe,
    event::Event,
    object::{Object, ObjectKey, resource_name},
};

/// Objects per page of a list.
const PAGE_SIZE: u32 = 500;

/// How long a watch may stay open past the time at which the server should have ended it.
const OVERDUE: Duration = Duration::from_secs(10);

/// All objects of one kind, kept up to date while [`Informer::run`] runs.
pub(crate) struct Informer<K: Object> {
    store: RwLock<Store<K>>,
    /// Held while events are delivered, so that every subscriber sees them in one order, and a late one sees the
    /// present first. Taken before `store`, never while it is held.
    subscribers: Mutex<Vec<Subscriber<K>>>,
    status: watch::Sender<Status>,
}

type Subscriber<K> = Box<dyn Fn(&Event<K>) + Send>;

/// Whether an informer knows the present.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status {
    pub(crate) synced: bool,
    /// What last went wrong, until something goes right.
    pub(crate) error: Option<String>,
}

impl<K: Object> Default for Informer<K> {
    fn default() -> Self {
        Self {
            store: RwLock::default(),
            subscribers: Mutex::default(),
            status: watch::Sender::default(),
        }
    }
}

impl<K: Object> Informer<K> {
    pub(crate) fn get(&self, key: &ObjectKey<K>) -> Option<Arc<K>> {
        self.store.read().get(key).cloned()
    }

    /// The objects that `keep` wants, in key order.
    pub(crate) fn list(&self, keep: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.store
            .read()
            .objects()
            .filter(|object| keep(object))
            .cloned()
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.store.read().len()
    }

    pub(crate) fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Calls `subscriber` with the present, as initial creates in key order, and then with every event.
    ///
    /// It is called where events are delivered and must not block.
    pub(crate) fn subscribe(&self, subscriber: impl Fn(&Event<K>) + Send + 'static) {
        let mut subscribers = self.subscribers.lock();
        for object in self.list(|_| true) {
            subscriber(&Event::Create {
                object,
                in_initial_list: true,
            });
        }
        subscribers.push(Box::new(subscriber));
    }

    /// Lists and watches until dropped.
    ///
    /// Dropping the future at any point leaves the store as it was last; running again brings it up to date.
    pub(crate) async fn run(&self, client: &kube::Client, rng: fastrand::Rng) {
        let mut machine = ListWatch::new(rng);
        let mut listed = Vec::new();
        let mut input = Input::Start;
        loop {
            input = match machine.step(input, Instant::now()) {
                Step::Wait(delay) => {
                    sleep(delay).await;
                    Input::Waited
                }
                Step::List { continue_token } => self.list_page(client, continue_token, &mut listed).await,
                Step::Watch {
                    resource_version,
                    timeout,
                } => self.watch(client, &mut machine, &resource_version, timeout).await,
            };
        }
    }

    async fn list_page(
        &self,
        client: &kube::Client,
        token: Option<String>,
        listed: &mut Vec<(ObjectKey<K>, K)>,
    ) -> Input {
        if token.is_none() {
            listed.clear();
        }
        let params = ListParams {
            limit: Some(PAGE_SIZE),
            continue_token: token,
            ..ListParams::default()
        };
        match fetch_page(client, &params).await {
            Ok(page) => {
                page.rejected.iter().for_each(report::<K>);
                listed.extend(page.objects);
                if page.continue_token.is_none() {
                    let objects = std::mem::take(listed);
                    self.update(|store| store.replace(objects));
                    self.status.send_replace(Status {
                        synced: true,
                        error: None,
                    });
                }
                Input::Page {
                    resource_version: page.resource_version,
                    continue_token: page.continue_token,
                }
            }
            Err(problem) => Input::ListFailed(self.failed("list", problem)),
        }
    }

    async fn watch(
        &self,
        client: &kube::Client,
        machine: &mut ListWatch,
        resource_version: &str,
        timeout: Duration,
    ) -> Input {
        let started = Instant::now();
        let mut progressed = false;
        let result = self
            .follow(client, machine, resource_version, timeout, &mut progressed)
            .await;
        match result {
            // One second is what client-go takes for a very short watch.
            Ok(()) => Input::WatchEnded {
                progressed: progressed || started.elapsed() > Duration::from_secs(1),
            },
            Err(problem) => Input::WatchFailed(self.failed("watch", problem)),
        }
    }

    /// Reads one watch to its end.
    async fn follow(
        &self,
        client: &kube::Client,
        machine: &mut ListWatch,
        resource_version: &str,
        timeout: Duration,
        progressed: &mut bool,
    ) -> Result<(), Problem> {
        // The server ends the watch at the timeout. One that stays open beyond has died without a word.
        let deadline = Instant::now() + timeout + OVERDUE;
        let seconds = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX);
        let params = WatchParams {
            timeout: Some(seconds),
            ..WatchParams::default()
        };
        let request = collection::<K>().watch(&params, resource_version);
        let mut body = open::<K>(client, request).await?.into_data_stream();
        let mut lines = Lines::default();
        loop {
            let chunk = match timeout_at(deadline, body.next()).await {
                Ok(Some(chunk)) => chunk.map_err(|error| Problem::transient(describe(&error)))?,
                Ok(None) => return Ok(()),
                Err(_) => {
                    return Err(Problem::transient(
                        "the watch died without being closed".to_owned(),
                    ));
                }
            };
            lines.push(&chunk).map_err(Problem::transient)?;
            while let Some(line) = lines.next() {
                let line = wire::line(&line).map_err(|error| Problem::transient(error.to_string()))?;
                self.take(machine, line)?;
                *progressed = true;
            }
        }
    }

    fn take(&self, machine: &mut ListWatch, line: Line<K>) -> Result<(), Problem> {
        let version = |object: &K| object.meta().resource_version.clone().unwrap_or_default();
        match line {
            Line::Applied(key, object) => {
                machine.saw(&version(&object));
                self.update(|store| store.upsert(key, *object));
            }
            Line::Deleted(key, object) => {
                machine.saw(&version(&object));
                self.update(|store| store.remove(&key, *object));
            }
            Line::Bookmark(version) => machine.saw(&version),
            Line::Rejected(rejected) => {
                report::<K>(&rejected);
                machine.saw(&rejected.resource_version);
            }
            Line::Error(status) => return Err(Problem::from_status::<K>(&status)),
        }
        self.status
            .send_if_modified(|status| status.error.take().is_some());
        Ok(())
    }

    /// Changes the store, then tells everybody.
    fn update(&self, change: impl FnOnce(&mut Store<K>) -> Vec<Event<K>>) {
        let subscribers = self.subscribers.lock();
        let events = change(&mut self.store.write());
        for event in &events {
            for subscriber in &*subscribers {
                subscriber(event);
            }
        }
    }

    fn failed(&self, verb: &str, problem: Problem) -> Failure {
        let Problem { failure, message } = problem;
        if failure == Failure::Expired {
            tracing::debug!(resource = resource_name::<K>(), "{verb}: {message}; listing anew");
        } else {
            tracing::warn!(resource = resource_name::<K>(), "{verb} failed: {message}");
            self.status
                .send_modify(|status| status.error = Some(format!("{verb}: {message}")));
        }
        failure
    }
}

/// Why a list or watch failed, for the machine and for a person.
struct Problem {
    failure: Failure,
    message: String,
}

impl Problem {
    fn transient(message: String) -> Self {
        Self {
            failure: Failure::Transient,
            message,
        }
    }

    fn from_status<K: Object>(status: &kube::core::Status) -> Self {
        let failure = match status.code {
            410 => Failure::Expired,
            408 | 429 | 500..=599 => Failure::Transient,
            _ => Failure::Refused,
        };
        let message = match status.code {
            // An unknown resource is a page of text, an unknown object would be a Status.
            404 if status.details.is_none() => format!(
                "the API server does not serve {} {}: is its CustomResourceDefinition installed?",
                resource_name::<K>(),
                K::version(&())
            ),
            code => format!("{} ({code})", status.message),
        };
        Self { failure, message }
    }
}

async fn fetch_page<K: Object>(client: &kube::Client, params: &ListParams) -> Result<Page<K>, Problem> {
    let request = collection::<K>().list(params);
    let body = open::<K>(client, request).await?;
    let body = body
        .collect()
        .await
        .map_err(|error| Problem::transient(describe(&error)))?;
    wire::page(&body.to_bytes())
        .map_err(|error| Problem::transient(format!("the answer is no list: {error}")))
}

/// All objects of the kind, in every namespace.
fn collection<K: Object>() -> ApiRequest {
    ApiRequest::new(K::url_path(&(), None))
}

/// Sends the request; the body of a good answer.
async fn open<K: Object>(
    client: &kube::Client,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Body, Problem> {
    let request = request
        .map_err(|error| Problem::transient(error.to_string()))?
        .map(Body::from);
    let response = client
        .send(request)
        .await
        .map_err(|error| Problem::transient(describe(&error)))?;
    let (parts, body) = response.into_parts();
    if parts.status.is_success() {
        return Ok(body);
    }
    let text = body
        .collect()
        .await
        .map_err(|error| Problem::transient(describe(&error)))?;
    Err(Problem::from_status::<K>(&wire::failure(
        parts.status,
        &text.to_bytes(),
    )))
}

/// Tells of an object that cannot be read. The next version of it may be fine.
fn report<K: Object>(rejected: &Rejected) {
    let Rejected { key, error, .. } = rejected;
    tracing::error!(
        resource = resource_name::<K>(),
        object = key,
        "left out of the cache: {error}"
    );
}
