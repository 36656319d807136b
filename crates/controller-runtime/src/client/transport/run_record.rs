//! The writes of the running reconcile, recorded in a task-local.

use std::{fmt, future::Future, sync::Arc};

use parking_lot::Mutex;
use serde::{Serialize, Serializer};

use super::{
    call::{Answer, Call, Verb},
    error::ClientError,
};
use crate::json::scan::Reader;

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

/// The controller of a run, and its writes.
#[derive(Debug)]
pub(crate) struct RunRecord {
    controller: Arc<str>,
    writes: Mutex<Writes>,
}

#[derive(Debug, Default)]
struct Writes {
    first: Vec<RunWrite>,
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

    /// Controller of the run that calls this; `None` outside of a run.
    pub(in crate::client) fn current_controller() -> Option<Arc<str>> {
        CURRENT.try_with(|record| Arc::clone(&record.controller)).ok()
    }

    /// Adds a write to the run that sent it.
    pub(in crate::client) fn add_to_current(call: &Call, outcome: Result<&Answer, &ClientError>) {
        // An error means that the call was not sent by a run.
        let _ = CURRENT.try_with(|record| record.add(call, outcome));
    }

    fn add(&self, call: &Call, outcome: Result<&Answer, &ClientError>) {
        if self.writes.lock().first.len() == RECORDED {
            self.writes.lock().more += 1;
            return;
        }
        let (code, version) = match outcome {
            Ok(answer) => (Some(answer.code()), answer.body().and_then(|body| version_in(body))),
            Err(error) => (error.code(), None),
        };
        let write = RunWrite { verb: call.verb(), subject: call.subject(), code, version };
        self.writes.lock().first.push(write);
    }

    /// Takes the recorded writes, and the number of further ones.
    pub(crate) fn take(&self) -> (Vec<RunWrite>, u32) {
        let Writes { first, more } = std::mem::take(&mut *self.writes.lock());
        (first, more)
    }
}

/// The resourceVersion of an object.
fn version_in(object: &[u8]) -> Option<String> {
    let (mut reader, mut version) = (Reader::new(object), None);
    let read = reader.object(|key, reader| match (&*key, reader.peek()) {
        ("metadata", Some(b'{')) => reader.object(|key, reader| {
            let value = reader.value()?;
            if key == "resourceVersion" {
                version = serde_json::from_slice(value).ok();
            }
            Ok(())
        }),
        _ => reader.value().map(drop),
    });
    read.ok().and(version)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn write(name: &str) -> Call {
        Call::about_object::<ConfigMap>(Verb::Update, "shop", name)
    }

    #[test]
    fn the_version_is_that_of_the_object_itself() {
        let version = |text: &str| version_in(text.as_bytes());
        let object =
            r#"{"metadata":{"name":"a","resourceVersion":"7"},"spec":{"metadata":{"resourceVersion":"1"}}}"#;
        assert_eq!(version(object).as_deref(), Some("7"));
        for other in [r#"{"kind":"Status","metadata":{}}"#, "[]", r#"{"metadata":1}"#, "", "{"] {
            assert_eq!(version(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn writes_are_recorded_for_the_run_that_sent_them() {
        let controller = Arc::from("web");
        let (one, other) = (RunRecord::new(&controller), RunRecord::new(&controller));
        let refused = write("c").refusal(409, "Conflict", "changed");
        let answer = Answer::new(r#"{"metadata":{"resourceVersion":"7"}}"#);
        RunRecord::add_to_current(&write("outside"), Ok(&answer));
        RunRecord::of(Arc::clone(&one), async { RunRecord::add_to_current(&write("a"), Ok(&answer)) }).await;
        RunRecord::of(Arc::clone(&other), async {
            RunRecord::add_to_current(&write("c"), Err(&refused));
            (0..20).for_each(|_| RunRecord::add_to_current(&write("b"), Ok(&answer)));
        })
        .await;
        let (writes, more) = one.take();
        let expected = RunWrite {
            verb: Verb::Update,
            subject: "configmaps shop/a".to_owned(),
            code: Some(200),
            version: Some("7".to_owned()),
        };
        assert_eq!((writes, more), (vec![expected], 0));
        let (writes, more) = other.take();
        assert_eq!((writes.len(), more, writes[0].code), (16, 5, Some(409)));
        assert_eq!(other.take().0.len(), 0);
    }
}
