//! Beginnings and ends of reconciles, from the spans that the runtime makes of them.

use std::{collections::BTreeMap, fmt, sync::Arc};

use parking_lot::Mutex;
use tracing::{
    Event, Id, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Record},
};

/// Name of the runtime's span of a reconcile.
const SPAN: &str = "reconcile";

/// A beginning or end of a reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reconcile {
    /// Controller and request.
    Began(String),
    Ended,
}

/// Reconciles that no trace has taken yet. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reconciles(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Numbers of handles of the spans that are open.
    open: BTreeMap<u64, u32>,
    news: Vec<Reconcile>,
}

impl Reconciles {
    /// Returns the beginnings and ends since the last call.
    pub(crate) fn take(&self) -> Vec<Reconcile> {
        std::mem::take(&mut self.0.lock().news)
    }

    /// Returns a subscriber that reports reconciles here, and drops all other spans and events.
    pub(crate) fn subscriber(&self) -> impl Subscriber + Send + Sync + 'static {
        self.clone()
    }
}

impl Subscriber for Reconciles {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == SPAN
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut label = Label::default();
        span.record(&mut label);
        let mut state = self.0.lock();
        state.next += 1;
        let id = state.next;
        state.open.insert(id, 1);
        state.news.push(Reconcile::Began(label.to_string()));
        Id::from_u64(id)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(handles) = self.0.lock().open.get_mut(&id.into_u64()) {
            *handles += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut state = self.0.lock();
        let Some(handles) = state.open.get_mut(&id.into_u64()) else { return false };
        *handles -= 1;
        if *handles > 0 {
            return false;
        }
        state.open.remove(&id.into_u64());
        state.news.push(Reconcile::Ended);
        true
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
        tracing::subscriber::with_default(reconciles.subscriber(), || {
            let span = tracing::error_span!("reconcile", controller = "pages", namespace = "a", name = "x");
            let other = tracing::error_span!("other");
            tracing::error!("an event");
            assert_eq!(reconciles.take(), [Reconcile::Began("pages a/x".to_owned())]);
            let clone = span.clone();
            drop((span, other));
            assert!(reconciles.take().is_empty());
            drop(clone);
            assert_eq!(reconciles.take(), [Reconcile::Ended]);
        });
    }
}
