//! The demonstration: creates three Guestbooks, scales one, breaks and repairs one, and deletes one.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use kube_envtest::eventually;
use serde_json::{Value, json};
use tokio::time::Duration;

use crate::{api::Guestbook, progress::Progress};

/// Time limit of each step.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// Number of failures after which the broken Guestbook is repaired.
const FAILURES: i32 = 5;

/// Name of the theme that is missing at first.
const THEME: &str = "roses";

/// The three Guestbooks of the demonstration, read from a folder.
///
/// Sorted by file name: the demonstration deletes the first, breaks the second and scales the third.
#[derive(Debug)]
pub struct DemoGuestbooks([DynamicObject; 3]);

impl DemoGuestbooks {
    /// Reads the Guestbook in each YAML file of `folder`.
    ///
    /// # Errors
    ///
    /// A file cannot be read, is not YAML, or contains something other than a named Guestbook; or there are not exactly three files.
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let mut files = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
        // The order of a folder differs between machines, and each Guestbook has a role in the demonstration.
        files.sort();
        let guestbooks = files.iter().map(|file| read_guestbook(file)).collect::<anyhow::Result<Vec<_>>>()?;
        let found = guestbooks.len();
        let guestbooks = guestbooks.try_into().ok().with_context(|| {
            format!(
                "{}: the demonstration needs three Guestbooks, each in a .yaml file; the folder has {found}",
                folder.display()
            )
        })?;
        Ok(Self(guestbooks))
    }
}

fn read_guestbook(file: &Path) -> anyhow::Result<DynamicObject> {
    let shown = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    let value: Value = serde_saphyr::from_str(&text).map_err(|error| {
        let error = error.to_string(); // the first line has position and reason; the others quote the file
        anyhow::anyhow!("{shown} is not YAML: {}", error.lines().next().unwrap_or_default())
    })?;
    let (kind, version) = (value["kind"].as_str(), value["apiVersion"].as_str());
    if (kind, version) != (Some("Guestbook"), Some("example.com/v1")) {
        let (kind, version) = (kind.unwrap_or("no kind"), version.unwrap_or("no apiVersion"));
        bail!("{shown} contains {kind} ({version}), not a Guestbook (example.com/v1)");
    }
    let object: DynamicObject =
        serde_json::from_value(value).with_context(|| format!("{shown} is not a Kubernetes object"))?;
    if object.metadata.name.is_none() {
        bail!("{shown}: the Guestbook has no metadata.name");
    }
    Ok(object)
}

/// Runs the demonstration in `namespace`, on a cluster on which the controller already runs.
///
/// # Errors
///
/// A step fails, or does not complete within 30 seconds. The error names the object.
pub async fn run(
    guestbooks: DemoGuestbooks,
    client: kube::Client,
    namespace: &str,
    progress: &Progress,
) -> anyhow::Result<()> {
    let demo = DemoClient {
        objects: Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<Guestbook>(&())),
        guestbooks: Api::namespaced(client.clone(), namespace),
        deployments: Api::namespaced(client.clone(), namespace),
        config_maps: Api::namespaced(client, namespace),
    };
    let [deleted, mut broken, mut scaled] = guestbooks.0;

    progress.step("create three Guestbooks");
    for guestbook in [&deleted, &broken, &scaled] {
        demo.apply(guestbook).await?;
    }
    for guestbook in [&deleted, &broken, &scaled] {
        demo.until_ready(guestbook).await?;
    }

    progress.step(&format!("scale {} to 3 replicas", scaled.name_any()));
    scaled.data["spec"]["replicas"] = json!(3);
    demo.apply(&scaled).await?;
    demo.until_ready(&scaled).await?;
    demo.until_replicas(&scaled, 3).await?;

    progress.step(&format!("break {}: name a theme that does not exist", broken.name_any()));
    // An earlier demonstration on this cluster may have left the theme.
    demo.delete_theme().await?;
    broken.data["spec"]["theme"] = json!(THEME);
    demo.apply(&broken).await?;
    demo.until_failing(&broken).await?;
    progress.step(&format!("repair {}: create ConfigMap {THEME}", broken.name_any()));
    demo.create_theme().await?;
    demo.until_ready(&broken).await?;

    progress.step(&format!("delete {}", deleted.name_any()));
    demo.delete(&deleted).await?;
    demo.until_gone(&deleted).await
}

/// Clients of the demonstration, for one namespace.
struct DemoClient {
    /// Writes Guestbooks as untyped objects, so that the API server validates them.
    objects: Api<DynamicObject>,
    guestbooks: Api<Guestbook>,
    deployments: Api<Deployment>,
    config_maps: Api<ConfigMap>,
}

impl DemoClient {
    async fn apply(&self, guestbook: &DynamicObject) -> anyhow::Result<()> {
        let name = guestbook.name_any();
        let applied = self.objects.patch(&name, &apply_params(), &Patch::Apply(guestbook)).await;
        applied.map_err(|error| failed("apply Guestbook", &name, &error)).map(|_| ())
    }

    async fn delete(&self, guestbook: &DynamicObject) -> anyhow::Result<()> {
        let name = guestbook.name_any();
        let deleted = self.guestbooks.delete(&name, &DeleteParams::default()).await;
        deleted.map_err(|error| failed("delete Guestbook", &name, &error)).map(|_| ())
    }

    /// Deletes the theme that an earlier demonstration on this cluster may have left behind.
    async fn delete_theme(&self) -> anyhow::Result<()> {
        match self.config_maps.delete(THEME, &DeleteParams::default()).await {
            Err(error) if !is_not_found(&error) => Err(failed("delete ConfigMap", THEME, &error)),
            _ => Ok(()),
        }
    }

    async fn create_theme(&self) -> anyhow::Result<()> {
        let theme = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": THEME },
            "data": { "style.css": "h1 { color: crimson }" },
        });
        let created = self.config_maps.patch(THEME, &apply_params(), &Patch::Apply(theme)).await;
        created.map_err(|error| failed("create ConfigMap", THEME, &error)).map(|_| ())
    }

    async fn until_ready(&self, guestbook: &DynamicObject) -> anyhow::Result<()> {
        let name = &*guestbook.name_any();
        let ready = eventually(STEP_TIMEOUT, async || {
            let guestbook = self.guestbooks.get(name).await.map_err(|error| error.to_string())?;
            if guestbook.is_ready() {
                return Ok(());
            }
            Err(guestbook.ready().map_or("not reconciled yet".to_owned(), |ready| ready.message.clone()))
        });
        ready.await.with_context(|| format!("Guestbook {name} is not ready"))
    }

    /// Waits until the controller has reported the missing theme [`FAILURES`] times.
    async fn until_failing(&self, guestbook: &DynamicObject) -> anyhow::Result<()> {
        let name = &*guestbook.name_any();
        let events: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(
            self.guestbooks.clone().into_client(),
            self.guestbooks.namespace().unwrap_or_default(),
        );
        let failing = eventually(STEP_TIMEOUT, async || {
            let guestbook = self.guestbooks.get(name).await.map_err(|error| error.to_string())?;
            if guestbook.ready().is_none_or(|ready| ready.reason != "ThemeNotFound") {
                return Err("its condition Ready does not have the reason ThemeNotFound".to_owned());
            }
            let events = events.list(&Default::default()).await.map_err(|error| error.to_string())?;
            // Compared by uid, because events of an earlier Guestbook of this name may still exist.
            let about = |event: &k8s_openapi::api::events::v1::Event| {
                event.reason.as_deref() == Some("ThemeNotFound")
                    && event.regarding.as_ref().and_then(|object| object.uid.clone()) == guestbook.uid()
            };
            let failures =
                events.items.iter().filter(|event| about(event)).filter_map(|event| event.series.as_ref());
            match failures.map(|series| series.count).max() {
                Some(count) if count >= FAILURES => Ok(()),
                count => {
                    Err(format!("its controller has reported {} of {FAILURES} failures", count.unwrap_or(0)))
                }
            }
        });
        failing.await.with_context(|| format!("Guestbook {name} does not fail"))
    }

    async fn until_replicas(&self, guestbook: &DynamicObject, wanted: i32) -> anyhow::Result<()> {
        let name = &*guestbook.name_any();
        let scaled = eventually(STEP_TIMEOUT, async || {
            let deployment = self.deployments.get(name).await.map_err(|error| error.to_string())?;
            let replicas = deployment.spec.and_then(|spec| spec.replicas);
            if replicas == Some(wanted) { Ok(()) } else { Err(format!("its spec.replicas is {replicas:?}")) }
        });
        scaled.await.with_context(|| format!("Deployment {name} is not scaled"))
    }

    /// Waits until the Guestbook and its children are gone and its archive exists.
    async fn until_gone(&self, guestbook: &DynamicObject) -> anyhow::Result<()> {
        let name = &*guestbook.name_any();
        let archive = format!("{name}-archive");
        let gone = eventually(STEP_TIMEOUT, async || {
            let found = |what: &str, there: bool| {
                if there { Err(format!("{what} is still there")) } else { Ok(()) }
            };
            let text = |error: kube::Error| error.to_string();
            found("the Guestbook", self.guestbooks.get_opt(name).await.map_err(text)?.is_some())?;
            found("its Deployment", self.deployments.get_opt(name).await.map_err(text)?.is_some())?;
            found("its ConfigMap", self.config_maps.get_opt(name).await.map_err(text)?.is_some())?;
            self.config_maps.get(&archive).await.map_err(text).map(|_| ())
        });
        gone.await.with_context(|| format!("Guestbook {name} is not deleted completely"))
    }
}

fn apply_params() -> PatchParams {
    PatchParams::apply("guestbook-demo").force()
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Formats a failure as one line with the object and the API server's message.
fn failed(what: &str, name: &str, error: &kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow::anyhow!("cannot {what} {name}: {}", status.message.trim()),
        other => anyhow::anyhow!("cannot {what} {name}: {other}"),
    }
}
