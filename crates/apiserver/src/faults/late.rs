//! A stream whose items arrive late.

use std::collections::VecDeque;

use futures::{Stream, StreamExt};
use tokio::time::{Duration, Instant, sleep_until};

/// Items under way at most; with more, the stream behind waits.
const UNDER_WAY: usize = 64;
/// A longer delay is as good as this one, about thirty years, and would leave the range of the clock.
const LONGEST: Duration = Duration::from_secs(1 << 30);

/// Each item `delay` after it was there, in the same order; the end follows the last of them.
pub(crate) fn late<S>(stream: S, delay: Duration) -> impl Stream<Item = S::Item>
where
    S: Stream + Send + 'static,
    S::Item: Send,
{
    let delay = delay.min(LONGEST);
    let state = (Box::pin(stream), VecDeque::new(), false);
    futures::stream::unfold(state, move |(mut stream, mut queue, mut ended)| async move {
        loop {
            let due = queue.front().map(|(due, _)| *due);
            if due.is_none() && ended {
                return None;
            }
            let arrival = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // What is due goes before what is new, so that a busy stream does not hold it up.
                biased;
                () = arrival => {
                    if let Some((_, item)) = queue.pop_front() {
                        return Some((item, (stream, queue, ended)));
                    }
                }
                next = stream.next(), if !ended && queue.len() < UNDER_WAY => match next {
                    Some(item) => queue.push_back((Instant::now() + delay, item)),
                    None => ended = true,
                },
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lateness_does_not_add_up() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let source = futures::stream::unfold(0u32, move |n| async move {
            sleep_until(start + second * n).await;
            (n < 4).then_some((n, n + 1))
        });
        let arrivals: Vec<_> =
            late(source, second * 10).map(|n| (n, start.elapsed().as_secs())).collect().await;
        assert_eq!(arrivals, [(0, 10), (1, 11), (2, 12), (3, 13)]);
    }
}
