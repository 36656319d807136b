//! The writes of the running reconcile, recorded in a task-local.

use std::{fmt, future::Future, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Serialize, Serializer};

use super::{
    call::{Answer, Call, Verb},
    error::ClientError,
    written_object::WrittenObject,
};

tokio::task_local! {
    /// Record of the reconcile that is being polled.
    static CURRENT: Arc<RunRecord>;
}

/// Number of writes of a run that are recorded.
const RECORDED: usize = 16;

/// A write of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RunWrite {
    /// The verb, in JSON as text.
    #[serde(serialize_with = "verb")]
    pub verb: Verb,
    /// The object, e.g. `status of deployments.apps shop/web`.
    pub subject: String,
    /// HTTP code of the answer; `None` if none arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// `resourceVersion` of the object after the write, if the answer contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// `update status of widgets.example.com shop/web`, and the code if it is an error
impl fmt::Display for RunWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, subject, code, .. } = self;
        write!(f, "{verb} {subject}")?;
        match code {
            Some(200..300) => Ok(()),
            Some(code) => write!(f, " ({code})"),
            None => f.write_str(" (no answer)"),
        }
    }
}

fn verb<S: Serializer>(verb: &Verb, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(verb)
}

/// A write with the body of its request.
#[derive(Debug, Clone)]
pub(crate) struct RecordedWrite {
    pub(crate) write: RunWrite,
    pub(crate) body: Bytes,
}

/// The controller of a run, and its writes.
#[derive(Debug)]
pub(crate) struct RunRecord {
    controller: Arc<str>,
    writes: Mutex<Writes>,
}

#[derive(Debug, Default)]
struct Writes {
    first: Vec<RecordedWrite>,
    /// Number of writes after the recorded ones.
    more: u32,
}

impl RunRecord {
    /// Record of a run of this controller, without writes.
    pub(crate) fn new(controller: &Arc<str>) -> Arc<Self> {
        Arc::new(Self { controller: Arc::clone(controller), writes: Mutex::default() })
    }

    /// Records the writes of `run`. Writes of tasks that it spawns are not recorded.
    pub(crate) async fn of<T>(record: Arc<Self>, run: impl Future<Output = T>) -> T {
        CURRENT.scope(record, run).await
    }

    /// Returns the controller of the running reconcile; `None` outside of a reconcile.
    pub(in crate::client) fn current_controller() -> Option<Arc<str>> {
        CURRENT.try_with(|record| Arc::clone(&record.controller)).ok()
    }

    /// Adds a write to the run that sent it. `written` is the object in a successful answer.
    pub(in crate::client) fn add_to_current(
        call: &Call,
        outcome: Result<&Answer, &ClientError>,
        written: Option<&WrittenObject<'_>>,
    ) {
        // Fails if the call was not sent by a reconcile.
        let _ = CURRENT.try_with(|record| record.add(call, outcome, written));
    }

    fn add(&self, call: &Call, outcome: Result<&Answer, &ClientError>, written: Option<&WrittenObject<'_>>) {
        let mut writes = self.writes.lock();
        if writes.first.len() == RECORDED {
            writes.more += 1;
            return;
        }
        let code = match outcome {
            Ok(answer) => Some(answer.code()),
            Err(error) => error.code(),
        };
        let version = written.map(|object| object.version.clone().into_owned());
        let write = RunWrite { verb: call.verb(), subject: call.subject(), code, version };
        writes.first.push(RecordedWrite { write, body: call.body().clone() });
    }

    /// Takes the recorded writes, and the number of others.
    pub(crate) fn take(&self) -> (Vec<RecordedWrite>, u32) {
        let Writes { first, more } = std::mem::take(&mut *self.writes.lock());
        (first, more)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn write(name: &str) -> Call {
        Call::about_object::<ConfigMap>(Verb::Update, "shop", name)
    }

    #[tokio::test]
    async fn writes_are_recorded_for_the_run_that_sent_them() {
        let controller = Arc::from("web");
        let (one, other) = (RunRecord::new(&controller), RunRecord::new(&controller));
        let refused = write("c").refusal(409, "Conflict", "changed");
        let answer = Answer::new(r#"{"metadata":{"resourceVersion":"7"}}"#);
        let add = |name| {
            let object = answer.body().and_then(|body| WrittenObject::of(body));
            RunRecord::add_to_current(&write(name), Ok(&answer), object.as_ref());
        };
        add("outside");
        RunRecord::of(Arc::clone(&one), async { add("a") }).await;
        RunRecord::of(Arc::clone(&other), async {
            RunRecord::add_to_current(&write("c"), Err(&refused), None);
            (0..20).for_each(|_| add("b"));
        })
        .await;
        let (writes, more) = one.take();
        let expected = RunWrite {
            verb: Verb::Update,
            subject: "configmaps shop/a".to_owned(),
            code: Some(200),
            version: Some("7".to_owned()),
        };
        assert_eq!(
            (writes.into_iter().map(|write| write.write).collect::<Vec<_>>(), more),
            (vec![expected], 0)
        );
        let (writes, more) = other.take();
        assert_eq!((writes.len(), more, writes[0].write.code), (16, 5, Some(409)));
        assert_eq!(other.take().0.len(), 0);
    }
}
