//! Recovered panics, with the place where they happened.
//!
//! A caught panic carries its message but not its place. Only the panic hook of the process receives the place. So the first
//! [`PanicWatch`] in a process installs a hook, which records the place for the current thread while such a watch exists, and then
//! calls the previous hook: the program's own handling of panics stays in effect.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    panic::{self, AssertUnwindSafe},
    pin::pin,
    sync::Once,
    task::Poll,
};

/// A panic that was caught.
pub(crate) struct Panic {
    /// Message and place: `no luck, at src/main.rs:7:5`.
    pub(crate) text: String,
    payload: Box<dyn Any + Send>,
}

impl Panic {
    /// Continues unwinding, as if the panic had not been caught.
    pub(crate) fn resume(self) -> ! {
        panic::resume_unwind(self.payload)
    }
}

/// Output of `future`, or message and place of its panic.
///
/// The future is not polled again after a panic.
pub(crate) async fn recovered<F: Future>(future: F) -> Result<F::Output, String> {
    caught(future).await.map_err(|panic| panic.text)
}

/// Output of `future`, or its panic, which the caller may resume.
pub(crate) async fn caught<F: Future>(future: F) -> Result<F::Output, Panic> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        // Each poll may run on another thread, so the thread-local watch lasts for one poll.
        let watch = PanicWatch::begin();
        match panic::catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(payload) => Poll::Ready(Err(Panic { text: watch.describe(&*payload), payload })),
        }
    })
    .await
}

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// While it lives, the hook records the place of a panic on this thread.
struct PanicWatch {
    /// Whether an outer watch exists: watches nest.
    outer: bool,
}

impl PanicWatch {
    fn begin() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            // The previous hook runs as well, so that the program's output of panics stays the same.
            let others = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                // Nothing is recorded on a thread whose locals are destroyed, or during a panic while a place is
                // recorded.
                if WATCHED.try_with(Cell::get).unwrap_or(false) {
                    let place = info.location().map(ToString::to_string);
                    let _ = PLACE.try_with(|held| held.try_borrow_mut().map(|mut held| *held = place));
                }
                others(info);
            }));
        });
        // A place that is still recorded belongs to a panic that other code caught.
        PLACE.set(None);
        Self { outer: WATCHED.replace(true) }
    }

    /// Message and place of a panic caught since the watch began.
    fn describe(&self, panic: &(dyn Any + Send)) -> String {
        let message = panic_message(panic);
        match PLACE.take() {
            Some(place) => format!("{message}, at {place}"),
            None => message.to_owned(),
        }
    }
}

impl Drop for PanicWatch {
    fn drop(&mut self) {
        WATCHED.set(self.outer);
    }
}

/// Message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    // `panic!` with a literal has a `&str`, with arguments a `String`; `panic_any` may have anything.
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caught(work: impl FnOnce() + panic::UnwindSafe) -> String {
        let watch = PanicWatch::begin();
        let panic = panic::catch_unwind(work).expect_err("a panic");
        watch.describe(&*panic)
    }

    #[test]
    fn a_panic_is_described_with_its_place() {
        let line = line!() + 1;
        let text = caught(|| panic!("no luck"));
        assert!(text.starts_with(&format!("no luck, at {}:{line}:", file!())), "{text}");
        let text = caught(|| panic!("{} luck", 2));
        assert!(text.starts_with("2 luck, at "), "{text}");
        let text = caught(|| panic::panic_any(7));
        assert!(text.starts_with("(no message), at "), "{text}");
    }

    #[tokio::test]
    async fn a_future_that_panics_after_a_wait_is_recovered() {
        let text = recovered(async {
            tokio::task::yield_now().await;
            panic!("no luck")
        });
        let text = text.await.map(|(): ()| ()).expect_err("a panic");
        assert!(text.starts_with("no luck, at ") && text.contains("panics.rs:"), "{text}");
        assert_eq!(recovered(async { 7 }).await, Ok(7));
    }

    #[test]
    fn a_panic_caught_by_other_code_leaves_no_place() {
        let caught_within = recovered(async { panic::catch_unwind(|| panic!("seen to")).is_err() });
        assert_eq!(
            tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(caught_within),
            Ok(true)
        );
        let text = caught(|| panic::resume_unwind(Box::new("carried here")));
        assert_eq!(text, "carried here");
    }

    #[test]
    fn an_unwatched_panic_leaves_no_place() {
        assert!(panic::catch_unwind(|| panic!("unseen")).is_err());
        let watch = PanicWatch::begin();
        assert_eq!(watch.describe(&"told"), "told");
    }
}
