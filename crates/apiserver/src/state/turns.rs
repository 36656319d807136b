//! Yields in long work, so that other tasks of the same thread run in between.

use tokio::task::yield_now;

/// Number of steps between two yields. A step reads, and perhaps writes, one object, which takes some 50 µs.
const STEPS: u32 = 16;

/// Counts the steps of long work, and yields after every [`STEPS`].
#[derive(Debug, Default)]
pub(crate) struct Turns(u32);

impl Turns {
    /// Ends a step. Dropping the future loses nothing.
    pub(crate) async fn pass(&mut self) {
        self.0 += 1;
        if self.0 == STEPS {
            self.0 = 0;
            yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn every_sixteenth_step_yields() {
        let mut turns = Turns::default();
        let waits: Vec<bool> = (0..2 * STEPS).map(|_| turns.pass().now_or_never().is_none()).collect();
        let yields: Vec<usize> = (0..waits.len()).filter(|step| waits[*step]).collect();
        assert_eq!(yields, [15, 31]);
    }
}
