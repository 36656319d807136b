//! The webhook, which renames `spec.size` to `spec.amount` and back, or misbehaves.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use kube_apiserver_embedded::WebhookTransport;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

/// Change of the answer before it is sent.
pub(crate) type Change = fn(&mut Value);

#[derive(Debug, Default)]
pub(crate) struct Hook(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Sizes of the reviews.
    calls: Vec<usize>,
    delay: Option<Duration>,
    change: Option<Change>,
    failure: Option<&'static str>,
}

impl Hook {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the numbers of objects of the reviews since the last call.
    pub(crate) fn calls(&self) -> Vec<usize> {
        std::mem::take(&mut self.state().calls)
    }

    /// Delays all answers.
    pub(crate) fn delay(&self, delay: Duration) {
        self.state().delay = Some(delay);
    }

    /// Changes the `response` of all answers.
    pub(crate) fn change(&self, change: Change) {
        self.state().change = Some(change);
    }

    /// Refuses all conversions.
    pub(crate) fn fail(&self, message: &'static str) {
        self.state().failure = Some(message);
    }

    /// Answers as it should.
    pub(crate) fn mend(&self) {
        *self.state() = State::default();
    }
}

impl WebhookTransport for Hook {
    fn call(&self, request: &Request<Bytes>) -> Option<BoxFuture<'static, Result<Response<Bytes>, String>>> {
        assert_eq!(request.uri(), "https://hooks.example.com/convert");
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        let request = &review["request"];
        let mut objects = request["objects"].as_array().unwrap().clone();
        let mut state = self.state();
        state.calls.push(objects.len());
        for object in &mut objects {
            assert!(
                object["metadata"].get("resourceVersion").is_none()
                    || object["metadata"].get("managedFields").is_none()
            );
            convert(object, request["desiredAPIVersion"].as_str().unwrap());
        }
        let mut response = json!({
            "uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"},
        });
        if let Some(message) = state.failure {
            response["result"] = json!({"status": "Failure", "message": message});
        }
        if let Some(change) = state.change {
            change(&mut response);
        }
        let answer =
            json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response});
        let delay = state.delay;
        let answered = async move {
            if let Some(delay) = delay {
                sleep(delay).await;
            }
            Ok(Response::new(Bytes::from(answer.to_string())))
        };
        Some(answered.boxed())
    }
}

fn convert(object: &mut Value, desired: &str) {
    let (from, to) = if desired == "example.com/v2" { ("size", "amount") } else { ("amount", "size") };
    object["apiVersion"] = json!(desired);
    // An index would add an absent spec as null, which the schema refuses.
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        && let Some(value) = spec.remove(from)
    {
        spec.insert(to.to_owned(), value);
    }
}
