//! Guestbooks under simulation: the operator crashes at each of its writes, and every other fault happens once at each place.

use controller_runtime::ObjectKey;
use guestbook::{api::Guestbook, controller};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_simulator::{Explore, Simulation};
use serde_json::json;

const WELCOME: &str = include_str!("../guestbooks/welcome.yaml");

fn guestbooks() -> Simulation {
    let guestbook = ObjectKey::<Guestbook>::new("default", "welcome");
    let page = ObjectKey::<ConfigMap>::new("default", "welcome");
    let (grown, gone) = (guestbook.clone(), guestbook);
    Simulation::new("guestbook-operator", controller::add_to)
        .crd::<Guestbook>()
        .rights(include_str!("../manifests/rbac.yaml"))
        .step("a guestbook is created", async |user| user.apply_yaml(WELCOME).await)
        .step("it is scaled", async move |user| {
            user.merge_patch(&grown, &json!({ "spec": { "replicas": 3 } })).await
        })
        .step("its page is deleted", async move |user| user.delete_key(&page).await)
        .step("it is deleted", async move |user| user.delete_key(&gone).await)
        .eventually("every guestbook is ready", |now| now.all::<Guestbook>().iter().all(Guestbook::is_ready))
}

#[test]
fn guestbooks_survive_crashes() {
    guestbooks().explore(Explore::crashes());
}

/// All kinds of faults together: crashes, late and lost watch events, refused requests, lost responses, pauses, and steps of the user
/// that come early.
#[test]
fn guestbooks_survive_all_faults() {
    guestbooks().explore(Explore::all());
}
