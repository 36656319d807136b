//! IP families of a Service, and the policy that decides how many it has.
//!
//! Like a kube-apiserver with one IPv4 range, this server allocates IPv4 addresses only. A headless Service without a selector may still
//! name both families, because its endpoints may have addresses of either.

use std::net::IpAddr;

use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::service_spec::{addresses, has_selector, is_empty, is_headless, strings};
use crate::kinds::builtin::shared::field_checks;
use crate::kinds::builtin::shared::fields::set;

const IPV4: &str = "IPv4";
const IPV6: &str = "IPv6";
const SINGLE_STACK: &str = "SingleStack";
const REQUIRE_DUAL_STACK: &str = "RequireDualStack";

/// Sets a missing policy to the old one, or else to the one that follows from the address.
pub(super) fn set_policy(old: Option<&Value>, spec: &mut Value) {
    // A fixed default could move a Service between one and two families without a request to do so.
    let former = old.map(|old| &old["ipFamilyPolicy"]).filter(|policy| !is_empty(policy));
    let policy = match former {
        Some(policy) => policy.clone(),
        None if is_headless(spec) && !has_selector(spec) => json!(REQUIRE_DUAL_STACK),
        None => json!(SINGLE_STACK),
    };
    set(spec, "ipFamilyPolicy", policy);
}

/// Validates the addresses, families and policy that the Service names, alone and in relation to each other.
pub(super) fn validate_related(old: Option<&Value>, spec: &Value) -> Vec<FieldError> {
    const POLICIES: [&str; 3] = ["PreferDualStack", REQUIRE_DUAL_STACK, SINGLE_STACK];
    const PLACE: &str = "spec.clusterIPs";
    let mut errors = Vec::new();
    let named = addresses(spec);
    let shown = json!(named).to_string();
    match (is_empty(&spec["clusterIP"]), named.first()) {
        (true, Some(_)) => {
            let why = "must be empty when `clusterIP` is not specified";
            errors.push(FieldError::invalid(PLACE, &shown, why));
        }
        (false, None) => errors.push(FieldError::required(PLACE, "")),
        (false, Some(first)) if spec["clusterIP"] != **first => {
            errors.push(FieldError::invalid(PLACE, &shown, "first value must match `clusterIP`"));
        }
        _ => {}
    }
    let families = strings(&spec["ipFamilies"]);
    for (at, family) in families.iter().enumerate() {
        let field = format!("spec.ipFamilies[{at}]");
        if ![IPV4, IPV6].contains(&family.as_str()) {
            errors.push(FieldError::not_supported(field.clone(), family, &[IPV4, IPV6]));
        }
        if families[..at].contains(family) {
            errors.push(FieldError {
                reason: "FieldValueDuplicate",
                field,
                message: format!("Duplicate value: {}", json!(family)),
            });
        }
    }
    if let Some(policy) = spec["ipFamilyPolicy"].as_str().filter(|policy| !POLICIES.contains(policy)) {
        errors.push(FieldError::not_supported("spec.ipFamilyPolicy", policy, &POLICIES));
    }
    let before = errors.len();
    // Addresses of the old Service are not validated again.
    let known = old.map(addresses).unwrap_or_default();
    for (at, address) in named.iter().enumerate() {
        if at == 0 && *address == "None" {
            if named.len() > 1 {
                errors.push(FieldError::invalid(PLACE, &shown, "'None' must be the first and only value"));
            }
        } else if !known.contains(address) {
            errors.extend(field_checks::address(address, &format!("{PLACE}[{at}]")));
        }
    }
    let are_addresses = errors.len() == before;
    if named.len() > 2 {
        errors.push(FieldError::invalid(PLACE, &shown, "may only hold up to 2 values"));
    }
    // The remaining checks compare families, which only valid addresses have.
    if !are_addresses {
        return errors;
    }
    let of_four = |address: &str| address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4());
    if named.len() > 1 && named.iter().all(|address| of_four(address) == of_four(&named[0])) {
        let why = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid(PLACE, &shown, why));
    }
    if !is_headless(spec) {
        for (at, (address, family)) in named.iter().zip(&families).enumerate() {
            if [IPV4, IPV6].contains(&family.as_str()) && of_four(address) != (family == IPV4) {
                let why = format!("expected an {family} value as indicated by `ipFamilies[{at}]`");
                errors.push(FieldError::invalid(format!("{PLACE}[{at}]"), &json!(address).to_string(), &why));
            }
        }
    }
    errors
}

/// Sets missing IP families of a Service, and returns the errors about those that it names.
pub(super) fn set_families(old: Option<&Value>, spec: &mut Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut families: Vec<String> = strings(&spec["ipFamilies"]);
    let is_single = spec["ipFamilyPolicy"] == SINGLE_STACK;
    let policy = spec["ipFamilyPolicy"].to_string();
    let mut refuse_policy = |why: &str| errors.push(FieldError::invalid("spec.ipFamilyPolicy", &policy, why));
    // A client that changes only the policy to `SingleStack` gives up the second address and the second family. With any other policy it
    // cannot give them up.
    if let Some(old) = old {
        if is_single && old["clusterIPs"] == spec["clusterIPs"] && addresses(spec).len() > 1 {
            spec["clusterIPs"] = json!([spec["clusterIPs"][0]]);
        }
        if is_single && old["ipFamilies"] == spec["ipFamilies"] {
            families.truncate(1);
        }
        let is_less = |new: usize, old: usize| !is_single && (1..old).contains(&new);
        if is_less(addresses(spec).len(), addresses(old).len()) {
            refuse_policy("must be 'SingleStack' to release the secondary cluster IP");
        }
        if is_less(families.len(), strings(&old["ipFamilies"]).len()) {
            refuse_policy("must be 'SingleStack' to release the secondary IP family");
        }
    }
    let named = addresses(spec);
    if is_single && named.len() == 2 {
        refuse_policy(
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified",
        );
    }
    if is_single && families.len() == 2 {
        refuse_policy(
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        );
    }
    let shown = json!(named).to_string();
    for (at, text) in named.iter().enumerate().take_while(|(_, text)| *text != "None") {
        let Ok(address) = text.parse::<IpAddr>() else { continue };
        let (field, family) = (format!("spec.clusterIPs[{at}]"), if address.is_ipv4() { IPV4 } else { IPV6 });
        match families.get(at) {
            Some(_) => {}
            None if family == IPV4 => families.push(IPV4.to_owned()),
            // The error is about the address, because the client named no family.
            None => errors.push(FieldError::invalid(field, &shown, "IPv6 is not configured on this cluster")),
        }
    }
    if !errors.is_empty() {
        return errors;
    }
    // A headless Service without a selector may have combinations that the checks of other Services refuse.
    if is_headless(spec) && !has_selector(spec) {
        if families.is_empty() {
            families.push(IPV4.to_owned());
        }
        if families.len() == 1 && !is_single {
            families.push(if families[0] == IPV6 { IPV4 } else { IPV6 }.to_owned());
        }
    } else {
        if spec["ipFamilyPolicy"] == REQUIRE_DUAL_STACK {
            let why = "this cluster is not configured for dual-stack services";
            errors.push(FieldError::invalid("spec.ipFamilyPolicy", &policy, why));
        }
        for (at, family) in families.iter().enumerate().filter(|(_, family)| *family != IPV4) {
            let shown = json!(family).to_string();
            let why = "not configured on this cluster";
            errors.push(FieldError::invalid(format!("spec.ipFamilies[{at}]"), &shown, why));
        }
        if families.is_empty() {
            families.push(IPV4.to_owned());
        }
    }
    spec["ipFamilies"] = json!(families);
    errors
}

#[cfg(test)]
mod tests {
    use super::super::addresses::tests::{merged, pool, write};
    use super::*;

    #[test]
    fn an_address_that_a_service_has_is_not_validated_again() {
        let old = json!({"clusterIP": "None", "clusterIPs": ["None"]});
        let new = json!({"clusterIP": "None", "clusterIPs": ["None", "None"]});
        assert_eq!(
            write(&mut pool(), Some(&old), &new),
            "Service \"svc\" is invalid: spec.clusterIPs: Invalid value: [\"None\",\"None\"]: 'None' must be the first and only \
             value"
        );
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn only_a_single_stack_gives_up_the_second_family() {
        let mut pool = pool();
        let first = write(&mut pool, None, &json!({"clusterIP": "None"}));
        assert_eq!(first["ipFamilies"], json!(["IPv4", "IPv6"]));
        for policy in ["RequireDualStack", "PreferDualStack"] {
            let change = json!({"ipFamilies": ["IPv4"], "ipFamilyPolicy": policy});
            let why = format!(
                "Service \"svc\" is invalid: spec.ipFamilyPolicy: Invalid value: \"{policy}\": must be 'SingleStack' to release the \
                 secondary IP family"
            );
            assert_eq!(write(&mut pool, Some(&first), &merged(&first, &change)), why);
        }
        let swapped =
            write(&mut pool, Some(&first), &merged(&first, &json!({"ipFamilies": ["IPv6", "IPv4"]})));
        let single =
            write(&mut pool, Some(&swapped), &merged(&swapped, &json!({"ipFamilyPolicy": "SingleStack"})));
        assert_eq!(single["ipFamilies"], json!(["IPv6"]));
    }

    /// Observed with kube-apiserver v1.36.3.
    #[test]
    fn errors_in_the_policy_come_first() {
        let policy = "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple";
        let two = json!({"ipFamilyPolicy": "SingleStack", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"]});
        assert_eq!(
            write(&mut pool(), None, &two),
            format!(
                "Service \"svc\" is invalid: [{policy} cluster IPs are specified, spec.clusterIPs[1]: Invalid value: \
                 [\"10.0.0.1\",\"fd00::1\"]: IPv6 is not configured on this cluster]"
            )
        );
        assert_eq!(
            write(&mut pool(), None, &merged(&two, &json!({"ipFamilies": ["IPv4", "IPv6"]}))),
            format!(
                "Service \"svc\" is invalid: [{policy} cluster IPs are specified, {policy} IP families are specified]"
            )
        );
    }

    #[test]
    fn a_headless_service_has_the_families_of_its_endpoints() {
        let check = |more: &Value, families: &Value, policy: &str| {
            let spec = write(&mut pool(), None, &merged(&json!({"clusterIP": "None"}), more));
            assert_eq!(spec["clusterIPs"], json!(["None"]));
            assert_eq!((&spec["ipFamilies"], &spec["ipFamilyPolicy"]), (families, &json!(policy)), "{more}");
        };
        check(&json!({"selector": {"a": "b"}}), &json!(["IPv4"]), "SingleStack");
        check(&json!({}), &json!(["IPv4", "IPv6"]), "RequireDualStack");
        check(&json!({"ipFamilies": ["IPv6"]}), &json!(["IPv6", "IPv4"]), "RequireDualStack");
        check(&json!({"ipFamilyPolicy": "SingleStack"}), &json!(["IPv4"]), "SingleStack");
    }
}
