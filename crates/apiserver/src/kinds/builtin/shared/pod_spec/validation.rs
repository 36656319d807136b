//! Validation of pod specs in pods and templates. Errors are in kube-apiserver's order.

mod annotation_rules;
mod container_resources;
mod containers;
mod environment;
mod gated_values;
mod handlers;
mod placement;
mod security;
mod volume_mounts;
mod volume_sources;
mod windows_options;

use std::collections::{BTreeMap, BTreeSet};

use kube_apimachinery::go;
use kube_apimachinery::names;
use kube_apimachinery::status::FieldError;
use serde_json::{Value, json};

use super::at;
use crate::kinds::builtin::pod::resources::{self, AmountKind};
use crate::kinds::builtin::shared::amounts::Amounts;
use crate::kinds::builtin::shared::field_checks::{
    address, annotations, duplicate, in_range, invalid_text, labels, not_found, preemption_policy, supported,
    too_long,
};
use crate::kinds::builtin::shared::fields::{list, text};
use crate::kinds::builtin::shared::label_selector::invalid;
pub(in crate::kinds::builtin) use annotation_rules::{is_mirror, pod_annotation_updates};
use annotation_rules::{pod_annotations, profiles_that_differ};
use container_resources::ResourceOwner;
pub(in crate::kinds::builtin) use gated_values::GatedValues;
pub(in crate::kinds::builtin) use placement::{node_selector, tolerations as validate_tolerations};

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const DNS_POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
const MAX_NAME_SERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_LIST: usize = 2048;
const MAX_HOST_NAME: usize = 64;

/// Object that contains the pod spec.
#[derive(Debug, Clone, Copy)]
enum Enclosing<'a> {
    /// A pod, with its metadata.
    Pod(&'a Value),
    Template,
}

/// Parts of a pod spec that the validation of containers needs.
#[derive(Debug)]
struct PodRules<'a> {
    /// The pod or the template.
    pod: &'a Value,
    spec: &'a Value,
    /// Volumes with a valid name, by name.
    volumes: BTreeMap<&'a str, &'a Value>,
    /// Names of resource claims.
    claims: BTreeSet<&'a str>,
}

/// Validates the pod template of an object; `old` is the object before an update. `path` is the path of the spec.
pub(in crate::kinds::builtin) fn validate(
    object: &Value,
    old: Option<&Value>,
    path: &str,
) -> Vec<FieldError> {
    let parent = path.strip_suffix(".spec").unwrap_or_default();
    let Some(template) = at(object, parent) else {
        return Vec::new();
    };
    let mut errors = validate_template_metadata(template, parent);
    let gated = GatedValues::of(old.and_then(|old| at(old, path)));
    errors.extend(validate_spec(template, path, Enclosing::Template, gated));
    errors.extend(profiles_that_differ(template, path));
    if !list(&template["spec"], "ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(format!("{path}.ephemeralContainers"), why));
    }
    errors
}

/// Validates the labels and annotations of the template at `path`.
pub(in crate::kinds::builtin) fn validate_template_metadata(template: &Value, path: &str) -> Vec<FieldError> {
    let metadata = &template["metadata"];
    // kube-apiserver's paths lack `metadata` here.
    let place = format!("{path}.annotations");
    let mut errors = labels(&metadata["labels"], &format!("{path}.labels"));
    errors.extend(annotations(&metadata["annotations"], &place));
    errors.extend(pod_annotations(metadata, &template["spec"], &place));
    errors
}

/// Validates amounts by the rules for limits of containers, for example the overhead of a RuntimeClass.
pub(in crate::kinds::builtin) fn validate_limits(limits: &Value, path: &str) -> Vec<FieldError> {
    let resources = json!({ "limits": limits });
    container_resources::validate(&resources, ResourceOwner::Container, &BTreeSet::new(), path)
}

/// Validates the annotations and the spec of a pod; `old` is the pod before an update.
pub(in crate::kinds::builtin) fn validate_pod(pod: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
    let mut errors = pod_annotations(metadata, spec, "metadata.annotations");
    let gated = GatedValues::of(old.map(|old| &old["spec"]));
    errors.extend(validate_spec(pod, "spec", Enclosing::Pod(metadata), gated));
    // kube-apiserver checks the following in pods, but not in templates. Admission sets the service account of all pods except mirror pods.
    if text(spec, "serviceAccountName").is_empty() {
        for (index, volume) in list(spec, "volumes").iter().enumerate() {
            for (source, projected) in list(&volume["projected"], "sources").iter().enumerate() {
                if !projected["serviceAccountToken"].is_null() {
                    let field =
                        format!("spec.volumes[{index}].projected.sources[{source}].serviceAccountToken");
                    let why = "must not be specified when serviceAccountName is not set";
                    errors.push(FieldError::forbidden(field, why));
                }
            }
        }
    }
    for kind in ["containers", "initContainers"] {
        for (index, container) in list(spec, kind).iter().enumerate() {
            errors.extend(containers::padded_image(container, &format!("spec.{kind}[{index}]")));
        }
    }
    errors
}

/// Validates a new pod, with the rules that updates do not have.
pub(in crate::kinds::builtin) fn validate_new_pod(pod: &Value) -> Vec<FieldError> {
    let mut errors = validate_pod(pod, None);
    let spec = &pod["spec"];
    if !list(spec, "ephemeralContainers").is_empty() {
        // Ephemeral containers are added to running pods, through a subresource.
        errors.push(FieldError::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
    if !text(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden("spec.nodeName", why));
    }
    errors.extend(profiles_that_differ(pod, "spec"));
    errors
}

fn validate_spec(
    object: &Value,
    path: &str,
    enclosing: Enclosing<'_>,
    gated: GatedValues,
) -> Vec<FieldError> {
    let spec = &object["spec"];
    let (volumes, mut errors) = volume_sources::validate(spec, path, enclosing);
    let names = list(spec, "resourceClaims").iter().map(|claim| text(claim, "name"));
    let claims = names.filter(|name| !name.is_empty()).collect();
    let pod = PodRules { pod: object, spec, volumes, claims };
    errors.extend(resource_claims(spec, path));
    errors.extend(containers::regular(&pod, path));
    errors.extend(containers::init(&pod, path));
    errors.extend(containers::ephemeral(&pod, path));
    errors.extend(pod_resources(&pod, path));
    errors.extend(ports_of_host(spec, path, enclosing));
    errors.extend(supported(spec, "restartPolicy", path, &["Always", "OnFailure", "Never"]));
    errors.extend(supported(spec, "dnsPolicy", path, &DNS_POLICIES));
    errors.extend(labels(&spec["nodeSelector"], &format!("{path}.nodeSelector")));
    errors.extend(security::of_pod(spec, path, gated));
    errors.extend(placement::affinity(spec, path));
    errors.extend(name_resolution(spec, &format!("{path}.dnsConfig")));
    errors.extend(gates(spec, path));
    errors.extend(placement::spread(spec, path));
    errors.extend(windows_options::host_processes(spec, path));
    errors.extend(host_users(spec, path));
    errors.extend(host_name(spec, path));
    for field in ["serviceAccountName", "nodeName"] {
        errors.extend(name(spec, field, path, names::subdomain));
    }
    let deadline = spec["activeDeadlineSeconds"].as_i64();
    let field = format!("{path}.activeDeadlineSeconds");
    errors.extend(deadline.and_then(|seconds| in_range(seconds, 1, i64::from(i32::MAX), field)));
    for field in ["hostname", "subdomain"] {
        errors.extend(name(spec, field, path, names::label));
    }
    errors.extend(placement::tolerations(spec, path, gated));
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let path = format!("{path}.hostAliases[{index}]");
        errors.extend(address(text(alias, "ip"), &format!("{path}.ip")));
        for (index, name) in list(alias, "hostnames").iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            errors.extend(invalid(&format!("{path}.hostnames[{index}]"), name, &names::subdomain(name)));
        }
    }
    errors.extend(name(spec, "priorityClassName", path, names::subdomain));
    if let Some(name) = spec["runtimeClassName"].as_str() {
        errors.extend(invalid(&format!("{path}.runtimeClassName"), name, &names::subdomain(name)));
    }
    errors.extend(preemption_policy(spec, &format!("{path}.preemptionPolicy")));
    if !spec["overhead"].is_null() {
        // kube-apiserver validates the overhead like limits of a container.
        let limits = json!({"limits": spec["overhead"]});
        let field = format!("{path}.overhead");
        errors.extend(container_resources::validate(
            &limits,
            ResourceOwner::Container,
            &BTreeSet::new(),
            &field,
        ));
    }
    errors.extend(operating_system(spec, path));
    errors.extend(files_of_variables(spec, path));
    errors
}

/// Validates a name in a field by a rule; the empty name is valid.
fn name(spec: &Value, field: &str, path: &str, rule: fn(&str) -> Vec<String>) -> Vec<FieldError> {
    match text(spec, field) {
        "" => Vec::new(),
        name => invalid(&format!("{path}.{field}"), name, &rule(name)),
    }
}

fn resource_claims(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    for (index, claim) in list(spec, "resourceClaims").iter().enumerate() {
        let path = format!("{path}.resourceClaims[{index}]");
        let (name, field) = (text(claim, "name"), format!("{path}.name"));
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if names.insert(name) {
            errors.extend(invalid(&field, name, &names::label(name)));
        } else {
            errors.push(duplicate(field, name));
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let [own, template] = sources.map(|source| claim[source].as_str());
        let why = match (own, template) {
            (Some(_), Some(_)) => {
                Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
            }
            (None, None) => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            _ => None,
        };
        errors.extend(why.map(|why| {
            // The message shows the JSON of Go's internal struct.
            let shown = format!(
                "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
                claim["name"], claim[sources[0]], claim[sources[1]]
            );
            FieldError::invalid(&*path, &shown, why)
        }));
        for (source, name) in sources.into_iter().zip([own, template]) {
            if let Some(name) = name {
                errors.extend(invalid(&format!("{path}.{source}"), name, &names::subdomain(name)));
            }
        }
    }
    errors
}

/// Validates pod-level resources, alone and in relation to those of the containers.
fn pod_resources(pod: &PodRules<'_>, path: &str) -> Vec<FieldError> {
    let own = &pod.spec["resources"];
    let path = format!("{path}.resources");
    if own.is_null() {
        return Vec::new();
    }
    if pod.spec["os"]["name"] == "windows" {
        return vec![FieldError::forbidden(path, "may not be set for a windows pod")];
    }
    let mut errors = Vec::new();
    if !own["claims"].is_null() {
        let why = "claims may not be set for Resources at pod-level";
        errors.push(FieldError::forbidden(format!("{path}.claims"), why));
    }
    errors.extend(container_resources::validate(own, ResourceOwner::Pod, &pod.claims, &path));
    for bound in [AmountKind::Requests, AmountKind::Limits] {
        let field = bound.field();
        let own = Amounts::read(&own[field]);
        // Of limits, only those of huge pages are compared with their sum: other resources can be overcommitted.
        let is_summed = |name: &str| bound == AmountKind::Requests || name.starts_with("hugepages-");
        for (name, total) in
            resources::of_all_containers(pod.pod, bound).iter().filter(|(name, _)| is_summed(name))
        {
            let amount = own.get(name).filter(|own| total > *own);
            errors.extend(amount.map(|amount| {
                let why = format!("must be greater than or equal to aggregate container {field} of {total}");
                invalid_text(format!("{path}.{field}[{name}]"), &amount.to_string(), &why)
            }));
        }
    }
    let own = Amounts::read(&own["limits"]);
    for (index, container) in list(pod.spec, "containers").iter().enumerate() {
        for (name, limit) in Amounts::read(&container["resources"]["limits"]).iter() {
            let exceeded = own.get(name).filter(|own| limit > *own);
            errors.extend(exceeded.map(|own| {
                let why = format!("must be less than or equal to pod limits of {own}");
                // This is kube-apiserver's path, although the field is in the container's own resources.
                invalid_text(format!("{path}.containers[{index}][{name}].limits"), &limit.to_string(), &why)
            }));
        }
    }
    errors
}

/// Checks that container ports in the host's network equal their host ports. A template may omit host ports, which have defaults in pods.
fn ports_of_host(spec: &Value, path: &str, enclosing: Enclosing<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec["hostNetwork"] != true {
        return errors;
    }
    for (container, value) in list(spec, "containers").iter().enumerate() {
        for (index, port) in list(value, "ports").iter().enumerate() {
            let [own, of_host] =
                ["containerPort", "hostPort"].map(|field| port[field].as_i64().unwrap_or_default());
            let is_checked = of_host != 0 || matches!(enclosing, Enclosing::Pod(_));
            if is_checked && of_host != own {
                let field = format!("{path}.containers[{container}].ports[{index}].hostPort");
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(field, &of_host.to_string(), why));
            }
        }
    }
    errors
}

/// Validates the DNS settings.
fn name_resolution(spec: &Value, path: &str) -> Vec<FieldError> {
    let config = &spec["dnsConfig"];
    let servers = list(config, "nameservers");
    if spec["dnsPolicy"] == "None" {
        if config.is_null() {
            return vec![FieldError::required(path, "must provide `dnsConfig` when `dnsPolicy` is None")];
        }
        if servers.is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return vec![FieldError::required(format!("{path}.nameservers"), why)];
        }
    }
    let mut errors = Vec::new();
    if servers.len() > MAX_NAME_SERVERS {
        let why = format!("must not have more than {MAX_NAME_SERVERS} nameservers");
        errors.push(FieldError::invalid(
            format!("{path}.nameservers"),
            &go::json(&config["nameservers"]),
            &why,
        ));
    }
    for (index, server) in servers.iter().enumerate() {
        let place = format!("{path}.nameservers[{index}]");
        errors.extend(address(server.as_str().unwrap_or_default(), &place));
    }
    let place = format!("{path}.searches");
    let searches: Vec<&str> = list(config, "searches").iter().filter_map(Value::as_str).collect();
    let mut refuse = |why: &str| {
        errors.push(FieldError::invalid(&*place, &go::json(&config["searches"]), why));
    };
    if searches.len() > MAX_SEARCHES {
        refuse(&format!("must not have more than {MAX_SEARCHES} search paths"));
    }
    if searches.join(" ").len() > MAX_SEARCH_LIST {
        refuse(&format!(
            "must not have more than {MAX_SEARCH_LIST} characters (including spaces) in the search list"
        ));
    }
    // The root domain is valid, although it is not a subdomain.
    for (index, search) in searches.iter().enumerate().filter(|(_, search)| **search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        // Names of service records, such as `_sip._tcp`, contain underscores, so search paths may have them.
        errors.extend(invalid(&format!("{place}[{index}]"), search, &names::underscored_subdomain(search)));
    }
    for (index, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.push(FieldError::required(format!("{path}.options[{index}]"), "must not be empty"));
        }
    }
    errors
}

/// Validates readiness gates and scheduling gates.
fn gates(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, gate) in list(spec, "readinessGates").iter().enumerate() {
        let kind = text(gate, "conditionType");
        let field = format!("{path}.readinessGates[{index}].conditionType");
        errors.extend(invalid(&field, kind, &names::qualified(kind)));
    }
    let mut seen = BTreeSet::new();
    for (index, gate) in list(spec, "schedulingGates").iter().enumerate() {
        // kube-apiserver's path lacks the name of the field.
        let (name, field) = (text(gate, "name"), format!("{path}.schedulingGates[{index}]"));
        errors.extend(invalid(&field, name, &names::qualified(name)));
        if !seen.insert(name) {
            errors.push(duplicate(field, name));
        }
    }
    errors
}

/// Checks that a pod with its own user namespace shares no other namespace and no device with the host.
fn host_users(spec: &Value, path: &str) -> Vec<FieldError> {
    const WHY: &str = "when `hostUsers` is false";
    if spec["hostUsers"] != false {
        return Vec::new();
    }
    let mut errors = Vec::new();
    // kube-apiserver spells two of the fields as in Go.
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec[field] == true {
            errors.push(FieldError::forbidden(format!("{path}.{shown}"), WHY));
        }
    }
    for kind in CONTAINERS {
        for (index, container) in list(spec, kind).iter().enumerate() {
            if !list(container, "volumeDevices").is_empty() {
                errors.push(FieldError::forbidden(format!("{path}.{kind}[{index}].volumeDevices"), WHY));
            }
        }
    }
    errors
}

fn host_name(spec: &Value, path: &str) -> Vec<FieldError> {
    let Some(name) = spec["hostnameOverride"].as_str() else { return Vec::new() };
    let field = format!("{path}.hostnameOverride");
    let mut errors = Vec::new();
    for other in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec[other] == true {
            let why = format!("may not be specified when {other} is true");
            errors.push(FieldError::forbidden(&*field, &why));
        }
    }
    if name.len() > MAX_HOST_NAME {
        errors.push(too_long(&*field, MAX_HOST_NAME));
    }
    errors.extend(invalid(&field, name, &names::subdomain(name)));
    errors
}

fn operating_system(spec: &Value, path: &str) -> Vec<FieldError> {
    let system = &spec["os"];
    if system.is_null() {
        return Vec::new();
    }
    match text(system, "name") {
        "" => vec![FieldError::required(format!("{path}.os.name"), "")],
        "linux" => {
            let why = "windows options cannot be set for a linux pod";
            let refuse =
                |path: String| FieldError::forbidden(format!("{path}.securityContext.windowsOptions"), why);
            let has = |value: &Value| !value["securityContext"]["windowsOptions"].is_null();
            let mut errors = Vec::new();
            if has(spec) {
                errors.push(refuse(path.to_owned()));
            }
            for kind in CONTAINERS {
                let containers = list(spec, kind).iter().enumerate().filter(|(_, container)| has(container));
                errors.extend(containers.map(|(index, _)| refuse(format!("{path}.{kind}[{index}]"))));
            }
            errors
        }
        "windows" => windows_options::linux_fields(spec, path),
        // kube-apiserver's path lacks the name of the field.
        other => vec![FieldError::not_supported(format!("{path}.os"), other, &["linux", "windows"])],
    }
}

/// Checks that the files which variables refer to are in `emptyDir` volumes.
fn files_of_variables(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for kind in CONTAINERS {
        for (container, value) in list(spec, kind).iter().enumerate() {
            for (index, variable) in list(value, "env").iter().enumerate() {
                let file = &variable["valueFrom"]["fileKeyRef"];
                if file.is_null() {
                    continue;
                }
                let name = text(file, "volumeName");
                let field =
                    format!("{path}.{kind}[{container}].env[{index}].valueFrom.fileKeyRef.volumeName");
                // kube-apiserver collects the volumes in a map, so the last one with a name counts.
                let volume = list(spec, "volumes").iter().rfind(|volume| text(volume, "name") == name);
                match volume {
                    None => errors.push(not_found(field, name)),
                    Some(volume) if volume["emptyDir"].is_null() => {
                        let why = "referenced volume must be of type emptyDir";
                        errors.push(invalid_text(field, name, why));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests;
