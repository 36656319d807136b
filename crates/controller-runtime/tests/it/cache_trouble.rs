//! What goes wrong with lists and watches, and who learns of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use controller_runtime::{Manager, manager::Options};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::{
    faults::{Fault, faulty},
    support::{Running, Widget, environment},
};

const HOUR: Duration = Duration::from_secs(3600);

/// What a test turns on and off while requests are judged.
fn switch() -> (Arc<AtomicBool>, Arc<AtomicBool>) {
    let switch = Arc::new(AtomicBool::new(false));
    (Arc::clone(&switch), switch)
}

/// An aggregated API, or a builtin kind of an API server that is upgraded beside an older one.
#[tokio::test(start_paused = true)]
async fn a_kind_that_no_definition_makes_is_read_when_it_is_served() {
    let env = environment().await;
    // A watch of definitions that stays open, and one that ends at once.
    for stays in [true, false] {
        let (served, on) = switch();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let none = json!({ "metadata": { "resourceVersion": "1" }, "items": [] }).to_string();
        let client = faulty(env.client(), move |seen| {
            counted.fetch_add(1, SeqCst);
            assert!(counted.load(SeqCst) < 10_000, "in a tight circle");
            if seen.is_about("customresourcedefinitions") {
                return match (seen.is_watch(), stays) {
                    (true, true) => Fault::Open(Vec::new()),
                    (true, false) => Fault::Answer(String::new()),
                    (false, _) => Fault::Answer(none.clone()),
                };
            }
            match seen.is_about("widgets") && !served.load(SeqCst) {
                true => Fault::Refuse(404, "NotFound"),
                false => Fault::Pass,
            }
        });
        let manager = Manager::new(client, Options::new("test").seed(1).cache_sync_timeout(HOUR));
        let widgets = manager.cached::<Widget>();
        let _running = Running::begin(manager);
        sleep(Duration::from_secs(1000)).await;
        assert!(!widgets.has_synced());
        let all = asked.load(SeqCst);
        assert!(all <= 120, "{all} requests in 1000 s");
        on.store(true, SeqCst);
        let read = timeout(Duration::from_secs(61), widgets.synced()).await;
        assert!(read.is_ok(), "it is served and not asked for: {:?}", widgets.trouble());
    }
}
