//! Where a recovered panic happened.
//!
//! A caught panic hands over its message, but not its place: that is known only while it unwinds, to the panic hook of
//! the process. So the first worker of a process adds a hook in front of the one that is there, which it calls in any
//! case: what a program does about panics stays as it is. The added hook notes the place for this thread while
//! [`Watch`] lives. It is the one thing in this crate that is of the process.

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
    /// What it said and where: `no luck, at src/main.rs:7:5`.
    pub(crate) text: String,
    payload: Box<dyn Any + Send>,
}

impl Panic {
    /// Lets it go on as if nobody had caught it.
    pub(crate) fn resume(self) -> ! {
        panic::resume_unwind(self.payload)
    }
}

/// The output of `future`, or what its panic said and where.
///
/// The future is not polled again after a panic.
pub(crate) async fn recovered<F: Future>(future: F) -> Result<F::Output, String> {
    caught(future).await.map_err(|panic| panic.text)
}

/// The output of `future`, or its panic, which may go on.
pub(crate) async fn caught<F: Future>(future: F) -> Result<F::Output, Panic> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        // A future may go on in another thread at each poll.
        let watch = Watch::begin();
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

/// While it lives, the place of a panic of this thread is noted.
struct Watch {
    /// Whether somebody watched already: watches nest.
    outer: bool,
}

impl Watch {
    fn begin() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let others = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                // A thread whose locals are gone, or that panics while its place is noted, has no use for it.
                if WATCHED.try_with(Cell::get).unwrap_or(false) {
                    let place = info.location().map(ToString::to_string);
                    let _ = PLACE.try_with(|held| held.try_borrow_mut().map(|mut held| *held = place));
                }
                others(info);
            }));
        });
        // A place that nobody asked for is of a panic that somebody else caught.
        PLACE.set(None);
        Self { outer: WATCHED.replace(true) }
    }

    /// What a panic that was caught meanwhile said, and where it happened.
    fn describe(&self, panic: &(dyn Any + Send)) -> String {
        let message = panic_message(panic);
        match PLACE.take() {
            Some(place) => format!("{message}, at {place}"),
            None => message.to_owned(),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHED.set(self.outer);
    }
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caught(work: impl FnOnce() + panic::UnwindSafe) -> String {
        let watch = Watch::begin();
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
    fn a_panic_that_somebody_else_caught_leaves_no_place_behind() {
        let caught_within = recovered(async { panic::catch_unwind(|| panic!("seen to")).is_err() });
        assert_eq!(
            tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(caught_within),
            Ok(true)
        );
        let text = caught(|| panic::resume_unwind(Box::new("carried here")));
        assert_eq!(text, "carried here");
    }

    #[test]
    fn a_panic_that_nobody_watched_leaves_no_place_behind() {
        assert!(panic::catch_unwind(|| panic!("unseen")).is_err());
        let watch = Watch::begin();
        assert_eq!(watch.describe(&"told"), "told");
    }
}
