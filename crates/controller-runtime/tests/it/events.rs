use std::time::Duration;

use controller_runtime::{Action, Client, Context, ObjectKey, Reconciler, reconcile};
use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};

use crate::support::{Widget, environment, run, widget};

/// Records the same event at each of four attempts, and another at the last.
struct Complains;

impl Reconciler for Complains {
    type Request = ObjectKey<Widget>;

    async fn reconcile(&self, key: &ObjectKey<Widget>, cx: &Context) -> Result<Action, reconcile::Error> {
        let mut about = widget(key.name(), 1);
        about.metadata.uid = Some("u1".to_owned());
        cx.events()
            .warning(&about, "Broken", "Inspect", format!("attempt {}", cx.attempt()));
        if cx.attempt() < 3 {
            return Err(reconcile::Error::new("broken"));
        }
        cx.events().normal(&about, "Mended", "Mend", "it works");
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_written_and_repetitions_are_counted() {
    let env = environment().await;
    let running = run(&env, Complains).await;
    Client::new(env.client(), "test")
        .create(&widget("a", 1))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.stop().await.unwrap();

    let events: Api<Event> = Api::namespaced(env.client(), "default");
    let mut found: Vec<_> = events
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .map(|event| {
            let count = event.series.map_or(1, |series| series.count);
            (
                event.type_.unwrap(),
                event.reason.unwrap(),
                event.note.unwrap(),
                count,
                event.reporting_controller.unwrap(),
            )
        })
        .collect();
    found.sort();
    let row = |kind: &str, reason: &str, note: &str, count| {
        (
            kind.to_owned(),
            reason.to_owned(),
            note.to_owned(),
            count,
            "widget".to_owned(),
        )
    };
    assert_eq!(
        found,
        [
            row("Normal", "Mended", "it works", 1),
            row("Warning", "Broken", "attempt 0", 4)
        ]
    );
}
