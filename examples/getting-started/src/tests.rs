//! Tests of the operator, explained in docs/book/src/guides/testing.md.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use controller_runtime::{Client, Manager, ManagerOptions};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt, api::PostParams};
use kube_envtest::{
    CrashPoint, Environment, Epoch, Instance, Operator, Rights, Transport, eventually_gone,
    eventually_object,
    faults::{Action, Failure, Rule, Verb},
};
use serde_json::json;
use tokio::time::sleep;

use super::{Team, TeamSpec, add_to};

const SOON: Duration = Duration::from_secs(10);

fn operator(client: kube::Client) -> Operator {
    Operator::new(client, |instance: Instance| async move {
        let manager = Manager::new(instance.client(), ManagerOptions::new("team-operator").seed(1));
        add_to(&manager)?;
        Ok(instance.run(manager.ready(), manager.run(instance.stopped())).await?)
    })
}

fn team(members: &[&str]) -> Team {
    let members = members.iter().map(|member| (*member).to_owned()).collect();
    let mut team = Team::new("red", TeamSpec { members });
    team.metadata.namespace = Some("default".to_owned());
    team
}

#[tokio::test(start_paused = true)]
async fn each_member_has_a_config_map_until_it_leaves() -> anyhow::Result<()> {
    let env = Environment::builder().crd::<Team>().start().await?;
    let mut operator = operator(env.client());
    operator.start().await?;

    let client = Client::new(env.client(), "test");
    let config_maps = Api::<ConfigMap>::default_namespaced(env.client());
    client.create(&team(&["ada", "bob"])).await?;
    for name in ["red-ada", "red-bob"] {
        eventually_object(&config_maps, name, SOON, |map| match map.owner_references() {
            [owner] if owner.name == "red" => Ok(()),
            owners => Err(format!("its owners are {owners:?}")),
        })
        .await?;
    }

    client.apply(&team(&["ada"])).await?;
    eventually_gone(&config_maps, "red-bob", SOON).await?;
    let teams = Api::<Team>::default_namespaced(env.client());
    eventually_object(&teams, "red", SOON, |team| match &team.status {
        Some(status) if status.members == 1 => Ok(()),
        status => Err(format!("its status is {status:?}")),
    })
    .await?;
    operator.stop().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_retried_after_5_and_10_ms() -> anyhow::Result<()> {
    let env = Environment::builder().crd::<Team>().start().await?;
    let refusal = Rule::new(Action::Fail(Failure::Internal)).verb(Verb::Patch).resource("", "configmaps");
    env.server().faults().add(refusal.at_most(3));
    let mut operator = operator(env.client());
    operator.start().await?;
    Client::new(env.client(), "test").create(&team(&["ada"])).await?;

    let config_maps = Api::<ConfigMap>::default_namespaced(env.client());
    eventually_object(&config_maps, "red-ada", SOON, |_| Ok::<(), String>(())).await?;
    let refused: Vec<_> = env.server().faults().journal().iter().map(|entry| entry.at).collect();
    let gaps: Vec<_> = refused.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_millis()).collect();
    assert_eq!(gaps, [5, 10]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_operator_converges_after_a_crash_at_any_of_its_writes() -> anyhow::Result<()> {
    for crash_point in [CrashPoint::before_write, CrashPoint::after_write] {
        for write in 1.. {
            let env = Environment::builder().crd::<Team>().start().await?;
            Client::new(env.client(), "test").create(&team(&["ada", "bob"])).await?;
            let mut operator = operator(env.client());
            if operator.crash_at(crash_point(write)).await.is_err() {
                assert!(write > 3, "there are two ConfigMaps and a status");
                break; // it makes fewer writes
            }
            operator.start().await?;
            let teams = Api::<Team>::default_namespaced(env.client());
            eventually_object(&teams, "red", SOON, |team| match &team.status {
                Some(status) if status.members == 2 => Ok(()),
                status => Err(format!("its status is {status:?}")),
            })
            .await?;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_rights_of_the_manifests_are_enough_and_all_of_them_are_needed() -> anyhow::Result<()> {
    let env = Environment::builder().crd::<Team>().start().await?;
    let rights = Rights::of_manifests(include_str!("../manifests/rbac.yaml"), "default")?;
    let manager = Manager::new(env.client(), ManagerOptions::new("team-operator"));
    add_to(&manager)?;
    let declared =
        manager.declarations().roles("team-operator", "default").manifest("team-operator", "default");
    let declared = Rights::of_manifests(&declared, "default")?;
    assert_eq!(declared.unused(), rights.unused(), "the manifests grant what the registrations need");
    let mut operator = operator(rights.client(env.client()));
    operator.start().await?;

    let client = Client::new(env.client(), "test");
    let config_maps = Api::<ConfigMap>::default_namespaced(env.client());
    client.create(&team(&["ada"])).await?;
    eventually_object(&config_maps, "red-ada", SOON, |_| Ok::<(), String>(())).await?;
    client.apply(&team(&[])).await?;
    eventually_gone(&config_maps, "red-ada", SOON).await?;
    operator.stop().await?;
    // A real API server asks for `create` when an object is applied that does not exist, and for the finalizers when an owner
    // reference blocks the owner's deletion. Lists are for API servers that do not stream them.
    let checked_by_others = [
        "create configmaps",
        "list configmaps",
        "list teams.example.com",
        "update teams.example.com/finalizers",
    ];
    assert_eq!(rights.unused(), checked_by_others);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_the_cluster_limits_the_members_of_a_team() -> anyhow::Result<()> {
    let env = Environment::builder().crd::<Team>().start().await?;
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(json!({
        "metadata": {"name": "small-teams"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["teams"],
                "operations": ["CREATE", "UPDATE"],
            }]},
            "validations": [{
                "expression": "size(object.spec.members) <= 2",
                "messageExpression": "'at most 2 members, not ' + string(size(object.spec.members))",
            }],
        },
    }))?;
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(json!({
        "metadata": {"name": "small-teams"},
        "spec": {"policyName": "small-teams", "validationActions": ["Deny"]},
    }))?;
    Api::all(env.client()).create(&PostParams::default(), &policy).await?;
    Api::all(env.client()).create(&PostParams::default(), &binding).await?;

    let teams = Api::<Team>::default_namespaced(env.client());
    let refused = teams.create(&PostParams::default(), &team(&["ada", "bob", "cyd"])).await.unwrap_err();
    assert!(refused.to_string().contains("at most 2 members, not 3"), "{refused}");
    teams.create(&PostParams::default(), &team(&["ada", "bob"])).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn timestamps_are_equal_in_every_run() -> anyhow::Result<()> {
    let new_year = Epoch::starting_now("2026-01-01T00:00:00Z".parse()?);
    let env = Environment::builder().epoch(new_year).seed(1).crd::<Team>().start().await?;
    let epoch = env.epoch();
    let mut operator = Operator::new(env.client(), move |instance| async move {
        let options = ManagerOptions::new("team-operator").epoch(epoch).seed(1);
        let manager = Manager::new(instance.client(), options);
        add_to(&manager)?;
        Ok(instance.run(manager.ready(), manager.run(instance.stopped())).await?)
    });
    sleep(Duration::from_secs(86_400)).await;
    operator.start().await?;
    Client::new(env.client(), "test").create(&team(&["ada"])).await?;
    let config_maps = Api::<ConfigMap>::default_namespaced(env.client());
    let created = eventually_object(&config_maps, "red-ada", SOON, |map| {
        map.creation_timestamp().ok_or("no timestamp".to_owned())
    });
    assert_eq!(created.await?.0.to_string(), "2026-01-02T00:00:00Z");
    Ok(())
}

#[tokio::test]
async fn kubectl_reads_the_status() -> anyhow::Result<()> {
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let env = Environment::builder().transport(Transport::Tcp(loopback)).crd::<Team>().start().await?;
    let mut operator = operator(env.client());
    operator.start().await?;
    Client::new(env.client(), "test").create(&team(&["ada"])).await?;
    let teams = Api::<Team>::default_namespaced(env.client());
    eventually_object(&teams, "red", SOON, |team| {
        team.status.as_ref().map(drop).ok_or("no status".to_owned())
    })
    .await?;

    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, env.kubeconfig().unwrap_or_default())?;
    let mut kubectl = tokio::process::Command::new("kubectl");
    kubectl.arg("--kubeconfig").arg(&kubeconfig).env("HOME", folder.path());
    kubectl.args(["get", "team", "red", "--output", "jsonpath={.status.members}"]);
    match kubectl.output().await {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), "1", "{output:?}"),
        Err(error) => eprintln!("skipped: kubectl does not run: {error}"),
    }
    operator.stop().await?;
    Ok(())
}
