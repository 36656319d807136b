//! Sources that read a stream or a channel.

use std::{fmt, pin::Pin};

use futures::{Stream, StreamExt, stream};
use tokio::{
    sync::{Mutex, mpsc},
    task::coop,
};

use super::{Sink, Source, delivery::Delivery, event_rules::Rules};
use crate::{
    cache::Event, error::BoxError, handler::EventHandler, object::Object, predicate::Predicate,
    reconcile::Request,
};

/// A stream that one run at a time reads, and the next run continues.
type SharedStream<T> = Mutex<Pin<Box<dyn Stream<Item = T> + Send>>>;

fn shared<T: 'static>(stream: impl Stream<Item = T> + Send + 'static) -> SharedStream<T> {
    Mutex::new(Box::pin(stream.fuse()))
}

fn received<T: Send + 'static>(mut receiver: mpsc::Receiver<T>) -> impl Stream<Item = T> + Send + 'static {
    stream::poll_fn(move |cx| receiver.poll_recv(cx))
}

/// Requests from a stream or a channel.
///
/// Items that are sent while the controller does not run, for example on a standby, wait in the stream or channel. Limit their
/// number in the sender, or by the capacity of the channel. When the stream ends, the source ends; the controller continues.
///
/// ```
/// use controller_runtime::source::Requests;
///
/// let (sender, receiver) = tokio::sync::mpsc::channel(1024);
/// let pushes = Requests::channel("pushes", receiver);
/// // … pass `pushes` to a builder, and the sender to the code that receives pushes:
/// sender.try_send("repository-1").unwrap();
/// # fn accepted(_: impl controller_runtime::Source<&'static str>) {}
/// # accepted(pushes);
/// ```
pub struct Requests<R> {
    name: String,
    stream: SharedStream<R>,
}

impl<R: Request> Requests<R> {
    /// Reads requests from a stream.
    pub fn stream(name: impl Into<String>, stream: impl Stream<Item = R> + Send + 'static) -> Self {
        Self { name: name.into(), stream: shared(stream) }
    }

    /// Reads requests from a channel.
    pub fn channel(name: impl Into<String>, receiver: mpsc::Receiver<R>) -> Self {
        Self::stream(name, received(receiver))
    }
}

impl<R: Request> Source<R> for Requests<R> {
    fn name(&self) -> String {
        self.name.clone()
    }

    async fn run(&self, sink: Sink<R>) -> Result<(), BoxError> {
        // Held for the whole run: a run that overlaps with its predecessor waits until that has been dropped.
        let mut stream = self.stream.lock().await;
        while let Some(request) = stream.next().await {
            sink.add(request);
            // A stream that is always ready must yield to other tasks of the runtime.
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

/// Events from a stream or a channel, passed to a handler.
///
/// Events that are sent while the controller does not run wait, as for [`Requests`]. They may be of any variant;
/// [`Event::Generic`] is for changes outside of the API.
///
/// ```
/// use controller_runtime::{Event, ForObject, Lazy, ObjectKey, source::Events};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let (sender, receiver) = tokio::sync::mpsc::channel::<Event<ConfigMap>>(1024);
/// let drift: Events<ConfigMap, ObjectKey<ConfigMap>> = Events::channel("drift", receiver, ForObject);
/// // … pass `drift` to a builder, and later:
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
    stream: SharedStream<Event<K>>,
    rules: Rules<K, R>,
}

impl<K: Object, R: Request> Events<K, R> {
    /// Reads events from a stream.
    pub fn stream(
        name: impl Into<String>,
        stream: impl Stream<Item = Event<K>> + Send + 'static,
        handler: impl EventHandler<K, R>,
    ) -> Self {
        Self { name: name.into(), stream: shared(stream), rules: Rules::new(handler) }
    }

    /// Reads events from a channel.
    pub fn channel(
        name: impl Into<String>,
        receiver: mpsc::Receiver<Event<K>>,
        handler: impl EventHandler<K, R>,
    ) -> Self {
        Self::stream(name, received(receiver), handler)
    }

    /// Passes only events that `predicate` passes, in addition to the predicates given before.
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
        // Held for the whole run, as in `Requests`.
        let mut stream = self.stream.lock().await;
        // A new run starts without the failed events of the last one.
        let mut delivery = Delivery::new(&sink, &self.rules);
        let mut has_ended = false;
        loop {
            tokio::select! {
                // Failed events come first: new events may never pause.
                biased;
                () = delivery.due(), if delivery.is_retrying() => {
                    delivery.retry();
                }
                next = stream.next(), if !has_ended => match next {
                    Some(event) => delivery.deliver(event),
                    // The source does not end while failed events wait for redelivery.
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
