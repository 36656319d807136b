//! `cargo run -- crd` prints the CustomResourceDefinition, `cargo run` runs the operator.

use clap::{Parser, Subcommand};
use controller_runtime::{
    Action, Builder, Cached, Context, Manager, ObjectKey, ReconcileError, Reconciler, Verb,
    client::ResultExt,
    manager::{AddError, Flags},
    set_controller_reference,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{CustomResource, CustomResourceExt, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// A team of people.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Team", namespaced, status = "TeamStatus")]
struct TeamSpec {
    /// Names of the members. A name is part of the name of a ConfigMap.
    members: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct TeamStatus {
    /// Number of members that have a ConfigMap.
    members: usize,
}

/// Keeps one ConfigMap for each member of a Team and deletes the ConfigMaps of former members.
struct TeamReconciler {
    teams: Cached<Team>,
    config_maps: Cached<ConfigMap>,
}

impl Reconciler for TeamReconciler {
    type Request = ObjectKey<Team>;

    async fn reconcile(&self, key: &ObjectKey<Team>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(team) = self.teams.get(key)? else {
            return Ok(Action::done()); // deleted: its ConfigMaps are garbage collected
        };
        for member in &team.spec.members {
            let mut map = ConfigMap::default();
            map.metadata.name = Some(map_name(&team, member));
            map.metadata.namespace = team.namespace();
            map.data = Some([("welcome".to_owned(), format!("Hello {member}!"))].into());
            set_controller_reference(&*team, &mut map)?;
            cx.client().apply(&map).await?;
        }
        for map in self.config_maps.owned_by(&*team)? {
            let is_wanted = team.spec.members.iter().any(|member| map_name(&team, member) == map.name_any());
            if !is_wanted {
                cx.client().delete(&*map).await.optional()?; // it may already be gone
            }
        }
        cx.client().apply_status(key, &TeamStatus { members: team.spec.members.len() }).await?;
        Ok(Action::done())
    }
}

fn map_name(team: &Team, member: &str) -> String {
    format!("{}-{member}", team.name_any())
}

fn add_to(manager: &Manager) -> Result<(), AddError> {
    let reconciler = TeamReconciler { teams: manager.cached(), config_maps: manager.cached() };
    Builder::managed_by(manager)
        .for_kind::<Team>()
        .owns::<ConfigMap>()
        .needs::<ConfigMap>([Verb::Delete])
        .without_events()
        .complete(reconciler)?;
    Ok(())
}

/// Keeps a ConfigMap for each member of a Team.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    manager: Flags,
}

#[derive(Subcommand)]
enum Command {
    /// Print the CustomResourceDefinition
    Crd,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Args { command, manager: flags } = Args::parse();
    if let Some(Command::Crd) = command {
        println!("{}", serde_json::to_string_pretty(&Team::crd())?);
        return Ok(());
    }
    flags.init_logging()?;
    let manager = flags.manager("team-operator", "team-operator.example.com").await?;
    add_to(&manager)?;
    Ok(manager.run_until_signal().await?)
}
