//! Sources of what somebody else sends.

use std::{fmt, pin::Pin};

use futures::{Stream, StreamExt, stream};
use tokio::{
    sync::{Mutex, mpsc},
    task::coop,
};

use super::{Sink, Source, delivery::Delivery, rules::Rules};
use crate::{
    event::Event, handler::EventHandler, manager::BoxError, object::Object, predicate::Predicate,
    reconcile::Request,
};

/// A stream that is read by one run at a time, and goes on in the next.
type Shared<T> = Mutex<Pin<Box<dyn Stream<Item = T> + Send>>>;

fn shared<T: 'static>(stream: impl Stream<Item = T> + Send + 'static) -> Shared<T> {
    Mutex::new(Box::pin(stream.fuse()))
}

fn received<T: Send + 'static>(mut receiver: mpsc::Receiver<T>) -> impl Stream<Item = T> + Send + 'static {
    stream::poll_fn(move |cx| receiver.poll_recv(cx))
}

/// The requests that a stream or a channel brings.
///
/// What is sent while the controller does not run, before it leads for instance, waits in the stream: it is up to the
/// sender, or the capacity of the channel, how much that may be. The end of the stream ends the source and nothing else.
///
/// ```
/// use controller_runtime::source::Requests;
///
/// let (sender, receiver) = tokio::sync::mpsc::channel(1024);
/// let pushes = Requests::channel("pushes", receiver);
/// // … give `pushes` to a builder, and to whoever hears of pushes the sender:
/// sender.try_send("repository-1").unwrap();
/// # fn accepted(_: impl controller_runtime::source::Source<&'static str>) {}
/// # accepted(pushes);
/// ```
pub struct Requests<R> {
    name: String,
    stream: Shared<R>,
}

impl<R: Request> Requests<R> {
    /// Those that a stream brings.
    pub fn stream(name: impl Into<String>, stream: impl Stream<Item = R> + Send + 'static) -> Self {
        Self { name: name.into(), stream: shared(stream) }
    }

    /// Those that are sent through a channel.
    pub fn channel(name: impl Into<String>, receiver: mpsc::Receiver<R>) -> Self {
        Self::stream(name, received(receiver))
    }
}

impl<R: Request> Source<R> for Requests<R> {
    fn name(&self) -> String {
        self.name.clone()
    }

    async fn run(&self, sink: Sink<R>) -> Result<(), BoxError> {
        let mut stream = self.stream.lock().await;
        while let Some(request) = stream.next().await {
            sink.add(request);
            // A stream that always has something must not keep the runtime from anything else.
            coop::consume_budget().await;
        }
        Ok(())
    }
}

impl<R> fmt::Debug for Requests<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The events that a stream or a channel brings, and what a handler makes of them.
///
/// What is sent while the controller does not run waits, as for [`Requests`]. The events may be of any variant;
/// [`Event::Generic`] is for what happened outside the API.
///
/// ```
/// use controller_runtime::{Event, ForObject, Lazy, ObjectKey, source::Events};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let (sender, receiver) = tokio::sync::mpsc::channel::<Event<ConfigMap>>(1024);
/// let drift: Events<ConfigMap, ObjectKey<ConfigMap>> = Events::channel("drift", receiver, ForObject);
/// // … give `drift` to a builder, and later:
/// # let mut settings = ConfigMap::default();
/// # settings.metadata.name = Some("settings".to_owned());
/// # settings.metadata.namespace = Some("default".to_owned());
/// let object = Lazy::of(settings).expect("it has a name and a namespace");
/// sender.try_send(Event::Generic { object }).unwrap();
/// ```
#[doc(alias = "Channel")]
#[doc(alias = "TypedChannel")]
pub struct Events<K: Object, R: Request> {
    name: String,
    stream: Shared<Event<K>>,
    rules: Rules<K, R>,
}

impl<K: Object, R: Request> Events<K, R> {
    /// Those that a stream brings.
    pub fn stream(
        name: impl Into<String>,
        stream: impl Stream<Item = Event<K>> + Send + 'static,
        handler: impl EventHandler<K, R>,
    ) -> Self {
        Self { name: name.into(), stream: shared(stream), rules: Rules::new(handler) }
    }

    /// Those that are sent through a channel.
    pub fn channel(
        name: impl Into<String>,
        receiver: mpsc::Receiver<Event<K>>,
        handler: impl EventHandler<K, R>,
    ) -> Self {
        Self::stream(name, received(receiver), handler)
    }

    /// Hands on only what `predicate` passes, in addition to the predicates given before.
    #[must_use]
    pub fn with_predicate(mut self, predicate: impl Predicate<K>) -> Self {
        self.rules.add(Box::new(predicate));
        self
    }
}

impl<K: Object, R: Request> Source<R> for Events<K, R> {
    fn name(&self) -> String {
        self.name.clone()
    }

    async fn run(&self, sink: Sink<R>) -> Result<(), BoxError> {
        let mut stream = self.stream.lock().await;
        let mut delivery = Delivery::new(&sink, &self.rules);
        let mut has_ended = false;
        loop {
            tokio::select! {
                // What is due first: events may never pause.
                biased;
                () = delivery.due(), if delivery.is_retrying() => {
                    delivery.retry();
                }
                next = stream.next(), if !has_ended => match next {
                    Some(event) => delivery.deliver(event),
                    None => has_ended = true,
                },
                else => return Ok(()),
            }
            coop::consume_budget().await;
        }
    }
}

impl<K: Object, R: Request> fmt::Debug for Events<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("name", &self.name).finish_non_exhaustive()
    }
}
