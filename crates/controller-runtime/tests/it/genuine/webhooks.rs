//! Webhooks that a genuine API server calls.

use super::genuine;
use crate::rotations::rotate_twice;

#[tokio::test]
async fn no_write_fails_while_certificates_rotate_twice() {
    let Some(cluster) = genuine().await else { return };
    rotate_twice(cluster.kube.clone(), &cluster.namespace, 10_000).await;
}
