//! Long deliveries, in pieces between which other tasks get their turn.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use controller_runtime::{
    Builder, Enqueue, Event, Kind, Manager, ObjectKey, cache::Namespaces, manager::Options,
};
use serde_json::{Value, json};
use tokio::task::{JoinSet, yield_now};

use crate::{
    faults::{Fault, expired, faulty},
    support::{NoteAll, Running, Widget, environment},
};

/// Many times what a piece may be.
const OBJECTS: usize = 3000;

/// Most calls of user code before another task gets its turn. The order of tasks that yield may lead to two pieces in a row.
const PIECE: usize = 2 * (256 + 32);

/// Calls of user code since another task had its turn, and the most there were.
#[derive(Clone, Default)]
struct Calls(Arc<[AtomicUsize; 3]>);

impl Calls {
    fn count(&self) {
        let [since, most, all] = &*self.0;
        most.fetch_max(since.fetch_add(1, SeqCst) + 1, SeqCst);
        all.fetch_add(1, SeqCst);
    }

    /// Takes turns for as long as it is polled.
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

/// A list of widgets of a size, whose versions grow with it.
fn list(size: usize) -> String {
    let object = |number: usize| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "spec": { "size": size },
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

/// On one thread, where a task that does not yield stops all others. Time is real: nothing waits for it.
#[tokio::test]
async fn initial_lists_relists_and_removals_are_delivered_in_pieces() {
    let env = environment().await;
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lists);
    let client = faulty(env.client(), move |seen| match (seen.is_watch(), seen.is_stream()) {
        _ if !seen.is_about("widgets") => Fault::Pass,
        (true, true) => Fault::Refuse(422, "Invalid"),
        // The first watch begins with a version that is too old.
        (true, false) if counted.load(SeqCst) == 1 => Fault::Answer(expired()),
        (true, false) => Fault::Hang,
        (false, _) => Fault::Answer(list(counted.fetch_add(1, SeqCst) + 1)),
    });
    let manager = Manager::new(client, Options::new("test").seed(1));
    let namespaces = Namespaces::new(["default"]);
    let widgets = manager.cache().of::<Widget>().namespace_set(&namespaces).build().unwrap();
    let (handled, indexed) = (Calls::default(), Calls::default());
    let mut others = JoinSet::new();
    others.spawn(handled.clone().take_turns());
    others.spawn(indexed.clone().take_turns());

    let (of_handler, of_index) = (handled.clone(), indexed.clone());
    // Each object comes at this size once: in the initial list or as an update.
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
        .complete(NoteAll::<ObjectKey<Widget>>::new())
        .unwrap();
    let _running = Running::start(manager).await;
    until(|| by_size.keys(&2).unwrap().len() == OBJECTS && at_size_2.load(SeqCst) == OBJECTS).await;
    handled.assert_pieces("the initial list");
    indexed.assert_pieces("the index during the initial list and a relist");

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
