//! Operators of a few lines, each of which sends other requests.

use controller_runtime::{
    Action, Builder, Cached, Context, DynamicKind, Manager, MapMeta, ObjectKey, ReconcileError, Verb,
    cache::Meta,
    client::{Patch, ResultExt},
    has_finalizer, reconcile,
    rights::Right,
};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace, Node, Pod, Secret, Service},
        rbac::v1::Role,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    CustomResource, CustomResourceExt, ResourceExt,
    core::{DynamicObject, PartialObjectMeta},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Audited;

type Done = Result<Action, ReconcileError>;

/// Label of the objects that an operator is for, because all operators share one cluster.
fn is_for(object: &impl ResourceExt, operator: &str) -> bool {
    object.labels().get("for").is_some_and(|value| value == operator)
}

pub(crate) fn all() -> Vec<Audited> {
    vec![
        Audited {
            name: "node-marker",
            definitions: Vec::new(),
            add: node_marker,
            steps: "
                apply /api/v1/nodes/one {metadata: {labels: {for: node-marker}}}
                until /api/v1/nodes/one /metadata/annotations/seen by-name
            ",
        },
        Audited {
            name: "archivist",
            definitions: Vec::new(),
            add: archivist,
            steps: "
                apply /api/v1/namespaces/archivist/configmaps/a {metadata: {labels: {for: archivist}}}
                until /api/v1/namespaces/archivist/configmaps/a /metadata/finalizers/0 example.com/archive
                delete /api/v1/namespaces/archivist/configmaps/a
                gone /api/v1/namespaces/archivist/configmaps/a
            ",
        },
        Audited {
            name: "token-maker",
            definitions: Vec::new(),
            add: token_maker,
            steps: "
                apply /api/v1/namespaces/token-maker/configmaps/a {metadata: {labels: {for: token-maker}}}
                exists /api/v1/namespaces/token-maker/secrets/a
            ",
        },
        Audited {
            name: "evictor",
            definitions: Vec::new(),
            add: evictor,
            steps: "
                apply /api/v1/namespaces/evictor/pods/a {metadata: {labels: {for: evictor}}, spec: {containers: [{name: web, image: nginx}]}}
                gone /api/v1/namespaces/evictor/pods/a
            ",
        },
        Audited {
            name: "scaler",
            definitions: Vec::new(),
            add: scaler,
            steps: "
                apply /apis/apps/v1/namespaces/scaler/deployments/a {metadata: {labels: {for: scaler}}, spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: web, image: nginx}]}}}}
                until /apis/apps/v1/namespaces/scaler/deployments/a /spec/replicas 3
            ",
        },
        Audited {
            name: "load-balancer",
            definitions: Vec::new(),
            add: load_balancer,
            steps: "
                apply /api/v1/namespaces/load-balancer/services/a {metadata: {labels: {for: load-balancer}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}
                until /api/v1/namespaces/load-balancer/services/a /status/loadBalancer/ingress/0/hostname example.com
            ",
        },
        Audited {
            name: "complainer",
            definitions: Vec::new(),
            add: complainer,
            steps: "
                apply /api/v1/namespaces/complainer/configmaps/a {metadata: {labels: {for: complainer}}}
                any /api/v1/namespaces/complainer/events?fieldSelector=reason%3DBroken
                apply /api/v1/namespaces/complainer/configmaps/a {metadata: {labels: {for: complainer}}, data: {again: please}}
                until /api/v1/namespaces/complainer/events?fieldSelector=reason%3DBroken /items/0/series/count 2
            ",
        },
        Audited {
            name: "gadgets",
            definitions: vec![definition("Gadget", "gadgets"), definition("Part", "parts")],
            add: gadgets,
            steps: "
                apply /apis/example.com/v1/namespaces/gadgets/gadgets/a {}
                exists /apis/example.com/v1/namespaces/gadgets/parts/a
            ",
        },
        Audited {
            name: "live-reader",
            definitions: Vec::new(),
            add: live_reader,
            steps: "
                apply /api/v1/namespaces/live-reader/secrets/a {data: {key: b25l}}
                apply /api/v1/namespaces/live-reader/configmaps/a {metadata: {labels: {for: live-reader}}}
                until /api/v1/namespaces/live-reader/configmaps/a /data/keys 1
            ",
        },
        Audited {
            name: "sweeper",
            definitions: Vec::new(),
            add: sweeper,
            steps: "
                apply /api/v1/namespaces/sweeper/configmaps/a {metadata: {labels: {kind: litter}}}
                apply /api/v1/namespaces/sweeper {metadata: {labels: {for: sweeper}}}
                gone /api/v1/namespaces/sweeper/configmaps/a
            ",
        },
        Audited {
            name: "one-setting",
            definitions: Vec::new(),
            add: one_setting,
            steps: "
                apply /api/v1/namespaces/one-setting/configmaps/settings {data: {a: b}}
                until /api/v1/namespaces/one-setting/configmaps/settings /metadata/annotations/seen by-name
            ",
        },
        Audited {
            name: "role-maker",
            definitions: Vec::new(),
            add: role_maker,
            steps: "
                apply /api/v1/namespaces/role-maker {metadata: {labels: {for: role-maker}}}
                exists /apis/rbac.authorization.k8s.io/v1/namespaces/role-maker/roles/readers
            ",
        },
        Audited {
            name: "rewriter",
            definitions: vec![Note::crd()],
            add: rewriter,
            steps: "
                apply /apis/example.com/v1/namespaces/rewriter/notes/a {spec: {text: hello}}
                until /apis/example.com/v1/namespaces/rewriter/notes/a /spec/text HELLO
                until /apis/example.com/v1/namespaces/rewriter/notes/a /status/letters 5
            ",
        },
        Audited {
            name: "metrics-reader",
            definitions: Vec::new(),
            add: metrics_reader,
            steps: "
                apply /api/v1/namespaces/metrics-reader/configmaps/a {metadata: {labels: {for: metrics-reader}}}
                until /api/v1/namespaces/metrics-reader/configmaps/a /data/metrics read
            ",
        },
    ]
}

/// Patches objects of the cluster.
fn node_marker(manager: &Manager) -> anyhow::Result<()> {
    async fn mark(nodes: &Cached<Node>, key: &ObjectKey<Node>, cx: &Context) -> Done {
        if nodes.get(key)?.is_some_and(|node| is_for(&*node, "node-marker")) {
            cx.client().merge_patch(key, &seen()).await?;
        }
        Ok(Action::done())
    }
    let builder =
        Builder::managed_by(manager).for_kind::<Node>().needs::<Node>([Verb::Patch]).without_events();
    builder.complete(reconcile::from_fn_with(manager.cached(), mark))?;
    Ok(())
}

fn seen() -> Value {
    json!({ "metadata": { "annotations": { "seen": "by-name" } } })
}

/// Delays the deletion of objects.
fn archivist(manager: &Manager) -> anyhow::Result<()> {
    const FINALIZER: &str = "example.com/archive";
    async fn archive(maps: &Cached<ConfigMap>, key: &ObjectKey<ConfigMap>, cx: &Context) -> Done {
        match maps.get(key)?.filter(|map| is_for(&**map, "archivist")) {
            Some(map) if map.metadata.deletion_timestamp.is_none() => {
                cx.client().add_finalizer(&*map, FINALIZER).await?;
            }
            Some(map) if has_finalizer(&*map, FINALIZER) => {
                cx.client().remove_finalizer(&*map, FINALIZER).await?;
            }
            _ => {}
        }
        Ok(Action::done())
    }
    let builder =
        Builder::managed_by(manager).for_kind::<ConfigMap>().with_finalizer(FINALIZER).without_events();
    builder.complete(reconcile::from_fn_with(manager.cached(), archive))?;
    Ok(())
}

/// Watches one namespace, and creates objects without apply.
fn token_maker(manager: &Manager) -> anyhow::Result<()> {
    async fn make(maps: &Cached<ConfigMap>, key: &ObjectKey<ConfigMap>, cx: &Context) -> Done {
        if maps.get(key)?.is_some_and(|map| is_for(&*map, "token-maker")) {
            let mut secret = Secret::default();
            secret.metadata.namespace = key.namespace().map(str::to_owned);
            secret.metadata.name = Some(key.name().to_owned());
            cx.client().create(&secret).await.optional()?;
        }
        Ok(Action::done())
    }
    let here = manager.cache().of::<ConfigMap>().namespaces(["token-maker"]).build()?;
    let create = Right::on::<Secret>([Verb::Create]).in_namespaces(["token-maker"]);
    let builder = Builder::managed_by(manager)
        .for_kind::<ConfigMap>()
        .through(&here)
        .needs_right(create)
        .without_events();
    builder.complete(reconcile::from_fn_with(here, make))?;
    Ok(())
}

/// Creates a subresource.
fn evictor(manager: &Manager) -> anyhow::Result<()> {
    async fn evict(pods: &Cached<Pod>, key: &ObjectKey<Pod>, cx: &Context) -> Done {
        if pods.get(key)?.is_some_and(|pod| is_for(&*pod, "evictor")) {
            let eviction = json!({
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": { "name": key.name(), "namespace": key.namespace() },
            });
            cx.client().subresource(key, "eviction").create::<Value>(&eviction).await.optional()?;
        }
        Ok(Action::done())
    }
    let builder = Builder::managed_by(manager).for_kind::<Pod>().without_events();
    let builder = builder.needs_subresource::<Pod>("eviction", [Verb::Create]);
    builder.complete(reconcile::from_fn_with(manager.cached(), evict))?;
    Ok(())
}

/// Reads and patches a subresource.
fn scaler(manager: &Manager) -> anyhow::Result<()> {
    async fn scale(deployments: &Cached<Deployment>, key: &ObjectKey<Deployment>, cx: &Context) -> Done {
        if deployments.get(key)?.is_some_and(|deployment| is_for(&*deployment, "scaler")) {
            let scale = cx.client().subresource(key, "scale");
            let now: Value = scale.get().await?;
            if now["spec"]["replicas"] != 3 {
                scale.patch::<Value>(Patch::merge(&json!({ "spec": { "replicas": 3 } }))).await?;
            }
        }
        Ok(Action::done())
    }
    let builder = Builder::managed_by(manager).for_kind::<Deployment>().without_events();
    let builder = builder.needs_subresource::<Deployment>("scale", [Verb::Get, Verb::Patch]);
    builder.complete(reconcile::from_fn_with(manager.cached(), scale))?;
    Ok(())
}

/// Writes the status of a builtin kind.
fn load_balancer(manager: &Manager) -> anyhow::Result<()> {
    async fn announce(services: &Cached<Service>, key: &ObjectKey<Service>, cx: &Context) -> Done {
        if services.get(key)?.is_some_and(|service| is_for(&*service, "load-balancer")) {
            let status =
                json!({ "status": { "loadBalancer": { "ingress": [{ "hostname": "example.com" }] } } });
            cx.client().subresource(key, "status").patch::<Value>(Patch::merge(&status)).await?;
        }
        Ok(Action::done())
    }
    let builder = Builder::managed_by(manager).for_kind::<Service>().without_events();
    let builder = builder.needs_subresource::<Service>("status", [Verb::Patch]);
    builder.complete(reconcile::from_fn_with(manager.cached(), announce))?;
    Ok(())
}

/// Records an event, and the same one again.
fn complainer(manager: &Manager) -> anyhow::Result<()> {
    async fn complain(maps: &Cached<ConfigMap>, key: &ObjectKey<ConfigMap>, cx: &Context) -> Done {
        if let Some(map) = maps.get(key)?.filter(|map| is_for(&**map, "complainer")) {
            cx.events().warning(&*map, "Broken", "Inspect", "it is broken".to_owned());
        }
        Ok(Action::done())
    }
    let builder = Builder::managed_by(manager).for_kind::<ConfigMap>();
    builder.complete(reconcile::from_fn_with(manager.cached(), complain))?;
    Ok(())
}

/// Definition of a kind without rules.
fn definition(kind: &str, plural: &str) -> CustomResourceDefinition {
    let object = json!({
        "metadata": { "name": format!("{plural}.example.com") },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "kind": kind, "plural": plural },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } } }],
        },
    });
    serde_json::from_value(object).expect("a definition")
}

/// Owns objects of kinds that are known at run time.
fn gadgets(manager: &Manager) -> anyhow::Result<()> {
    async fn make(
        (gadgets, part): &(Cached<DynamicObject>, DynamicKind),
        key: &ObjectKey<DynamicObject>,
        cx: &Context,
    ) -> Done {
        if let Some(gadget) = gadgets.get(key)? {
            let mut owned = DynamicObject::new(key.name(), part.resource());
            owned.metadata.namespace = key.namespace().map(str::to_owned);
            owned.metadata.owner_references = Some(vec![json_owner(&gadget)?]);
            cx.client().of(part.clone()).apply(&owned).await?;
        }
        Ok(Action::done())
    }
    let kind = DynamicKind::namespaced("example.com", "v1", "Gadget", "gadgets");
    let part = DynamicKind::namespaced("example.com", "v1", "Part", "parts");
    let gadgets = manager.cache().of_dynamic(&kind).build()?;
    let builder = Builder::managed_by(manager).for_dynamic(&kind).owns_dynamic(&part).without_events();
    builder.complete(reconcile::from_fn_with((gadgets, part), make))?;
    Ok(())
}

fn json_owner(
    gadget: &DynamicObject,
) -> Result<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference, serde_json::Error> {
    serde_json::from_value(json!({
        "apiVersion": "example.com/v1", "kind": "Gadget", "name": gadget.name_any(), "uid": gadget.uid(), "controller": true,
    }))
}

/// Reads objects that are not cached: one, and many.
fn live_reader(manager: &Manager) -> anyhow::Result<()> {
    async fn read(
        maps: &Cached<PartialObjectMeta<ConfigMap>>,
        key: &ObjectKey<ConfigMap>,
        cx: &Context,
    ) -> Done {
        let meta_key = ObjectKey::new(key.namespace().unwrap_or_default(), key.name());
        if maps.get(&meta_key)?.is_some_and(|map| is_for(&*map, "live-reader")) {
            let secret: Option<Secret> = cx.client().get(&ObjectKey::new("live-reader", key.name())).await?;
            let all = cx.client().list::<Secret>().in_namespace("live-reader").await?;
            let keys = secret.and_then(|secret| secret.data).map_or(0, |data| data.len());
            let patch = json!({ "data": { "keys": keys.min(all.items.len()).to_string() } });
            cx.client().merge_patch(key, &patch).await?;
        }
        Ok(Action::done())
    }
    let key =
        |meta: &Meta| Some(ObjectKey::<ConfigMap>::new(meta.namespace().unwrap_or_default(), meta.name()));
    let builder = Builder::managed_by(manager).for_requests::<ObjectKey<ConfigMap>>("live-reader");
    let builder = builder.watches_metadata::<ConfigMap>(MapMeta(key)).without_events();
    let secrets = Right::on::<Secret>([Verb::Get, Verb::List]).in_namespaces(["live-reader"]);
    let builder = builder.needs::<ConfigMap>([Verb::Patch]).needs_right(secrets);
    builder.complete(reconcile::from_fn_with(manager.cached(), read))?;
    Ok(())
}

/// Deletes many objects at once.
fn sweeper(manager: &Manager) -> anyhow::Result<()> {
    async fn sweep(namespaces: &Cached<Namespace>, key: &ObjectKey<Namespace>, cx: &Context) -> Done {
        if namespaces.get(key)?.is_some_and(|namespace| is_for(&*namespace, "sweeper")) {
            cx.client().delete_all::<ConfigMap>().in_namespace(key.name()).labels("kind=litter").await?;
        }
        Ok(Action::done())
    }
    let builder = Builder::managed_by(manager).for_kind::<Namespace>().without_events();
    let builder = builder.needs::<ConfigMap>([Verb::DeleteCollection]);
    builder.complete(reconcile::from_fn_with(manager.cached(), sweep))?;
    Ok(())
}

/// Watches and patches the object of one name.
fn one_setting(manager: &Manager) -> anyhow::Result<()> {
    async fn mark(maps: &Cached<ConfigMap>, key: &ObjectKey<ConfigMap>, cx: &Context) -> Done {
        if maps.get(key)?.is_some() {
            cx.client().merge_patch(key, &seen()).await?;
        }
        Ok(Action::done())
    }
    let one = manager
        .cache()
        .of::<ConfigMap>()
        .namespaces(["one-setting"])
        .fields("metadata.name=settings")
        .build()?;
    let patch = Right::on::<ConfigMap>([Verb::Patch]).named(["settings"]).in_namespaces(["one-setting"]);
    let builder = Builder::managed_by(manager)
        .for_kind::<ConfigMap>()
        .through(&one)
        .needs_right(patch)
        .without_events();
    builder.complete(reconcile::from_fn_with(one, mark))?;
    Ok(())
}

/// Grants rights, which it needs itself.
fn role_maker(manager: &Manager) -> anyhow::Result<()> {
    async fn make(namespaces: &Cached<Namespace>, key: &ObjectKey<Namespace>, cx: &Context) -> Done {
        if namespaces.get(key)?.is_some_and(|namespace| is_for(&*namespace, "role-maker")) {
            let role: Role = serde_json::from_value(json!({
                "metadata": { "name": "readers", "namespace": key.name() },
                "rules": [{ "apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"] }],
            }))?;
            cx.client().apply(&role).await?;
        }
        Ok(Action::done())
    }
    let builder =
        Builder::managed_by(manager).for_kind::<Namespace>().needs::<Role>([Verb::Apply]).without_events();
    builder.complete(reconcile::from_fn_with(manager.cached(), make))?;
    Ok(())
}

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Note", namespaced, status = "NoteStatus")]
struct NoteSpec {
    text: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct NoteStatus {
    letters: usize,
}

/// Replaces whole objects, and writes their status.
fn rewriter(manager: &Manager) -> anyhow::Result<()> {
    async fn rewrite(notes: &Cached<Note>, key: &ObjectKey<Note>, cx: &Context) -> Done {
        if let Some(note) = notes.get(key)? {
            let text = note.spec.text.to_uppercase();
            if note.spec.text != text {
                let mut note = (*note).clone();
                note.spec.text.clone_from(&text);
                cx.client().update(&note).await?;
            }
            cx.client().apply_status(key, &NoteStatus { letters: text.len() }).await?;
        }
        Ok(Action::done())
    }
    let builder =
        Builder::managed_by(manager).for_kind::<Note>().needs::<Note>([Verb::Update]).without_events();
    builder.complete(reconcile::from_fn_with(manager.cached(), rewrite))?;
    Ok(())
}

/// Reads a path outside of the resource API, with a `kube::Client`.
fn metrics_reader(manager: &Manager) -> anyhow::Result<()> {
    async fn read(maps: &Cached<ConfigMap>, key: &ObjectKey<ConfigMap>, cx: &Context) -> Done {
        if maps.get(key)?.is_some_and(|map| is_for(&*map, "metrics-reader")) {
            let request = http::Request::get("/metrics").body(Vec::new())?;
            cx.client().kube().request_text(request).await?;
            cx.client().merge_patch(key, &json!({ "data": { "metrics": "read" } })).await?;
        }
        Ok(Action::done())
    }
    manager.needs_url("/metrics", [Verb::Get]);
    let builder = Builder::managed_by(manager)
        .for_kind::<ConfigMap>()
        .needs::<ConfigMap>([Verb::Patch])
        .without_events();
    builder.complete(reconcile::from_fn_with(manager.cached(), read))?;
    Ok(())
}
