//! What the budget counts for decoded objects is what they take of the allocator.
#![expect(clippy::unwrap_used, reason = "a test that meets an error has failed")]

#[path = "../examples/cache-memory/pods.rs"]
mod pods;

use std::collections::BTreeMap;

use controller_runtime::{
    Client, Manager, StaticObject,
    cache::{self, Retain},
    manager::Options,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::CustomResource;
use kube_apiserver_embedded::Profile;
use kube_envtest::Environment;
use peak_alloc::PeakAlloc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// A kind whose objects are mostly lists of small things.
#[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Garden", namespaced)]
#[serde(rename_all = "camelCase")]
struct GardenSpec {
    owner: Option<String>,
    beds: Vec<Bed>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct Bed {
    name: String,
    rows: i32,
    plants: BTreeMap<String, i32>,
}

/// Creates the objects, decodes all of them, and says what that is counted for and what it took, in bytes an object.
async fn decoded<K: StaticObject>(env: &Environment, objects: Vec<K>) -> [usize; 2] {
    let client = Client::new(env.client(), "somebody");
    for object in &objects {
        client.create(object).await.unwrap();
    }
    let cache = cache::Options::default().retain(Retain::Budget(1 << 30));
    let manager = Manager::new(env.client(), Options::new("test").seed(1).cache(cache));
    let (cached, ready) = (manager.cached::<K>(), manager.ready());
    let mut all = Vec::new();
    let mut measured = [0; 2];
    let measure = async {
        ready.await.unwrap();
        all = cached.list_lazy();
        let read = |object: &cache::Lazy<K>| (0..2).for_each(|_| drop(object.object().unwrap()));
        // What the first decode takes for all.
        read(&all.pop().unwrap());
        let before = [cached.stats().hot_bytes, ALLOCATOR.current_usage()];
        all.iter().for_each(read);
        let after = [cached.stats().hot_bytes, ALLOCATOR.current_usage()];
        assert_eq!(cached.stats().hot, all.len() + 1, "all are kept");
        measured = [0, 1].map(|i| (after[i] - before[i]) / all.len());
    };
    manager.run(measure).await.unwrap();
    measured
}

#[tokio::test(start_paused = true)]
async fn the_budget_counts_what_decoded_objects_take() {
    const COUNT: usize = 200;
    // Nothing collects pods whose owners are not there.
    let server = kube_apiserver_embedded::Options::default().profile(Profile::Envtest);
    let env = Environment::builder().server_options(server).crd::<Garden>().start().await.unwrap();
    let client = Client::new(env.client(), "somebody");
    let mut generator = pods::Pods::new(1);
    let pods: Vec<Pod> = (0..COUNT).map(|_| serde_json::from_str(&generator.next()).unwrap()).collect();
    let namespaces: std::collections::BTreeSet<_> =
        pods.iter().filter_map(|pod| pod.metadata.namespace.clone()).collect();
    for name in namespaces {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name);
        client.create(&namespace).await.unwrap();
    }
    let maps = (0..COUNT).map(|number| {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("default".to_owned());
        map.metadata.name = Some(format!("map-{number}"));
        let entry = |key: usize| (format!("key-{key}.yaml"), format!("line {number}\n").repeat(1 + key * 5));
        map.data = Some((0..number % 30).map(entry).collect());
        map
    });
    let gardens = (0..COUNT).map(|number| {
        let bed = |bed: usize| Bed {
            name: format!("bed {bed} of garden {number}"),
            rows: 3,
            plants: (0..bed % 4).map(|plant| (format!("plant-{plant}"), 1)).collect(),
        };
        let spec =
            GardenSpec { owner: Some("somebody".to_owned()), beds: (0..1 + number % 20).map(bed).collect() };
        let mut garden = Garden::new(&format!("garden-{number}"), spec);
        garden.metadata.namespace = Some("default".to_owned());
        garden
    });
    let pods = pods.into_iter().map(|mut pod| {
        pod.metadata.managed_fields = None;
        pod.metadata.uid = None;
        pod.metadata.resource_version = None;
        pod
    });
    for (kind, [counted, taken]) in [
        ("Pod", decoded(&env, pods.collect()).await),
        ("ConfigMap", decoded(&env, maps.collect()).await),
        ("Garden", decoded(&env, gardens.collect()).await),
    ] {
        println!("{kind}: {counted} bytes counted, {taken} taken");
        let exact = taken * 95 / 100..=taken * 115 / 100;
        assert!(exact.contains(&counted), "{kind}: {counted} bytes counted, {taken} taken");
    }
}
