//! Strategies of builtin kinds.

use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::Value;

use super::{certificate_request, certificates, priority_class, quota, service_addresses};
use crate::kind::registry::ServedKind;
use crate::kind::{Allocator, Strategy, WriteContext};

/// Strategy of builtin kinds without one of their own.
pub(crate) static PLAIN: Plain = Plain;

/// Rules that depend on the fields of a kind, and are found by its name.
#[derive(Debug)]
pub(crate) struct Plain;

impl Strategy for Plain {
    fn default(&self, served: &ServedKind, object: &mut Value) {
        super::conform(&served.resource, object);
    }

    fn convert_to_storage(&self, served: &ServedKind, object: &mut Value) {
        super::to_storage(&served.resource, object);
    }

    fn convert_from_storage(&self, served: &ServedKind, object: &mut Value) {
        super::from_storage(&served.resource, object);
    }

    fn allocates(&self, served: &ServedKind) -> bool {
        served.resource.group.is_empty() && served.resource.kind == "Service"
    }

    fn allocate(
        &self,
        allocator: &mut dyn Allocator,
        old: Option<&Value>,
        service: &mut Value,
    ) -> Result<(), ApiError> {
        service_addresses::allocate(allocator, old, service)
    }

    fn prepare_create(&self, served: &ServedKind, _context: &WriteContext<'_>, object: &mut Value) {
        super::prepare_create(&served.resource, object);
    }

    fn prepare_storage(&self, served: &ServedKind, object: &mut Value) {
        super::forget_empty(&served.resource, object);
    }

    fn prepare_update(
        &self,
        served: &ServedKind,
        _context: &WriteContext<'_>,
        old: &Value,
        new: &mut Value,
        subresource: &str,
    ) {
        super::prepare_update(&served.resource, subresource, old, new);
    }

    fn validate_create(&self, served: &ServedKind, object: &Value) -> Vec<FieldError> {
        super::validate_create(&served.resource, object)
    }

    fn validate_update(
        &self,
        served: &ServedKind,
        old: &Value,
        new: &Value,
        subresource: &str,
    ) -> Vec<FieldError> {
        super::validate_update(&served.resource, subresource, old, new)
    }

    fn warnings(
        &self,
        served: &ServedKind,
        object: &Value,
        old: Option<&Value>,
        _subresource: &str,
    ) -> Vec<String> {
        let ineffective = old.is_none().then(|| super::ineffective(&served.resource)).flatten();
        let is_new_quota =
            old.is_none() && served.resource.group.is_empty() && served.resource.kind == "ResourceQuota";
        let of_quota = if is_new_quota { quota::warnings(object) } else { Vec::new() };
        super::warnings(&served.resource, object).into_iter().chain(of_quota).chain(ineffective).collect()
    }

    fn deprecation(&self, served: &ServedKind) -> Option<&'static str> {
        super::deprecation(&served.resource)
    }

    fn status_keeps(&self, served: &ServedKind) -> Option<&'static str> {
        match (served.resource.group.as_str(), served.resource.kind.as_str()) {
            ("apps", "Deployment") => Some("labels"),
            ("", "Pod") => Some("ownerReferences"),
            _ => None,
        }
    }

    fn grace_period(&self, served: &ServedKind, object: &Value, asked: Option<i64>) -> Option<i64> {
        super::grace_period(&served.resource, object, asked)
    }

    fn admit_delete_by_name(&self, served: &ServedKind, name: &str) -> Result<(), ApiError> {
        match (served.resource.group.as_str(), served.resource.kind.as_str()) {
            ("scheduling.k8s.io", "PriorityClass") => priority_class::admit_delete(name),
            _ => Ok(()),
        }
    }

    fn has_dependents(&self, served: &ServedKind) -> bool {
        served.storage().plural != "events"
    }

    fn orphans_by_default(&self, served: &ServedKind) -> bool {
        let storage = served.storage();
        matches!(
            (storage.group.as_str(), storage.plural.as_str()),
            ("", "replicationcontrollers") | ("batch", "jobs")
        )
    }
}

/// Strategy of CertificateSigningRequests.
#[derive(Debug)]
pub(crate) struct CertificateSigningRequest;

impl Strategy for CertificateSigningRequest {
    fn default(&self, served: &ServedKind, request: &mut Value) {
        PLAIN.default(served, request);
    }

    fn prepare_create(&self, served: &ServedKind, context: &WriteContext<'_>, request: &mut Value) {
        PLAIN.prepare_create(served, context, request);
        certificates::identify(context.user, request);
    }

    fn prepare_storage(&self, served: &ServedKind, request: &mut Value) {
        PLAIN.prepare_storage(served, request);
    }

    fn prepare_update(
        &self,
        served: &ServedKind,
        context: &WriteContext<'_>,
        old: &Value,
        new: &mut Value,
        subresource: &str,
    ) {
        certificates::prepare_update(subresource, &context.now_seconds(), old, new);
        PLAIN.prepare_update(served, context, old, new, subresource);
    }

    fn validate_create(&self, _served: &ServedKind, request: &Value) -> Vec<FieldError> {
        certificate_request::validate(request)
    }

    /// kube-apiserver's schema declares `spec.request`, a text, as a list, so it cannot compare the fields of such an object.
    fn tracks_fields(&self) -> bool {
        false
    }

    fn validate_update(
        &self,
        _served: &ServedKind,
        old: &Value,
        new: &Value,
        subresource: &str,
    ) -> Vec<FieldError> {
        let mut errors = certificates::validate_update(subresource, old, new);
        errors.extend(certificate_request::validate_certificate(old, new));
        errors
    }

    fn warnings(
        &self,
        served: &ServedKind,
        request: &Value,
        old: Option<&Value>,
        subresource: &str,
    ) -> Vec<String> {
        PLAIN.warnings(served, request, old, subresource)
    }
}
