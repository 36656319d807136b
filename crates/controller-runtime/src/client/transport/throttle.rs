//! Limits of the retries that the API server asks for by `Retry-After`.

use std::time::Duration;

use super::call::Verb;

/// Largest number of repetitions of one request, as in client-go.
const RETRIES: u32 = 10;

/// Largest total wait of one request. If the server asks for more, its response is returned, so that the caller need not wait.
const LONGEST_TOTAL_WAIT: Duration = Duration::from_secs(60);

/// Repetitions and waits of one request so far.
#[derive(Debug, Default)]
pub(in crate::client) struct Throttle {
    retries: u32,
    waited: Duration,
}

impl Throttle {
    /// Returns the wait before the request is sent again; `None` if its response is final.
    ///
    /// Only responses with `Retry-After` lead to a retry, as in client-go. Responses other than 429 and 503 may come from a
    /// server that has carried the request out, so a write is not repeated after them.
    pub(in crate::client) fn step(
        &mut self,
        code: u16,
        retry_after: Option<Duration>,
        verb: Verb,
    ) -> Option<Duration> {
        let delay = retry_after?;
        let was_refused = code == 429 || code == 503;
        let waited = self.waited.saturating_add(delay);
        if !(was_refused || code >= 500 && !verb.is_write())
            || self.retries == RETRIES
            || waited > LONGEST_TOTAL_WAIT
        {
            return None;
        }
        self.retries += 1;
        self.waited = waited;
        Some(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Verb = Verb::Update;
    const READ: Verb = Verb::Get;

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn a_request_to_a_busy_server_is_retried_ten_times() {
        let mut throttle = Throttle::default();
        for _ in 0..10 {
            assert_eq!(throttle.step(429, seconds(1), WRITE), seconds(1));
        }
        assert_eq!(throttle.step(429, seconds(1), WRITE), None);
    }

    #[test]
    fn a_request_waits_for_a_minute_at_most() {
        let mut throttle = Throttle::default();
        assert_eq!(throttle.step(429, seconds(61), READ), None, "the server asks for more than a minute");
        assert_eq!(throttle.step(429, seconds(40), READ), seconds(40));
        assert_eq!(throttle.step(429, seconds(21), READ), None);
        assert_eq!(throttle.step(429, seconds(20), READ), seconds(20));
    }

    #[test]
    fn a_write_that_may_have_been_carried_out_is_not_repeated() {
        let step = |code, verb| Throttle::default().step(code, seconds(1), verb);
        assert_eq!(step(504, WRITE), None);
        assert_eq!(step(504, READ), seconds(1));
        assert_eq!(step(503, WRITE), seconds(1));
        assert_eq!(step(409, READ), None);
        assert_eq!(Throttle::default().step(429, None, READ), None, "there is no Retry-After");
    }
}
