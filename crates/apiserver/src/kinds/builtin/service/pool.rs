//! Cluster IPs and node ports in use, and the choice of free ones. The module does no I/O and reads no clock.
//!
//! As in kube-apiserver, the first part of a range is left to clients that name an address or port themselves: the pool chooses
//! there only when the rest is full. Choices are random, so that clients cannot rely on them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde_json::Value;

use crate::kind::{Allocator, Unallocated};
use crate::store::Key;

/// First node port of the range. The range is kube-apiserver's default for `--service-node-port-range`.
const FIRST_PORT: u32 = 30_000;
/// Last node port of the range.
const LAST_PORT: u32 = 32_767;

/// Range of the cluster IPs of Services. The default is `10.96.0.0/12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceRange {
    /// Network address.
    network: u32,
    /// Length of the prefix in bits.
    prefix: u8,
}

impl Default for ServiceRange {
    fn default() -> Self {
        Self { network: u32::from(Ipv4Addr::new(10, 96, 0, 0)), prefix: 12 }
    }
}

impl FromStr for ServiceRange {
    type Err = String;

    /// Parses `ADDRESS/BITS`. The prefix has 8 to 30 bits. Host bits of the address are ignored.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        let parsed = parts.and_then(|(address, bits)| Some((address.parse().ok()?, bits.parse().ok()?)));
        let Some((address, prefix)): Option<(Ipv4Addr, u8)> = parsed else {
            return Err(format!("{text:?} is not a range of IPv4 addresses such as \"10.0.0.0/24\""));
        };
        if !(8..=30).contains(&prefix) {
            return Err(format!("{text:?} has a prefix of {prefix} bits: it must be from 8 to 30"));
        }
        let network = u32::from(address) & (u32::MAX << (32 - prefix));
        Ok(Self { network, prefix })
    }
}

impl fmt::Display for ServiceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.network), self.prefix)
    }
}

impl ServiceRange {
    /// Returns the first usable address, which belongs to the Service `kubernetes`.
    pub(crate) fn first(self) -> Ipv4Addr {
        Ipv4Addr::from(self.network + 1)
    }

    /// Whether the network contains the address.
    pub(crate) fn contains(self, address: Ipv4Addr) -> bool {
        u32::from(address) & (u32::MAX << (32 - self.prefix)) == self.network
    }

    /// Returns the addresses that Services can have: all except the network address and the broadcast address.
    fn usable(self) -> Band {
        let last = self.network | (u32::MAX >> self.prefix);
        Band { first: self.network + 1, last: last - 1 }
    }
}

/// Range of numbers, with both ends included.
#[derive(Clone, Copy)]
struct Band {
    first: u32,
    last: u32,
}

impl Band {
    /// Splits off the first numbers, which are left to clients: one `share`-th of the band, but at least 16 and at most `most`. A band
    /// that is not larger than that is not split.
    fn split(self, share: u32, most: u32) -> (Option<Self>, Self) {
        let size = self.last - self.first + 1;
        let lower = (size / share).clamp(16, most);
        if size <= lower {
            return (None, self);
        }
        let (below, above) = (self.first + lower - 1, self.first + lower);
        (Some(Self { last: below, ..self }), Self { first: above, ..self })
    }
}

/// Numbers in use, each with a count of its users. A running request and the stored Service may use a number at the same time.
#[derive(Debug, Default, Clone)]
struct InUse(BTreeMap<u32, u32>);

impl InUse {
    fn contains(&self, number: u32) -> bool {
        self.0.contains_key(&number)
    }

    fn add(&mut self, number: u32) {
        *self.0.entry(number).or_default() += 1;
    }

    fn remove(&mut self, number: u32) {
        if let Some(users) = self.0.get_mut(&number) {
            *users -= 1;
            if *users == 0 {
                self.0.remove(&number);
            }
        }
    }

    /// Returns the first free number from a random position on, or else the first free number before it.
    fn free(&self, band: Band, random: &mut fastrand::Rng) -> Option<u32> {
        let start = random.u32(band.first..=band.last);
        let from = |first: u32, last: u32| {
            let mut free = first;
            // The numbers in use are sorted, so the first one that differs from the candidate leaves a gap.
            for used in self.0.range(first..=last).map(|(used, _)| *used) {
                if used != free {
                    break;
                }
                free += 1;
            }
            (free <= last).then_some(free)
        };
        from(start, band.last).or_else(|| (start > band.first).then(|| from(band.first, start - 1)).flatten())
    }
}

/// Addresses and ports of one Service, or of one request.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ServiceAllocation {
    addresses: Vec<u32>,
    ports: Vec<u32>,
}

impl ServiceAllocation {
    /// Reads the addresses and ports of a stored Service.
    fn of(service: &Value) -> Self {
        let spec = &service["spec"];
        let strings = spec["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let addresses = strings.filter_map(|text| text.parse::<Ipv4Addr>().ok()).map(u32::from).collect();
        let entries = spec["ports"].as_array().into_iter().flatten().map(|port| &port["nodePort"]);
        let mut ports: Vec<u32> = entries
            .chain([&spec["healthCheckNodePort"]])
            .filter_map(Value::as_u64)
            .filter_map(|port| u32::try_from(port).ok().filter(|port| *port != 0))
            .collect();
        // Ports for TCP and UDP may share a number, which counts once per Service.
        ports.sort_unstable();
        ports.dedup();
        Self { addresses, ports }
    }
}

/// Addresses and ports of stored Services and of running requests.
#[derive(Debug, Clone)]
pub(crate) struct ServicePool {
    range: ServiceRange,
    random: fastrand::Rng,
    addresses: InUse,
    ports: InUse,
    /// Addresses and ports of each stored Service.
    stored: BTreeMap<Key, ServiceAllocation>,
}

impl ServicePool {
    pub(crate) fn new(range: ServiceRange, seed: u64) -> Self {
        Self {
            range,
            random: fastrand::Rng::with_seed(seed),
            addresses: InUse::default(),
            ports: InUse::default(),
            stored: BTreeMap::new(),
        }
    }

    /// Records the current state of a Service; `None` if it was deleted.
    pub(crate) fn observe(&mut self, key: &Key, service: Option<&Value>) {
        let before = match service {
            // The new state is added before the old one is released, so numbers in both are never free in between.
            Some(service) => {
                let now = ServiceAllocation::of(service);
                now.addresses.iter().for_each(|address| self.addresses.add(*address));
                now.ports.iter().for_each(|port| self.ports.add(*port));
                self.stored.insert(key.clone(), now)
            }
            None => self.stored.remove(key),
        };
        if let Some(before) = before {
            self.release(&before);
        }
    }

    /// Releases the reservations of a request that failed, or whose commit has been observed.
    pub(crate) fn release(&mut self, taken: &ServiceAllocation) {
        taken.addresses.iter().for_each(|address| self.addresses.remove(*address));
        taken.ports.iter().for_each(|port| self.ports.remove(*port));
    }

    /// Returns an allocator that reserves addresses and ports for one request and records them in `taken`.
    pub(crate) fn reserving<'a>(
        &'a mut self,
        taken: &'a mut ServiceAllocation,
        mode: AllocationMode,
    ) -> Reserving<'a> {
        Reserving { pool: self, taken, mode, shown_ports: Vec::new() }
    }
}

/// Effect of a request's allocations on the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllocationMode {
    Reserve,
    /// Nothing is reserved. As in kube-apiserver, the response shows the address of the network, and ports beyond the range.
    DryRun,
}

/// Allocator that reserves for one request.
pub(crate) struct Reserving<'a> {
    pool: &'a mut ServicePool,
    taken: &'a mut ServiceAllocation,
    mode: AllocationMode,
    /// Ports of a dry run.
    shown_ports: Vec<i64>,
}

impl Reserving<'_> {
    /// Chooses a free number in the upper part of a band, or else in its lower part.
    fn choose(
        in_use: &InUse,
        (lower, upper): (Option<Band>, Band),
        random: &mut fastrand::Rng,
    ) -> Result<u32, Unallocated> {
        let found = in_use.free(upper, random);
        found
            .or_else(|| lower.and_then(|lower| in_use.free(lower, random)))
            .ok_or_else(|| Unallocated("range is full".to_owned()))
    }
}

impl Allocator for Reserving<'_> {
    fn address(&mut self, wanted: Option<Ipv4Addr>) -> Result<Ipv4Addr, Unallocated> {
        let usable = self.pool.range.usable();
        let number = match wanted {
            Some(address) => {
                // The network address and the broadcast address are in the range, but not usable.
                let number = u32::from(address);
                if !(usable.first..=usable.last).contains(&number) {
                    return Err(Unallocated(
                        "the provided network does not match the current range".to_owned(),
                    ));
                }
                if self.mode == AllocationMode::Reserve && self.pool.addresses.contains(number) {
                    return Err(Unallocated("provided IP is already allocated".to_owned()));
                }
                number
            }
            None if self.mode == AllocationMode::DryRun => self.pool.range.network,
            None => Self::choose(&self.pool.addresses, usable.split(16, 256), &mut self.pool.random)?,
        };
        if self.mode == AllocationMode::DryRun {
            return Ok(Ipv4Addr::from(number));
        }
        self.pool.addresses.add(number);
        self.taken.addresses.push(number);
        Ok(Ipv4Addr::from(number))
    }

    fn port(&mut self, wanted: Option<i64>) -> Result<i64, Unallocated> {
        let taken = || Unallocated("provided port is already allocated".to_owned());
        let is_used =
            |pool: &ServicePool, port: i64| u32::try_from(port).is_ok_and(|port| pool.ports.contains(port));
        if self.mode == AllocationMode::DryRun {
            // A dry run reserves nothing, so it also accepts a number outside of the range.
            let number = match wanted {
                Some(port) if is_used(self.pool, port) || self.shown_ports.contains(&port) => {
                    return Err(taken());
                }
                Some(port) => port,
                // Without a reservation, kube-apiserver counts up from the second port beyond the range.
                None => {
                    self.shown_ports.iter().max().map_or(i64::from(LAST_PORT) + 2, |last| (*last).max(0) + 1)
                }
            };
            self.shown_ports.push(number);
            return Ok(number);
        }
        let band = Band { first: FIRST_PORT, last: LAST_PORT };
        let number = match wanted {
            None => Self::choose(&self.pool.ports, band.split(32, 128), &mut self.pool.random)?,
            Some(port) if is_used(self.pool, port) => return Err(taken()),
            Some(port) => u32::try_from(port).ok().filter(|port| (band.first..=band.last).contains(port)).ok_or_else(
                || {
                    Unallocated(format!(
                        "provided port is not in the valid range. The range of valid ports is {FIRST_PORT}-{LAST_PORT}"
                    ))
                },
            )?,
        };
        self.pool.ports.add(number);
        self.taken.ports.push(number);
        Ok(i64::from(number))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(range: &str) -> ServicePool {
        ServicePool::new(range.parse().unwrap(), 7)
    }

    #[test]
    fn ranges_are_read_and_shown() {
        for (text, shown) in [
            ("10.0.0.0/24", "10.0.0.0/24"),
            ("10.0.0.77/24", "10.0.0.0/24"),
            ("10.96.0.0/12", "10.96.0.0/12"),
            ("fd00::/112", "\"fd00::/112\" is not a range of IPv4 addresses such as \"10.0.0.0/24\""),
            ("10.0.0.0", "\"10.0.0.0\" is not a range of IPv4 addresses such as \"10.0.0.0/24\""),
            ("10.0.0.0/31", "\"10.0.0.0/31\" has a prefix of 31 bits: it must be from 8 to 30"),
        ] {
            let read = text.parse::<ServiceRange>();
            assert_eq!(read.map_or_else(|why| why, |range| range.to_string()), shown);
        }
    }

    #[test]
    fn chosen_addresses_differ_until_the_range_is_full() {
        let (mut pool, mut taken) = (pool("10.0.0.0/26"), ServiceAllocation::default());
        let mut allocator = pool.reserving(&mut taken, AllocationMode::Reserve);
        let mut chosen: Vec<_> = (0..62).map(|_| allocator.address(None).unwrap()).collect();
        // The first 16 are left to clients as long as possible.
        let lower = |address: &Ipv4Addr| address.octets()[3] <= 16;
        assert!(chosen[..46].iter().all(|address| !lower(address)) && chosen[46..].iter().all(lower));
        chosen.sort_unstable();
        let all: Vec<_> = (1..=62).map(|last| Ipv4Addr::new(10, 0, 0, last)).collect();
        assert_eq!(chosen, all);
        assert_eq!(allocator.address(None).unwrap_err().0, "range is full");
        pool.release(&taken);
        assert!(pool.addresses.0.is_empty());
    }

    #[test]
    fn wanted_addresses_and_ports_are_free_and_in_range() {
        let (mut pool, mut taken) = (pool("10.0.0.0/24"), ServiceAllocation::default());
        let service = json!({"spec": {
            "clusterIPs": ["10.0.0.5"], "healthCheckNodePort": 30_003,
            "ports": [{"nodePort": 30_001}, {"nodePort": 30_001}, {"nodePort": 30_002}],
        }});
        let key = Key::new("default", "svc");
        pool.observe(&key, Some(&service));
        let mut allocator = pool.reserving(&mut taken, AllocationMode::Reserve);
        let mut address = |text: &str| {
            let wanted = allocator.address(Some(text.parse().unwrap()));
            wanted.map_or_else(|why| why.0, |address| address.to_string())
        };
        assert_eq!(address("10.0.0.5"), "provided IP is already allocated");
        assert_eq!(address("10.0.0.6"), "10.0.0.6");
        assert_eq!(address("10.0.0.6"), "provided IP is already allocated");
        for out in ["10.0.1.6", "10.0.0.0", "10.0.0.255"] {
            assert_eq!(address(out), "the provided network does not match the current range");
        }
        let mut port = |wanted: i64| {
            let wanted = allocator.port(Some(wanted));
            wanted.map_or_else(|why| why.0, |port| port.to_string())
        };
        for taken in [30_001, 30_002, 30_003] {
            assert_eq!(port(taken), "provided port is already allocated");
        }
        assert_eq!(port(30_004), "30004");
        let out = "provided port is not in the valid range. The range of valid ports is 30000-32767";
        assert_eq!(port(80), out);
        // The Service is deleted, and the request ends.
        pool.observe(&key, None);
        pool.release(&taken);
        assert!(pool.addresses.0.is_empty() && pool.ports.0.is_empty());
    }

    #[test]
    fn a_dry_run_shows_values_that_it_does_not_take() {
        let (mut pool, mut taken) = (pool("10.0.0.0/24"), ServiceAllocation::default());
        let service = json!({"spec": {"clusterIPs": ["10.0.0.5"], "ports": [{"nodePort": 30_001}]}});
        pool.observe(&Key::new("default", "svc"), Some(&service));
        let before = pool.clone();
        let mut allocator = pool.reserving(&mut taken, AllocationMode::DryRun);
        assert_eq!(allocator.address(None).unwrap(), Ipv4Addr::new(10, 0, 0, 0));
        assert_eq!(allocator.address(None).unwrap(), Ipv4Addr::new(10, 0, 0, 0));
        // Whether an address is free is not checked, unlike for ports.
        let used = Ipv4Addr::new(10, 0, 0, 5);
        assert_eq!(allocator.address(Some(used)).unwrap(), used);
        let out = allocator.address(Some(Ipv4Addr::new(10, 0, 1, 5))).unwrap_err();
        assert_eq!(out.0, "the provided network does not match the current range");
        assert_eq!((allocator.port(None).unwrap(), allocator.port(None).unwrap()), (32_769, 32_770));
        assert_eq!(allocator.port(Some(30_001)).unwrap_err().0, "provided port is already allocated");
        assert_eq!(allocator.port(Some(30_002)).unwrap(), 30_002);
        assert_eq!(allocator.port(Some(30_002)).unwrap_err().0, "provided port is already allocated");
        assert_eq!(taken, ServiceAllocation::default());
        assert_eq!((pool.addresses.0, pool.ports.0), (before.addresses.0, before.ports.0));
    }

    #[test]
    fn an_update_keeps_what_the_service_still_has() {
        let mut pool = pool("10.0.0.0/24");
        let key = Key::new("default", "svc");
        let service =
            |port: u16| json!({"spec": {"clusterIPs": ["10.0.0.5"], "ports": [{"nodePort": port}]}});
        pool.observe(&key, Some(&service(30_001)));
        pool.observe(&key, Some(&service(30_002)));
        assert!(!pool.ports.contains(30_001) && pool.ports.contains(30_002));
        assert_eq!(pool.addresses.0.values().collect::<Vec<_>>(), [&1]);
    }
}
