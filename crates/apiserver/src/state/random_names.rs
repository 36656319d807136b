//! Random identifiers, from the seed of the server.

use super::ClusterState;

impl ClusterState {
    /// Generates a `metadata.uid`.
    pub(crate) fn uid(&self) -> String {
        uuid(&mut self.random.lock())
    }

    /// Generates an audit id for a request that has none.
    pub(crate) fn audit_id(&self) -> String {
        uuid(&mut self.audit_ids.lock())
    }

    /// Generates the five characters that `generateName` appends.
    pub(crate) fn name_suffix(&self) -> String {
        // The alphabet of Go's `k8s.io/apimachinery/pkg/util/rand`. It has no vowels, which makes bad words in names unlikely.
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut random = self.random.lock();
        (0..5).map(|_| char::from(ALPHABET[random.usize(..ALPHABET.len())])).collect()
    }

    /// Generates a number below `bound`, which must be positive.
    pub(crate) fn random_below(&self, bound: u64) -> u64 {
        self.random.lock().u64(..bound)
    }
}

fn uuid(random: &mut fastrand::Rng) -> String {
    let uuid = uuid::Builder::from_random_bytes(random.u128(..).to_be_bytes()).into_uuid();
    // `to_string` would go through `fmt`, which is slower, and every request has an audit id.
    uuid.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()).to_owned()
}
