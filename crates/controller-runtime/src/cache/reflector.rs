//! The shell around [`ListWatch`]: asks the API server and keeps an informer up to date.

use futures::StreamExt;
use http_body_util::BodyExt;
use kube::{
    client::Body,
    core::{
        Request as ApiRequest,
        params::{ListParams, WatchParams},
    },
};
use tokio::time::{Duration, Instant, sleep, timeout, timeout_at};

use super::{
    informer::Informer,
    lazy::Lazy,
    list_watch::{Failure, Input, ListWatch, Step},
    wire::{self, Line, Lines, Page},
};
use crate::{
    client::describe,
    object::{Object, StaticObject, resource_name},
};

/// Objects per page of a list.
const PAGE_SIZE: u32 = 500;

/// How long a page may take, and a watch until its answer begins: as long as API servers work on a request.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// How long a watch may stay open past the time at which the server should have ended it.
const OVERDUE: Duration = Duration::from_secs(10);

/// A watch that ends sooner and without a word is not taken up again at once, as in client-go.
const VERY_SHORT: Duration = Duration::from_secs(1);

impl<K: StaticObject> Informer<K> {
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
                Step::Watch { resource_version, timeout } => {
                    self.watch(client, &mut machine, &resource_version, timeout).await
                }
            };
        }
    }

    async fn list_page(
        &self,
        client: &kube::Client,
        token: Option<String>,
        listed: &mut Vec<Lazy<K>>,
    ) -> Input {
        if token.is_none() {
            listed.clear();
        }
        let params = ListParams { limit: Some(PAGE_SIZE), continue_token: token, ..ListParams::default() };
        let page = timeout(ANSWER_WITHIN, self.fetch_page(client, &params)).await;
        match page.unwrap_or_else(|_| Err(Problem::silence())) {
            Ok(page) => {
                listed.extend(page.objects);
                if page.continue_token.is_none() {
                    let objects = std::mem::take(listed);
                    self.update(|store| store.replace(objects));
                    self.synced();
                }
                Input::Page { resource_version: page.resource_version, continue_token: page.continue_token }
            }
            Err(problem) => Input::ListFailed(self.tell("list", problem)),
        }
    }

    async fn fetch_page(&self, client: &kube::Client, params: &ListParams) -> Result<Page<K>, Problem> {
        let request = collection::<K>().list(params);
        let body = open::<K>(client, request).await?;
        let body = body.collect().await.map_err(|error| Problem::transient(describe(&error)))?;
        let page = wire::page(&body.to_bytes(), &self.shelf);
        page.map_err(|error| Problem::refused(format!("the answer is no list: {error}")))
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
        match self.follow(client, machine, resource_version, timeout, &mut progressed).await {
            Ok(()) => Input::WatchEnded { progressed: progressed || started.elapsed() > VERY_SHORT },
            Err(problem) => Input::WatchFailed(self.tell("watch", problem)),
        }
    }

    /// Reads one watch to its end.
    async fn follow(
        &self,
        client: &kube::Client,
        machine: &mut ListWatch,
        resource_version: &str,
        lasts: Duration,
        progressed: &mut bool,
    ) -> Result<(), Problem> {
        // The server ends the watch in time. One that stays open beyond has died without a word.
        let deadline = Instant::now() + lasts + OVERDUE;
        let seconds = u32::try_from(lasts.as_secs()).unwrap_or(u32::MAX);
        let params = WatchParams { timeout: Some(seconds), ..WatchParams::default() };
        let request = collection::<K>().watch(&params, resource_version);
        let body = timeout(ANSWER_WITHIN, open::<K>(client, request)).await;
        let mut body = body.unwrap_or_else(|_| Err(Problem::silence()))?.into_data_stream();
        let mut lines = Lines::default();
        loop {
            let chunk = match timeout_at(deadline, body.next()).await {
                Ok(Some(chunk)) => chunk.map_err(|error| Problem::transient(describe(&error)))?,
                Ok(None) => return Ok(()),
                Err(_) => {
                    return Err(Problem::transient("the watch died without being closed".to_owned()));
                }
            };
            lines.push(&chunk).map_err(Problem::refused)?;
            while let Some(line) = lines.next() {
                let line =
                    wire::line(&line, &self.shelf).map_err(|error| Problem::refused(error.to_string()))?;
                self.take(machine, line)?;
                *progressed = true;
            }
        }
    }

    fn take(&self, machine: &mut ListWatch, line: Line<K>) -> Result<(), Problem> {
        match line {
            Line::Applied(object) => {
                machine.saw(version_of(&object).as_deref());
                self.update(|store| store.upsert(object));
            }
            Line::Deleted(object) => {
                machine.saw(version_of(&object).as_deref());
                self.update(|store| store.remove(object));
            }
            Line::LeftOut(version) => machine.saw(version.as_deref()),
            Line::Bookmark(version) => machine.saw(version.as_deref()),
            Line::Error(status) => return Err(Problem::from_status::<K>(&status)),
        }
        self.works();
        Ok(())
    }

    fn tell(&self, verb: &str, problem: Problem) -> Failure {
        let Problem { failure, message } = problem;
        if failure == Failure::Expired {
            tracing::debug!(resource = resource_name::<K>(), "{verb}: {message}; listing anew");
        } else {
            tracing::warn!(resource = resource_name::<K>(), "{verb} failed: {message}");
            self.failed(format!("{verb}: {message}"));
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
        Self { failure: Failure::Transient, message }
    }

    fn refused(message: String) -> Self {
        Self { failure: Failure::Refused, message }
    }

    fn silence() -> Self {
        Self::transient(format!("the API server did not answer within {} s", ANSWER_WITHIN.as_secs()))
    }

    fn from_status<K: StaticObject>(status: &kube::core::Status) -> Self {
        let failure = match status.code {
            410 => Failure::Expired,
            408 | 429 | 502..=504 => Failure::Transient,
            _ => Failure::Refused,
        };
        let message = match status.code {
            404 => format!(
                "the API server does not serve {} {}: is its CustomResourceDefinition installed?",
                resource_name::<K>(),
                K::version(&())
            ),
            code => format!("{} ({code})", status.message),
        };
        Self { failure, message }
    }
}

/// The version of an object, for the next watch to go on from.
fn version_of<K: Object>(object: &Lazy<K>) -> Option<String> {
    object.meta().resource_version().map(ToString::to_string)
}

/// All objects of the kind, in every namespace.
fn collection<K: StaticObject>() -> ApiRequest {
    ApiRequest::new(K::url_path(&(), None))
}

/// Sends the request; the body of a good answer.
async fn open<K: StaticObject>(
    client: &kube::Client,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Body, Problem> {
    let request = request.map_err(|error| Problem::refused(error.to_string()))?.map(Body::from);
    let response = client.send(request).await.map_err(|error| Problem::transient(describe(&error)))?;
    let (parts, body) = response.into_parts();
    if parts.status.is_success() {
        return Ok(body);
    }
    let text = body.collect().await.map_err(|error| Problem::transient(describe(&error)))?;
    Err(Problem::from_status::<K>(&wire::failure(parts.status, &text.to_bytes())))
}
