//! Status of ResourceClaims: the users of a claim, its allocated devices, and what drivers report about the devices.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kube_apimachinery::go;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::device_rules::{
    items, label, request_names, set, validate_bindings, validate_config, validate_parameters,
    validate_reference, validate_references,
};
use super::slice_rules::pool_name;
use crate::kinds::builtin::shared::field_checks::{
    conditions, csi_driver, invalid_text, required, supported, too_long, too_many,
};
use crate::kinds::builtin::shared::fields::{list, put, text, within};
use crate::kinds::builtin::shared::immutable_fields::immutable_struct;
use crate::kinds::builtin::shared::pod_spec;

const MAX_USERS: usize = 256;
const MAX_RESULTS: usize = 32;
/// Maximum number of configurations: 32 from the class and 32 from the claim.
const MAX_CONFIGURATIONS: usize = 64;
const MAX_CONDITIONS: usize = 8;
const MAX_ADDRESSES: usize = 16;
const MAX_INTERFACE: usize = 256;
const MAX_HARDWARE_ADDRESS: usize = 128;
/// Length of a UUID with hyphens.
const UUID_LENGTH: usize = 36;
const WRONG_UUID: &str = "invalid UUID format";

/// Identity of an allocated device: driver, pool, name and share.
type SharedDevice<'a> = [&'a str; 4];

fn shared_device(object: &Value) -> SharedDevice<'_> {
    ["driver", "pool", "device", "shareID"].map(|field| text(object, field))
}

/// Returns the allocated devices of a claim.
fn allocated(status: &Value) -> BTreeSet<SharedDevice<'_>> {
    list(&status["allocation"]["devices"], "results").iter().map(shared_device).collect()
}

/// Drops reports about devices that this write deallocates. Reports about devices that were never allocated stay, and validation refuses
/// them.
pub(super) fn drop_deallocated(old: &Value, new: &mut Value) {
    let now = new["status"].clone();
    let (before, after) = (allocated(&old["status"]), allocated(&now));
    within(new, "status", |status| {
        let mut devices = list(status, "devices").to_vec();
        devices.retain(|device| {
            let device = shared_device(device);
            !before.contains(&device) || after.contains(&device)
        });
        put(status, "devices", if devices.is_empty() { Value::Null } else { json!(devices) });
    });
}

/// Validates the new status of a claim.
pub(super) fn validate(old: &Value, claim: &Value) -> Vec<FieldError> {
    let (status, old) = (&claim["status"], &old["status"]);
    let users = list(status, "reservedFor");
    let mut errors = set(
        users,
        MAX_USERS,
        "status.reservedFor",
        // A later pod can have the same name, but never the same UID.
        |user| text(user, "uid"),
        |user, path| {
            ["resource", "name", "uid"].iter().filter_map(|field| required(user, field, path)).collect()
        },
    );
    let known = allocated(status);
    for (index, device) in list(status, "devices").iter().enumerate() {
        errors.extend(validate_device(device, &known, &format!("status.devices[{index}]")));
    }
    errors.extend(repeated_devices(list(status, "devices")));
    let allocation = &status["allocation"];
    // Only an allocated claim can be reserved for pods.
    if !users.is_empty() && allocation.is_null() {
        let why = "may not be specified when `allocated` is not set";
        errors.push(FieldError::forbidden("status.reservedFor", why));
    // A deleted claim keeps its users until their pods end, but gets no new ones.
    } else if !claim["metadata"]["deletionTimestamp"].is_null()
        && users.iter().any(|user| !list(old, "reservedFor").contains(user))
    {
        let why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        errors.push(FieldError::forbidden("status.reservedFor", why));
    }
    // An allocation is set once and then removed as a whole, so only a new one is validated.
    match (old["allocation"].is_null(), allocation.is_null()) {
        (_, true) => {}
        (false, false) => {
            let name = "resource.AllocationResult";
            errors.extend(immutable_struct("status.allocation", name, &old["allocation"], allocation));
        }
        (true, false) => errors.extend(validate_allocation(allocation, &claim["spec"]["devices"])),
    }
    errors
}

fn repeated_devices(devices: &[Value]) -> Vec<FieldError> {
    let mut seen = BTreeSet::new();
    let repeated = devices.iter().enumerate().filter(|(_, device)| !seen.insert(shared_device(device)));
    let error = |(index, device): (usize, &Value)| {
        let message = format!("Duplicate value: {}", shown(shared_device(device)));
        FieldError { reason: "FieldValueDuplicate", field: format!("status.devices[{index}]"), message }
    };
    repeated.map(error).collect()
}

/// Returns the identity of a device as JSON of kube-apiserver's internal struct.
fn shown([driver, pool, device, share]: SharedDevice<'_>) -> String {
    let quote = |text: &str| go::json(&Value::from(text));
    let [driver, pool, device, share] = [driver, pool, device, share].map(quote);
    format!("{{\"Driver\":{driver},\"Pool\":{pool},\"Device\":{device},\"ShareID\":{share}}}")
}

fn validate_device(device: &Value, known: &BTreeSet<SharedDevice<'_>>, path: &str) -> Vec<FieldError> {
    let mut errors = csi_driver(text(device, "driver"), &format!("{path}.driver"));
    errors.extend(pool_name(text(device, "pool"), &format!("{path}.pool")));
    errors.extend(label(device, "device", path));
    errors.extend(share(device, path));
    let key = shared_device(device);
    // Drivers report only about devices that the claim has.
    if !known.contains(&key) {
        errors.push(FieldError::invalid(path, &shown(key), "must be an allocated device in the claim"));
    }
    let reported = list(device, "conditions");
    if reported.len() > MAX_CONDITIONS {
        errors.push(too_many(format!("{path}.conditions"), reported.len(), MAX_CONDITIONS));
    }
    errors.extend(conditions(reported, &format!("{path}.conditions")));
    if !device["data"].is_null() {
        errors.extend(validate_parameters(&device["data"], &format!("{path}.data")));
    }
    errors.extend(validate_network(&device["networkData"], &format!("{path}.networkData")));
    errors
}

/// Validates the ID of a share, which is a UUID in its normalized form.
fn share(device: &Value, path: &str) -> Option<FieldError> {
    let given = device["shareID"].as_str()?;
    let why = match uuid_form(given) {
        Err(why) => format!("error validating uid: {why}"),
        Ok(()) if given.len() == UUID_LENGTH && !given.contains(|c: char| c.is_ascii_uppercase()) => return None,
        Ok(()) => "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal \
                   characters"
            .to_owned(),
    };
    Some(invalid_text(format!("{path}.shareID"), given, &why))
}

/// Checks a UUID in one of the forms that Go's library reads: 32 digits, or the form with hyphens, which may have a URN prefix or braces.
/// Only the normalized form is valid in the end, but the other forms have another error.
fn uuid_form(given: &str) -> Result<(), String> {
    const PREFIX: &str = "urn:uuid:";
    let bytes = given.as_bytes();
    let digits = match bytes.len() {
        32 => bytes.to_vec(),
        UUID_LENGTH => without_hyphens(bytes)?,
        // 45 bytes are the form with hyphens after a URN prefix, 38 bytes the one in braces.
        45 if !bytes[..9].eq_ignore_ascii_case(PREFIX.as_bytes()) => {
            return Err(format!("invalid urn prefix: {}", go::quote(&String::from_utf8_lossy(&bytes[..9]))));
        }
        45 => without_hyphens(&bytes[9..])?,
        38 if bytes[0] == b'{' && bytes[37] == b'}' => without_hyphens(&bytes[1..37])?,
        38 => return Err("invalid bracketed UUID format".to_owned()),
        length => return Err(format!("invalid UUID length: {length}")),
    };
    if digits.iter().all(u8::is_ascii_hexdigit) { Ok(()) } else { Err(WRONG_UUID.to_owned()) }
}

/// Returns the digits of a UUID in the form with hyphens.
fn without_hyphens(uuid: &[u8]) -> Result<Vec<u8>, String> {
    const HYPHENS: [usize; 4] = [8, 13, 18, 23];
    if HYPHENS.iter().any(|at| uuid[*at] != b'-') {
        return Err(WRONG_UUID.to_owned());
    }
    let digits = uuid.iter().enumerate().filter(|(at, _)| !HYPHENS.contains(at));
    Ok(digits.map(|(_, digit)| *digit).collect())
}

fn validate_network(network: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, max) in [("interfaceName", MAX_INTERFACE), ("hardwareAddress", MAX_HARDWARE_ADDRESS)] {
        if text(network, field).len() > max {
            errors.push(too_long(format!("{path}.{field}"), max));
        }
    }
    let path = format!("{path}.ips");
    let address = |address: &Value, path: &str| {
        interface_address(address.as_str().unwrap_or_default(), path).into_iter().collect()
    };
    errors.extend(set(
        list(network, "ips"),
        MAX_ADDRESSES,
        &path,
        |address| address.as_str().unwrap_or_default(),
        address,
    ));
    errors
}

/// Checks an address with a prefix length, such as `10.9.8.7/24`, in its canonical form.
fn interface_address(text: &str, path: &str) -> Option<FieldError> {
    const FORM: &str = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
    let parsed = text.split_once('/').and_then(|(address, length)| {
        let address: IpAddr = address.parse().ok()?;
        let length = length.parse::<u8>().ok()?;
        (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
    });
    let Some((address, length)) = parsed else {
        return Some(invalid_text(path, text, FORM));
    };
    let canonical = format!("{address}/{length}");
    let why = || format!("must be in canonical form ({})", go::quote(&canonical));
    (text != canonical).then(|| invalid_text(path, text, &why()))
}

/// Validates a new allocation.
fn validate_allocation(allocation: &Value, requested: &Value) -> Vec<FieldError> {
    const PATH: &str = "status.allocation.devices";
    let names = request_names(requested);
    let devices = &allocation["devices"];
    let result = |result: &Value, path: &str| {
        let mut errors = validate_reference(text(result, "request"), &format!("{path}.request"), &names);
        errors.extend(csi_driver(text(result, "driver"), &format!("{path}.driver")));
        errors.extend(pool_name(text(result, "pool"), &format!("{path}.pool")));
        errors.extend(label(result, "device", path));
        errors.extend(validate_bindings(result, path));
        errors.extend(share(result, path));
        errors
    };
    let config = |config: &Value, path: &str| {
        let mut errors: Vec<FieldError> = match text(config, "source") {
            "" => vec![FieldError::required(format!("{path}.source"), "")],
            _ => supported(config, "source", path, &["FromClaim", "FromClass"]).into_iter().collect(),
        };
        errors.extend(validate_references(config, path, &names));
        errors.extend(validate_config(config, path));
        errors
    };
    let mut errors = items(list(devices, "results"), MAX_RESULTS, &format!("{PATH}.results"), result);
    errors.extend(items(list(devices, "config"), MAX_CONFIGURATIONS, &format!("{PATH}.config"), config));
    if !allocation["nodeSelector"].is_null() {
        errors.extend(pod_spec::node_selector(&allocation["nodeSelector"], "status.allocation.nodeSelector"));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(status: &Value) -> Value {
        json!({
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
            "status": status,
        })
    }

    fn result(driver: &str) -> Value {
        json!({"devices": {"results": [{"request": "r", "driver": driver, "pool": "p", "device": "d"}]}})
    }

    #[track_caller]
    fn check(old: &Value, new: &Value, expected: &[&str]) {
        let errors: Vec<String> =
            validate(&claim(old), &claim(new)).iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected, "{new}");
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn a_status_is_validated() {
        let pod = json!({"resource": "pods", "name": "p", "uid": "1"});
        check(
            &json!({}),
            &json!({"reservedFor": [pod]}),
            &["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"],
        );
        let known = json!({"allocation": result("d.example.com")});
        let with = |field: &str, value: Value| {
            let mut status = known.clone();
            status[field] = value;
            status
        };
        check(
            &known,
            &with("reservedFor", json!([pod, {"resource": "", "name": "", "uid": ""}])),
            &[
                "status.reservedFor[1].resource: Required value",
                "status.reservedFor[1].name: Required value",
                "status.reservedFor[1].uid: Required value",
            ],
        );
        check(
            &known,
            &with("reservedFor", json!([pod, {"resource": "pods", "name": "q", "uid": "1"}])),
            &["status.reservedFor[1]: Duplicate value: \"1\""],
        );
        check(
            &known,
            &json!({"allocation": result("e")}),
            &[
                "status.allocation: Invalid value: {\"Devices\":{\"Results\":[{\"Request\":\"r\",\"Driver\":\"e\",\"Pool\":\"p\",\
                 \"Device\":\"d\",\"AdminAccess\":null,\"Tolerations\":null,\"BindingConditions\":null,\
                 \"BindingFailureConditions\":null,\"ShareID\":null,\"ConsumedCapacity\":null}],\"Config\":null},\
                 \"NodeSelector\":null,\"AllocationTimestamp\":null}: field is immutable",
            ],
        );
        let device = |name: &str, fields: Value| {
            let mut device = json!({"driver": "d.example.com", "pool": "p", "device": name});
            device.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            with("devices", json!([device]))
        };
        check(
            &known,
            &device("zz", json!({})),
            &[
                "status.devices[0]: Invalid value: {\"Driver\":\"d.example.com\",\"Pool\":\"p\",\"Device\":\"zz\",\"ShareID\":\"\"}: \
                 must be an allocated device in the claim",
            ],
        );
        check(
            &known,
            &device("d", json!({"networkData": {"ips": ["1.2.3.4/24", "bad"]}})),
            &[
                "status.devices[0].networkData.ips[1]: Invalid value: \"bad\": must be a valid address in CIDR form, (e.g. \
                 10.9.8.7/24 or 2001:db8::1/64)",
            ],
        );
        check(
            &json!({}),
            &json!({"allocation": {"devices": {"config": [{"source": "Bad", "opaque": {"driver": "d", "parameters": {}}}]}}}),
            &[
                "status.allocation.devices.config[0].source: Unsupported value: \"Bad\": supported values: \"FromClaim\", \
                 \"FromClass\"",
            ],
        );
    }

    /// As kube-apiserver v1.36.3 answered.
    #[test]
    fn reports_about_devices_end_with_their_allocation() {
        let report = json!([{"driver": "d.example.com", "pool": "p", "device": "d"}]);
        let old = claim(&json!({"allocation": result("d.example.com"), "devices": report}));
        let mut new = claim(&json!({"devices": report}));
        drop_deallocated(&old, &mut new);
        assert_eq!(new["status"], json!({}));
        let mut same = old.clone();
        drop_deallocated(&old, &mut same);
        assert_eq!(same, old);
    }

    /// Recorded from kube-apiserver v1.36.3.
    #[test]
    fn shares_have_uuids() {
        const FORM: &str = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
                            hexadecimal characters";
        let uid = "6d8ed9e1-0a1f-4f0a-9e7b-6d8ed9e10a1f";
        let why = |given: &str| share(&json!({"shareID": given}), "p").map(|error| error.message);
        assert_eq!((why(uid), share(&json!({}), "p")), (None, None));
        for (given, expected) in [
            (String::new(), "error validating uid: invalid UUID length: 0"),
            (uid.replace('-', ""), FORM),
            (uid.to_uppercase(), FORM),
            (format!("{{{uid}}}"), FORM),
            (format!("urn:uuid:{uid}"), FORM),
            (format!("{{{uid}]"), "error validating uid: invalid bracketed UUID format"),
            (format!("urn:uuix:{uid}"), "error validating uid: invalid urn prefix: \"urn:uuix:\""),
            (uid.replace('f', "g"), "error validating uid: invalid UUID format"),
            ("é".repeat(18), "error validating uid: invalid UUID format"),
        ] {
            let expected = format!("Invalid value: {}: {expected}", go::quote(&given));
            assert_eq!(why(&given), Some(expected), "{given}");
        }
        let status = json!({"allocation": result("d.example.com"), "devices": [
            {"driver": "d.example.com", "pool": "p", "device": "d", "shareID": "y"},
        ]});
        check(
            &json!({}),
            &status,
            &[
                "status.devices[0].shareID: Invalid value: \"y\": error validating uid: invalid UUID length: 1",
                "status.devices[0]: Invalid value: {\"Driver\":\"d.example.com\",\"Pool\":\"p\",\"Device\":\"d\",\"ShareID\":\"y\"}: \
                 must be an allocated device in the claim",
            ],
        );
    }
}
