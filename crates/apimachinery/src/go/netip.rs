//! IP addresses and networks as Go's `net/netip` parses them, with its error messages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::quote;

/// An address, which may have an IPv6 zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZonedAddress {
    /// Address without the zone.
    pub address: IpAddr,
    /// Zone, such as `eth0`; empty if there is none.
    pub zone: String,
}

/// Parses an address like `netip.ParseAddr`.
///
/// # Errors
/// Go's message.
pub fn address(text: &str) -> Result<ZonedAddress, String> {
    let plain = |address: IpAddr| ZonedAddress { address, zone: String::new() };
    match text.bytes().find(|byte| b".:%".contains(byte)) {
        Some(b'.') => four(text, text).map(|bytes| plain(Ipv4Addr::from(bytes).into())),
        Some(b':') => six(text),
        Some(_) => Err(refusal(text, "missing IPv6 address")),
        None => Err(refusal(text, "unable to parse IP")),
    }
}

/// Parses a network like `netip.ParsePrefix`; returns the address as written, and the number of bits of the prefix.
///
/// # Errors
/// Go's message.
pub fn prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let refused = |why: &str| format!("netip.ParsePrefix({}): {why}", quote(text));
    let Some((head, bits)) = text.rsplit_once('/') else { return Err(refused("no '/'")) };
    let ZonedAddress { address, zone } = address(head).map_err(|why| refused(&why))?;
    if !zone.is_empty() {
        return Err(refused("IPv6 zones cannot be present in a prefix"));
    }
    let bad = || refused(&format!("bad bits after slash: {}", quote(bits)));
    if bits.len() > 1 && !bits.starts_with(|first: char| matches!(first, '1'..='9')) {
        return Err(bad());
    }
    let bits: i64 = bits.parse().map_err(|_| bad())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    match u8::try_from(bits) {
        Ok(bits) if bits <= most => Ok((address, bits)),
        _ => Err(refused("prefix length out of range")),
    }
}

fn refusal(text: &str, why: &str) -> String {
    format!("ParseAddr({}): {why}", quote(text))
}

/// Returns the error for a place in the text.
fn refusal_at(text: &str, why: &str, at: &str) -> String {
    if at.is_empty() { refusal(text, why) } else { format!("{} (at {})", refusal(text, why), quote(at)) }
}

/// Parses an IPv4 address, which may be the end of an IPv6 address `whole`.
fn four(whole: &str, text: &str) -> Result<[u8; 4], String> {
    let mut octets = [0; 4];
    let (mut place, mut value, mut digits) = (0, 0_u16, 0);
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let rest = || text.get(at..).unwrap_or_default();
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(refusal(whole, "IPv4 field has octet with leading zero"));
                }
                value = value * 10 + u16::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err(refusal(whole, "IPv4 field has value >255"));
                }
            }
            b'.' => {
                if at == 0 || at == bytes.len() - 1 || bytes[at - 1] == b'.' {
                    return Err(refusal_at(whole, "IPv4 field must have at least one digit", rest()));
                }
                if place == 3 {
                    return Err(refusal(whole, "IPv4 address too long"));
                }
                octets[place] = u8::try_from(value).unwrap_or(u8::MAX);
                place += 1;
                (value, digits) = (0, 0);
            }
            _ => return Err(refusal_at(whole, "unexpected character", rest())),
        }
    }
    if place < 3 {
        return Err(refusal(whole, "IPv4 address too short"));
    }
    octets[3] = u8::try_from(value).unwrap_or(u8::MAX);
    Ok(octets)
}

/// Parses an IPv6 address. At most eight groups are read.
fn six(whole: &str) -> Result<ZonedAddress, String> {
    let (mut rest, zone) = match whole.split_once('%') {
        Some((_, "")) => return Err(refusal(whole, "zone must be a non-empty string")),
        Some((text, zone)) => (text, zone),
        None => (whole, ""),
    };
    let refused = |why: &str, at: &str| Err(refusal_at(whole, why, at));
    let mut bytes: Vec<u8> = Vec::with_capacity(16);
    // Number of bytes before `::`.
    let mut gap = None;
    if let Some(after) = rest.strip_prefix("::") {
        (gap, rest) = (Some(0), after);
    }
    while bytes.len() < 16 && !(rest.is_empty() && gap == Some(0) && bytes.is_empty()) {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return refused("each group must have 4 or less digits", rest);
        }
        if digits == 0 {
            return refused("each colon-separated field must have at least one digit", rest);
        }
        if rest[digits..].starts_with('.') {
            if gap.is_none() && bytes.len() != 12 {
                let why = "embedded IPv4 address must replace the final 2 fields of the address";
                return refused(why, rest);
            }
            if bytes.len() > 12 {
                let why = "too many hex fields to fit an embedded IPv4 at the end of the address";
                return refused(why, rest);
            }
            bytes.extend(four(whole, rest)?);
            rest = "";
            break;
        }
        let group = u16::from_str_radix(&rest[..digits], 16).unwrap_or_default();
        bytes.extend(group.to_be_bytes());
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return refused("unexpected character, want colon", rest);
        };
        if after.is_empty() {
            return refused("colon must be followed by more characters", rest);
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if gap.is_some() {
                return refused("multiple :: in address", rest);
            }
            (gap, rest) = (Some(bytes.len()), after);
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return refused("trailing garbage after address", rest);
    }
    let missing = 16 - bytes.len();
    match gap {
        None if missing > 0 => return refused("address string too short", ""),
        Some(_) if missing == 0 => {
            return refused("the :: must expand to at least one field of zeros", "");
        }
        Some(gap) => {
            bytes.splice(gap..gap, std::iter::repeat_n(0, missing));
        }
        None => {}
    }
    let bytes = <[u8; 16]>::try_from(bytes).unwrap_or_default();
    Ok(ZonedAddress { address: Ipv6Addr::from(bytes).into(), zone: zone.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_go_reads_them() {
        for (text, shown) in [
            ("1.2.3.4", "1.2.3.4"),
            ("::", "::"),
            ("::1", "::1"),
            ("1::", "1::"),
            ("FE80::0:1", "fe80::1"),
            ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
            ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"),
            ("::1%eth0", "::1"),
        ] {
            assert_eq!(address(text).map(|found| found.address.to_string()), Ok(shown.to_owned()), "{text}");
        }
        for text in ["0.0.0.0", "255.255.255.255", "::", "1:0:0:2::", "2001:db8::ff00:42:8329"] {
            assert_eq!(address(text).map(|found| found.address), Ok(text.parse().unwrap()), "{text}");
        }
    }

    /// Messages of kube-apiserver v1.36.3.
    #[test]
    fn other_texts_are_refused_with_gos_messages() {
        for (text, why) in [
            ("1.2.3", "IPv4 address too short"),
            ("1.2.3.4.5", "IPv4 address too long"),
            ("1.2.3.256", "IPv4 field has value >255"),
            ("1.2.3.04", "IPv4 field has octet with leading zero"),
            ("1.2..4", "IPv4 field must have at least one digit (at \".4\")"),
            (".1.2.4", "IPv4 field must have at least one digit (at \".1.2.4\")"),
            ("1.2.3.4.", "IPv4 field must have at least one digit (at \".\")"),
            ("1.2.3.x", "unexpected character (at \"x\")"),
            ("x", "unable to parse IP"),
            ("", "unable to parse IP"),
            ("1::2::3", "multiple :: in address (at \":3\")"),
            ("12345::", "each group must have 4 or less digits (at \"12345::\")"),
            ("1:2:3", "address string too short"),
            ("1:2:3:4:5:6:7:8:9", "trailing garbage after address (at \"9\")"),
            (":1", "each colon-separated field must have at least one digit (at \":1\")"),
            ("1:", "colon must be followed by more characters (at \":\")"),
            ("g::", "each colon-separated field must have at least one digit (at \"g::\")"),
            ("1:2:3:4:5:6:7::8", "the :: must expand to at least one field of zeros"),
            ("::1.2.3", "IPv4 address too short"),
            ("1::%", "zone must be a non-empty string"),
            (
                "1:2:3:4:5:6:7:1.2.3.4",
                "embedded IPv4 address must replace the final 2 fields of the address (at \"1.2.3.4\")",
            ),
        ] {
            assert_eq!(address(text), Err(format!("ParseAddr(\"{text}\"): {why}")), "{text}");
        }
        for (text, why) in [
            ("10.0.0.0", "no '/'"),
            ("10.0.0.0/33", "prefix length out of range"),
            ("10.0.0.0/08", "bad bits after slash: \"08\""),
            ("10.0.0.0/x", "bad bits after slash: \"x\""),
            ("10.0.0.0/-1", "bad bits after slash: \"-1\""),
            ("10.0.0.0/", "bad bits after slash: \"\""),
            ("10.0.0/8", "ParseAddr(\"10.0.0\"): IPv4 address too short"),
            ("::1%e/8", "IPv6 zones cannot be present in a prefix"),
        ] {
            assert_eq!(prefix(text), Err(format!("netip.ParsePrefix(\"{text}\"): {why}")), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn addresses_that_go_reads_are_those_of_the_standard_library(text in "[0-9a-f:.]{0,24}") {
            // Rust accepts no zone, and both refuse leading zeros.
            let found = address(&text).ok().map(|found| found.address);
            proptest::prop_assert_eq!(found, text.parse().ok());
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-fé:.%/]{0,24}") {
            let _ = address(&text);
            let _ = prefix(&text);
        }
    }
}
