//! Output of the demonstration: a progress display on a terminal, plain lines elsewhere.
//!
//! Its data comes from the cluster: two small controllers watch Guestbooks and Events, separately from the operator.

use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, manager::AddError,
};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use k8s_openapi::api::events::v1::Event;
use tokio::time::Instant;

use crate::api::Guestbook;

/// Prints the progress of the demonstration. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Progress(Arc<ProgressOutput>);

#[derive(Debug)]
struct ProgressOutput {
    started: Instant,
    display: Display,
}

#[derive(Debug)]
enum Display {
    /// Plain lines, each with the time since the start.
    Lines,
    /// Lines, and below them the current state of each object.
    Terminal { all: MultiProgress, bars: Mutex<BTreeMap<String, ProgressBar>> },
}

impl Progress {
    /// Prints to standard output.
    #[must_use]
    pub fn new() -> Self {
        let display = if std::io::stdout().is_terminal() {
            Display::Terminal {
                all: MultiProgress::with_draw_target(indicatif::ProgressDrawTarget::stdout()),
                bars: Mutex::default(),
            }
        } else {
            Display::Lines
        };
        Self(Arc::new(ProgressOutput { started: Instant::now(), display }))
    }

    /// Prints the next step of the demonstration.
    pub fn step(&self, text: &str) {
        self.line(&format!("▶ {text}"));
    }

    /// Prints a state or event of an object.
    pub fn object_line(&self, object: &str, text: &str) {
        self.line(&format!("  {object:<10} {text}"));
    }

    /// Prints a line without a time.
    pub fn plain(&self, text: &str) {
        // A closed standard output (a broken pipe) must not stop the operator.
        let _ = match &self.0.display {
            Display::Lines => writeln!(std::io::stdout(), "{text}"),
            Display::Terminal { all, .. } => all.println(text),
        };
    }

    fn line(&self, text: &str) {
        self.plain(&format!("{:>8.3}s {text}", self.0.started.elapsed().as_secs_f64()));
    }

    /// Shows the current state of an object; `None` once it is deleted.
    fn set_state(&self, object: &str, state: Option<&str>) {
        let Display::Terminal { all, bars } = &self.0.display else {
            return;
        };
        let mut bars = bars.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = state else {
            if let Some(bar) = bars.remove(object) {
                bar.finish_and_clear();
            }
            return;
        };
        let bar = bars.entry(object.to_owned()).or_insert_with(|| {
            let bar = all.add(ProgressBar::new_spinner());
            bar.set_style(
                ProgressStyle::with_template("{spinner} {prefix:<10} {wide_msg}").expect("a valid template"),
            );
            bar.set_prefix(object.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        bar.set_message(state.to_owned());
    }

    /// Leaves the display in its last state.
    pub fn finish(&self) {
        if let Display::Terminal { bars, .. } = &self.0.display {
            bars.lock().unwrap_or_else(PoisonError::into_inner).values().for_each(ProgressBar::abandon);
        }
    }

    /// Adds the controllers to `manager` that print states of Guestbooks, and Events about them.
    ///
    /// # Errors
    ///
    /// The manager already has these controllers.
    pub fn add_to(&self, manager: &Manager) -> Result<(), AddError> {
        Builder::managed_by(manager)
            .for_kind::<Guestbook>()
            .named("show-guestbooks")
            .without_status()
            .without_events()
            .complete(ShowGuestbooks {
                progress: self.clone(),
                guestbooks: manager.cached(),
                shown: Mutex::default(),
            })?;
        Builder::managed_by(manager)
            .for_kind::<Event>()
            .named("show-events")
            .without_events()
            .complete(ShowEvents { progress: self.clone(), events: manager.cached() })?;
        Ok(())
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

struct ShowGuestbooks {
    progress: Progress,
    guestbooks: Cached<Guestbook>,
    /// Last text printed for each Guestbook, so that nothing is printed twice.
    shown: Mutex<BTreeMap<ObjectKey<Guestbook>, String>>,
}

impl Reconciler for ShowGuestbooks {
    type Request = ObjectKey<Guestbook>;

    async fn reconcile(&self, key: &ObjectKey<Guestbook>, _: &Context) -> Result<Action, ReconcileError> {
        let state = self.guestbooks.get(key)?.map(|guestbook| describe(&guestbook));
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match &state {
            Some(state) => shown.insert(key.clone(), state.clone()),
            None => shown.remove(key),
        };
        // Many reconciles change nothing that is shown.
        if before != state {
            self.progress.set_state(key.name(), state.as_deref());
            self.progress.object_line(key.name(), state.as_deref().unwrap_or("gone"));
        }
        Ok(Action::done())
    }
}

/// Describes replicas and condition, if the condition is about the current spec.
fn describe(guestbook: &Guestbook) -> String {
    let replicas = guestbook.spec.replicas;
    if guestbook.metadata.deletion_timestamp.is_some() {
        return format!("replicas {replicas}  being deleted");
    }
    match guestbook.ready() {
        None => format!("replicas {replicas}  not reconciled yet"),
        Some(ready) if ready.status == "True" => format!("replicas {replicas}  Ready"),
        Some(ready) => format!("replicas {replicas}  not ready: {}", ready.reason),
    }
}

struct ShowEvents {
    progress: Progress,
    events: Cached<Event>,
}

impl Reconciler for ShowEvents {
    type Request = ObjectKey<Event>;

    async fn reconcile(&self, key: &ObjectKey<Event>, _: &Context) -> Result<Action, ReconcileError> {
        let Some(event) = self.events.get(key)? else {
            return Ok(Action::done());
        };
        let about = event.regarding.as_ref().filter(|about| about.kind.as_deref() == Some("Guestbook"));
        if let Some(name) = about.and_then(|about| about.name.as_ref()) {
            let times =
                event.series.as_ref().map_or_else(String::new, |series| format!(" (×{})", series.count));
            self.progress.object_line(name, &format!("{}{times}", event.note.as_deref().unwrap_or_default()));
        }
        Ok(Action::done())
    }
}
