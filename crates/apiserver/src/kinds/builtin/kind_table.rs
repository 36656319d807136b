//! Table of the served builtin kinds, with attributes that the data files do not contain.
//!
//! It lists all kinds of kube-apiserver. Behaviour beyond the schema is in `defaults`, `prepare` and `validate`.

use kube_apimachinery::names::NameRule;
use kube_apimachinery::selector::SelectableField;

use super::super::definition::Definition;
use super::super::namespace::Namespace;
use super::strategy::{CertificateSigningRequest, PLAIN};
use crate::kind::Strategy;
use crate::kind::resource::{Conversion, Generation, PostAction, Rules};

/// Attributes of a kind that the data files do not contain.
pub(super) struct Kind {
    pub(super) group_version: &'static str,
    pub(super) plural: &'static str,
    pub(super) rules: Rules,
    /// Subresources besides `status` and `scale`.
    pub(super) subresources: &'static [&'static str],
    /// Group of the table with the objects, if it is not the kind's own.
    pub(super) storage_group: Option<&'static str>,
    pub(super) selectable: fn() -> Vec<SelectableField>,
    pub(super) conversion: Option<Conversion>,
    /// Rules of the kind.
    pub(super) strategy: &'static dyn Strategy,
}

const RULES: Rules = Rules {
    generation: Generation::Never,
    unconditional_update: true,
    create_on_update: false,
    returns_deleted_object: false,
    name: NameRule::Subdomain,
    any_finalizer: false,
    custom: false,
};

/// Kinds with a spec that controllers reconcile.
const SPEC: Rules = Rules { generation: Generation::Spec, ..RULES };
/// Kinds with updates that require a resource version.
const CONDITIONAL: Rules = Rules { unconditional_update: false, ..RULES };
/// Kinds with deletions that return the deleted object.
const RETURNED: Rules = Rules { returns_deleted_object: true, ..RULES };
/// Kinds with updates that create missing objects.
const PUT: Rules = Rules { create_on_update: true, ..RULES };
/// Kinds with a generation that counts changes outside metadata and status.
const CONTENTS: Rules = Rules { generation: Generation::OutsideMetadata, ..RULES };
const ROLE: Rules = Rules { name: NameRule::PathSegment, ..PUT };
/// Configuration of admission.
const ADMISSION: Rules = Rules { unconditional_update: false, any_finalizer: true, ..CONTENTS };

const fn kind(group_version: &'static str, plural: &'static str, rules: Rules) -> Kind {
    Kind {
        group_version,
        plural,
        rules,
        subresources: &[],
        storage_group: None,
        selectable: Vec::new,
        conversion: None,
        strategy: &PLAIN,
    }
}

/// All kinds, in no particular order: discovery sorts them.
pub(super) static KINDS: &[Kind] = &[
    kind("v1", "componentstatuses", RULES),
    kind("v1", "configmaps", RULES),
    kind("v1", "endpoints", PUT),
    Kind { selectable: || event_fields("involvedObject", "reportingComponent"), ..kind("v1", "events", PUT) },
    kind("v1", "limitranges", PUT),
    Kind {
        subresources: &["finalize"],
        selectable: || vec![field("status.phase")],
        strategy: &Namespace,
        ..kind("v1", "namespaces", Rules { name: NameRule::Label, ..RULES })
    },
    Kind {
        subresources: &["proxy"],
        selectable: || vec![typed("spec.unschedulable", "false")],
        ..kind("v1", "nodes", RULES)
    },
    kind("v1", "persistentvolumeclaims", RETURNED),
    kind("v1", "persistentvolumes", RETURNED),
    kind("v1", "bindings", RULES),
    Kind {
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
        ..kind("v1", "pods", Rules { returns_deleted_object: true, ..SPEC })
    },
    kind("v1", "podtemplates", Rules { returns_deleted_object: true, ..CONTENTS }),
    Kind { selectable: || vec![typed("status.replicas", "0")], ..kind("v1", "replicationcontrollers", SPEC) },
    kind("v1", "resourcequotas", RETURNED),
    Kind { selectable: || vec![field("type")], ..kind("v1", "secrets", RULES) },
    Kind { subresources: &["token"], ..kind("v1", "serviceaccounts", RETURNED) },
    Kind {
        subresources: &["proxy"],
        selectable: || vec![field("spec.clusterIP"), field("spec.type")],
        ..kind(
            "v1",
            "services",
            Rules {
                create_on_update: true,
                returns_deleted_object: true,
                name: NameRule::Label1035,
                ..RULES
            },
        )
    },
    kind("apiregistration.k8s.io/v1", "apiservices", Rules { any_finalizer: true, ..CONDITIONAL }),
    kind("authentication.k8s.io/v1", "selfsubjectreviews", RULES),
    kind("authentication.k8s.io/v1", "tokenreviews", RULES),
    kind("authorization.k8s.io/v1", "localsubjectaccessreviews", RULES),
    kind("authorization.k8s.io/v1", "selfsubjectaccessreviews", RULES),
    kind("authorization.k8s.io/v1", "selfsubjectrulesreviews", RULES),
    kind("authorization.k8s.io/v1", "subjectaccessreviews", RULES),
    Kind {
        conversion: Some(Conversion::Autoscaler),
        ..kind("autoscaling/v1", "horizontalpodautoscalers", RULES)
    },
    kind("autoscaling/v2", "horizontalpodautoscalers", RULES),
    Kind {
        subresources: &["approval"],
        selectable: || vec![field("spec.signerName")],
        strategy: &CertificateSigningRequest,
        ..kind("certificates.k8s.io/v1", "certificatesigningrequests", RULES)
    },
    Kind {
        storage_group: Some(""),
        conversion: Some(Conversion::Event),
        selectable: || event_fields("regarding", "reportingController"),
        ..kind("events.k8s.io/v1", "events", PUT)
    },
    kind("coordination.k8s.io/v1", "leases", Rules { unconditional_update: false, ..PUT }),
    kind("apps/v1", "deployments", Rules { generation: Generation::SpecOrAnnotations, ..RULES }),
    kind("apps/v1", "replicasets", SPEC),
    kind("apps/v1", "statefulsets", SPEC),
    kind("apps/v1", "daemonsets", SPEC),
    kind("apps/v1", "controllerrevisions", RULES),
    kind("batch/v1", "cronjobs", SPEC),
    Kind {
        selectable: || {
            vec![SelectableField { paths: vec![path("status.succeeded")], ..typed("status.successful", "0") }]
        },
        ..kind("batch/v1", "jobs", SPEC)
    },
    kind("networking.k8s.io/v1", "ingresses", SPEC),
    kind("networking.k8s.io/v1", "ingressclasses", SPEC),
    kind("networking.k8s.io/v1", "ipaddresses", Rules { name: NameRule::PathSegment, ..RULES }),
    kind("networking.k8s.io/v1", "networkpolicies", SPEC),
    kind("networking.k8s.io/v1", "servicecidrs", RULES),
    kind("policy/v1", "poddisruptionbudgets", Rules { unconditional_update: false, ..SPEC }),
    kind("rbac.authorization.k8s.io/v1", "clusterrolebindings", ROLE),
    kind("rbac.authorization.k8s.io/v1", "clusterroles", ROLE),
    kind("rbac.authorization.k8s.io/v1", "rolebindings", ROLE),
    kind("rbac.authorization.k8s.io/v1", "roles", ROLE),
    kind(
        "storage.k8s.io/v1",
        "csidrivers",
        Rules { generation: Generation::LateSpec, unconditional_update: false, ..RETURNED },
    ),
    kind("storage.k8s.io/v1", "csinodes", Rules { unconditional_update: false, ..RETURNED }),
    kind("storage.k8s.io/v1", "csistoragecapacities", CONDITIONAL),
    kind("storage.k8s.io/v1", "storageclasses", RETURNED),
    kind("storage.k8s.io/v1", "volumeattachments", Rules { unconditional_update: false, ..RETURNED }),
    kind("storage.k8s.io/v1", "volumeattributesclasses", RETURNED),
    kind("admissionregistration.k8s.io/v1", "mutatingadmissionpolicies", ADMISSION),
    kind("admissionregistration.k8s.io/v1", "mutatingadmissionpolicybindings", ADMISSION),
    kind("admissionregistration.k8s.io/v1", "validatingadmissionpolicies", ADMISSION),
    kind("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings", ADMISSION),
    kind("admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", ADMISSION),
    kind("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", ADMISSION),
    kind("scheduling.k8s.io/v1", "priorityclasses", Rules { generation: Generation::Fixed, ..RULES }),
    kind("node.k8s.io/v1", "runtimeclasses", Rules { unconditional_update: false, ..PUT }),
    kind("discovery.k8s.io/v1", "endpointslices", CONTENTS),
    kind("resource.k8s.io/v1", "deviceclasses", Rules { returns_deleted_object: true, ..SPEC }),
    kind("resource.k8s.io/v1", "resourceclaims", RETURNED),
    kind("resource.k8s.io/v1", "resourceclaimtemplates", RETURNED),
    Kind {
        selectable: || vec![field("spec.driver"), field("spec.nodeName")],
        ..kind("resource.k8s.io/v1", "resourceslices", Rules { returns_deleted_object: true, ..SPEC })
    },
    kind("flowcontrol.apiserver.k8s.io/v1", "flowschemas", Rules { unconditional_update: false, ..SPEC }),
    kind(
        "flowcontrol.apiserver.k8s.io/v1",
        "prioritylevelconfigurations",
        Rules { unconditional_update: false, ..SPEC },
    ),
    Kind {
        strategy: &Definition,
        ..kind(
            "apiextensions.k8s.io/v1",
            "customresourcedefinitions",
            Rules { unconditional_update: false, any_finalizer: true, ..SPEC },
        )
    },
];

/// Returns the action of a POST to a collection or to a subresource of its objects, if it does not store an object.
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

/// Returns a selectable field with the value `absent` where it is missing.
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
    // Name of `spec.nodeName` before v1.
    fields.push(SelectableField { paths: vec![path("spec.nodeName")], ..field("spec.host") });
    fields.push(SelectableField { paths: vec![path("status.podIP")], ..field("status.podIPs") });
    fields
}

/// Returns the selectable fields of Events, which have different names in the two versions.
fn event_fields(regarding: &str, reporter: &str) -> Vec<SelectableField> {
    let mut fields: Vec<SelectableField> =
        ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"]
            .iter()
            .map(|name| field(&format!("{regarding}.{name}")))
            .collect();
    fields.extend([field("reason"), field("type"), field(reporter)]);
    if regarding == "involvedObject" {
        let paths = vec![path("source.component"), path(reporter)];
        fields.push(SelectableField { paths, ..field("source") });
    }
    fields
}
