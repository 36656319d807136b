//! Valid and invalid values of single fields.

use serde_json::json;

use super::*;

#[test]
fn names_of_ports_have_a_letter_and_single_hyphens() {
    assert_eq!(port_name("http-2"), [""; 0]);
    assert_eq!(port_name("80"), ["must contain at least one letter (a-z)"]);
    assert_eq!(port_name("-a--b").len(), 2);
    assert_eq!(port_name("").len(), 2);
    assert_eq!(port_name("abcdefghijklmnop"), ["must be no more than 15 characters"]);
    let errors = port(&json!(0), "port");
    assert_eq!(errors[0].to_string(), "port: Invalid value: 0: must be between 1 and 65535, inclusive");
    assert!(port(&json!("http"), "port").is_empty());
}

#[test]
fn keys_of_data_are_names_of_files() {
    for key in ["a", "..a".trim_start_matches('.'), ".a", "A_b-c.d"] {
        assert_eq!(data_key(key), [""; 0], "{key}");
    }
    assert_eq!(data_key(".."), ["must not be '..'"]);
    assert_eq!(data_key("."), ["must not be '.'"]);
    assert_eq!(data_key("..a"), ["must not start with '..'"]);
    assert_eq!(data_key(""), [CONFIG_KEY]);
    assert_eq!(data_key("a/b"), [CONFIG_KEY]);
    assert_eq!(data_key(&"a".repeat(254)), ["must be no more than 253 characters"]);
}

#[test]
fn addresses_are_written_without_leading_zeros() {
    let why = |given: &str| address(given, "ip").map(|error| error.to_string());
    assert_eq!(why("10.0.0.1"), None);
    assert_eq!(why("2001:db8::1"), None);
    assert_eq!(
        why("10.0.0.01").as_deref(),
        Some("ip: Invalid value: \"10.0.0.01\": must not have leading 0s")
    );
    assert_eq!(
        why("::ffff:10.0.0.1").as_deref(),
        Some("ip: Invalid value: \"::ffff:10.0.0.1\": must not be an IPv4-mapped IPv6 address")
    );
    assert_eq!(
        why("10.0.0.256").as_deref(),
        Some(
            "ip: Invalid value: \"10.0.0.256\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        )
    );
}

#[test]
fn ranges_start_at_their_first_address() {
    let why = |given: &str| {
        let error = address_range(given, "r")?.to_string();
        Some(error.split_once("\": ").map(|(_, why)| why.to_owned()).unwrap_or_default())
    };
    for good in ["10.0.0.0/8", "0.0.0.0/0", "10.0.0.1/32", "2001:db8::/64", "::/0"] {
        assert_eq!(why(good), None, "{good}");
    }
    let beyond = Some("must not have bits set beyond the prefix length");
    assert_eq!(why("10.0.0.1/8").as_deref(), beyond);
    assert_eq!(why("2001:db8::1/64").as_deref(), beyond);
    let zeros = Some("must not have leading 0s in IP or prefix length");
    assert_eq!(why("10.0.0.0/08").as_deref(), zeros);
    assert_eq!(why("010.0.0.0/8").as_deref(), zeros);
    let none = Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    for bad in ["10.0.0.0", "x/8", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8"] {
        assert_eq!(why(bad).as_deref(), none, "{bad}");
    }
}

#[test]
fn paths_stay_inside_of_their_folder() {
    let count = |path: &str| unreserved_path(path, "path").len();
    assert_eq!(count("a/..b"), 0);
    assert_eq!(count("..b"), 1);
    assert_eq!(count("../b"), 1);
    assert_eq!(count("/a/.."), 2);
}
