//! The webhooks in paused time: the API server calls them in the process, without sockets and certificates.

mod common;

use std::time::Duration;

use common::{environment, operator, play, website};
use controller_runtime::{Client, Manager, ManagerOptions, webhook::WebhookOptions};
use kube_envtest::{Environment, OperatorError};
use tokio::time::Instant;
use webhooks::{add_to, definition};

#[tokio::test(start_paused = true)]
async fn websites_have_defaults_are_validated_and_converted() {
    let env = environment().start().await.expect("an API server");
    let mut operator = operator(&env);
    operator.start().await.expect("the operator and its webhooks");
    play(env.client(), "default").await;
    operator.stop().await.expect("a graceful stop");
}

#[tokio::test(start_paused = true)]
async fn without_the_operator_writes_fail_and_after_a_restart_they_succeed() {
    let env = environment().start().await.expect("an API server");
    let client = Client::new(env.client(), "test");
    let mut operator = operator(&env);
    operator.start().await.expect("the operator");
    operator.crash().await;
    let refused =
        client.create(&website("default", "shop", "shop:1")).await.expect_err("no webhook").to_string();
    assert!(refused.contains("connection refused: the operator does not run"), "{refused}");
    operator.start().await.expect("the operator again");
    client.create(&website("default", "shop", "shop:1")).await.expect("the new instance serves");
    play(env.client(), "kube-public").await;
}

#[tokio::test(start_paused = true)]
async fn environments_of_one_process_have_webhooks_of_their_own() {
    let (with, without) = (environment().start().await, environment().start().await);
    let (with, without) = (with.expect("an API server"), without.expect("another one"));
    operator(&with).start().await.expect("the operator of one");
    let client = Client::new(without.client(), "test");
    let mut large = website("default", "large", "nginx");
    large.spec.size = Some(11);
    client.create(&large).await.expect("nothing validates it");
}

/// An operator with configurations in files.
async fn configured_by(folder: &str) -> Result<Environment, OperatorError> {
    let folder = format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"));
    let env = Environment::builder().crds([definition().expect("two versions")]).webhooks_from(folder);
    let env = env.start().await.expect("configurations that can be read");
    let mut operator = env.operator(|instance| async move {
        let options = ManagerOptions::new("website-operator")
            .webhooks(WebhookOptions::local(instance.webhook_socket()));
        let manager = Manager::new(instance.client(), options);
        add_to(&manager)?;
        let conversions = manager.webhooks().configurations(&common::service()).manifests();
        let conversions = conversions.into_iter().filter(|manifest| {
            manifest.types.as_ref().is_some_and(|types| types.kind == "CustomResourceDefinition")
        });
        instance.serve_webhooks(manager.webhooks().clone(), conversions.collect::<Vec<_>>()).await?;
        Ok(instance.run(manager.ready(), manager.run(instance.stopped())).await?)
    });
    operator.start().await?;
    play(env.client(), "default").await;
    Ok(env)
}

#[tokio::test(start_paused = true)]
async fn configurations_can_be_files() {
    configured_by("config/webhook").await.expect("files of the operator's paths");
}

#[tokio::test(start_paused = true)]
async fn a_path_that_the_operator_does_not_serve_is_named_with_its_file() {
    let start = Instant::now();
    let error = configured_by("tests/data").await.expect_err("a wrong path").to_string();
    assert!(
        error.starts_with("webhook vwebsite.example.com of ValidatingWebhookConfiguration websites in "),
        "{error}"
    );
    assert!(
        error.contains("tests/data/wrong_path.yaml: the operator serves no webhook at /validate-website"),
        "{error}"
    );
    assert_eq!(start.elapsed(), Duration::from_secs(10));
}
