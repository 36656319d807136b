//! The clients of a manager.

use std::{sync::Arc, time::Duration};

use controller_runtime::{
    Manager,
    client::{Call, ErrorKind, NoPermit, WriteGate, WritePermit},
    leader_election,
    manager::Options,
};
use tokio::time::Instant;

use crate::support::{Running, Widget, environment, key, widget};

/// Lets nobody write what is called `forbidden`.
struct Forbids;

impl WriteGate for Forbids {
    fn permit(&self, call: &Call) -> Result<WritePermit, NoPermit> {
        match call.name() {
            Some("forbidden") => Err(NoPermit::new("it is forbidden")),
            _ => Ok(WritePermit::unlimited()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_of_the_client_holds_beside_what_the_manager_needs_of_it() {
    let env = environment().await;
    let options = Options::new("test")
        .seed(1)
        .leader_election(leader_election::Options::new("the-lease").identity("one"))
        .client(|client| client.rate_limit(1.0, 1).unwrap().write_gate(Arc::new(Forbids)));
    let manager = Manager::new(env.client(), options);
    let cached = manager.cached::<Widget>();
    let (client, ungated) = (manager.client(), manager.ungated_client());
    let refused = client.create(&widget("early", 1)).await.unwrap_err();
    assert!(refused.to_string().contains("does not hold the lease"), "{refused}");

    let _running = Running::start(manager.clone()).await;
    manager.leads().wait_for(|leads| *leads).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let began = Instant::now();
    client.create(&widget("a", 1)).await.unwrap();
    ungated.create(&widget("b", 1)).await.unwrap();
    let c = client.create(&widget("c", 1)).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(2), "both have one limit");
    let seen = cached.get(&key("c")).unwrap().expect("an own write is seen at once");
    assert_eq!(seen.metadata.resource_version, c.metadata.resource_version);
    for client in [client, ungated] {
        let refused = client.create(&widget("forbidden", 1)).await.unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::NotPermitted(why) if why.to_string() == "it is forbidden"));
    }
}
