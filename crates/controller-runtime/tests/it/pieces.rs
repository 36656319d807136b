//! Long deliveries and many reconciles are split into pieces, so that other tasks get their turn.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use controller_runtime::{
    Action, Builder, Context, Enqueue, Event, Kind, Manager, ManagerOptions, ObjectKey, ReconcileError,
    Reconciler, cache::Namespaces,
};
use serde_json::{Value, json};
use tokio::{
    runtime,
    task::{JoinSet, yield_now},
};

use crate::{
    faults::{Fault, expired, faulty},
    support::{Running, Widget, environment},
};

/// Number of objects, many times the size of a piece.
const OBJECTS: usize = 3000;

/// Maximum number of calls of user code before another task gets its turn. Two pieces may follow each other, depending
/// on the order of yielding tasks.
const PIECE: usize = 2 * (256 + 32);

/// Calls of user code since the last turn of another task, and the maximum.
#[derive(Clone, Default)]
struct Calls(Arc<[AtomicUsize; 3]>);

impl Calls {
    fn count(&self) {
        let [since, most, all] = &*self.0;
        most.fetch_max(since.fetch_add(1, SeqCst) + 1, SeqCst);
        all.fetch_add(1, SeqCst);
    }

    /// Takes a turn whenever it is polled.
    async fn take_turns(self) {
        loop {
            self.0[0].store(0, SeqCst);
            yield_now().await;
        }
    }

    fn all(&self) -> usize {
        self.0[2].load(SeqCst)
    }

    fn assert_pieces(&self, of: &str) {
        let most = self.0[1].swap(0, SeqCst);
        assert!((1..=PIECE).contains(&most), "{of}: {most} calls in a row, {} in all", self.all());
    }
}

/// Reconciler that never waits.
struct Count(Calls);

impl Reconciler for Count {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, _: &ObjectKey<Widget>, _: &Context) -> Result<Action, ReconcileError> {
        self.0.count();
        Ok(Action::done())
    }
}

/// Returns a list of widgets of this size. Its versions grow with the size.
fn list(size: usize) -> String {
    let object = |number: usize| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "spec": { "size": size },
            // So that their texts are enough for a dictionary.
            "note": "x".repeat(100),
            "metadata": {
                "namespace": "default", "name": format!("w{number:04}"), "uid": format!("uid-{number}"),
                "resourceVersion": (size * OBJECTS + number).to_string(),
            },
        })
    };
    let items: Vec<Value> = (0..OBJECTS).map(object).collect();
    let version = ((size + 1) * OBJECTS).to_string();
    json!({
        "apiVersion": "example.com/v1", "kind": "WidgetList", "metadata": { "resourceVersion": version }, "items": items,
    })
    .to_string()
}

async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        yield_now().await;
    }
}

/// On one thread, where a task that does not yield stops all others. In real time: nothing waits for a timer.
#[tokio::test]
async fn initial_lists_relists_and_removals_are_delivered_in_pieces() {
    let env = environment().await;
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lists);
    let client = faulty(env.client(), move |seen| match (seen.is_watch(), seen.is_stream()) {
        _ if !seen.is_about("widgets") => Fault::Pass,
        (true, true) => Fault::Refuse(422, "Invalid"),
        // The version of the first watch is too old.
        (true, false) if counted.load(SeqCst) == 1 => Fault::Answer(expired()),
        (true, false) => Fault::Hang,
        (false, _) => Fault::Answer(list(counted.fetch_add(1, SeqCst) + 1)),
    });
    let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
    let namespaces = Namespaces::new(["default"]);
    let widgets = manager.cache().of::<Widget>().namespace_set(&namespaces).build().unwrap();
    let (handled, indexed, reconciled) = (Calls::default(), Calls::default(), Calls::default());
    let mut others = JoinSet::new();
    others.spawn(reconciled.clone().take_turns());
    others.spawn(handled.clone().take_turns());
    others.spawn(indexed.clone().take_turns());

    let (of_handler, of_index) = (handled.clone(), indexed.clone());
    // Each object arrives once at this size: in the initial list or as an update.
    let at_size_2 = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&at_size_2);
    let by_size = widgets.index(move |widget: &Widget| {
        of_index.count();
        [widget.spec.size]
    });
    let handler = |calls: Calls| {
        let counted = Arc::clone(&counted);
        move |event: &Event<Widget>, queue: &Enqueue<'_, ObjectKey<Widget>>| {
            calls.count();
            counted.fetch_add(usize::from(event.latest().object().unwrap().spec.size == 2), SeqCst);
            queue.add(event.key());
        }
    };
    let handle = Builder::managed_by(&manager)
        .for_requests::<ObjectKey<Widget>>("widgets")
        .watches(Kind::of(&widgets, handler(of_handler)))
        .complete(Count(reconciled.clone()))
        .unwrap();
    let _running = Running::start(manager).await;
    until(|| by_size.keys(&2).unwrap().len() == OBJECTS && at_size_2.load(SeqCst) == OBJECTS).await;
    handled.assert_pieces("the initial list");
    indexed.assert_pieces("the index during the initial list and a relist");
    until(|| reconciled.all() >= OBJECTS).await;
    reconciled.assert_pieces("the reconciles of as many workers as there are by default");

    let before = handled.all();
    namespaces.remove("default");
    until(|| handled.all() == before + OBJECTS).await;
    handled.assert_pieces("the deletions of a namespace");
    namespaces.add("default");
    until(|| handled.all() == before + 2 * OBJECTS).await;
    handled.assert_pieces("the objects of a namespace that is added");
    assert_eq!(by_size.keys(&3).unwrap().len(), OBJECTS);
    indexed.assert_pieces("the index while a namespace goes and comes back");

    let late = Calls::default();
    others.spawn(late.clone().take_turns());
    let watch = handle.watch(Kind::of(&widgets, handler(late.clone())));
    until(|| late.all() == OBJECTS).await;
    late.assert_pieces("the initial list of a source that is added");
    watch.remove().await;
}

/// Lists widgets, for which one dictionary is trained. Returns how many threads the runtime starts for that.
fn threads_of_a_training(paused: bool) -> usize {
    let threads = Arc::new(AtomicUsize::new(0));
    let started = Arc::clone(&threads);
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(paused)
        .on_thread_start(move || {
            started.fetch_add(1, SeqCst);
        })
        .build()
        .unwrap();
    runtime.block_on(async {
        let env = environment().await;
        let client = faulty(env.client(), |seen| match (seen.is_watch(), seen.is_stream()) {
            _ if !seen.is_about("widgets") => Fault::Pass,
            (true, true) => Fault::Refuse(422, "Invalid"),
            (true, false) => Fault::Hang,
            (false, _) => Fault::Answer(list(1)),
        });
        let manager = Manager::new(client, ManagerOptions::new("test").seed(1));
        let widgets = manager.cached::<Widget>();
        let before = threads.load(SeqCst);
        let _running = Running::start(manager).await;
        assert_eq!((widgets.len().unwrap(), widgets.stats().trainings), (OBJECTS, 1));
        assert!(widgets.list().unwrap().iter().all(|widget| widget.spec.size == 1));
        threads.load(SeqCst) - before
    })
}

#[test]
fn dictionaries_are_trained_on_another_thread_but_in_paused_time() {
    assert_eq!(threads_of_a_training(false), 1);
    assert_eq!(threads_of_a_training(true), 0);
}
