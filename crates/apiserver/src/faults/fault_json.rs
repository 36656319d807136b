//! JSON encoding of faults.

/// Durations in Go's format: `1.5s`, `2m`.
pub(super) mod duration {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use tokio::time::Duration;

    use kube_apimachinery::go;

    pub(in super::super) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{duration:?}"))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        let duration = go::duration(&text).map_err(D::Error::custom)?;
        Duration::try_from(duration)
            .map_err(|_| D::Error::custom(format!("{text} is negative: give a duration of zero or more")))
    }
}
