//! Execution of a request that its resource supports.

use bytes::Bytes;
use http::request::Parts;
use http_body::Body;
use kube_apimachinery::status::{ApiError, Cause};
use tokio::task::yield_now;
use tokio::time::{Duration, timeout};

use super::Server;
use super::deadline;
use super::measure;
use super::resource_request::{SupportedRequest, action, connection};
use crate::api::verbs::reply::Reply;
use crate::api::verbs::{self, Call};
use crate::faults::FaultyWatch;
use crate::metrics::Measurement;
use crate::request::origin::Closing;
use crate::request::query::revision;
use crate::request::verb::Verb;

/// Maximum time for which a read waits for a revision that is not committed yet.
const FRESHNESS_TIMEOUT: Duration = Duration::from_secs(3);

/// Executes the verb of a request, and measures the request.
pub(super) async fn execute<B>(
    server: &Server,
    request: Box<SupportedRequest>,
    head: &Parts,
    body: B,
) -> Result<Reply, ApiError>
where
    B: Body<Data = Bytes> + Send,
    B::Error: std::fmt::Display,
{
    let SupportedRequest { ref call, verb, arrived, has_name } = *request;
    let labels = measure::of_resource(call, verb, has_name);
    let measured = server.cluster.metrics.measure(&labels, arrived);
    if verb == Verb::Watch {
        // `long` counts the watch when it ends; `measured` counts only a refusal.
        let long = server.cluster.metrics.measure_long(&labels, arrived);
        return match wait_for_revision(call, verb).await {
            Ok(()) => watch(request.call, head, long),
            Err(error) => verbs::watch::ended_by(call, &error).inspect(|_| long.answered(200)),
        }
        .inspect_err(|error| measured.answered(error.code()));
    }
    let answered = execute_durably(server, call, verb, body).await;
    measured.answered(answered.as_ref().map_or_else(ApiError::code, |reply| reply.code));
    answered
}

/// Starts a watch, which owns the call until it ends.
fn watch(call: Call, head: &Parts, measurement: Measurement) -> Result<Reply, ApiError> {
    let closing = head.extensions.get::<Closing>().cloned();
    let fault = head.extensions.get::<FaultyWatch>().copied();
    verbs::watch::run(call, closing, fault, Some(measurement))
}

/// Executes a verb other than a watch. Returns once the data file contains every change that the response can show.
async fn execute_durably<B>(server: &Server, call: &Call, verb: Verb, body: B) -> Result<Reply, ApiError>
where
    B: Body<Data = Bytes> + Send,
    B::Error: std::fmt::Display,
{
    let connects = connection(&call.served, &call.path.subresource).is_some();
    let is_read = connects || matches!(verb, Verb::Get | Verb::List);
    if !is_read {
        // Checked before the change, because a commit that cannot be persisted is not undone.
        call.cluster.writable().await?;
    }
    let outcome = execute_verb(server, call, verb, body).await;
    // The response may show commits of other requests, so all of them must be persisted before.
    call.cluster.all_kept().await?;
    if !is_read && call.cluster.is_watched(call.served.storage()) {
        // The watches that the commit woke run first. kube-apiserver sends an event before the response to its write, and programs that
        // compare the version in the response with their cache rely on that order. If no watch was woken, yielding would only cost the
        // writer time, because tokio polls its sockets before it returns.
        yield_now().await;
    }
    outcome
}

async fn execute_verb<B>(server: &Server, call: &Call, verb: Verb, body: B) -> Result<Reply, ApiError>
where
    B: Body<Data = Bytes> + Send,
    B::Error: std::fmt::Display,
{
    if let Some(subresource) = connection(&call.served, &call.path.subresource) {
        return verbs::connect::run(call, &subresource.kind).await;
    }
    let scale = call.path.subresource == "scale";
    match verb {
        Verb::Get | Verb::List => {
            wait_for_revision(call, verb).await?;
            match verb {
                Verb::Get if scale => verbs::scale::get(call).await,
                Verb::Get if call.path.subresource == "log" => verbs::pod_log::get(call),
                _ if verbs::components::is_table(call.served.storage()) => verbs::components::read(call),
                Verb::Get => verbs::read::get(call).await,
                _ => verbs::read::list(call).await,
            }
        }
        Verb::Watch => Err(ApiError::internal("a watch is not performed by this function")),
        _ => {
            // The body keeps its share of the memory limit until the write is done.
            let body = server.body_limit.read(body).await?;
            if verb == Verb::DeleteCollection {
                // A deletion of a collection begins with a list.
                wait_for_revision(call, verb).await?;
            }
            // Boxed, so that the futures of reads are not as large as those of writes.
            deadline::of_write(Box::pin(execute_write(call, verb, &body.bytes))).await
        }
    }
}

async fn execute_write(call: &Call, verb: Verb, body: &Bytes) -> Result<Reply, ApiError> {
    let scale = call.path.subresource == "scale";
    match verb {
        Verb::Create => match action(&call.served, &call.path.subresource) {
            Some(action) => verbs::actions::run(call, action, body).await,
            None => verbs::create::run(call, body).await,
        },
        Verb::Update if scale => verbs::scale::put(call, body).await,
        Verb::Update => verbs::update::run(call, body).await,
        Verb::Patch if scale => verbs::scale::patch(call, body).await,
        Verb::Patch => verbs::patch::run(call, body).await,
        Verb::Delete => verbs::delete::run(call, body).await,
        Verb::DeleteCollection => verbs::delete::run_collection(call, body).await,
        Verb::Get | Verb::List | Verb::Watch => Err(ApiError::internal("a read is not a write")),
    }
}

/// Waits a short time for the requested revision if it is not committed yet and the kind is cached.
async fn wait_for_revision(call: &Call, verb: Verb) -> Result<(), ApiError> {
    // The verb itself refuses malformed revisions.
    let requested = revision(call.query.text("resourceVersion")).ok().flatten();
    let continued = || verbs::read::continued_revision(call).filter(|_| verb == Verb::List);
    let Some(wanted) = requested.filter(|wanted| *wanted != 0).or_else(continued) else {
        return Ok(());
    };
    // A watch from a future revision waits on its own, unless it begins with the initial state.
    if verb == Verb::Watch && call.query.flag("sendInitialEvents") != Some(true) {
        return Ok(());
    }
    let is_cached = call.served.resource.rules.cached;
    if is_cached && timeout(FRESHNESS_TIMEOUT, call.cluster.commits().reached(wanted)).await.is_ok() {
        return Ok(());
    }
    // kube-apiserver reads uncached kinds from its storage, which neither waits nor asks the client to retry.
    let current = call.cluster.read(crate::store::Store::revision);
    if current >= wanted {
        return Ok(());
    }
    let cause = Cause {
        reason: "ResourceVersionTooLarge",
        message: "Too large resource version".to_owned(),
        field: String::new(),
    };
    let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
    let error = ApiError::new(504, "Timeout", message).with_causes(vec![cause]);
    // An ERROR event of a watch always says after how many seconds to retry.
    Err(if is_cached || verb == Verb::Watch { error.with_retry_after(1) } else { error })
}
