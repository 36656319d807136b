//! IP addresses and networks in expressions.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::evaluation_error::{EvaluationError, failed, no_overload};
use super::functions::{Evaluated, no_overload_of};
use super::value::Val;
use crate::go;

/// An address with the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    fn read(text: &str) -> Result<Self, String> {
        let (address, bits) = go::prefix(text)
            .map_err(|why| format!("network address parse error during conversion from string: {why}"))?;
        if is_mapped(&address) {
            return Err(format!("IPv4-mapped IPv6 address {} is not allowed", go::quote(text)));
        }
        Ok(Self { address, bits })
    }

    fn masked(self) -> Self {
        let shift = |length: u8| u32::from(length - self.bits);
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(shift(32)).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(shift(128)).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        };
        Self { address, bits: self.bits }
    }

    fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && Self { address, bits: self.bits }.masked() == self.masked()
    }

    pub(super) fn text(self) -> String {
        format!("{}/{}", self.address, self.bits)
    }
}

fn is_mapped(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn read_address(text: &str) -> Result<IpAddr, String> {
    let quoted = go::quote(text);
    let parsed = go::address(text)
        .map_err(|why| format!("IP Address {quoted} parse error during conversion from string: {why}"))?;
    if !parsed.zone.is_empty() {
        return Err(format!("IP address {quoted} with zone value is not allowed"));
    }
    if is_mapped(&parsed.address) {
        return Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"));
    }
    Ok(parsed.address)
}

fn read_network(text: &str) -> Result<Network, EvaluationError> {
    // kube-apiserver adds this prefix twice: in its parser, which `Network::read` follows, and in its caller.
    Network::read(text)
        .map_err(|why| failed(format!("network address parse error during conversion from string: {why}")))
}

/// Calls a function without a target; `None` if it is not a function of addresses.
pub(super) fn global<'a>(function: &str, arguments: &[Val<'a>]) -> Option<Evaluated<'a>> {
    if !matches!(function, "ip" | "cidr" | "isIP" | "isCIDR" | "ip.isCanonical") {
        return None;
    }
    let [Val::String(text)] = arguments else {
        return Some(Err(no_overload_of(function, arguments)));
    };
    Some(match function {
        "ip" => read_address(text).map(Val::Ip).map_err(failed),
        "cidr" => read_network(text).map(Val::Cidr),
        "isIP" => Ok(Val::Bool(read_address(text).is_ok())),
        "isCIDR" => Ok(Val::Bool(Network::read(text).is_ok())),
        _ => read_address(text).map(|address| Val::Bool(address.to_string() == **text)).map_err(failed),
    })
}

/// Calls a function of an address; `None` if there is no such function for the arguments.
pub(super) fn of_address<'a>(
    function: &str,
    address: IpAddr,
    arguments: &[Val<'a>],
) -> Option<Evaluated<'a>> {
    let [] = arguments else { return None };
    Some(Ok(match function {
        "family" => Val::Int(if address.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => Val::Bool(address.is_unspecified()),
        "isLoopback" => Val::Bool(address.is_loopback()),
        "isLinkLocalMulticast" => Val::Bool(match address {
            IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
            IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
        }),
        "isLinkLocalUnicast" => Val::Bool(is_link_local(address)),
        "isGlobalUnicast" => Val::Bool(
            !address.is_unspecified()
                && address != IpAddr::V4(Ipv4Addr::BROADCAST)
                && !address.is_loopback()
                && !address.is_multicast()
                && !is_link_local(address),
        ),
        _ => return None,
    }))
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Calls a function of a network; `None` if there is no such function for the arguments.
pub(super) fn of_network<'a>(
    function: &str,
    network: Network,
    arguments: &[Val<'a>],
) -> Option<Evaluated<'a>> {
    let contains = |other: Network| network.bits <= other.bits && network.contains(other.address);
    Some(match (function, arguments) {
        ("ip", []) => Ok(Val::Ip(network.address)),
        ("prefixLength", []) => Ok(Val::Int(network.bits.into())),
        ("masked", []) => Ok(Val::Cidr(network.masked())),
        ("containsIP", [Val::Ip(address)]) => Ok(Val::Bool(network.contains(*address))),
        // As in kube-apiserver, the reason of the parser is lost.
        ("containsIP", [Val::String(text)]) => {
            read_address(text).map(|address| Val::Bool(network.contains(address))).map_err(|_| no_overload())
        }
        ("containsCIDR", [Val::Cidr(other)]) => Ok(Val::Bool(contains(*other))),
        ("containsCIDR", [Val::String(text)]) => read_network(text).map(|other| Val::Bool(contains(other))),
        _ => return None,
    })
}
