//! Requests of a reflector: pages of a list, and the opening of watches.

use futures::StreamExt;
use http::header::{ACCEPT, HeaderValue, RETRY_AFTER};
use http_body_util::BodyExt;
use kube::{
    client::Body,
    core::{
        DynamicObject, Request as ApiRequest, Resource,
        params::{ListParams, WatchParams},
    },
};
use tokio::time::{Duration, timeout};

use super::{
    ANSWER_WITHIN, Reflector,
    problem::{RequestType, WatchProblem, no_answer},
};
use crate::{
    cache::{
        objects::incoming_object::IncomingObject,
        watch::{
            list_decoder::{ListDecoder, ListError, ListMeta},
            list_watch::StepOutcome,
            watch_decoder,
        },
    },
    client::{Extent, describe, transport::read_body::read_error, uncompressed},
    object::meta::ResourceVersion,
    pace::Pace,
};

/// Objects per page of a list, as in client-go.
pub(super) const PAGE_SIZE: u32 = 500;

impl Reflector<'_> {
    /// Requests a page of at most `limit` objects, and reports a failure.
    pub(super) async fn list_page(&self, limit: Option<u32>, continue_token: Option<String>) -> StepOutcome {
        match self.fetch_page(limit, continue_token).await {
            Ok(input) => input,
            Err(problem) => self.report(RequestType::List, problem),
        }
    }

    /// Requests a page, and passes its items to the subscribers while they arrive.
    async fn fetch_page(
        &self,
        limit: Option<u32>,
        continue_token: Option<String>,
    ) -> Result<StepOutcome, WatchProblem> {
        let (label_selector, field_selector) = self.shared.query.selectors_of(&self.scope).parameters();
        let params =
            ListParams { limit, continue_token, label_selector, field_selector, ..ListParams::default() };
        let request = self.open(self.collection().list(&params), "List");
        let body = timeout(ANSWER_WITHIN, request).await.unwrap_or_else(|_| no_answer())?;
        let (mut body, mut items, mut pace) =
            (body.into_data_stream(), ListDecoder::default(), Pace::begin());
        let no_list = |error: ListError| WatchProblem::refused(error.to_string());
        // The limit applies to each chunk: a long list may take longer as a whole.
        while let Some(chunk) =
            timeout(ANSWER_WITHIN, pace.wait_for(body.next())).await.or_else(|_| no_answer())?
        {
            items.push(chunk.map_err(|error| WatchProblem::transient(describe(&error)))?);
            self.shared.note_data(&self.scope);
            while let Some(item) = items.next().map_err(no_list)? {
                self.add_listed(&IncomingObject::new(&item));
                self.shared.train().await;
                pace.step().await;
            }
        }
        let ListMeta { resource_version, continue_token } = items.finish().map_err(no_list)?;
        Ok(StepOutcome::Page {
            resource_version: resource_version.as_str().into(),
            continue_token: Some(continue_token).filter(|token| !token.is_empty()),
        })
    }

    /// Opens a watch from a version, or with initial events.
    pub(super) async fn open_watch(
        &self,
        from: Option<&ResourceVersion>,
        lasts: Duration,
    ) -> Result<Body, WatchProblem> {
        let (label_selector, field_selector) = self.shared.query.selectors_of(&self.scope).parameters();
        let params = WatchParams {
            timeout: Some(u32::try_from(lasts.as_secs()).unwrap_or(u32::MAX)),
            send_initial_events: from.is_none(),
            label_selector,
            field_selector,
            ..WatchParams::default()
        };
        let request = match from {
            Some(version) => self.collection().watch(&params, &version.to_string()),
            None => self.collection().watch(&params, "").map(without_version),
        };
        // Compressed watches lose events from Kubernetes 1.37 on: see `uncompressed`.
        let request = request.map(|mut request| {
            uncompressed(&mut request);
            request
        });
        self.open(request, "").await
    }

    fn collection(&self) -> ApiRequest {
        ApiRequest::new(DynamicObject::url_path(&self.shared.query.resource, self.scope.as_deref()))
    }

    /// Sends the request, and returns the body of a successful answer. `list` ends the name of the metadata-only type: `List`
    /// for a list, empty for a watch.
    async fn open(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        list: &str,
    ) -> Result<Body, WatchProblem> {
        let mut request = request.map_err(|error| WatchProblem::refused(error.to_string()))?.map(Body::from);
        if self.extent == Extent::Metadata {
            // A server that cannot send metadata alone may send whole objects.
            let metadata = format!(
                "application/json;as=PartialObjectMetadata{list};g=meta.k8s.io;v=v1,application/json"
            );
            let metadata =
                HeaderValue::try_from(metadata).map_err(|error| WatchProblem::refused(error.to_string()))?;
            request.headers_mut().insert(ACCEPT, metadata);
        }
        let sent = self.client.send(request).await;
        let (parts, body) = sent.map_err(|error| WatchProblem::unreachable(describe(&error)))?.into_parts();
        if parts.status.is_success() {
            return Ok(body);
        }
        let retry_after = parts.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let text = read_error(body).await.map_err(|error| WatchProblem::transient(describe(&error)))?;
        Err(self.problem(&watch_decoder::failure(parts.status, &text), retry_after))
    }
}

/// Removes the empty `resourceVersion` parameter. Without it, initial events reflect the latest state.
fn without_version(mut request: http::Request<Vec<u8>>) -> http::Request<Vec<u8>> {
    let uri = request.uri().to_string();
    if let Ok(uri) = uri.trim_end_matches("&resourceVersion=").parse() {
        *request.uri_mut() = uri;
    }
    request
}
