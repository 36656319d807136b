//! Version v1 of a Website: the image is one text.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::v2;

/// A website that is served by replicas of an image.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
pub struct WebsiteSpec {
    /// Image with an optional tag, such as `registry.example.com/shop:1.2`.
    pub image: String,
    /// Number of replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u16>,
}

impl From<Website> for v2::Website {
    fn from(v1: Website) -> Self {
        // A colon before the last slash belongs to the port of the registry.
        let (repository, tag) = match v1.spec.image.rsplit_once(':') {
            Some((repository, tag)) if !tag.contains('/') => (repository.to_owned(), Some(tag.to_owned())),
            _ => (v1.spec.image, None),
        };
        let spec = v2::WebsiteSpec { image: v2::Image { repository, tag }, replicas: v1.spec.size };
        Self { metadata: v1.metadata, spec }
    }
}

impl From<v2::Website> for Website {
    fn from(v2: v2::Website) -> Self {
        let v2::Image { repository, tag } = v2.spec.image;
        let image = match tag {
            Some(tag) => format!("{repository}:{tag}"),
            None => repository,
        };
        Self { metadata: v2.metadata, spec: WebsiteSpec { image, size: v2.spec.replicas } }
    }
}

#[cfg(test)]
mod tests {
    use controller_runtime::webhook::check_round_trip;

    use super::*;

    #[test]
    fn conversions_lose_nothing() {
        let images = ["shop", "shop:1.2", "registry:5000/shop", "registry:5000/shop:1.2", "shop:"];
        for (image, size) in images.into_iter().zip([None, Some(0), Some(3), None, Some(1)]) {
            let website = Website::new("shop", WebsiteSpec { image: image.to_owned(), size });
            check_round_trip::<_, v2::Website>(&website).expect("nothing is lost");
        }
    }
}
