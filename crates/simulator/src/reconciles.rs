//! Beginnings, ends and failures of reconciles, from the spans and errors that the runtime makes of them.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use tracing::{
    Dispatch, Event, Id, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Record},
};

/// Name of the runtime's span of a reconcile.
const SPAN: &str = "reconcile";

/// A beginning or end of a reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reconcile {
    /// Controller, and the request with it.
    Began { controller: Arc<str>, label: Arc<str> },
    /// Controller, and the request with it.
    Ended { controller: Arc<str>, label: Arc<str> },
    /// An error that the operator logged.
    Failed(String),
}

/// Reconciles that no trace has taken yet. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reconciles(Arc<Mutex<OpenReconciles>>);

#[derive(Debug, Default)]
struct OpenReconciles {
    next: u64,
    /// Spans that are open, with the numbers of their handles.
    open: BTreeMap<u64, Open>,
    news: Vec<Reconcile>,
}

#[derive(Debug)]
struct Open {
    handles: u32,
    controller: Arc<str>,
    label: Arc<str>,
}

impl Reconciles {
    /// Returns the beginnings and ends since the last call.
    pub(crate) fn take(&self) -> Vec<Reconcile> {
        std::mem::take(&mut self.0.lock().news)
    }

    /// Returns a dispatcher that reports reconciles here, and drops all other spans and events.
    ///
    /// As long as a process has only one dispatcher, `tracing` asks the dispatcher of the thread that reaches a span first whether the span
    /// is enabled for the whole process, so a test without a dispatcher would disable it. Therefore a second dispatcher always exists.
    pub(crate) fn subscriber(&self) -> Dispatch {
        static ANOTHER: OnceLock<Dispatch> = OnceLock::new();
        ANOTHER.get_or_init(|| Dispatch::new(Self::default()));
        Dispatch::new(self.clone())
    }
}

impl Subscriber for Reconciles {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        if metadata.is_span() { metadata.name() == SPAN } else { *metadata.level() == Level::ERROR }
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut label = Label::default();
        span.record(&mut label);
        let (controller, label): (Arc<str>, Arc<str>) =
            (label.controller.as_str().into(), label.to_string().into());
        let mut state = self.0.lock();
        state.next += 1;
        let id = state.next;
        state.news.push(Reconcile::Began { controller: Arc::clone(&controller), label: Arc::clone(&label) });
        state.open.insert(id, Open { handles: 1, controller, label });
        Id::from_u64(id)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut failure = Failure::default();
        event.record(&mut failure);
        let Failure { message, error } = failure;
        // The message is the same for all failures, and the field names this one.
        let text = if error.is_empty() { message } else { error };
        self.0.lock().news.push(Reconcile::Failed(text));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(open) = self.0.lock().open.get_mut(&id.into_u64()) {
            open.handles += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut state = self.0.lock();
        let Some(open) = state.open.get_mut(&id.into_u64()) else { return false };
        // A span is closed when its last handle is dropped: at the end of the reconcile, or when a crash
        // drops its future.
        open.handles -= 1;
        if open.handles > 0 {
            return false;
        }
        if let Some(Open { controller, label, .. }) = state.open.remove(&id.into_u64()) {
            state.news.push(Reconcile::Ended { controller, label });
        }
        true
    }
}

/// Fields of an error.
#[derive(Default)]
struct Failure {
    message: String,
    error: String,
}

impl Visit for Failure {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "error" => self.error = format!("{value:?}"),
            _ => {}
        }
    }
}

/// Fields of a span that name its request.
#[derive(Default)]
struct Label {
    controller: String,
    namespace: String,
    name: String,
    request: String,
}

impl Visit for Label {
    fn record_str(&mut self, field: &Field, value: &str) {
        let place = match field.name() {
            "controller" => &mut self.controller,
            "namespace" => &mut self.namespace,
            "name" => &mut self.name,
            _ => return,
        };
        value.clone_into(place);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "request" {
            self.request = format!("{value:?}");
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.controller)?;
        match (&*self.request, &*self.namespace) {
            ("", "") => f.write_str(&self.name),
            ("", namespace) => write!(f, "{namespace}/{}", self.name),
            (request, _) => f.write_str(request),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconciles_are_reported_and_everything_else_is_dropped() {
        let reconciles = Reconciles::default();
        tracing::dispatcher::with_default(&reconciles.subscriber(), || {
            let span = tracing::error_span!("reconcile", controller = "pages", namespace = "a", name = "x");
            let other = tracing::error_span!("other");
            tracing::warn!("an event");
            let (controller, label): (Arc<str>, Arc<str>) = ("pages".into(), "pages a/x".into());
            let began = Reconcile::Began { controller: controller.clone(), label: label.clone() };
            assert_eq!(reconciles.take(), [began]);
            let clone = span.clone();
            drop((span, other));
            assert!(reconciles.take().is_empty());
            drop(clone);
            assert_eq!(reconciles.take(), [Reconcile::Ended { controller, label }]);
            tracing::error!(error = format_args!("no bucket"), "Reconciler error");
            assert_eq!(reconciles.take(), [Reconcile::Failed("no bucket".to_owned())]);
        });
    }

    #[test]
    fn a_thread_without_a_subscriber_does_not_disable_spans_for_others() {
        fn reconcile() {
            drop(tracing::error_span!("reconcile", controller = "pages", namespace = "a", name = "x"));
        }
        let reconciles = Reconciles::default();
        let dispatch = reconciles.subscriber();
        // Reaches the span first.
        std::thread::spawn(reconcile).join().unwrap();
        tracing::dispatcher::with_default(&dispatch, reconcile);
        assert_eq!(reconciles.take().len(), 2);
    }
}
