//! Applies fault rules to requests and their responses.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use tokio::time::sleep;

use super::Server;
use super::complete_response::complete_response;
use super::dispatch;
use super::drain::drain;
use crate::api::verbs::reply::Reply;
use crate::faults::{Action, Answer, ConnectionReset, FailureResponse, FaultyWatch, PlannedAction, Stale};
use crate::request::info::RequestTarget;
use crate::request::origin::{Closing, closed};
use crate::response::ResponseBody;

/// Answers a request, unless a rule resets its connection.
///
/// If the future is dropped before the request is processed, the state is unchanged.
pub(crate) async fn answer<B>(
    server: &Arc<Server>,
    request: Request<B>,
) -> Result<Response<ResponseBody>, ConnectionReset>
where
    B: Body<Data = Bytes> + Send,
    B::Error: std::fmt::Display,
{
    let (mut head, body) = request.into_parts();
    // Boxed, because each future that passes it on keeps it twice.
    let target = Box::new(RequestTarget::of(&head));
    // A server without rules only needs one atomic load.
    if !server.context.injector.is_armed() {
        return Ok(dispatch::answer(server, head, target, body).await);
    }
    let decided = target.info().and_then(|info| {
        let decision = server.context.injector.decide(info, server.cluster.clock.now())?;
        Some((info.clone(), decision))
    });
    let Some((info, PlannedAction { action, seed })) = decided else {
        return Ok(dispatch::answer(server, head, target, body).await);
    };
    tracing::debug!(request = %info, %action, "injecting a fault");
    match action {
        Action::DelayBefore(delay) => {
            sleep(delay).await;
            Ok(dispatch::answer(server, head, target, body).await)
        }
        Action::DelayAfter(delay) => {
            let response = dispatch::answer(server, head, target, body).await;
            sleep(delay).await;
            Ok(response)
        }
        Action::Fail(failure) => {
            // The body is drained, as for any request that is answered without it.
            drain(&head, std::pin::pin!(body)).await;
            let reply = match failure.refusal(&info) {
                FailureResponse::Status(error) => {
                    let accept = dispatch::text(&head.headers, header::ACCEPT);
                    dispatch::failure(accept.as_deref(), &error)
                }
                FailureResponse::Text { text, retry_after } => {
                    Reply { retry_after: Some(retry_after), ..Reply::text(failure.code(), text) }
                }
            };
            let mut response = reply.into_response();
            complete_response(server, &head, &mut response);
            Ok(response)
        }
        Action::Answer(answer) => {
            drain(&head, std::pin::pin!(body)).await;
            Ok(of_answer(answer))
        }
        Action::Reset => Err(ConnectionReset),
        Action::LoseResponse => {
            drop(dispatch::answer(server, head, target, body).await);
            Err(ConnectionReset)
        }
        Action::Truncate(bytes) => {
            Ok(dispatch::answer(server, head, target, body).await.map(|body| body.cut_after(bytes)))
        }
        Action::Silence => {
            drain(&head, std::pin::pin!(body)).await;
            silence(&head).await;
            Err(ConnectionReset)
        }
        Action::WithholdResponse => {
            let until_closed = silence(&head);
            drop(dispatch::answer(server, head, target, body).await);
            until_closed.await;
            Err(ConnectionReset)
        }
        Action::Stall(bytes) => {
            let until_closed = silence(&head);
            Ok(dispatch::answer(server, head, target, body)
                .await
                .map(|body| body.stalled_after(bytes, until_closed)))
        }
        Action::StaleRead { behind } => {
            head.extensions.insert(Stale { behind });
            Ok(dispatch::answer(server, head, target, body).await)
        }
        Action::Watch(fault) => {
            // The fault takes effect when the watch starts. The watch may also be refused for other reasons.
            head.extensions.insert(FaultyWatch { fault, seed });
            Ok(dispatch::answer(server, head, target, body).await)
        }
    }
}

/// Completes when the listener of the request closes; never for a request in process.
fn silence(head: &Parts) -> impl Future<Output = ()> + Send + use<> {
    let closing = head.extensions.get::<Closing>().cloned();
    async move {
        match closing {
            Some(Closing(mut closing)) => closed(&mut closing).await,
            None => std::future::pending().await,
        }
    }
}

fn of_answer(answer: Answer) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if !answer.content_type.is_empty()
        && let Ok(content_type) = HeaderValue::try_from(answer.content_type)
    {
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    }
    for (name, value) in answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
