//! Metrics of the process, as in Go's process collector.

use std::{fmt, fs};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

/// Clock ticks per second in Linux's process statistics, on every architecture that Rust supports.
const TICKS: f64 = 100.0;

/// Reports the metrics of Go's process collector, under the same names, from `/proc` of Linux. Values that are missing there,
/// and all values on other systems, are left out.
#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let stat = Stat::read(&read("/proc/self/stat"));
        if let Some(Stat { cpu_seconds, .. }) = stat {
            let help = "Total user and system CPU time spent in seconds.";
            let family = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
            ConstCounter::new(cpu_seconds).encode(family)?;
        }
        let since_boot = stat.map(|stat| stat.started);
        let started = since_boot.and_then(|started| Some(started + number(&read("/proc/stat"), "btime")?));
        let resident = number(&read("/proc/self/status"), "VmRSS:").map(|kilobytes| kilobytes * 1024.0);
        // The descriptor of the folder that is being read does not count.
        let open = fs::read_dir("/proc/self/fd").ok().map(|files| files.count().saturating_sub(1));
        let open = open.and_then(|open| u32::try_from(open).ok()).map(f64::from);
        let limits = read("/proc/self/limits");
        let gauges = [
            ("process_max_fds", "Maximum number of open file descriptors.", limit(&limits, "Max open files")),
            ("process_open_fds", "Number of open file descriptors.", open),
            ("process_resident_memory_bytes", "Resident memory size in bytes.", resident),
            ("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", started),
            (
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes.",
                stat.map(|stat| stat.virtual_bytes),
            ),
            (
                "process_virtual_memory_max_bytes",
                "Maximum amount of virtual memory available in bytes.",
                limit(&limits, "Max address space"),
            ),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                ConstGauge::new(value).encode(family)?;
            }
        }
        let network = read("/proc/self/net/netstat");
        let counters = [
            (
                "process_network_receive_bytes",
                "Number of bytes received by the process over the network.",
                "InOctets",
            ),
            (
                "process_network_transmit_bytes",
                "Number of bytes sent by the process over the network.",
                "OutOctets",
            ),
        ];
        for (name, help, field) in counters {
            if let Some(octets) = octets(&network, field) {
                let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
                ConstCounter::new(octets).encode(family)?;
            }
        }
        Ok(())
    }
}

/// Fields of `/proc/self/stat`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    /// Seconds after boot.
    started: f64,
    virtual_bytes: f64,
}

impl Stat {
    /// Fields are numbered as in `proc_pid_stat(5)`. The second one, which may contain any text, is in brackets.
    fn read(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let field = |number: usize| rest.split_ascii_whitespace().nth(number - 3)?.parse::<f64>().ok();
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / TICKS,
            started: field(22)? / TICKS,
            virtual_bytes: field(23)?,
        })
    }
}

/// The first number of the line that begins with `name`.
fn number(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// The soft limit in the line that begins with `name`. For no limit, Go reports the greatest 64-bit number.
fn limit(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    match rest.split_ascii_whitespace().next()? {
        "unlimited" => Some(2f64.powi(64)),
        limit => limit.parse().ok(),
    }
}

/// A counter of the process's network namespace; in a pod, that of the pod.
fn octets(netstat: &str, field: &str) -> Option<f64> {
    // Names are in one line, and their values in the next.
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("IpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut fields = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
    fields.find(|(name, _)| *name == field)?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_numbered_as_in_the_manual() {
        let stat =
            "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14 15 16 1 0 12345 4096 99 18446744073709551615";
        let expected = Stat { cpu_seconds: 3.0, started: 123.45, virtual_bytes: 4096.0 };
        assert_eq!(Stat::read(stat), Some(expected));
        assert_eq!(Stat::read("7 (a) S 1"), None);
        let status = "VmHWM:\t   20 kB\nVmRSS:\t    12 kB\n";
        assert_eq!(number(status, "VmRSS:"), Some(12.0));
    }

    #[test]
    fn no_limit_is_reported_as_in_go() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max open files            1024                 524288               files     \n\
                      Max address space         unlimited            unlimited            bytes     \n";
        assert_eq!(limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(limit(limits, "Max address space"), Some(18_446_744_073_709_551_615.0));
        assert_eq!(limit(limits, "Max cpu time"), None);
    }

    #[test]
    fn octets_are_read_below_their_names() {
        let netstat = "TcpExt: InOctets OutOctets\nTcpExt: 1 2\nIpExt: InTruncatedPkts InOctets OutOctets\nIpExt: 0 30 40\n";
        assert_eq!(octets(netstat, "InOctets"), Some(30.0));
        assert_eq!(octets(netstat, "OutOctets"), Some(40.0));
        assert_eq!(octets(netstat, "InMcastPkts"), None);
        assert_eq!(octets("IpExt: InOctets\n", "InOctets"), None);
    }
}
