//! Operators that depend on something besides the API server, their remote systems and tokio's time.

#![expect(clippy::disallowed_types, reason = "the order of a hash map is one of the bugs")]

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use controller_runtime::{Action, ObjectKey};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_simulator::Oracle;

use super::{applies, found, map, simulation};

#[test]
fn the_order_of_a_hash_map_is_caught_and_named() {
    let unordered = simulation(|_, cx| async move {
        let names: HashMap<u32, String> = (0..16).map(|number| (number, format!("map-{number}"))).collect();
        #[expect(clippy::iter_over_hash_type, reason = "the bug")]
        for name in names.values() {
            cx.client().apply(&map(name)).await?;
        }
        Ok(Action::done())
    });
    let finding = found(unordered);
    assert_eq!(finding.oracle(), Oracle::Repeats);
    let text = finding.to_string();
    assert!(text.contains("such as hash order"), "{text}");
    // The names of the first calls that differ.
    assert!(text.contains("first run:") && text.contains("apply configmaps default/map-"), "{text}");
}

#[test]
fn the_clock_of_the_system_is_caught_and_the_field_is_named() {
    let late = simulation(|_, cx| async move {
        let mut map = map("clock");
        #[expect(clippy::disallowed_methods, reason = "the bug")]
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        map.data = Some([("now".to_owned(), now.as_nanos().to_string())].into());
        cx.client().apply(&map).await?;
        Ok(Action::done())
    });
    let finding = found(late);
    assert_eq!(finding.oracle(), Oracle::Repeats);
    let text = finding.to_string();
    assert!(text.contains("the system's clock"), "{text}");
    assert!(
        text.contains("creates configmaps default/clock") && text.contains("with .data.now = "),
        "{text}"
    );
}

#[test]
fn time_and_randomness_of_the_simulation_repeat() {
    let timely = simulation(|_, cx| async move {
        let mut map = map("clock");
        map.data = Some([("now".to_owned(), cx.wall_time().to_string())].into());
        cx.client().apply(&map).await?;
        Ok(Action::done())
    });
    assert!(timely.replay("").expect("a plan").is_none());
    assert!(applies(|key| key.name().to_owned()).replay("").expect("a plan").is_none());
}

/// The map of the first day differs from the others. If the runs had a day in common, its map would be the first one in one run only.
#[test]
fn names_with_the_days_of_a_long_run_repeat() {
    const DAY: i64 = 86_400;
    let daily = simulation(|namespace, cx| async move {
        if namespace.name() != "default" {
            return Ok(Action::done());
        }
        let now = cx.wall_time().as_second();
        let is_first = cx.client().get(&ObjectKey::<ConfigMap>::new("default", "begun")).await?.is_none();
        let mut today = map(&format!("day-{}", now / DAY));
        if is_first {
            today.data = Some([("begins".to_owned(), "yes".to_owned())].into());
        }
        cx.client().create(&today).await?;
        cx.client().apply(&map("begun")).await?;
        Ok(Action::requeue_after(Duration::from_secs((DAY - now % DAY).unsigned_abs())))
    });
    let daily = daily.step("a day and a half pass", async |_| {
        tokio::time::sleep(Duration::from_secs(3 * DAY.unsigned_abs() / 2)).await;
        Ok::<(), std::convert::Infallible>(())
    });
    let finding = daily.replay("").expect("a plan");
    assert!(finding.is_none(), "{}", finding.expect("a finding"));
}
