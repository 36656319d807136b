//! `cargo run -p pod-labeller`: labels annotated pods with their name, on the cluster of your kubeconfig.

use std::process::ExitCode;

use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, Verb,
    client::ResultExt, manager::AddError, operator::Operator,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

/// Annotation that requests the label. Its value is ignored.
const REQUEST_ANNOTATION: &str = "example.com/add-name-label";

/// Label with the name of the pod, which a Service can select.
const LABEL: &str = "example.com/pod-name";

/// Adds the label to pods with the annotation, and removes it from all others.
struct PodLabeller {
    pods: Cached<Pod>,
}

impl Reconciler for PodLabeller {
    type Request = ObjectKey<Pod>;

    async fn reconcile(&self, key: &ObjectKey<Pod>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(pod) = self.pods.get(key)? else { return Ok(Action::done()) }; // deleted
        let is_requested = pod.annotations().contains_key(REQUEST_ANNOTATION);
        let wanted = is_requested.then_some(key.name()).filter(|name| name.len() <= 63); // the limit of label values
        if pod.labels().get(LABEL).map(String::as_str) != wanted {
            let patch = json!({ "metadata": { "labels": { LABEL: wanted } } }); // null removes the label
            cx.client().merge_patch(key, &patch).await.optional()?; // the pod may have been deleted meanwhile
        }
        Ok(Action::done())
    }
}

fn add_to(manager: &Manager) -> Result<(), AddError> {
    let labeller = PodLabeller { pods: manager.cached() };
    Builder::managed_by(manager)
        .for_kind::<Pod>()
        .needs::<Pod>([Verb::Patch])
        .without_events()
        .complete(labeller)?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let operator =
        Operator::new("pod-labeller", "pod-labeller.example.com").version(env!("CARGO_PKG_VERSION"));
    operator.setup(add_to).main().await
}

/// The operator against an API server in this process, in paused time.
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use controller_runtime::{Client, ClientError, ManagerOptions, leader_election::LeaderElectionOptions};
    use kube_envtest::{Environment, Rights};
    use kube_simulator::{Explore, Simulation, User};

    use super::*;

    /// Permissions that no request uses here: `list` is needed on servers that do not stream lists, `patch` of events when
    /// one repeats.
    const UNUSED: [&str; 2] = ["list pods", "patch events.events.k8s.io"];

    #[tokio::test(start_paused = true)]
    async fn a_pod_has_the_label_as_long_as_it_has_the_annotation() {
        let env = Environment::builder().start().await.expect("an API server starts");
        let manifests = include_str!("../manifests/rbac.yaml");
        let rights = Rights::of_manifests(manifests, "default").expect("manifests");
        let options =
            ManagerOptions::new("pod-labeller").leader_election(LeaderElectionOptions::new("lease"));
        let manager = Manager::new(rights.client(env.client()), options);
        add_to(&manager).expect("it is the only controller");
        let declared =
            manager.declarations().roles("pod-labeller", "default").manifest("pod-labeller", "default");
        let declared = Rights::of_manifests(&declared, "default").expect("manifests");
        assert_eq!(declared.unused(), rights.unused(), "the manifests grant what the registrations need");
        let client = Client::new(env.client(), "test");
        let (pods, key) = (manager.cached(), ObjectKey::<Pod>::new("default", "web"));
        let annotate = async |value: Option<&str>| {
            let patch = json!({ "metadata": { "annotations": { REQUEST_ANNOTATION: value } } });
            client.merge_patch(&key, &patch).await.expect("a patch");
        };
        let until_labelled = async |wanted: Option<&str>| {
            let labelled = |pod: Option<&Pod>| {
                pod.is_some_and(|pod| pod.labels().get(LABEL).map(String::as_str) == wanted)
            };
            pods.until(&key, labelled, Duration::from_secs(10)).await.expect("it is labelled so");
        };
        let steps = async {
            let pod = json!({
                "metadata": { "namespace": "default", "name": "web" },
                "spec": { "containers": [{ "name": "web", "image": "nginx" }] },
            });
            client.create::<Pod>(&serde_json::from_value(pod).expect("a pod")).await.expect("a new pod");
            annotate(Some("please")).await;
            until_labelled(Some("web")).await;
            annotate(None).await;
            until_labelled(None).await;
        };
        manager.clone().run(steps).await.expect("the manager stops after the steps");
        assert_eq!(rights.unused(), UNUSED);
    }

    /// A pod requests the label and then no longer does, while the operator crashes, and receives events and writes late.
    #[test]
    fn labels_survive_crashes_and_late_events() {
        async fn annotate(user: User, value: Option<&str>) -> Result<Pod, ClientError> {
            let patch = json!({ "metadata": { "annotations": { REQUEST_ANNOTATION: value } } });
            user.merge_patch(&ObjectKey::<Pod>::new("default", "web"), &patch).await
        }
        Simulation::new("pod-labeller", add_to)
            .step("there is a pod", async |user| {
                user.apply_yaml(
                    "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: web, image: nginx}]}}",
                )
                .await
            })
            .step("it requests the label", async |user| annotate(user, Some("please")).await)
            .step("it does not request the label any more", async |user| annotate(user, None).await)
            .explore(Explore::all());
    }
}
