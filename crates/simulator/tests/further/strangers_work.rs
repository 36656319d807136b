//! An agent on each node uploads the volumes of its node, part by part. An upload that is in progress when an
//! agent starts was left behind by the process before, and the agent goes on with it. It does not look at the
//! node: if one agent restarts, it also goes on with the uploads of the other one, whose volumes it does not
//! have, and uploads parts without data.
//!
//! Expected: same remotes. Minimum plan: a crash of one agent while both upload; or one agent learns of an
//! upload when the other one has begun it.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::*;

/// Number of parts of a volume.
const PARTS: usize = 4;

/// Interval at which parts are uploaded.
const INTERVAL: Duration = Duration::from_secs(5);

const IN_PROGRESS: &str = "InProgress";

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Upload", namespaced, status = "UploadStatus")]
#[serde(default)]
struct UploadSpec {
    node: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[serde(default)]
struct UploadStatus {
    phase: String,
}

/// Nodes from which the parts of each volume were uploaded.
#[derive(Default, Serialize)]
struct Repository {
    volumes: BTreeMap<String, Vec<String>>,
}

struct FakeRepository(Remote<Repository>);

impl FakeRepository {
    /// Uploads the next part of a volume from a node, and returns whether all parts are uploaded.
    async fn upload_part(&self, volume: &str, node: &str) -> Result<bool, Lost> {
        let (name, node) = (volume.to_owned(), node.to_owned());
        let upload = move |repository: &mut Repository| {
            let parts = repository.volumes.entry(name).or_default();
            if parts.len() < PARTS {
                parts.push(node);
            }
            parts.len() == PARTS
        };
        self.0.effect("upload part", volume, upload).await
    }
}

struct Uploads {
    uploads: Cached<Upload>,
    repository: FakeRepository,
    node: &'static str,
    /// Uploads that this process has seen.
    seen: Mutex<BTreeSet<ObjectKey<Upload>>>,
    variant: Variant,
}

impl Reconciler for Uploads {
    type Request = ObjectKey<Upload>;

    async fn reconcile(&self, key: &ObjectKey<Upload>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(upload) = self.uploads.get(key)? else { return Ok(Action::done()) };
        let phase = upload.status.as_ref().map(|status| status.phase.as_str()).unwrap_or_default();
        let is_first_look = self.seen.lock().insert(key.clone());
        let is_left_behind = is_first_look && phase == IN_PROGRESS;
        let is_of_this_node = upload.spec.node == self.node;
        let is_to_run = is_of_this_node || (is_left_behind && self.variant == Variant::Buggy);
        if !is_to_run || phase == "Completed" {
            return Ok(Action::done());
        }
        let status = |phase: &str| UploadStatus { phase: phase.to_owned() };
        if phase != IN_PROGRESS {
            cx.client().apply_status(key, &status(IN_PROGRESS)).await?;
        }
        if !self.repository.upload_part(key.name(), self.node).await? {
            return Ok(Action::requeue_after(INTERVAL));
        }
        cx.client().apply_status(key, &status("Completed")).await?;
        Ok(Action::done())
    }
}

/// The agent on a node.
fn agent(node: &'static str, variant: Variant) -> impl Fn(&Manager) -> Result<(), AddError> + 'static {
    move |manager: &Manager| -> Result<(), AddError> {
        let uploads = Uploads {
            uploads: manager.cached(),
            repository: FakeRepository(Remote::of_this_run()),
            node,
            seen: Mutex::default(),
            variant,
        };
        // The agent needs no reconcile for its own status.
        Builder::managed_by(manager)
            .for_kind::<Upload>()
            .with_predicate(GenerationChanged)
            .complete(uploads)?;
        Ok(())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let upload = |volume: &str, node: &str| {
        let head = format!("apiVersion: further.dev/v1, kind: Upload, metadata: {{name: {volume}}}");
        format!("{{{head}, spec: {{node: {node}}}}}")
    };
    let both = format!("{}\n---\n{}", upload("ledger", "east"), upload("photos", "west"));
    Simulation::new("east-agent", agent("east", variant))
        .also("west-agent", agent("west", variant))
        .crd::<Upload>()
        .remote("repository", Repository::default)
        .applies("two volumes are to be uploaded", &both)
        .applies("another one is to be uploaded", &upload("mails", "east"))
}

#[test]
fn an_upload_that_another_agent_goes_on_with_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
