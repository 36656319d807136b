//! Version v2 of a Website, which is stored: the hub of conversions.

use controller_runtime::webhook::{
    Admission, Defaulter, FieldErrors, Operation, Rejection, Validator, Verdict,
};
use kube::{CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Annotation that protects a Website from deletion.
pub const PROTECTED: &str = "example.com/protected";

/// A website that is served by replicas of an image.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v2", kind = "Website", namespaced)]
pub struct WebsiteSpec {
    /// Image that serves the website.
    pub image: Image,
    /// Number of replicas. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u16>,
}

/// A container image.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Image {
    /// Registry and name.
    pub repository: String,
    /// Tag of the image. Default: `latest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

impl Defaulter for Website {
    async fn set_defaults(&mut self, _: &Admission) -> Verdict {
        self.spec.replicas.get_or_insert(1);
        self.spec.image.tag.get_or_insert_with(|| "latest".to_owned());
        Ok(())
    }
}

impl Validator for Website {
    const OPERATIONS: &'static [Operation] = &[Operation::Create, Operation::Update, Operation::Delete];

    async fn validate_create(&self, cx: &Admission) -> Verdict {
        let mut errors = FieldErrors::new();
        if self.spec.image.repository.is_empty() {
            errors.required("spec.image.repository", "an image is needed");
        }
        match self.spec.replicas {
            Some(0) => cx.warn("a website without replicas is not served"),
            Some(replicas @ 11..) => errors.invalid("spec.replicas", replicas, "must be at most 10"),
            _ => {}
        }
        errors.into_verdict()
    }

    async fn validate_update(&self, old: &Self, cx: &Admission) -> Verdict {
        let (old, new) = (&old.spec.image.repository, &self.spec.image.repository);
        if old != new {
            let mut errors = FieldErrors::new();
            errors.invalid("spec.image.repository", new.as_str(), "is immutable");
            return errors.into_verdict();
        }
        self.validate_create(cx).await
    }

    async fn validate_delete(&self, _: &Admission) -> Verdict {
        match self.annotations().contains_key(PROTECTED) {
            true => Err(Rejection::forbidden(format!("remove the annotation {PROTECTED} first"))),
            false => Ok(()),
        }
    }
}
