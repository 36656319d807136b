//! The operator on an API server in this process. Time is paused, so delays take no time and are exact.

mod common;

use std::time::Duration;

use common::cluster;
use controller_runtime::{Client, ObjectKey};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use kube_envtest::{CrashPoint, Environment, eventually_object};
use widget_operator::{Widget, widget::WidgetSpec};

const SOON: Duration = Duration::from_secs(10);

fn widget(greeting: &str) -> Widget {
    let greeting = greeting.to_owned();
    let mut widget = Widget::new("sample", WidgetSpec { greeting });
    widget.metadata.namespace = Some("default".to_owned());
    widget
}

async fn eventually_greets(env: &Environment, greeting: &str) -> anyhow::Result<()> {
    let config_maps = Api::<ConfigMap>::default_namespaced(env.client());
    let greets = |config_map: &ConfigMap| match config_map.data.iter().flatten().next() {
        Some((_, text)) if text == greeting => Ok(()),
        other => Err(format!("its data is {other:?}")),
    };
    eventually_object(&config_maps, "widget-sample", SOON, greets).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_config_map_follows_the_spec_and_the_status_says_so() -> anyhow::Result<()> {
    let (env, mut operator) = cluster().await?;
    operator.start().await?;
    let client = Client::new(env.client(), "test");
    let sample = client.create(&widget("hello")).await?;
    eventually_greets(&env, "hello").await?;

    let greeting = serde_json::json!({ "spec": { "greeting": "good morning" } });
    let key = ObjectKey::of(&sample).expect("a stored object has a name");
    client.merge_patch(&key, &greeting).await?;
    eventually_greets(&env, "good morning").await?;
    let is_ready = |widget: &Widget| {
        let mut conditions = widget.status.iter().flat_map(|status| &status.conditions);
        match conditions.find(|condition| condition.type_ == "Ready") {
            Some(ready) if ready.observed_generation == widget.metadata.generation => Ok(()),
            other => Err(format!("its condition is {other:?}")),
        }
    };
    eventually_object(
        &Api::<Widget>::default_namespaced(env.client()),
        "sample",
        SOON,
        is_ready,
    )
    .await?;

    let config_maps = Api::<ConfigMap>::default_namespaced(env.client());
    assert_eq!(
        config_maps.get("widget-sample").await?.owner_references()[0].name,
        "sample"
    );
    operator.stop().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_any_write_is_made_good_at_the_next_start() -> anyhow::Result<()> {
    for write in 1.. {
        let (env, mut operator) = cluster().await?;
        Client::new(env.client(), "test")
            .create(&widget("hello"))
            .await?;
        if operator
            .crash_at(CrashPoint::before_write(write))
            .await
            .is_err()
        {
            assert!(write > 2, "it writes a ConfigMap and a status");
            break; // it makes fewer writes
        }
        operator.start().await?;
        eventually_greets(&env, "hello").await?;
    }
    Ok(())
}
