//! Random work of several tasks, with threads and by seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use kube_workqueue::Queue;
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;

use super::SECOND;

/// Random work by eight tasks: no key is lost, no key is processed twice at once, and the last add of each key is
/// followed by a run that started after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_last_add_is_followed_by_a_run_and_no_key_runs_beside_itself() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

    #[derive(Default)]
    struct Key {
        running: AtomicBool,
        added: AtomicU64,
        seen: AtomicU64,
    }
    const KEYS: usize = 1000;
    let keys: Arc<Vec<Key>> = Arc::new((0..KEYS).map(|_| Key::default()).collect());
    let queue = Queue::default();
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let (queue, keys) = (queue.clone(), keys.clone());
        workers.spawn(async move {
            while let Some(item) = queue.get().await {
                let key: &Key = &keys[*item];
                assert!(!key.running.swap(true, SeqCst), "key {} runs beside itself", *item);
                let added = key.added.load(SeqCst);
                if added.is_multiple_of(3) {
                    yield_now().await;
                }
                key.seen.fetch_max(added, SeqCst);
                assert!(key.running.swap(false, SeqCst));
            }
        });
    }
    let mut producers = JoinSet::new();
    for seed in 0..8 {
        let (queue, keys) = (queue.clone(), keys.clone());
        producers.spawn(async move {
            let mut random: u64 = seed + 1;
            for _ in 0..KEYS * 100 / 8 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let key = (random >> 33) as usize % KEYS;
                keys[key].added.fetch_add(1, SeqCst);
                match random >> 62 {
                    0 => queue.add_after(key, Duration::from_micros(random >> 50 & 0x3ff)),
                    _ => queue.add(key),
                }
                if random >> 40 & 0xff == 0 {
                    yield_now().await;
                }
            }
        });
    }
    producers.join_all().await;
    while keys.iter().any(|key| key.seen.load(SeqCst) != key.added.load(SeqCst)) {
        yield_now().await;
    }
    assert!(queue.shut_down_with_drain().await.is_empty());
    workers.join_all().await;
}

/// Checks the promises of the test above in one thread with paused time, where a seed determines every step:
/// `WORKQUEUE_SEED=7 cargo test -p kube-workqueue --test queue any_seed` repeats a failure.
#[test]
fn any_seed_loses_no_last_add_and_runs_no_key_beside_itself() {
    let seeds = match std::env::var("WORKQUEUE_SEED") {
        Ok(seed) => vec![seed.parse().expect("WORKQUEUE_SEED is a number")],
        Err(_) => (0..10).collect(),
    };
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime can be made");
        let ran = catch_unwind(AssertUnwindSafe(|| runtime.block_on(random_work(seed))));
        ran.unwrap_or_else(|_| panic!("it failed with WORKQUEUE_SEED={seed}"));
    }
    let orders = [3, 3, 4].map(|seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime can be made").block_on(random_work(seed))
    });
    assert!(orders[0] == orders[1], "a seed repeats the order of all runs");
    assert!(orders[0] != orders[2], "another seed is another order");
}

/// Adds 100 keys 20 times each on average, from eight tasks, and works on them in eight. Returns the order of the runs.
async fn random_work(seed: u64) -> Vec<usize> {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tokio::task::LocalSet;

    const KEYS: usize = 100;

    #[derive(Default)]
    struct Seen {
        /// For each key: whether it runs, the number of adds, and how many of those a run began after.
        keys: Vec<(bool, u32, u32)>,
        order: Vec<usize>,
    }
    let seen = Rc::new(RefCell::new(Seen { keys: vec![(false, 0, 0); KEYS], order: Vec::new() }));
    let random = Rc::new(RefCell::new(fastrand::Rng::with_seed(seed)));
    let pause = {
        let random = Rc::clone(&random);
        move || {
            let draw = random.borrow_mut().u8(..4);
            let micros = random.borrow_mut().u64(..5_000);
            async move {
                match draw {
                    0 => sleep(Duration::from_micros(micros)).await,
                    1 => yield_now().await,
                    _ => {}
                }
            }
        }
    };
    let (queue, tasks, mut producers) = (Queue::<usize>::default(), LocalSet::new(), Vec::new());
    for _ in 0..8 {
        let (queue, seen, random, pause) =
            (queue.clone(), Rc::clone(&seen), Rc::clone(&random), pause.clone());
        tasks.spawn_local(async move {
            while let Some(item) = queue.get().await {
                let (runs, added, _) = seen.borrow().keys[*item];
                assert!(!runs, "key {} runs beside itself", *item);
                seen.borrow_mut().keys[*item].0 = true;
                seen.borrow_mut().order.push(*item);
                pause().await;
                match random.borrow_mut().u8(..10) {
                    // The key runs again by itself, which is an add like any other.
                    0 => {
                        seen.borrow_mut().keys[*item].1 += 1;
                        queue.add_rate_limited(*item);
                    }
                    _ => queue.forget(&item),
                }
                let key = &mut seen.borrow_mut().keys[*item];
                (key.0, key.2) = (false, key.2.max(added));
            }
        });
    }
    for _ in 0..8 {
        let (queue, seen, random, pause) =
            (queue.clone(), Rc::clone(&seen), Rc::clone(&random), pause.clone());
        producers.push(tasks.spawn_local(async move {
            for _ in 0..KEYS * 20 / 8 {
                let key = random.borrow_mut().usize(..KEYS);
                seen.borrow_mut().keys[key].1 += 1;
                let micros = random.borrow_mut().u64(..20_000);
                match random.borrow_mut().u8(..4) {
                    0 => queue.add_after(key, Duration::from_micros(micros)),
                    _ => queue.add(key),
                }
                pause().await;
            }
        }));
    }
    let check = async {
        for producer in producers {
            producer.await.expect("a producer does not panic");
        }
        // Long enough for every delay and for retries in back-off.
        sleep(3600 * SECOND).await;
        let lost: Vec<usize> =
            (0..KEYS).filter(|key| seen.borrow().keys[*key].1 != seen.borrow().keys[*key].2).collect();
        assert_eq!(lost, [0; 0], "keys with an add that no run followed");
        assert!(queue.shut_down().is_empty() && queue.is_empty());
    };
    tasks.run_until(check).await;
    std::mem::take(&mut seen.borrow_mut().order)
}
