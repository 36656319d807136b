//! Usage of quotas by the objects of one resource.
//!
//! Objects of every namespaced resource count as `count/<plural>.<group>`. Some also use other amounts: pods their requests and limits,
//! Services node ports and load balancers, volume claims storage in total and per class, device claims devices per class.

use jiff::{SignedDuration, Timestamp};
use kube_apimachinery::quantity::Quantity;
use kube_apimachinery::{metadata, names};
use serde_json::Value;

use super::scope::QuotaScope;
use crate::kinds::builtin::pod;
use crate::kinds::builtin::pod::resources::{self as pod_resources, AmountKind};
use crate::kinds::builtin::shared::amounts::Amounts;
use crate::kinds::builtin::shared::resource_names::is_foreign;

/// Namespaced resources that quotas ignore: Events, and resources that are not stored.
const IGNORED: [(&str, &str); 4] = [
    ("", "events"),
    ("events.k8s.io", "events"),
    ("", "bindings"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
];
/// Infix in names of amounts per storage class: `CLASS.storageclass.storage.k8s.io/requests.storage`.
const BY_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
/// Suffix of the number of devices of a class: `CLASS.deviceclass.resource.k8s.io/devices`.
const BY_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// Prefix of extended resources that stand for a device class.
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";
/// Number of devices that a request for all devices counts as: the maximum that one claim can have.
const ALL_DEVICES: i64 = 32;
/// Amounts that every container of a pod must specify if a quota limits them.
const STATED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Operation of a write.
#[derive(Debug, Clone, Copy)]
pub(crate) enum QuotaOperation<'a> {
    Create,
    /// A write to an existing object, with the old state.
    Update(&'a Value),
}

/// Computes the usage of objects of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectCounter {
    kind: CountedKind,
    /// Names under which objects are counted.
    counts: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountedKind {
    Pods,
    Services,
    VolumeClaims,
    DeviceClaims,
    /// Any other kind: only the number of objects counts.
    Others,
}

impl ObjectCounter {
    /// Returns the counter of a resource; `None` if quotas ignore it.
    pub(crate) fn of(group: &str, plural: &str) -> Option<Self> {
        if IGNORED.contains(&(group, plural)) {
            return None;
        }
        let qualified = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        let mut counts = vec![format!("count/{qualified}")];
        let kind = match (group, plural) {
            ("", "pods") => CountedKind::Pods,
            ("", "services") => CountedKind::Services,
            ("", "persistentvolumeclaims") => CountedKind::VolumeClaims,
            ("resource.k8s.io", "resourceclaims") => CountedKind::DeviceClaims,
            _ => CountedKind::Others,
        };
        // Quotas can also limit these kinds by the older name, the plural alone.
        if let ("", "configmaps" | "resourcequotas" | "replicationcontrollers" | "secrets") = (group, plural)
        {
            counts.push(plural.to_owned());
        }
        Some(Self { kind, counts })
    }

    /// Whether a write can change the usage.
    pub(crate) fn handles(&self, operation: QuotaOperation<'_>, subresource: &str, object: &Value) -> bool {
        match (self.kind, subresource, operation) {
            (_, "", QuotaOperation::Create) => true,
            // Resources of pods change only through `/resize`. A plain update can change only whether the scope `Terminating` applies.
            (CountedKind::Pods, "", QuotaOperation::Update(old)) => has_deadline(old) != has_deadline(object),
            (CountedKind::Pods, "resize", QuotaOperation::Update(_)) => true,
            (
                CountedKind::Services | CountedKind::DeviceClaims | CountedKind::VolumeClaims,
                "",
                QuotaOperation::Update(_),
            ) => true,
            // The status reports the storage that an expansion has allocated.
            (CountedKind::VolumeClaims, "status", QuotaOperation::Update(_)) => true,
            _ => false,
        }
    }

    /// Whether objects of this resource can use the named amount.
    pub(crate) fn tracks(&self, name: &str) -> bool {
        if self.counts.iter().any(|count| count == name) {
            return true;
        }
        match self.kind {
            CountedKind::Others => false,
            CountedKind::Pods => {
                let plain =
                    name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
                let is_compute = ["cpu", "memory", "ephemeral-storage"].contains(&plain);
                name == "pods" || is_compute || is_huge(name) || is_extended_request(name)
            }
            CountedKind::Services => {
                ["services", "services.nodeports", "services.loadbalancers"].contains(&name)
            }
            CountedKind::VolumeClaims => {
                let own = name.split_once(BY_STORAGE_CLASS).map_or(name, |(_, own)| own);
                ["persistentvolumeclaims", "requests.storage"].contains(&own)
            }
            CountedKind::DeviceClaims => name.ends_with(BY_DEVICE_CLASS),
        }
    }

    /// Whether an object is within a scope.
    pub(crate) fn is_within(&self, scope: &QuotaScope, object: &Value) -> bool {
        match (self.kind, scope.name.as_str()) {
            (CountedKind::Pods, "Terminating") => has_deadline(object),
            (CountedKind::Pods, "NotTerminating") => !has_deadline(object),
            (CountedKind::Pods, "BestEffort") => is_best_effort(object),
            (CountedKind::Pods, "NotBestEffort") => !is_best_effort(object),
            (CountedKind::Pods, "CrossNamespacePodAffinity") => has_affinity_to_other_namespaces(object),
            (CountedKind::Pods, "PriorityClass") => {
                scope.selects(text(&object["spec"]["priorityClassName"]).as_slice())
            }
            (CountedKind::VolumeClaims, "VolumeAttributesClass") => {
                // While a claim changes its class, the old and the new class count.
                let status = &object["status"];
                let names = [
                    &object["spec"]["volumeAttributesClassName"],
                    &status["currentVolumeAttributesClassName"],
                    &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
                ];
                let names: Vec<&str> = names.into_iter().filter_map(text).collect();
                scope.selects(&names)
            }
            _ => false,
        }
    }

    /// Checks that the containers of a pod specify the amounts that a quota limits. Other resources have nothing to specify.
    ///
    /// # Errors
    /// The missing amounts and the containers that lack them.
    pub(crate) fn check_stated(&self, limited: &[&str], object: &Value) -> Result<(), String> {
        if self.kind != CountedKind::Pods || pod_resources::has_pod_level(object) {
            return Ok(());
        }
        let mut missing = Vec::new();
        let mut required: Vec<&str> = limited.iter().copied().filter(|name| STATED.contains(name)).collect();
        required.sort_unstable();
        for name in required {
            // The short names `cpu` and `memory` stand for requests.
            let (bound, resource) = match name.split_once('.') {
                Some((bound, resource)) => (bound, resource),
                None => ("requests", name),
            };
            let containers = ["containers", "initContainers"].map(|list| elements(&object["spec"][list]));
            let without =
                containers.into_iter().flatten().filter(|one| one["resources"][bound][resource].is_null());
            let mut without: Vec<&str> = without.filter_map(|container| container["name"].as_str()).collect();
            without.sort_unstable();
            without.dedup();
            if !without.is_empty() {
                missing.push(format!("{name} for: {}", without.join(",")));
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(format!("must specify {}", missing.join("; "))) }
    }

    /// Whether [`usage`](Self::usage) depends on the content of objects, so that they must be read to be counted.
    pub(crate) fn reads_objects(&self) -> bool {
        self.kind != CountedKind::Others
    }

    /// Returns the usage of an object.
    pub(crate) fn usage(&self, object: &Value, now: Timestamp) -> Amounts {
        let mut usage = Amounts::default();
        for name in &self.counts {
            usage.set(name, Quantity::whole(1));
        }
        match self.kind {
            CountedKind::Others => {}
            CountedKind::Pods => of_pod(object, now, &mut usage),
            CountedKind::Services => of_service(object, &mut usage),
            CountedKind::VolumeClaims => of_volume_claim(object, &mut usage),
            CountedKind::DeviceClaims => of_device_claim(object, &mut usage),
        }
        usage
    }

    /// Returns the time after which an object no longer uses its amounts. A pod releases them when its deletion becomes overdue.
    pub(crate) fn released_after(&self, object: &Value) -> Option<Timestamp> {
        (self.kind == CountedKind::Pods && !has_ended(object)).then(|| overdue_after(object))?
    }
}

fn has_ended(pod: &Value) -> bool {
    ["Failed", "Succeeded"].contains(&text(&pod["status"]["phase"]).unwrap_or_default())
}

/// Returns the time after which the deletion of a pod is overdue. The deletion timestamp already contains one grace period; kube-apiserver
/// adds a second one.
fn overdue_after(pod: &Value) -> Option<Timestamp> {
    let deadline: Timestamp = metadata::text(pod, "deletionTimestamp").parse().ok()?;
    let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_i64().map(SignedDuration::from_secs)?;
    deadline.checked_add(grace).ok()
}

/// Adds the amounts of a pod that runs or may run. A finished pod uses nothing; neither does a pod whose deletion is overdue, for example
/// because its node is lost.
fn of_pod(pod: &Value, now: Timestamp, usage: &mut Amounts) {
    if has_ended(pod) || overdue_after(pod).is_some_and(|end| now > end) {
        return;
    }
    usage.set("pods", Quantity::whole(1));
    // A quota can limit such requests by two names, for example `cpu` and `requests.cpu`.
    for (name, amount) in pod_resources::in_use(pod, AmountKind::Requests).iter() {
        if ["cpu", "memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-") {
            usage.set(name, amount);
            usage.set(format!("requests.{name}"), amount);
        } else if is_extended(name) {
            usage.set(format!("requests.{name}"), amount);
        }
    }
    for (name, amount) in pod_resources::in_use(pod, AmountKind::Limits).iter() {
        // Limits of huge pages and extended resources equal their requests, which are counted above.
        if ["cpu", "memory", "ephemeral-storage"].contains(&name) {
            usage.set(format!("limits.{name}"), amount);
        }
    }
}

fn of_service(service: &Value, usage: &mut Amounts) {
    let spec = &service["spec"];
    let is_balanced = spec["type"] == "LoadBalancer";
    let ports = elements(&spec["ports"]);
    // Node ports may not be allocated yet, so this counts the ports that will get one.
    let node_ports = match spec["type"].as_str() {
        Some("NodePort") => ports.count(),
        Some("LoadBalancer") if spec["allocateLoadBalancerNodePorts"] == false => {
            ports.filter(|port| port["nodePort"].as_i64().unwrap_or_default() != 0).count()
        }
        Some("LoadBalancer") => ports.count(),
        _ => 0,
    };
    usage.set("services", Quantity::whole(1));
    usage.set("services.loadbalancers", Quantity::whole(i64::from(is_balanced)));
    usage.set("services.nodeports", Quantity::whole(i64::try_from(node_ports).unwrap_or(i64::MAX)));
}

fn of_volume_claim(claim: &Value, usage: &mut Amounts) {
    let class = storage_class(claim);
    let mut add = |name: &str, amount: Quantity| {
        usage.set(name, amount);
        if !class.is_empty() {
            usage.set(format!("{class}{BY_STORAGE_CLASS}{name}"), amount);
        }
    };
    add("persistentvolumeclaims", Quantity::whole(1));
    let amount = |list: &Value| list["storage"].as_str().and_then(Quantity::read);
    if let Some(asked) = amount(&claim["spec"]["resources"]["requests"]) {
        let allocated = amount(&claim["status"]["allocatedResources"]).unwrap_or(Quantity::ZERO);
        // Quotas count whole bytes.
        add("requests.storage", asked.max(allocated).rounded_up());
    }
}

/// Returns the storage class of a claim, or the empty text. The older annotation takes precedence.
pub(crate) fn storage_class(claim: &Value) -> &str {
    let legacy = &claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    legacy.as_str().or_else(|| claim["spec"]["storageClassName"].as_str()).unwrap_or_default()
}

/// Adds the devices of a claim per class. Of a request with alternatives, the maximum of each class counts: any of them may be allocated.
fn of_device_claim(claim: &Value, usage: &mut Amounts) {
    let devices = |request: &Value| {
        // The number of matching devices is unknown before the allocation, so `All` counts as the maximum.
        let count = match request["allocationMode"].as_str() {
            Some("ExactCount") => request["count"].as_i64().unwrap_or_default(),
            Some("All") => ALL_DEVICES,
            _ => 0,
        };
        let mut one = Amounts::default();
        let class = request["deviceClassName"].as_str().unwrap_or_default();
        one.set(format!("{class}{BY_DEVICE_CLASS}"), Quantity::whole(count));
        one
    };
    for request in elements(&claim["spec"]["devices"]["requests"]) {
        let mut most = Amounts::default();
        for alternative in elements(&request["firstAvailable"]) {
            most.raise(&devices(alternative));
        }
        if request["exactly"].is_object() && most.is_empty() {
            most = devices(&request["exactly"]);
        }
        usage.add(&most);
    }
}

/// Whether a deadline ends the pod.
fn has_deadline(pod: &Value) -> bool {
    pod["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0)
}

fn is_best_effort(pod: &Value) -> bool {
    let class = text(&pod["status"]["qosClass"]).unwrap_or_else(|| pod::qos_class(&pod["spec"]));
    class == "BestEffort"
}

/// Whether a term of the pod's affinity or anti-affinity can select pods of other namespaces.
fn has_affinity_to_other_namespaces(pod: &Value) -> bool {
    let kinds = ["podAffinity", "podAntiAffinity"].map(|kind| &pod["spec"]["affinity"][kind]);
    kinds.into_iter().any(|affinity| {
        let required = elements(&affinity["requiredDuringSchedulingIgnoredDuringExecution"]);
        let preferred = elements(&affinity["preferredDuringSchedulingIgnoredDuringExecution"]);
        required.chain(preferred.map(|weighted| &weighted["podAffinityTerm"])).any(|term| {
            elements(&term["namespaces"]).next().is_some() || !term["namespaceSelector"].is_null()
        })
    })
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-") || name.starts_with("requests.hugepages-")
}

/// Whether containers can request the resource as an extended one.
fn is_extended(name: &str) -> bool {
    let is_valid = || names::qualified(&format!("requests.{name}")).is_empty();
    name.starts_with(DEVICE_CLASS) || is_foreign(name) && !name.starts_with("requests.") && is_valid()
}

/// Whether a quota can limit requests of an extended resource by this name.
fn is_extended_request(name: &str) -> bool {
    let requested = name.strip_prefix("requests.");
    requested.is_some_and(|resource| is_foreign(name) || resource.starts_with(DEVICE_CLASS))
}

fn elements(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
