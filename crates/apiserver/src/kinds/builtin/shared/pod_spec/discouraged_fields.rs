//! Warnings about deprecated, useless or contradictory values in the spec of a pod or a pod template.

use std::collections::BTreeMap;

use kube_apimachinery::go::quote;
use serde_json::Value;

use super::at;
use super::virtual_paths;
use crate::kinds::builtin::shared::discouraged::{
    TermUse, address, fractions, node_label, node_selector_term,
};
use crate::kinds::builtin::shared::fields::{list, text};

/// Annotations without effect, with the text of the warning.
const ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];
/// Deprecated or removed volume sources, with the text of the warning.
const VOLUMES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];
const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
/// Resources that are measured in bytes.
const BYTES: [&str; 2] = ["memory", "ephemeral-storage"];
const NO_POD: &str = "a null labelSelector results in matching no pod";

/// Returns the warnings about the pod spec at `path`, in kube-apiserver's order.
pub(in crate::kinds::builtin) fn warnings(object: &Value, path: &str) -> Vec<String> {
    let Some(spec) = at(object, path) else {
        return Vec::new();
    };
    let parent = path.strip_suffix("spec").unwrap_or_default();
    // For a pod, whose spec has the path `spec`, the parent is empty: the pod takes the place of a template.
    let template = at(object, parent.trim_end_matches('.')).unwrap_or(object);
    let annotations = &template["metadata"]["annotations"];
    let mut warnings = scheduling(spec, path);
    for (name, why) in ANNOTATIONS.iter().filter(|(name, _)| annotations.get(name).is_some()) {
        warnings.push(format!("{parent}metadata.annotations[{name}]: {why}"));
    }
    warnings.extend(volumes(spec, path));
    warnings.extend(virtual_paths::overlaps(spec));
    warnings.extend(repeated(spec, "hostAliases", "ip", path));
    warnings.extend(repeated(spec, "imagePullSecrets", "name", path));
    for (index, secret) in list(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            warnings.push(format!("{path}.imagePullSecrets[{index}].name: invalid empty name \"\""));
        }
    }
    warnings.extend(fractions(&spec["overhead"], &BYTES, &format!("{path}.overhead")));
    let seccomp = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
    if spec["securityContext"]["seccompProfile"].is_null() && annotations.get(SECCOMP).is_some() {
        warnings.push(format!("{parent}metadata.annotations[{SECCOMP}]: {seccomp}"));
    }
    for (container, path) in containers(spec, path) {
        let name = text(container, "name");
        let annotation = format!("{SECCOMP_OF_CONTAINER}{name}");
        if container["securityContext"]["seccompProfile"].is_null() && annotations.get(&annotation).is_some()
        {
            warnings.push(format!("{parent}metadata.annotations[{annotation}]: {seccomp}"));
        }
        let annotation = format!("{APP_ARMOR}{name}");
        let profile = &annotations[&annotation];
        // This warning is for templates only: in a pod, kube-apiserver copies the annotation to the field, and warns there.
        if !parent.is_empty()
            && profile.is_string()
            && container["securityContext"]["appArmorProfile"].is_null()
            && !is_app_armor_profile(
                &spec["securityContext"]["appArmorProfile"],
                profile.as_str().unwrap_or_default(),
            )
        {
            let why = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
            warnings.push(format!("{parent}metadata.annotations[{annotation}]: {why}"));
        }
        for resource in BYTES {
            for kind in ["limits", "requests"] {
                let path = format!("{path}.resources.{kind}");
                warnings.extend(fractions(&container["resources"][kind], &[resource], &path));
            }
        }
        warnings.extend(hidden_variables(container, &path));
    }
    warnings.extend(ports(spec, path));
    warnings.extend(port_names(spec, path));
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{path}.terminationGracePeriodSeconds: {why}"));
    }
    warnings.extend(affinities(spec, path));
    for (index, server) in list(&spec["dnsConfig"], "nameservers").iter().enumerate() {
        let path = format!("{path}.dnsConfig.nameservers[{index}]");
        warnings.extend(address(server.as_str().unwrap_or_default(), &path));
    }
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        warnings.extend(address(text(alias, "ip"), &format!("{path}.hostAliases[{index}].ip")));
    }
    warnings
}

/// Returns all containers with their paths.
fn containers<'a>(spec: &'a Value, path: &str) -> Vec<(&'a Value, String)> {
    let kinds = ["initContainers", "containers", "ephemeralContainers"];
    let of = |kind| {
        let containers = list(spec, kind).iter().enumerate();
        containers.map(move |(index, container)| (container, format!("{path}.{kind}[{index}]")))
    };
    kinds.into_iter().flat_map(of).collect()
}

/// Returns warnings about deprecated node labels, and about spread constraints without a selector.
fn scheduling(spec: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, _) in spec["nodeSelector"].as_object().into_iter().flatten() {
        warnings.extend(node_label(key).map(|why| format!("{path}.nodeSelector[{key}]: {why}")));
    }
    let affinity = &spec["affinity"]["nodeAffinity"];
    let path_of = |field: &str| format!("{path}.affinity.nodeAffinity.{field}");
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in list(&affinity[required], "nodeSelectorTerms").iter().enumerate() {
        let path = format!("{}.nodeSelectorTerms[{index}]", path_of(required));
        warnings.extend(node_selector_term(term, TermUse::Required, &path));
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in list(affinity, preferred).iter().enumerate() {
        let path = format!("{}[{index}].preference", path_of(preferred));
        warnings.extend(node_selector_term(&term["preference"], TermUse::Preferred, &path));
    }
    for (index, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let path = format!("{path}.topologySpreadConstraints[{index}]");
        let key = text(constraint, "topologyKey");
        warnings.extend(node_label(key).map(|why| format!("{path}.topologyKey: {key} is {why}")));
        if constraint["labelSelector"].is_null() {
            warnings.push(format!("{path}.labelSelector: {NO_POD}"));
        }
    }
    warnings
}

fn volumes(spec: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let path = format!("{path}.volumes[{index}]");
        for (source, why) in VOLUMES {
            if source == "cephfs" {
                // kube-apiserver checks the claim template between the other sources.
                let claim = &volume["ephemeral"]["volumeClaimTemplate"]["spec"];
                warnings
                    .extend(claim_fractions(claim, &format!("{path}.ephemeral.volumeClaimTemplate.spec")));
            }
            if !volume[source].is_null() {
                // kube-apiserver's path spells this source as Go's field does.
                let source = if source == "storageos" { "storageOS" } else { source };
                warnings.push(format!("{path}.{source}: {why}"));
            }
        }
    }
    warnings
}

/// Returns warnings about storage amounts with fractions of bytes in the spec of a claim at `path`.
pub(in crate::kinds::builtin) fn claim_fractions(spec: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for kind in ["requests", "limits"] {
        let path = format!("{path}.resources.{kind}");
        warnings.extend(fractions(&spec["resources"][kind], &["storage"], &path));
    }
    warnings
}

/// Returns warnings about elements of a list whose field repeats an earlier value.
fn repeated(spec: &Value, field: &str, key: &str, path: &str) -> Vec<String> {
    let elements = list(spec, field);
    let mut warnings = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        let value = text(element, key);
        if elements[..index].iter().any(|earlier| text(earlier, key) == value) {
            warnings.push(format!("{path}.{field}[{index}].{key}: duplicate {key} {}", quote(value)));
        }
    }
    warnings
}

/// Whether a profile and an AppArmor annotation have the same meaning.
fn is_app_armor_profile(profile: &Value, annotation: &str) -> bool {
    let (kind, name) = match annotation {
        "unconfined" => ("Unconfined", ""),
        "runtime/default" => ("RuntimeDefault", ""),
        local => match local.strip_prefix("localhost/") {
            Some(name) if !name.is_empty() => ("Localhost", name),
            _ => return false,
        },
    };
    text(profile, "type") == kind && text(profile, "localhostProfile") == name
}

/// Returns warnings about environment variables that replace an earlier one of the same name without extending its value.
fn hidden_variables(container: &Value, path: &str) -> Vec<String> {
    let variables = list(container, "env");
    let mut warnings = Vec::new();
    for (index, variable) in variables.iter().enumerate() {
        let (name, value) = (text(variable, "name"), text(variable, "value"));
        let earlier = format!("$({name})");
        // A variable such as `PATH=$(PATH):/x` extends the earlier one. A plain reference to the earlier one adds nothing.
        let is_hidden = !variable["valueFrom"].is_null() || value == earlier || !value.contains(&earlier);
        if is_hidden && variables[..index].iter().any(|earlier| text(earlier, "name") == name) {
            let why = "which may be dropped when using apply";
            warnings
                .push(format!("{path}.env[{index}]: hides previous definition of {}, {why}", quote(name)));
        }
    }
    warnings
}

/// Returns warnings about container ports that may conflict, also between containers.
fn ports(spec: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut known: BTreeMap<(i64, &str), Vec<(&Value, String)>> = BTreeMap::new();
    let number = |port: &Value, field: &str| port[field].as_i64().unwrap_or_default();
    for (container, path) in containers(spec, path) {
        for (index, port) in list(container, "ports").iter().enumerate() {
            let path = format!("{path}.ports[{index}]");
            let (host, address) = (number(port, "hostPort"), text(port, "hostIP"));
            let (inner, protocol) = (number(port, "containerPort"), text(port, "protocol"));
            if !address.is_empty() && host == 0 {
                warnings.push(format!(
                    "{path}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{inner} Protocol:{protocol} \
                     HostIP:{address}}}",
                    text(port, "name")
                ));
            }
            // Only ports with the same number and protocol in the container are compared.
            let others = known.entry((inner, protocol)).or_default();
            for (other, place) in others.iter() {
                let (other_host, other_address) = (number(other, "hostPort"), text(other, "hostIP"));
                let problem = if (host, address) == (other_host, other_address) {
                    "duplicate"
                } else if host == 0 || other_host == 0 {
                    "overlapping"
                } else if host == other_host && address.is_empty() != other_address.is_empty() {
                    // With equal host ports, behavior is undefined if only one of them names an address.
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                warnings.push(format!("{path}: {problem} port definition with {place}"));
            }
            others.push((port, path));
        }
    }
    warnings
}

/// Returns warnings about ports with the same name. Services and probes use the first one.
fn port_names(spec: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    for (container, path) in containers(spec, path) {
        for (index, port) in list(container, "ports").iter().enumerate() {
            let (name, path) = (text(port, "name"), format!("{path}.ports[{index}]"));
            if name.is_empty() {
                continue;
            }
            match known.get(name) {
                Some(other) => warnings.push(format!(
                    "{path}: duplicate port name {} with {other}, services and probes that select ports by name will use \
                     {other}",
                    quote(name)
                )),
                None => {
                    known.insert(name, path);
                }
            }
        }
    }
    warnings
}

/// Returns warnings about terms of pod affinity without a selector.
fn affinities(spec: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (field, part) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
            ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm."),
        ] {
            for (index, term) in list(&spec["affinity"][kind], field).iter().enumerate() {
                let inner = if part.is_empty() { term } else { &term["podAffinityTerm"] };
                if inner["labelSelector"].is_null() {
                    warnings.push(format!(
                        "{path}.affinity.{kind}.{field}[{index}].{part}labelSelector: {NO_POD}"
                    ));
                }
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Checks the warnings about a pod with this spec.
    fn check(spec: &Value, expected: &[&str]) {
        assert_eq!(warnings(&json!({"metadata": {}, "spec": spec}), "spec"), expected, "{spec}");
    }

    #[test]
    fn variables_that_use_the_earlier_value_hide_nothing() {
        let env = |value: &str| json!({"containers": [{"env": [{"name": "A", "value": "1"}, {"name": "A", "value": value}]}]});
        let hides = "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply";
        check(&env("$(A)2"), &[]);
        check(&env("2"), &[hides]);
        check(&env("$(A)"), &[hides]);
    }

    #[test]
    fn conflicting_ports_are_named() {
        let port = |host: i64, address: &str| json!({"containerPort": 80, "protocol": "TCP", "hostPort": host, "hostIP": address});
        let check_ports = |first: Value, second: Value, expected: &[&str]| {
            check(
                &json!({"initContainers": [{"ports": [first]}], "containers": [{"ports": [second]}]}),
                expected,
            );
        };
        let with = |problem: &str| {
            format!(
                "spec.containers[0].ports[0]: {problem} port definition with spec.initContainers[0].ports[0]"
            )
        };
        check_ports(port(0, ""), port(0, ""), &[&with("duplicate")]);
        check_ports(port(0, ""), port(1, ""), &[&with("overlapping")]);
        check_ports(port(1, ""), port(1, "10.0.0.1"), &[&with("dangerously ambiguous")]);
        check_ports(port(1, ""), port(2, ""), &[]);
        let alone = "spec.containers[0].ports[0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 \
                     Protocol:TCP HostIP:10.0.0.1}";
        check(&json!({"containers": [{"ports": [port(0, "10.0.0.1")]}]}), &[alone]);
        let named = json!({"containerPort": 1, "name": "a"});
        let other = json!({"containerPort": 2, "name": "a"});
        check(
            &json!({"containers": [{"ports": [named, other]}]}),
            &[
                "spec.containers[0].ports[1]: duplicate port name \"a\" with spec.containers[0].ports[0], services and probes \
               that select ports by name will use spec.containers[0].ports[0]",
            ],
        );
    }

    #[test]
    fn annotations_of_templates_have_their_path() {
        let template = json!({
            "metadata": {"annotations": {
                "scheduler.alpha.kubernetes.io/critical-pod": "", "container.apparmor.security.beta.kubernetes.io/a": "unconfined",
            }},
            "spec": {"containers": [{"name": "a"}]},
        });
        let app_armor = "spec.template.metadata.annotations[container.apparmor.security.beta.kubernetes.io/a]: deprecated since \
                         v1.30; use the \"appArmorProfile\" field instead";
        let critical = "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the \
                        \"priorityClassName\" field instead";
        let mut object = json!({"spec": {"template": template}});
        let in_template = format!("spec.template.{critical}");
        assert_eq!(warnings(&object, "spec.template.spec"), [in_template.as_str(), app_armor]);
        assert_eq!(warnings(&template, "spec"), [critical]);
        object["spec"]["template"]["spec"]["securityContext"] =
            json!({"appArmorProfile": {"type": "Unconfined"}});
        assert_eq!(warnings(&object, "spec.template.spec"), [in_template]);
    }

    #[test]
    fn the_other_values_have_warnings_of_their_own() {
        check(
            &json!({
                "nodeSelector": {"node-role.kubernetes.io/master": ""}, "volumes": [{"rbd": {}}, {"storageos": {}}],
                "imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}], "overhead": {"memory": "100m"},
                "terminationGracePeriodSeconds": -1, "dnsConfig": {"nameservers": ["010.0.0.1"]},
                "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]}},
                "topologySpreadConstraints": [{"topologyKey": "beta.kubernetes.io/os", "labelSelector": {}}],
            }),
            &[
                "spec.nodeSelector[node-role.kubernetes.io/master]: use \"node-role.kubernetes.io/control-plane\" instead",
                "spec.topologySpreadConstraints[0].topologyKey: beta.kubernetes.io/os is deprecated since v1.14; use \
                 \"kubernetes.io/os\" instead",
                "spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+",
                "spec.volumes[1].storageOS: deprecated in v1.22, non-functional in v1.25+",
                "spec.imagePullSecrets[1].name: duplicate name \"a\"",
                "spec.imagePullSecrets[2].name: invalid empty name \"\"",
                "spec.overhead[memory]: fractional byte value \"100m\" is invalid, must be an integer",
                "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null \
                 labelSelector results in matching no pod",
                "spec.dnsConfig.nameservers[0]: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\"",
            ],
        );
    }
}
