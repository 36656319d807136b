//! `cargo run -p webhooks -- crds` prints the CustomResourceDefinition, `-- manifests` all objects that deploy the operator. Without a command it
//! runs on the cluster of your kubeconfig; webhooks are off then, because no Service leads to it.

use std::process::ExitCode;

use controller_runtime::{
    operator::Operator,
    webhook::{SelfManagedCertificates, WebhookOptions, WebhookService},
};

/// Serves Websites with Deployments. Webhooks set defaults, validate, and convert between versions.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    // The operator makes its certificates, and installs the configurations of its webhooks. By default its Service would be
    // website-operator-webhooks.
    let service = WebhookService::new("website-system", "webhook-service");
    let serving = WebhookOptions::default()
        .certificates(SelfManagedCertificates::new(&service))
        .apply_configurations(&service);
    let operator = Operator::new("website-operator", "website-operator.example.com")
        .version(env!("CARGO_PKG_VERSION"))
        .definition(webhooks::definition()?)
        .options(move |options| options.webhooks(serving.clone()))
        .setup(webhooks::add_to);
    Ok(operator.main().await)
}
