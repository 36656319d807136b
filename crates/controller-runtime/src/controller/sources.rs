//! The sources of a controller, and the tasks that run them.
//!
//! The failure of a required source fails the controller. A source that is not required, such as one added later, is restarted.
//! Each run of a source goes from `Waiting` to `Synced` or `Failing`. A failing run may still become `Synced`. A run that returns
//! ends in `Ended`, one that is dropped in `Idle`.

use std::{collections::BTreeMap, future::Future, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{Duration, Instant, sleep},
};
use tracing::Instrument;

use super::{Log, SourceError};
use crate::{
    cache::ForbiddenError,
    ordered_watch,
    panics::recovered,
    reconcile::Request,
    request_queue::{Redelivery, RequestQueue},
    source::{DynSource, Sink},
};

/// Time after which a failed source that is not required runs again.
const RETRY: Duration = Duration::from_secs(10);

/// The sources of a controller, which may change while it runs.
pub(crate) struct Sources<R: Request> {
    entries: Mutex<SourceEntries<R>>,
    /// Number of changes of `entries`; each wakes [`Sources::run`].
    changed: ordered_watch::Sender<u64>,
}

struct SourceEntries<R: Request> {
    /// Sources and their numbers, in the order of addition.
    all: Vec<(u64, Arc<SourceEntry<R>>)>,
    next: u64,
    /// Whether the sources are stopped that deliver all existing objects in each run. See [`Sources::restart`].
    paused: bool,
}

impl<R: Request> SourceEntries<R> {
    /// Place of a source that was not removed.
    fn place(&self, id: u64) -> Option<usize> {
        self.all.binary_search_by_key(&id, |(id, _)| *id).ok()
    }

    fn may_run(&self, id: u64) -> bool {
        self.place(id).is_some_and(|place| !(self.paused && self.all[place].1.delivers_again))
    }
}

/// Whether a controller needs a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// The controller waits for it, and fails with it.
    Required,
    /// The controller works without it. If it fails, it is started again.
    Optional,
}

struct SourceEntry<R: Request> {
    source: Arc<dyn DynSource<R>>,
    name: Arc<str>,
    need: Need,
    /// See [`Source::delivers_again`](crate::Source::delivers_again). Asked once, because the source is code of the user, which must not run
    /// under a lock.
    delivers_again: bool,
    state: ordered_watch::Sender<SourceState>,
}

/// State of a source in its latest run. Runs are numbered, so that the rest of an earlier run cannot change it.
#[derive(Debug, Clone, Default)]
pub(super) struct SourceState {
    run: u64,
    pub(super) phase: SourcePhase,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum SourcePhase {
    /// The source does not run.
    #[default]
    Idle,
    /// The source has not delivered its initial state.
    Waiting,
    /// The source failed or is late; it may still sync.
    Failing(String),
    Synced,
    /// The source returned, and will deliver nothing more.
    Ended,
}

impl<R: Request> Sources<R> {
    pub(super) fn new(all: Vec<Arc<dyn DynSource<R>>>) -> Self {
        let entries = SourceEntries { all: Vec::new(), next: 0, paused: false };
        let sources = Self { entries: Mutex::new(entries), changed: ordered_watch::Sender::default() };
        for source in all {
            let need = if source.is_required() { Need::Required } else { Need::Optional };
            sources.insert(source, need);
        }
        sources
    }

    /// Adds a source that is not required. Returns its ID, name and state.
    pub(super) fn add(
        &self,
        source: Arc<dyn DynSource<R>>,
    ) -> (u64, Arc<str>, ordered_watch::Receiver<SourceState>) {
        let (id, entry) = self.insert(source, Need::Optional);
        (id, Arc::clone(&entry.name), entry.state.subscribe())
    }

    fn insert(&self, source: Arc<dyn DynSource<R>>, need: Need) -> (u64, Arc<SourceEntry<R>>) {
        let (name, state) = (Arc::from(source.name()), ordered_watch::Sender::default());
        let delivers_again = source.delivers_again();
        let entry = Arc::new(SourceEntry { source, name, need, delivers_again, state });
        let mut entries = self.entries.lock();
        let id = entries.next;
        entries.next += 1;
        entries.all.push((id, Arc::clone(&entry)));
        drop(entries);
        self.changed.send_modify(|count| *count += 1);
        (id, entry)
    }

    /// Names of the sources, in the order of addition.
    pub(super) fn names(&self) -> Vec<String> {
        self.entries.lock().all.iter().map(|(_, entry)| entry.name.to_string()).collect()
    }

    pub(super) fn remove(&self, id: u64) {
        let removed = {
            let mut entries = self.entries.lock();
            entries.place(id).map(|place| entries.all.remove(place))
        };
        drop(removed); // outside the lock: this may end a watch, which locks as well
        self.changed.send_modify(|count| *count += 1);
    }

    /// Removes all sources, when the controller is dropped.
    pub(super) fn clear(&self) {
        let removed = std::mem::take(&mut self.entries.lock().all);
        // Outside the lock, as in `remove`.
        drop(removed);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Stops the sources that deliver everything again in their next run, awaits `meanwhile` when they have stopped, and starts
    /// them again.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped, the sources start again at once.
    pub(super) async fn restart(&self, meanwhile: impl Future<Output = ()>) {
        struct Resume<'s, R: Request>(&'s Sources<R>);
        impl<R: Request> Drop for Resume<'_, R> {
            fn drop(&mut self) {
                self.0.set_paused(false);
            }
        }
        // Before the sources are listed, so that none of them starts in between.
        self.set_paused(true);
        let _resume = Resume(self);
        let stopping: Vec<_> = {
            let entries = self.entries.lock();
            let entries = entries.all.iter().map(|(_, entry)| entry);
            entries.filter(|entry| entry.delivers_again).cloned().collect()
        };
        for entry in stopping {
            let mut state = entry.state.subscribe();
            // Cannot fail, because the entry holds the sender.
            let _ =
                state.wait_for(|state| matches!(state.phase, SourcePhase::Idle | SourcePhase::Ended)).await;
        }
        meanwhile.await;
    }

    fn set_paused(&self, paused: bool) {
        self.entries.lock().paused = paused;
        self.changed.send_modify(|count| *count += 1);
    }

    /// Waits until all required sources have delivered their initial state.
    pub(super) async fn synced(&self) {
        let required: Vec<_> = {
            let entries = self.entries.lock();
            let entries = entries.all.iter().map(|(_, entry)| entry);
            entries.filter(|entry| entry.need == Need::Required).cloned().collect()
        };
        for entry in required {
            let mut state = entry.state.subscribe();
            // Cannot fail, because the entry holds the sender.
            let _ =
                state.wait_for(|state| matches!(state.phase, SourcePhase::Synced | SourcePhase::Ended)).await;
        }
    }

    /// Runs the sources, including those added later, until dropped or until a required source fails or is not synced within
    /// `limit`. Returns the error of that source.
    pub(super) async fn run(
        &self,
        requests: &RequestQueue<R>,
        log: &Arc<Log<R>>,
        limit: Duration,
    ) -> SourceError {
        let mut changed = self.changed.subscribe();
        let mut tasks = JoinSet::new();
        let mut running: BTreeMap<u64, AbortHandle> = BTreeMap::new();
        loop {
            {
                let entries = self.entries.lock();
                let stopped: Vec<u64> = running.keys().copied().filter(|id| !entries.may_run(*id)).collect();
                for id in stopped {
                    if let Some(task) = running.remove(&id) {
                        // Its end is not awaited: if the source starts again before, the numbers of the runs
                        // keep the two apart.
                        task.abort();
                    }
                }
                for (id, entry) in entries.all.iter().filter(|(id, _)| entries.may_run(*id)) {
                    // A source that has ended stays in `running`, so it is not started again.
                    running.entry(*id).or_insert_with(|| {
                        let run = SourceRun::begin(Arc::clone(entry), requests.clone(), Arc::clone(log));
                        tasks.spawn(async move { run.until_it_ends(limit).await }.in_current_span())
                    });
                }
            }
            tokio::select! {
                // Changes of the list come first, so that the running sources follow the latest list.
                biased;
                changed = changed.changed() => {
                    let _ = changed; // cannot fail: `self` holds the sender
                }
                Some(ended) = tasks.join_next() => match ended {
                    Ok(Ok(())) => {}
                    // Only a required source ends with an error.
                    Ok(Err(error)) => return error,
                    // The task of a removed source was aborted.
                    Err(end) => if let Ok(panic) = end.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    },
                },
            }
        }
    }
}

/// One run of a source. Dropping it marks the source as not running.
struct SourceRun<R: Request> {
    entry: Arc<SourceEntry<R>>,
    requests: RequestQueue<R>,
    log: Arc<Log<R>>,
    number: u64,
    /// The failure that was logged last, unless the source has run for a while since.
    logged: Mutex<Option<String>>,
}

impl<R: Request> SourceRun<R> {
    fn begin(entry: Arc<SourceEntry<R>>, requests: RequestQueue<R>, log: Arc<Log<R>>) -> Self {
        let number = entry.state.borrow().run + 1;
        entry.state.send_replace(SourceState { run: number, phase: SourcePhase::Waiting });
        Self { entry, requests, log, number, logged: Mutex::new(None) }
    }

    async fn until_it_ends(self, limit: Duration) -> Result<(), SourceError> {
        let entry = &self.entry;
        self.log.starting_source(&entry.name);
        loop {
            let began = Instant::now();
            match self.run_once(limit).await {
                Err(error) if entry.need == Need::Optional => {
                    // After a longer run, the failure is logged again even if its text is the same.
                    if began.elapsed() > RETRY {
                        *self.logged.lock() = None;
                    }
                    self.report_failure(&error);
                    sleep(RETRY).await;
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    self.log.source_ended(&entry.name);
                    self.enter(SourcePhase::Ended);
                    return Ok(());
                }
            }
        }
    }

    async fn run_once(&self, limit: Duration) -> Result<(), SourceError> {
        let SourceEntry { source, name, state, need, delivers_again } = &*self.entry;
        let (entry, number) = (Arc::clone(&self.entry), self.number);
        let set_synced = Arc::new(move || entry.enter(number, SourcePhase::Synced));
        let redelivery = if *delivers_again { Redelivery::NextRun } else { Redelivery::Never };
        let sink = Sink::new(self.requests.of_source(redelivery), Arc::clone(name), set_synced);
        let run = async {
            let ended = recovered(Arc::clone(source).run(sink)).await;
            ended.unwrap_or_else(|panic| Err(format!("it panicked: {panic}").into())).map_err(|error| {
                match error.downcast::<ForbiddenError>() {
                    Ok(forbidden) => SourceError::Forbidden(*forbidden),
                    Err(source) => {
                        SourceError::Failed { name: name.to_string(), controller: self.controller(), source }
                    }
                }
            })
        };
        let mut run = Box::pin(run);
        if !source.signals_synced() {
            self.enter(SourcePhase::Synced);
        }
        let mut state = state.subscribe();
        tokio::select! {
            // The end of the source comes first: its error is more specific than a timeout.
            biased;
            ended = &mut run => return ended,
            // Cannot fail, because the entry holds the sender.
            _ = state.wait_for(|state| state.phase == SourcePhase::Synced) => {}
            () = sleep(limit) => {
                let reason = source.trouble().unwrap_or_else(|| "the source has not reported that it is synced".to_owned());
                let (name, controller) = (name.to_string(), self.controller());
                let late = SourceError::NotSynced { name, controller, timeout: limit, reason };
                if *need == Need::Required {
                    return Err(late);
                }
                // An optional source may still sync, so it keeps running.
                self.report_failure(&late);
            }
        }
        run.await
    }

    fn controller(&self) -> String {
        self.requests.controller.to_string()
    }

    /// Enters `Failing`. Logs the error, unless it is the one that was logged last.
    fn report_failure(&self, error: &SourceError) {
        // Compared with the last failure instead of the phase: a source that does not signal that it is synced leaves `Failing` at the start
        // of each attempt.
        let reason = error.to_string();
        if self.logged.lock().replace(reason.clone()).as_ref() != Some(&reason) {
            self.log.going_on_without(&self.entry.name, error);
        }
        self.enter(SourcePhase::Failing(reason));
    }

    fn enter(&self, phase: SourcePhase) {
        self.entry.enter(self.number, phase);
    }
}

impl<R: Request> Drop for SourceRun<R> {
    fn drop(&mut self) {
        self.enter(SourcePhase::Idle);
    }
}

impl<R: Request> SourceEntry<R> {
    /// Sets the phase, unless a later run has begun or this one has ended: the drop after the end must not change `Ended` to
    /// `Idle`.
    fn enter(&self, run: u64, phase: SourcePhase) {
        self.state.send_if_modified(|state| {
            let enters = state.run == run && state.phase != SourcePhase::Ended && state.phase != phase;
            if enters {
                state.phase = phase;
            }
            enters
        });
    }
}
