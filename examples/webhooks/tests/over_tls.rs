//! The webhooks over sockets with TLS: on the embedded API server, or on the cluster that the environment variables of Go's envtest
//! select.

mod common;

use std::net::{Ipv4Addr, SocketAddr};

use common::{environment, operator, play};
use kube_envtest::{Cluster, Transport};

#[tokio::test]
async fn webhooks_are_called_over_tls_by_every_cluster() {
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let cluster = Cluster::from_env().await.expect("a cluster, or none");
    let env = environment().cluster(cluster).transport(Transport::Tcp(loopback)).clean_up();
    let env = env.start().await.expect("a cluster");
    let namespace = env.namespace("websites").await.expect("a namespace");
    let mut operator = operator(&env);
    for _ in 0..2 {
        operator.start().await.expect("the operator and its webhooks");
        play(env.client(), namespace.name()).await;
        operator.stop().await.expect("a graceful stop");
    }
    env.stop().await.expect("nothing remains");
}
