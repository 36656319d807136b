//! Warnings that several kinds share. They are about values that are accepted but should not be used.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kube_apimachinery::go::quote;
use kube_apimachinery::names;
use kube_apimachinery::quantity::Quantity;
use serde_json::Value;

use super::fields::{list, text};

/// Deprecated labels of nodes, with the reason that warnings show.
const NODE_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

/// Returns the reason why a node label should not be used; `None` for other labels.
pub(in crate::kinds::builtin) fn node_label(key: &str) -> Option<&'static str> {
    NODE_LABELS.iter().find(|(label, _)| *label == key).map(|(_, why)| *why)
}

/// Use of a node selector term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kinds::builtin) enum TermUse {
    /// Nodes must match. Invalid values are errors, which validation reports.
    Required,
    /// Nodes that match are preferred. Invalid values lead only to warnings.
    Preferred,
}

/// Returns warnings about the expressions of a node selector term.
pub(in crate::kinds::builtin) fn node_selector_term(
    term: &Value,
    term_use: TermUse,
    path: &str,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, expression) in list(term, "matchExpressions").iter().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let key = text(expression, "key");
        warnings.extend(node_label(key).map(|why| format!("{path}.key: {key} is {why}")));
        for (index, value) in
            list(expression, "values").iter().enumerate().filter(|_| term_use == TermUse::Preferred)
        {
            let value = value.as_str().unwrap_or_default();
            let wrong = names::label_value(value);
            warnings
                .extend(wrong.iter().map(|why| format!("{path}.values[{index}]: {value} is invalid, {why}")));
        }
    }
    warnings
}

/// Returns a warning for each named amount that is not a whole number of bytes.
pub(in crate::kinds::builtin) fn fractions(amounts: &Value, names: &[&str], path: &str) -> Vec<String> {
    let warning = |name: &&str| {
        let amount = amounts[*name].as_str()?;
        let is_whole = Quantity::read(amount)?.millis() % 1000 == 0;
        let why = || {
            format!("{path}[{name}]: fractional byte value {} is invalid, must be an integer", quote(amount))
        };
        (!is_whole).then(why)
    };
    names.iter().filter_map(warning).collect()
}

/// Returns the warning about the name of a new object if pods that get their names from it could not have DNS labels.
pub(in crate::kinds::builtin) fn name_of_pods(object: &Value, used_in: &str) -> Option<String> {
    let wrong = names::label(text(&object["metadata"], "name"));
    (!wrong.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            wrong.join(" ")
        )
    })
}

/// Returns the warning about an IP address that is not in its canonical form.
pub(in crate::kinds::builtin) fn address(text: &str, path: &str) -> Option<String> {
    let standard: Option<IpAddr> = text.parse().ok();
    let given = standard.or_else(|| with_leading_zeros(text).map(IpAddr::V4))?;
    let quoted = quote(text);
    match given {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_none() => {
            let canonical = v6.to_string();
            (canonical != text).then(|| {
                format!(
                    "{path}: IPv6 address {quoted} should be in RFC 5952 canonical format (\"{canonical}\")"
                )
            })
        }
        // An IPv4 address without leading zeros has only one form.
        IpAddr::V4(_) if standard.is_some() => None,
        _ => Some(format!(
            "{path}: non-standard IP address {quoted} is invalid: use \"{}\"",
            given.to_canonical()
        )),
    }
}

/// Returns warnings about the addresses of a load balancer in the status.
pub(in crate::kinds::builtin) fn of_load_balancer(object: &Value) -> Vec<String> {
    let points = list(&object["status"]["loadBalancer"], "ingress").iter().enumerate();
    let warning = |(index, point): (usize, &Value)| {
        address(text(point, "ip"), &format!("status.loadBalancer.ingress[{index}]"))
    };
    points.filter_map(warning).collect()
}

/// Returns warnings about an address range that is not in its canonical form.
pub(in crate::kinds::builtin) fn range(text: &str, path: &str) -> Vec<String> {
    let Some((start, length)) = text.split_once('/') else { return Vec::new() };
    let standard: Option<IpAddr> = start.parse().ok();
    let given = standard.or_else(|| with_leading_zeros(start).map(IpAddr::V4));
    let (Some(given), Ok(length)) = (given, length.parse::<u32>()) else { return Vec::new() };
    let is_mapped = matches!(given, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    let (first, bits) = match given {
        IpAddr::V4(v4) if length <= 32 => {
            // For a length of 0 the shift has no result, and the mask no bits.
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or_default();
            (IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask)), 32)
        }
        IpAddr::V6(v6) if length <= 128 => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or_default();
            (IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask)), 128)
        }
        _ => return Vec::new(),
    };
    let (quoted, canonical) = (quote(text), format!("{first}/{length}"));
    let mut warnings = Vec::new();
    if first != given {
        warnings.push(format!(
            "{path}: CIDR value {quoted} is ambiguous in this context (should be \"{canonical}\" or \"{given}/{bits}\"?)"
        ));
    }
    if standard.is_none() || is_mapped {
        warnings.push(format!("{path}: non-standard CIDR value {quoted} is invalid: use \"{canonical}\""));
    }
    if warnings.is_empty() && given.is_ipv6() && canonical != text {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {quoted} should be in RFC 5952 canonical format (\"{canonical}\")"
        ));
    }
    warnings
}

/// Parses an IPv4 address whose decimal numbers may have leading zeros, as older versions of Go did.
fn with_leading_zeros(text: &str) -> Option<Ipv4Addr> {
    let parts = text.split('.').map(|part| {
        let is_number = !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
        is_number.then(|| part.parse::<u8>().ok()).flatten()
    });
    let parts: Vec<u8> = parts.collect::<Option<_>>()?;
    Some(Ipv4Addr::from(<[u8; 4]>::try_from(parts).ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_should_be_canonical() {
        for canonical in ["10.0.0.1", "fd00::1", "x", ""] {
            assert_eq!(address(canonical, "ip"), None, "{canonical}");
        }
        for (text, expected) in [
            ("010.0.0.1", "ip: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\""),
            ("::ffff:1.2.3.4", "ip: non-standard IP address \"::ffff:1.2.3.4\" is invalid: use \"1.2.3.4\""),
            ("FD00::1", "ip: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")"),
        ] {
            assert_eq!(address(text, "ip").as_deref(), Some(expected));
        }
    }

    #[test]
    fn ranges_should_be_canonical() {
        for canonical in ["10.0.0.0/8", "fd00::/64", "0.0.0.0/0", "::/0", "x", "10.0.0.0/99", "10.0.0.0/x"] {
            assert_eq!(range(canonical, "r"), [""; 0], "{canonical}");
        }
        for (text, expected) in [
            (
                "10.0.0.1/8",
                "r: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)",
            ),
            ("010.0.0.0/8", "r: non-standard CIDR value \"010.0.0.0/8\" is invalid: use \"10.0.0.0/8\""),
            (
                "FD00::/64",
                "r: IPv6 CIDR value \"FD00::/64\" should be in RFC 5952 canonical format (\"fd00::/64\")",
            ),
        ] {
            assert_eq!(range(text, "r"), [expected]);
        }
    }

    #[test]
    fn only_preferences_have_warnings_about_values() {
        let term = json!({"matchExpressions": [{"key": "beta.kubernetes.io/os", "values": ["a b"]}]});
        let key = "t.matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; use \"kubernetes.io/os\" instead";
        assert_eq!(node_selector_term(&term, TermUse::Required, "t"), [key]);
        let both = node_selector_term(&term, TermUse::Preferred, "t");
        assert_eq!(both.len(), 2);
        assert!(
            both[1].starts_with("t.matchExpressions[0].values[0]: a b is invalid, a valid label must be")
        );
    }

    #[test]
    fn bytes_should_be_whole() {
        let amounts = json!({"memory": "500m", "cpu": "500m", "ephemeral-storage": "1Gi"});
        assert_eq!(
            fractions(&amounts, &["memory", "ephemeral-storage", "storage"], "r"),
            ["r[memory]: fractional byte value \"500m\" is invalid, must be an integer"]
        );
    }
}
