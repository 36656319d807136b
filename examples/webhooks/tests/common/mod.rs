//! The operator, and a test of its webhooks that every cluster passes.

use std::time::Duration;

use controller_runtime::{
    Client, Manager, ManagerOptions, ObjectKey,
    webhook::{WebhookOptions, WebhookService},
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, ResourceExt};
use kube_envtest::{Builder, Environment, Operator, eventually_object};
use webhooks::{
    add_to, definition,
    v1::{self, WebsiteSpec},
    v2,
};

const SOON: Duration = Duration::from_secs(10);

pub(crate) fn environment() -> Builder {
    Environment::builder().crds([definition().expect("two versions of one kind")])
}

/// Service of the webhooks.
pub(crate) fn service() -> WebhookService {
    WebhookService::new("website-system", "webhook-service")
}

/// The operator with the configurations of its registrations.
pub(crate) fn operator(env: &Environment) -> Operator {
    env.operator(|instance| async move {
        let webhooks = WebhookOptions::local(instance.webhook_socket());
        let manager =
            Manager::new(instance.client(), ManagerOptions::new("website-operator").webhooks(webhooks));
        add_to(&manager)?;
        let manifests = manager.webhooks().configurations(&service()).manifests();
        instance.serve_webhooks(manager.webhooks().clone(), manifests).await?;
        Ok(instance.run(manager.ready(), manager.run(instance.stopped())).await?)
    })
}

/// A Website of the old version, with image `IMAGE` and no size.
pub(crate) fn website(namespace: &str, name: &str, image: &str) -> v1::Website {
    let mut website = v1::Website::new(name, WebsiteSpec { image: image.to_owned(), size: None });
    website.metadata.namespace = Some(namespace.to_owned());
    website
}

/// Creates, reads, changes and deletes Websites of both versions.
pub(crate) async fn play(client: kube::Client, namespace: &str) {
    let (api, client) =
        (Api::<v2::Website>::namespaced(client.clone(), namespace), Client::new(client, "test"));
    let plain = client.create(&website(namespace, "plain", "nginx")).await.expect("a valid Website");
    assert_eq!(plain.spec, WebsiteSpec { image: "nginx:latest".to_owned(), size: Some(1) });

    let shop = website(namespace, "shop", "registry:5000/shop:1.2");
    client.create(&shop).await.expect("a valid Website");
    let stored = api.get("shop").await.expect("it is stored");
    assert_eq!(
        (&*stored.spec.image.repository, stored.spec.image.tag.as_deref()),
        ("registry:5000/shop", Some("1.2"))
    );
    let deployments = Api::<Deployment>::namespaced(api.clone().into_client(), namespace);
    let image = |deployment: &Deployment| {
        let spec = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        match spec.and_then(|spec| spec.containers[0].image.as_deref()) {
            Some("registry:5000/shop:1.2") => Ok(()),
            image => Err(format!("the image is {image:?}")),
        }
    };
    eventually_object(&deployments, "shop", SOON, image).await.expect("a Deployment");

    let mut large = website(namespace, "large", "nginx");
    large.spec.size = Some(11);
    let refused = client.create(&large).await.expect_err("too many replicas").to_string();
    assert!(refused.contains("spec.replicas: Invalid value: 11: must be at most 10"), "{refused}");

    let mut moved = client
        .get(&ObjectKey::<v1::Website>::new(namespace, "shop"))
        .await
        .expect("an answer")
        .expect("it exists");
    assert_eq!(moved.spec.image, "registry:5000/shop:1.2");
    "elsewhere/shop:1.2".clone_into(&mut moved.spec.image);
    let refused = client.update(&moved).await.expect_err("immutable").to_string();
    assert!(
        refused.contains("spec.image.repository: Invalid value: \"elsewhere/shop\": is immutable"),
        "{refused}"
    );

    let mut protected = stored;
    protected.annotations_mut().insert(v2::PROTECTED.to_owned(), "true".to_owned());
    protected.metadata.managed_fields = None;
    let protected = client.update(&protected).await.expect("an annotation");
    let refused = client.delete(&protected).await.expect_err("protected").to_string();
    assert!(refused.contains("remove the annotation example.com/protected first"), "{refused}");

    let mut unprotected = protected;
    unprotected.annotations_mut().clear();
    let unprotected = client.update(&unprotected).await.expect("no annotation");
    client.delete(&unprotected).await.expect("it is not protected any more");
    client.delete(&plain).await.expect("it can be deleted");
}
