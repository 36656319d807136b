//! Delays the items of a stream.

use std::collections::VecDeque;

use futures::{Stream, StreamExt};
use tokio::time::{Duration, Instant, sleep_until};

/// Maximum number of delayed items. When it is reached, the source stream is not polled.
const MAX_DELAYED: usize = 64;
/// Longest delay, about thirty years; longer ones would leave the range of tokio's clock.
const MAX_DELAY: Duration = Duration::from_secs(1 << 30);

/// Delays each item of a stream by `delay`, in order. The stream ends after its last item.
pub(crate) fn late<S>(stream: S, delay: Duration) -> impl Stream<Item = S::Item>
where
    S: Stream + Send + 'static,
    S::Item: Send,
{
    let delay = delay.min(MAX_DELAY);
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
                    // Without a delayed item only the source can end the wait.
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Deliver due items before taking new ones, so that a busy source does not hold them up.
                biased;
                () = arrival => {
                    if let Some((_, item)) = queue.pop_front() {
                        return Some((item, (stream, queue, ended)));
                    }
                }
                next = stream.next(), if !ended && queue.len() < MAX_DELAYED => match next {
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
    async fn delays_do_not_add_up() {
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
