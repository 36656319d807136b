//! The operator on an API server in this process, with the rights of its manifests and no others.

use controller_runtime::{
    Manager, ManagerOptions, logging,
    manager::UndeclaredRequests,
    webhook::{WebhookOptions, WebhookService},
};
use kube_envtest::{Environment, Instance, Operator};
use widget_operator::operator;

const NAME: &str = "widget-operator";

/// Starts a server that knows the operator's kinds, and makes an operator to start, stop and crash.
pub async fn cluster() -> anyhow::Result<(Environment, Operator)> {
    logging::init_for_tests(); // what fails in the operator, below a test that fails
    let crds = operator().definitions().to_vec();
    let env = Environment::builder().crds(crds).start().await?;
    let rights = operator().answer(["manifests", "--only", "rbac"]).await?;
    let account = env
        .service_account(NAME, NAME)
        .with_manifest_text(rights.text)
        .await?;
    let operator = Operator::new(account.client(), move |instance: Instance| {
        let account = account.clone();
        async move {
            let webhooks = WebhookOptions::local(instance.webhook_socket());
            let options = ManagerOptions::new(NAME)
                .webhooks(webhooks)
                .undeclared_requests(UndeclaredRequests::Refuse); // `stop` fails and names them
            let manager = Manager::new(instance.client(), options);
            operator().add_to(&manager)?;
            let service = WebhookService::new(NAME, "widget-operator-webhooks");
            let manifests = manager.webhooks().configurations(&service).manifests();
            if !manifests.is_empty() {
                instance
                    .serve_webhooks(manager.webhooks().clone(), manifests)
                    .await?;
            }
            instance
                .run(manager.ready(), manager.run(instance.stopped()))
                .await?;
            account.check_rights()?; // fails `stop` after a request that the API server refused
            Ok(())
        }
    });
    let operator = operator.webhooks(env.webhooks());
    Ok((env, operator))
}
