//! The runtime against a genuine kube-apiserver and etcd, in real time, if `KUBEBUILDER_ASSETS` is set.

mod cache;
mod client;
mod manager;
mod served;
mod webhooks;

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use controller_runtime::{Client, Manager, ManagerOptions, ObjectKey};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use kube_envtest::{Assets, Cluster, Environment};
use tokio::sync::Mutex;

use crate::support::{Widget, widget};

/// Time limit of steps that usually take a moment.
const SOON: Duration = Duration::from_secs(30);

/// User without permissions.
const NOBODY: &str = "nobody";

/// The environment that running tests share. Weak, because a static is never dropped, and its processes would stay.
static RUNNING: Mutex<Weak<Environment>> = Mutex::const_new(Weak::new());

/// A namespace of a genuine cluster, with a client for this test's runtime.
struct Genuine {
    env: Arc<Environment>,
    kube: kube::Client,
    namespace: String,
}

/// Returns a namespace of a cluster that tests share; `None` without binaries.
async fn genuine() -> Option<Genuine> {
    let assets = assets()?;
    let mut running = RUNNING.lock().await;
    let env = match running.upgrade() {
        Some(env) => env,
        None => Arc::new(start(assets).await),
    };
    *running = Arc::downgrade(&env);
    drop(running);
    Some(Genuine::on(env).await)
}

/// Returns a namespace of a separate cluster with these flags.
async fn genuine_with_flags(flags: &[&str]) -> Option<Genuine> {
    let assets = flags.iter().fold(assets()?, |assets, flag| assets.api_server_flag(*flag));
    Some(Genuine::on(Arc::new(start(assets).await)).await)
}

fn assets() -> Option<Assets> {
    if Assets::are_configured() {
        return Some(Assets::from_env().unwrap());
    }
    eprintln!("skipped: KUBEBUILDER_ASSETS is not set");
    None
}

async fn start(assets: Assets) -> Environment {
    let env = Environment::builder().cluster(Cluster::Binaries(assets)).crd::<Widget>();
    env.user(NOBODY, ["nothing"]).start().await.unwrap()
}

async fn client_of(kubeconfig: &str) -> kube::Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.unwrap().try_into().unwrap()
}

impl Genuine {
    async fn on(env: Arc<Environment>) -> Self {
        let kube = client_of(env.kubeconfig().unwrap()).await;
        let mut namespace = Namespace::default();
        namespace.metadata.generate_name = Some("test-".to_owned());
        let made = Api::all(kube.clone()).create(&PostParams::default(), &namespace).await.unwrap();
        Self { env, kube, namespace: made.metadata.name.unwrap() }
    }

    /// Returns a client of the user without permissions.
    async fn nobody(&self) -> kube::Client {
        client_of(self.env.user(NOBODY).await.unwrap().kubeconfig().unwrap()).await
    }

    fn client(&self) -> Client {
        Client::new(self.kube.clone(), "test")
    }

    fn manager(&self) -> Manager {
        Manager::new(self.kube.clone(), ManagerOptions::new("test"))
    }

    fn widget(&self, name: &str, size: i32) -> Widget {
        let mut widget = widget(name, size);
        widget.metadata.namespace = Some(self.namespace.clone());
        widget
    }

    fn key(&self, name: &str) -> ObjectKey<Widget> {
        ObjectKey::new(self.namespace.as_str(), name)
    }

    fn api<K: kube::Resource<Scope = kube::core::NamespaceResourceScope>>(&self) -> Api<K>
    where
        K::DynamicType: Default,
    {
        Api::namespaced(self.kube.clone(), &self.namespace)
    }
}
