//! Name of the host; in a cluster that is the name of the pod.

/// The host's name; `unknown` if it cannot be determined.
pub(crate) fn hostname() -> String {
    let name = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let name = name.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let name = name.or_else(|| std::env::var("COMPUTERNAME").ok()); // on Windows
    name.map_or_else(|| "unknown".to_owned(), |name| name.trim().to_owned())
}
