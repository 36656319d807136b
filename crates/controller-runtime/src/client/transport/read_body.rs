//! Bodies of answers, with limits.

use bytes::Bytes;
use http_body::Body;
use http_body_util::{BodyExt, Collected, LengthLimitError, Limited};

/// Largest body of a successful answer. The largest answers are pages of lists: 500 objects of at most 1.5 MiB each.
pub(in crate::client) const MAX_ANSWER: usize = 1 << 30;

/// Largest body of an error that is decoded: a `Status`. A longer one is not from an API server.
pub(crate) const MAX_ERROR: usize = 1 << 20;

/// Reason why a body was not read.
#[derive(Debug)]
pub(crate) enum UnreadBody {
    TooLong,
    Broken(kube::Error),
}

/// Reads a body of at most `limit` bytes.
pub(crate) async fn read_body(
    body: impl Body<Data = Bytes, Error = kube::Error>,
    limit: usize,
) -> Result<Bytes, UnreadBody> {
    let collected = Limited::new(body, limit).collect().await;
    collected.map(Collected::to_bytes).map_err(|error| match error.downcast::<kube::Error>() {
        Ok(error) => UnreadBody::Broken(*error),
        Err(error) if error.is::<LengthLimitError>() => UnreadBody::TooLong,
        Err(error) => UnreadBody::Broken(kube::Error::Service(error)),
    })
}

/// Reads the body of an error. One that is too long counts as empty.
pub(crate) async fn read_error(
    body: impl Body<Data = Bytes, Error = kube::Error>,
) -> Result<Bytes, kube::Error> {
    match read_body(body, MAX_ERROR).await {
        Ok(text) => Ok(text),
        Err(UnreadBody::TooLong) => Ok(Bytes::new()),
        Err(UnreadBody::Broken(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use kube::client::Body;

    use super::*;

    fn now<T>(future: impl Future<Output = T>) -> T {
        future.now_or_never().expect("a body in memory is read at once")
    }

    #[test]
    fn a_body_is_read_up_to_its_limit() {
        let body = || Body::from(vec![b'x'; 10]);
        assert_eq!(now(read_body(body(), 10)).expect("it fits").len(), 10);
        assert!(matches!(now(read_body(body(), 9)), Err(UnreadBody::TooLong)));
    }

    #[test]
    fn an_error_that_is_too_long_counts_as_empty() {
        assert_eq!(now(read_error(Body::from(vec![b'x'; MAX_ERROR]))).expect("it fits").len(), MAX_ERROR);
        assert_eq!(now(read_error(Body::from(vec![b'x'; MAX_ERROR + 1]))).expect("no failure"), "");
    }
}
