//! Table of the served builtin kinds, with attributes that the data files do not contain.
//!
//! It lists all kinds of kube-apiserver, each with the strategy that holds its rules.

use kube_apimachinery::metadata::{Compared, DerivedName};
use kube_apimachinery::names::NameRule;
use kube_apimachinery::selector::{FieldRefusal, SelectableField};

use super::super::definition::Definition;
use super::super::namespace::Namespace;
use super::admission_policy::{AdmissionPolicy, AdmissionPolicyBinding};
use super::api_service::APIService;
use super::builtin_kind::Plain;
use super::certificate_signing_request::CertificateSigningRequest;
use super::component_status::ComponentStatus;
use super::config_map::ConfigMap;
use super::controller_revision::ControllerRevision;
use super::cron_job::CronJob;
use super::csi_driver::CSIDriver;
use super::csi_node::CSINode;
use super::csi_storage_capacity::CSIStorageCapacity;
use super::daemon_set::DaemonSet;
use super::deployment::Deployment;
use super::endpoint_slice::EndpointSlice;
use super::endpoints::Endpoints;
use super::event::Event;
use super::flow_schema::FlowSchema;
use super::horizontal_pod_autoscaler::HorizontalPodAutoscaler;
use super::ingress::Ingress;
use super::ingress_class::IngressClass;
use super::ip_address::IPAddress;
use super::job::Job;
use super::lease::Lease;
use super::limit_range::LimitRange;
use super::network_policy::NetworkPolicy;
use super::node::Node;
use super::persistent_volume::PersistentVolume;
use super::persistent_volume_claim::PersistentVolumeClaim;
use super::pod::Pod;
use super::pod_disruption_budget::PodDisruptionBudget;
use super::pod_template::PodTemplate;
use super::priority_class::PriorityClass;
use super::priority_level_configuration::PriorityLevelConfiguration;
use super::replica_set::ReplicaSet;
use super::replication_controller::ReplicationController;
use super::resource_claim::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use super::resource_quota::ResourceQuota;
use super::role::Role;
use super::role_binding::RoleBinding;
use super::runtime_class::RuntimeClass;
use super::secret::Secret;
use super::service::Service;
use super::service_account::ServiceAccount;
use super::service_cidr::ServiceCIDR;
use super::stateful_set::StatefulSet;
use super::storage_class::StorageClass;
use super::volume_attachment::VolumeAttachment;
use super::volume_attributes_class::VolumeAttributesClass;
use super::webhook_configuration::WebhookConfiguration;
use crate::kind::Strategy;
use crate::kind::resource::{Generation, PostAction, Rules, SelectorForm};

/// Attributes of a kind that the data files do not contain.
pub(super) struct KindAttributes {
    pub(super) group_version: &'static str,
    pub(super) plural: &'static str,
    pub(super) rules: Rules,
    /// Subresources other than `status` and `scale`.
    pub(super) subresources: &'static [&'static str],
    /// Group under which the objects are stored, if it is not the kind's own group.
    pub(super) storage_group: Option<&'static str>,
    pub(super) selectable: fn() -> Vec<SelectableField>,
    /// Form of the selector in `/scale`.
    pub(super) scale_selector: SelectorForm,
    /// Whether this version differs from the stored version, so that objects are converted.
    pub(super) is_converted: bool,
    /// Rules of the kind.
    pub(super) strategy: &'static dyn Strategy,
}

/// Rules of most kinds. The constants below and the entries of the table name only the differences.
const RULES: Rules = Rules {
    generation: Generation::Never,
    unconditional_update: true,
    create_on_update: false,
    create_on_status_apply: false,
    returns_deleted_object: false,
    name: NameRule::Subdomain,
    any_prefix: false,
    derived_name: None,
    any_finalizer: false,
    revalidated: 1,
    compared: Compared::Always,
    revalidated_in: &[],
    cached: true,
    custom: false,
    field_refusal: FieldRefusal::Plain,
};

/// Kinds with a generation that counts changes of the spec.
const SPEC: Rules = Rules { generation: Generation::Spec, ..RULES };
/// Kinds with updates that need a resource version.
const CONDITIONAL: Rules = Rules { unconditional_update: false, ..RULES };
/// Kinds with deletions that return the deleted object.
const RETURNED: Rules = Rules { returns_deleted_object: true, ..RULES };
/// Kinds with a PUT that creates a missing object.
const PUT: Rules = Rules { create_on_update: true, ..RULES };
/// Kinds with updates that check names only by the general rule, not by that of the kind.
const NAMED_ONCE: Rules = Rules { revalidated: 0, ..RULES };
/// Kinds with a spec and with updates that check names only by the general rule.
const SPEC_NAMED_ONCE: Rules = Rules { revalidated: 0, ..SPEC };
/// Both kinds of Events. kube-apiserver has no watch cache for them.
const EVENT: Rules = Rules { revalidated: 0, cached: false, ..PUT };
/// Kinds with a generation that counts changes outside of metadata and status.
const CONTENTS: Rules = Rules { generation: Generation::OutsideMetadata, ..RULES };
const ROLE: Rules = Rules { name: NameRule::WholePathSegment, ..PUT };
/// Kinds that configure admission.
const ADMISSION: Rules =
    Rules { unconditional_update: false, any_finalizer: true, compared: Compared::Never, ..CONTENTS };

const fn kind(
    group_version: &'static str,
    plural: &'static str,
    rules: Rules,
    strategy: &'static dyn Strategy,
) -> KindAttributes {
    KindAttributes {
        group_version,
        plural,
        rules,
        subresources: &[],
        storage_group: None,
        selectable: Vec::new,
        scale_selector: SelectorForm::Selector,
        is_converted: false,
        strategy,
    }
}

/// All kinds, in no particular order: discovery sorts them.
pub(super) static KINDS: &[KindAttributes] = &[
    kind("v1", "componentstatuses", RULES, &ComponentStatus),
    kind("v1", "configmaps", RULES, &ConfigMap),
    kind("v1", "endpoints", PUT, &Endpoints),
    KindAttributes {
        selectable: || event_fields("involvedObject", "reportingComponent"),
        // kube-apiserver's rules for this version do not validate metadata; only the general rules do.
        ..kind(
            "v1",
            "events",
            Rules { name: NameRule::PathSegment, any_finalizer: true, compared: Compared::Never, ..EVENT },
            &Event,
        )
    },
    kind("v1", "limitranges", Rules { compared: Compared::Never, ..PUT }, &LimitRange),
    KindAttributes {
        subresources: &["finalize"],
        selectable: || vec![field("status.phase")],
        ..kind("v1", "namespaces", Rules { name: NameRule::Label, ..RULES }, &Namespace)
    },
    KindAttributes {
        subresources: &["proxy"],
        selectable: || vec![typed("spec.unschedulable", "false")],
        ..kind("v1", "nodes", RULES, &Node)
    },
    kind("v1", "persistentvolumeclaims", RETURNED, &PersistentVolumeClaim),
    kind(
        "v1",
        "persistentvolumes",
        Rules { revalidated: 2, compared: Compared::InSubresources, ..RETURNED },
        &PersistentVolume,
    ),
    kind("v1", "bindings", RULES, &Plain),
    KindAttributes {
        selectable: pod_fields,
        subresources: &[
            "attach",
            "binding",
            "ephemeralcontainers",
            "eviction",
            "exec",
            "log",
            "portforward",
            "proxy",
            "resize",
        ],
        ..kind(
            "v1",
            "pods",
            Rules {
                returns_deleted_object: true,
                revalidated_in: &["ephemeralcontainers", "resize"],
                ..SPEC
            },
            &Pod,
        )
    },
    kind(
        "v1",
        "podtemplates",
        Rules { returns_deleted_object: true, revalidated: 0, ..CONTENTS },
        &PodTemplate,
    ),
    KindAttributes {
        selectable: || vec![typed("status.replicas", "0")],
        scale_selector: SelectorForm::Labels,
        ..kind(
            "v1",
            "replicationcontrollers",
            Rules { any_prefix: true, ..SPEC_NAMED_ONCE },
            &ReplicationController,
        )
    },
    kind("v1", "resourcequotas", Rules { revalidated: 0, ..RETURNED }, &ResourceQuota),
    KindAttributes { selectable: || vec![field("type")], ..kind("v1", "secrets", RULES, &Secret) },
    KindAttributes { subresources: &["token"], ..kind("v1", "serviceaccounts", RETURNED, &ServiceAccount) },
    KindAttributes {
        subresources: &["proxy"],
        selectable: || vec![field("spec.clusterIP"), field("spec.type")],
        ..kind(
            "v1",
            "services",
            Rules {
                create_on_update: true,
                returns_deleted_object: true,
                name: NameRule::Label,
                ..NAMED_ONCE
            },
            &Service,
        )
    },
    kind(
        "apiregistration.k8s.io/v1",
        "apiservices",
        Rules {
            name: NameRule::WholePathSegment,
            derived_name: Some(DerivedName::ApiService),
            any_finalizer: true,
            ..CONDITIONAL
        },
        &APIService,
    ),
    kind("authentication.k8s.io/v1", "selfsubjectreviews", RULES, &Plain),
    kind("authentication.k8s.io/v1", "tokenreviews", RULES, &Plain),
    kind("authorization.k8s.io/v1", "localsubjectaccessreviews", RULES, &Plain),
    kind("authorization.k8s.io/v1", "selfsubjectaccessreviews", RULES, &Plain),
    kind("authorization.k8s.io/v1", "selfsubjectrulesreviews", RULES, &Plain),
    kind("authorization.k8s.io/v1", "subjectaccessreviews", RULES, &Plain),
    KindAttributes {
        is_converted: true,
        ..kind("autoscaling/v1", "horizontalpodautoscalers", NAMED_ONCE, &HorizontalPodAutoscaler)
    },
    kind("autoscaling/v2", "horizontalpodautoscalers", NAMED_ONCE, &HorizontalPodAutoscaler),
    KindAttributes {
        subresources: &["approval"],
        selectable: || vec![field("spec.signerName")],
        ..kind(
            "certificates.k8s.io/v1",
            "certificatesigningrequests",
            Rules { name: NameRule::Any, ..RULES },
            &CertificateSigningRequest,
        )
    },
    KindAttributes {
        storage_group: Some(""),
        is_converted: true,
        selectable: || event_fields("regarding", "reportingController"),
        // The rules of the kind compare the metadata after other fields.
        ..kind("events.k8s.io/v1", "events", Rules { compared: Compared::Never, ..EVENT }, &Event)
    },
    kind(
        "coordination.k8s.io/v1",
        "leases",
        Rules { unconditional_update: false, any_finalizer: true, revalidated: 0, ..PUT },
        &Lease,
    ),
    kind(
        "apps/v1",
        "deployments",
        Rules { generation: Generation::SpecOrAnnotations, ..NAMED_ONCE },
        &Deployment,
    ),
    kind("apps/v1", "replicasets", SPEC_NAMED_ONCE, &ReplicaSet),
    kind("apps/v1", "statefulsets", Rules { name: NameRule::Label, ..SPEC_NAMED_ONCE }, &StatefulSet),
    kind("apps/v1", "daemonsets", SPEC_NAMED_ONCE, &DaemonSet),
    kind("apps/v1", "controllerrevisions", RULES, &ControllerRevision),
    kind("batch/v1", "cronjobs", Rules { compared: Compared::InObjects, ..SPEC_NAMED_ONCE }, &CronJob),
    KindAttributes {
        selectable: || {
            vec![SelectableField { paths: vec![path("status.succeeded")], ..typed("status.successful", "0") }]
        },
        ..kind("batch/v1", "jobs", Rules { field_refusal: FieldRefusal::OfKind("Job"), ..SPEC }, &Job)
    },
    kind("networking.k8s.io/v1", "ingresses", SPEC, &Ingress),
    kind("networking.k8s.io/v1", "ingressclasses", SPEC, &IngressClass),
    kind("networking.k8s.io/v1", "ipaddresses", Rules { name: NameRule::Address, ..RULES }, &IPAddress),
    kind("networking.k8s.io/v1", "networkpolicies", SPEC_NAMED_ONCE, &NetworkPolicy),
    kind("networking.k8s.io/v1", "servicecidrs", NAMED_ONCE, &ServiceCIDR),
    // kube-apiserver's rules for this kind do not validate metadata; only the general rules do.
    kind(
        "policy/v1",
        "poddisruptionbudgets",
        Rules {
            unconditional_update: false,
            name: NameRule::PathSegment,
            any_finalizer: true,
            revalidated: 0,
            compared: Compared::Never,
            ..SPEC
        },
        &PodDisruptionBudget,
    ),
    kind("rbac.authorization.k8s.io/v1", "clusterrolebindings", ROLE, &RoleBinding),
    kind("rbac.authorization.k8s.io/v1", "clusterroles", ROLE, &Role),
    kind("rbac.authorization.k8s.io/v1", "rolebindings", ROLE, &RoleBinding),
    kind("rbac.authorization.k8s.io/v1", "roles", ROLE, &Role),
    kind(
        "storage.k8s.io/v1",
        "csidrivers",
        Rules { generation: Generation::LateSpec, unconditional_update: false, revalidated: 0, ..RETURNED },
        &CSIDriver,
    ),
    kind(
        "storage.k8s.io/v1",
        "csinodes",
        Rules { unconditional_update: false, compared: Compared::Never, ..RETURNED },
        &CSINode,
    ),
    kind("storage.k8s.io/v1", "csistoragecapacities", CONDITIONAL, &CSIStorageCapacity),
    kind("storage.k8s.io/v1", "storageclasses", RETURNED, &StorageClass),
    kind(
        "storage.k8s.io/v1",
        "volumeattachments",
        Rules {
            unconditional_update: false,
            compared: Compared::Never,
            revalidated_in: &["status"],
            ..RETURNED
        },
        &VolumeAttachment,
    ),
    kind("storage.k8s.io/v1", "volumeattributesclasses", RETURNED, &VolumeAttributesClass),
    kind("admissionregistration.k8s.io/v1", "mutatingadmissionpolicies", ADMISSION, &AdmissionPolicy),
    kind(
        "admissionregistration.k8s.io/v1",
        "mutatingadmissionpolicybindings",
        ADMISSION,
        &AdmissionPolicyBinding,
    ),
    kind(
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicies",
        Rules { create_on_status_apply: true, ..ADMISSION },
        &AdmissionPolicy,
    ),
    kind(
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicybindings",
        ADMISSION,
        &AdmissionPolicyBinding,
    ),
    kind(
        "admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        ADMISSION,
        &WebhookConfiguration::Mutating,
    ),
    kind(
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        ADMISSION,
        &WebhookConfiguration::Validating,
    ),
    kind(
        "scheduling.k8s.io/v1",
        "priorityclasses",
        Rules { generation: Generation::Fixed, ..NAMED_ONCE },
        &PriorityClass,
    ),
    kind(
        "node.k8s.io/v1",
        "runtimeclasses",
        Rules { unconditional_update: false, any_finalizer: true, ..PUT },
        &RuntimeClass,
    ),
    kind(
        "discovery.k8s.io/v1",
        "endpointslices",
        Rules { generation: Generation::LabelsOrContents, compared: Compared::Never, ..RULES },
        &EndpointSlice,
    ),
    kind(
        "resource.k8s.io/v1",
        "deviceclasses",
        Rules { returns_deleted_object: true, any_prefix: true, ..SPEC },
        &DeviceClass,
    ),
    kind("resource.k8s.io/v1", "resourceclaims", RETURNED, &ResourceClaim),
    kind("resource.k8s.io/v1", "resourceclaimtemplates", RETURNED, &ResourceClaimTemplate),
    KindAttributes {
        selectable: || vec![field("spec.driver"), field("spec.nodeName")],
        ..kind(
            "resource.k8s.io/v1",
            "resourceslices",
            Rules {
                returns_deleted_object: true,
                field_refusal: FieldRefusal::OfVersion("resource.k8s.io/v1, Kind=ResourceSlice"),
                ..SPEC
            },
            &ResourceSlice,
        )
    },
    kind(
        "flowcontrol.apiserver.k8s.io/v1",
        "flowschemas",
        Rules { compared: Compared::Never, ..SPEC },
        &FlowSchema,
    ),
    kind(
        "flowcontrol.apiserver.k8s.io/v1",
        "prioritylevelconfigurations",
        Rules { compared: Compared::Never, ..SPEC },
        &PriorityLevelConfiguration,
    ),
    KindAttributes {
        ..kind(
            "apiextensions.k8s.io/v1",
            "customresourcedefinitions",
            Rules {
                unconditional_update: false,
                derived_name: Some(DerivedName::Definition),
                any_finalizer: true,
                revalidated: 0,
                ..SPEC
            },
            &Definition,
        )
    },
];

/// Returns the action of a POST that does not store an object; `subresource` is empty for a POST to the collection.
pub(super) fn action(plural: &str, subresource: &str) -> Option<PostAction> {
    match (plural, subresource) {
        ("bindings", "") | ("pods", "binding") => Some(PostAction::Bind),
        ("pods", "eviction") => Some(PostAction::Evict),
        ("serviceaccounts", "token") => Some(PostAction::IssueToken),
        ("tokenreviews", "") => Some(PostAction::ReviewToken),
        ("selfsubjectreviews", "") => Some(PostAction::ReviewSelf),
        ("subjectaccessreviews" | "localsubjectaccessreviews", "") => Some(PostAction::ReviewAccess),
        ("selfsubjectaccessreviews", "") => Some(PostAction::ReviewOwnAccess),
        ("selfsubjectrulesreviews", "") => Some(PostAction::ReviewRules),
        _ => None,
    }
}

pub(super) fn path(dotted: &str) -> Vec<String> {
    dotted.split('.').map(str::to_owned).collect()
}

fn field(label: &str) -> SelectableField {
    typed(label, "")
}

/// Returns a selectable field whose value is `absent` in objects that lack it.
fn typed(label: &str, absent: &'static str) -> SelectableField {
    SelectableField { label: label.to_owned(), paths: vec![path(label)], absent }
}

fn pod_fields() -> Vec<SelectableField> {
    let texts = [
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ];
    let mut fields: Vec<SelectableField> = texts.into_iter().map(field).collect();
    fields.push(typed("spec.hostNetwork", "false"));
    // `spec.host` is the name that `spec.nodeName` had before v1.
    fields.push(SelectableField { paths: vec![path("spec.nodeName")], ..field("spec.host") });
    fields.push(SelectableField { paths: vec![path("status.podIP")], ..field("status.podIPs") });
    fields
}

/// Returns the selectable fields of Events. Their names differ between the two versions.
fn event_fields(regarding: &str, reporter: &str) -> Vec<SelectableField> {
    let mut fields: Vec<SelectableField> =
        ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"]
            .iter()
            .map(|name| field(&format!("{regarding}.{name}")))
            .collect();
    fields.extend([field("reason"), field("type"), field(reporter)]);
    // Only `v1` has the label `source`. Its value is the reporter if the source has no component.
    if regarding == "involvedObject" {
        let paths = vec![path("source.component"), path(reporter)];
        fields.push(SelectableField { paths, ..field("source") });
    }
    fields
}
