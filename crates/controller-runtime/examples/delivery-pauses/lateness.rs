//! Measures of how late other work of the thread is.

use std::{
    fs::File,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{task::yield_now, time::Instant};

/// The longest of some times.
#[derive(Default)]
pub(crate) struct Longest(AtomicU64);

impl Longest {
    pub(crate) fn note(&self, time: Duration) {
        self.0.fetch_max(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// The longest since this was last asked.
    pub(crate) fn take(&self) -> Duration {
        Duration::from_nanos(self.0.swap(0, Relaxed))
    }
}

/// Time that a thread has spent waiting for a processor, as Linux counts it. Subtracted from the measures, so that other processes
/// do not disturb them.
pub(crate) struct CpuWait(File);

impl CpuWait {
    pub(crate) fn of_this_thread() -> io::Result<Self> {
        File::open("/proc/thread-self/schedstat").map(Self)
    }

    pub(crate) fn total(&self) -> Duration {
        let mut text = [0; 64];
        let length = self.0.read_at(&mut text, 0).unwrap_or_default();
        let text = String::from_utf8_lossy(&text[..length]);
        let waited = text.split_whitespace().nth(1).and_then(|nanos| nanos.parse().ok());
        Duration::from_nanos(waited.unwrap_or_default())
    }
}

/// Yields in a loop, and measures the time between its turns.
pub(crate) async fn take_turns(longest: Arc<Longest>, cpu_wait: Arc<CpuWait>) {
    let (mut last, mut waited) = (Instant::now(), cpu_wait.total());
    loop {
        yield_now().await;
        let (now, total) = (Instant::now(), cpu_wait.total());
        longest.note((now - last).saturating_sub(total - waited));
        (last, waited) = (Instant::now(), total);
    }
}

/// A thread that asks `/healthz` as the kubelet does, each time by a connection of its own. Dropping it ends the thread.
pub(crate) struct Prober {
    /// Of the probes that were answered.
    pub(crate) times: Arc<Longest>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Prober {
    /// Starts the probes of an address that the thread of `server` serves.
    pub(crate) fn start(address: SocketAddr, server: Arc<CpuWait>) -> Self {
        let (times, stop): (Arc<Longest>, Arc<AtomicBool>) = Default::default();
        let (noted, stopped) = (Arc::clone(&times), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let Ok(own) = CpuWait::of_this_thread() else { return };
            let waited = || own.total() + server.total();
            while !stopped.load(Relaxed) {
                let (begun, before) = (Instant::now(), waited());
                if probe(address).is_ok_and(|answer| answer.starts_with("HTTP/1.1 200")) {
                    noted.note(begun.elapsed().saturating_sub(waited() - before));
                }
                thread::park_timeout(Duration::from_millis(5));
            }
        });
        Self { times, stop, thread: Some(thread) }
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic of it has been printed
        }
    }
}

fn probe(address: SocketAddr) -> io::Result<String> {
    let mut connection = TcpStream::connect(address)?;
    connection.write_all(b"GET /healthz HTTP/1.1\r\nHost: example\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer)
}
