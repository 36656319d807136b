//! Checks of domains and address ranges, with the texts of kube-apiserver's shared validation.

use std::net::IpAddr;

use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;

use super::field_checks::{address_range, invalid_text};
use super::label_selector::invalid;

const HTTP_PATH: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";

/// Checks a DNS subdomain.
pub(in crate::kinds::builtin) fn subdomain(given: &str, field: &str) -> Vec<FieldError> {
    invalid(field, given, &names::subdomain(given))
}

/// Checks a fully qualified domain: at least two labels, and an optional dot at the end.
pub(in crate::kinds::builtin) fn full_domain(given: &str, field: &str) -> Option<FieldError> {
    if given.is_empty() {
        return Some(FieldError::required(field, ""));
    }
    // Errors show the name without the dot, as in kube-apiserver.
    let name = given.strip_suffix('.').unwrap_or(given);
    let wrong = names::subdomain(name);
    if !wrong.is_empty() {
        return Some(invalid_text(field, name, &wrong.join(",")));
    }
    if !name.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        return Some(invalid_text(field, name, why));
    }
    // The rule for subdomains does not limit the length of a single label.
    let wrong = |part: &&str| !names::label(part).is_empty();
    let part = name.split('.').find(wrong)?;
    Some(invalid_text(field, part, &names::label(part).join(",")))
}

/// Checks a path that starts with a domain, such as `example.com/path`.
pub(in crate::kinds::builtin) fn domain_path(given: &str, field: &str) -> Vec<FieldError> {
    if given.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let parts = given.split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty());
    let Some((domain, path)) = parts else {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return vec![invalid_text(field, given, why)];
    };
    let mut errors = subdomain(domain, field);
    let is_of_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !path.bytes().all(is_of_path) {
        errors.push(invalid_text(field, path, HTTP_PATH));
    }
    errors
}

/// Checks an IP address that must be in its canonical form.
pub(in crate::kinds::builtin) fn canonical_address(given: &str, field: &str) -> Option<FieldError> {
    names::canonical_address(given).map(|why| invalid_text(field, given, &why))
}

/// Checks an address range that must be in its canonical form.
pub(in crate::kinds::builtin) fn canonical_range(given: &str, field: &str) -> Option<FieldError> {
    if let Some(error) = address_range(given, field) {
        return Some(error);
    }
    let canonical = AddressRange::read(given)?.canonical();
    let why = || format!("must be in canonical form ({})", quote(&canonical));
    (canonical != given).then(|| invalid_text(field, given, &why()))
}

/// Address range, as written: its address may have bits beyond the prefix.
#[derive(Debug, Clone, Copy)]
pub(in crate::kinds::builtin) struct AddressRange {
    first: IpAddr,
    length: u32,
}

impl AddressRange {
    /// Parses a range, with the leniency of [`names::lenient_address`] for its address.
    pub(in crate::kinds::builtin) fn read(given: &str) -> Option<Self> {
        let (start, length) = given.split_once('/')?;
        let first = names::lenient_address(start)?;
        let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        let length: u32 = length.parse().ok().filter(|_| is_number)?;
        let max = if first.is_ipv4() { 32 } else { 128 };
        (length <= max).then_some(Self { first, length })
    }

    /// Whether the range is an IPv4 range. As in Go, IPv4-mapped IPv6 addresses count as IPv4.
    pub(in crate::kinds::builtin) fn is_ipv4(self) -> bool {
        self.first.to_canonical().is_ipv4()
    }

    /// The first address of the range.
    fn start(self) -> IpAddr {
        match self.first {
            IpAddr::V4(v4) => {
                // With a length of 0 the shift overflows, and the mask has no bits.
                let mask = u32::MAX.checked_shl(32 - self.length).unwrap_or_default();
                IpAddr::V4((u32::from(v4) & mask).into())
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - self.length).unwrap_or_default();
                IpAddr::V6((u128::from(v6) & mask).into())
            }
        }
    }

    /// The range as Go writes it.
    pub(in crate::kinds::builtin) fn canonical(self) -> String {
        format!("{}/{}", self.start(), self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_with_zeros_and_written_without() {
        assert_eq!(AddressRange::read("010.0.0.1/8").unwrap().canonical(), "10.0.0.0/8");
        assert_eq!(AddressRange::read("FD00::1/64").unwrap().canonical(), "fd00::/64");
        assert_eq!(AddressRange::read("1.2.3.4/0").unwrap().canonical(), "0.0.0.0/0");
        for bad in ["10.0.0.0/33", "10.0.0.0/+8", "10.0.0/8", "x/8", "::/129", "00::1.2.3/8"] {
            assert!(AddressRange::read(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn domains_of_endpoints_have_two_parts() {
        let why = |given: &str| full_domain(given, "d").map(|error| error.to_string());
        assert_eq!(why("a.b"), None);
        assert_eq!(why("a.b."), None);
        assert_eq!(why("").as_deref(), Some("d: Required value"));
        let short =
            "d: Invalid value: \"a\": should be a domain with at least two segments separated by dots";
        assert_eq!(why("a").as_deref(), Some(short));
        assert!(why("a_.b").is_some());
    }
}
