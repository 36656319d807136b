//! End of the process that started the operator.

use std::{
    env,
    io::{self, Read},
    thread,
};

use tokio::sync::oneshot;

/// Environment variable by which a parent process asks the operator to stop once its standard input ends: the parent holds the other
/// end of a pipe, which the system closes however the parent ends.
const STOP_AT_END_OF_INPUT: &str = "OPERATOR_STOP_AT_END_OF_INPUT";

/// Completes when the parent process has ended, if it asked for that in the environment; otherwise never.
pub(super) struct ParentEnd(Option<oneshot::Receiver<()>>);

impl ParentEnd {
    /// Begins to read standard input, if the environment asks for it.
    ///
    /// # Errors
    ///
    /// The system has no thread for it.
    pub(super) fn watch() -> io::Result<Self> {
        match env::var_os(STOP_AT_END_OF_INPUT) {
            Some(value) if !value.is_empty() => Self::of(io::stdin()),
            _ => Ok(Self(None)),
        }
    }

    /// Reads in a thread of its own: a pending read of standard input cannot be cancelled, and would delay the end of the runtime.
    fn of(mut input: impl Read + Send + 'static) -> io::Result<Self> {
        let (ends, ended) = oneshot::channel();
        let thread = thread::Builder::new().name("parent-end".to_owned());
        thread.spawn(move || {
            // An error ends the input as well.
            let _ = io::copy(&mut input, &mut io::sink());
            // The receiver is gone if the operator has stopped before.
            let _ = ends.send(());
        })?;
        Ok(Self(Some(ended)))
    }

    pub(super) async fn ended(self) {
        match self.0 {
            Some(ended) => {
                // The thread sends before it ends.
                let _ = ended.await;
                tracing::warn!("the parent process has ended: the operator stops");
            }
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_end_of_the_input_is_the_end_of_the_parent() {
        let (input, mut parent) = io::pipe().expect("a pipe");
        let mut ended = std::pin::pin!(ParentEnd::of(input).expect("a thread").ended());
        parent.write_all(b"text that means nothing").expect("the pipe is open");
        assert_eq!(ended.as_mut().now_or_never(), None);
        drop(parent);
        ended.await;
    }

    #[tokio::test]
    async fn without_the_variable_the_input_means_nothing() {
        assert_eq!(ParentEnd(None).ended().now_or_never(), None);
    }
}
