//! Plugins `DefaultStorageClass` and `DefaultIngressClass`: claims and Ingresses that name no class get the default one.
//!
//! A class is the default if an annotation marks it. Of several marked classes the newest is used, and of several newest the first by name.
//! An empty class name is a choice of the user, so it stays.

use std::cmp::Reverse;

use kube_apimachinery::metadata;
use kube_apimachinery::status::ApiError;
use serde_json::{Value, json};

use super::rules::WriteRule;
use super::{Attributes, Operation};

/// Objects of a resource with a default class.
pub(super) struct DefaultClass {
    group: &'static str,
    plural: &'static str,
    /// Field of the spec with the name of the class.
    field: &'static str,
    /// Annotation with the name of the class, which clients used before the field existed.
    legacy: &'static str,
    /// Group and plural of the classes.
    classes: (&'static str, &'static str),
    /// Annotations that mark the default class with the value `true`.
    marks: &'static [&'static str],
}

/// Plugin `DefaultStorageClass`.
pub(super) const STORAGE: DefaultClass = DefaultClass {
    group: "",
    plural: "persistentvolumeclaims",
    field: "storageClassName",
    legacy: "volume.beta.kubernetes.io/storage-class",
    classes: ("storage.k8s.io", "storageclasses"),
    marks: &[
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ],
};

/// Plugin `DefaultIngressClass`.
pub(super) const INGRESS: DefaultClass = DefaultClass {
    group: "networking.k8s.io",
    plural: "ingresses",
    field: "ingressClassName",
    legacy: "kubernetes.io/ingress.class",
    classes: ("networking.k8s.io", "ingressclasses"),
    marks: &["ingressclass.kubernetes.io/is-default-class"],
};

impl WriteRule for DefaultClass {
    fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        if attributes.operation != Operation::Create || !attributes.is_of(self.group, self.plural) {
            return Ok(());
        }
        if object["spec"].get(self.field).is_some_and(Value::is_string)
            || object["metadata"]["annotations"].get(self.legacy).is_some()
            || !object["spec"].is_object()
        {
            return Ok(());
        }
        let (group, plural) = self.classes;
        if let Some(name) = self.default_among(&attributes.list(group, plural, "")) {
            object["spec"][self.field] = json!(name);
        }
        Ok(())
    }
}

impl DefaultClass {
    /// Returns the name of the default class.
    fn default_among(&self, classes: &[Value]) -> Option<String> {
        let is_marked =
            |class: &&Value| self.marks.iter().any(|mark| class["metadata"]["annotations"][*mark] == "true");
        let newest = classes.iter().filter(is_marked).min_by_key(|class| {
            // The timestamps are in UTC and have the same length, so their texts sort like the times.
            (Reverse(metadata::text(class, "creationTimestamp")), metadata::text(class, "name"))
        });
        newest.map(|class| metadata::text(class, "name").to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_class_is_the_newest_marked_one() {
        let class = |name: &str, second: u8, mark: &str| {
            let annotations = json!({"storageclass.kubernetes.io/is-default-class": mark});
            let created = format!("2026-01-01T00:00:{second:02}Z");
            json!({"metadata": {"name": name, "creationTimestamp": created, "annotations": annotations}})
        };
        let default = |classes: &[Value]| STORAGE.default_among(classes);
        assert_eq!(default(&[class("a", 1, "false")]), None);
        let classes =
            [class("a", 1, "true"), class("c", 5, "true"), class("b", 5, "true"), class("d", 9, "no")];
        assert_eq!(default(&classes).as_deref(), Some("b"));
    }
}
