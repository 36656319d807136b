//! ConfigMaps that follow the files of a folder, which stands for anything outside the cluster: a database, a queue, another
//! service.
//!
//! [`Poller`] looks at the folder and sends the names of files that have changed through a channel. The channel is a
//! source of the controller, and a name is what it reconciles; the content it reads when it comes to that.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use controller_runtime::{
    Action, Builder, Client, Context, Kind, Manager, MapMeta, Reconciler,
    cache::{LabelSelector, Meta},
    client::ResultExt,
    manager::{AddError, BoxError, RunContext, Runnable},
    reconcile,
    source::Requests,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use tokio::sync::mpsc;

/// Where the ConfigMaps are.
pub const NAMESPACE: &str = "default";

/// The label of ConfigMaps that follow a file.
pub const OURS: (&str, &str) = ("app.kubernetes.io/managed-by", "external-source");

/// How often the folder is looked at.
const PERIOD: Duration = Duration::from_secs(1);

/// The name of a file, and of its ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct File(String);

/// Gives the manager a controller that follows `folder`, and what tells it of changes.
///
/// # Errors
///
/// The manager has one.
///
/// # Panics
///
/// Never: the selector is one.
pub fn add_to(manager: &Manager, folder: &Path) -> Result<(), AddError> {
    // Files that change while nobody reconciles, before this process leads for instance, wait here.
    let (changes, changed) = mpsc::channel(1024);
    manager.add(Poller { folder: folder.to_owned(), changes })?;

    let (label, value) = OURS;
    let ours: LabelSelector = format!("{label}={value}").parse().expect("a selector");
    let file_of = |map: &Meta| (map.namespace() == Some(NAMESPACE)).then(|| File(map.name().to_owned()));
    Builder::managed_by(manager)
        .for_requests("files")
        .watches_raw_source(Requests::channel("folder", changed))
        // Who changes a ConfigMap of ours has it changed back. Others never reach this process.
        .watches(Kind::<PartialObjectMeta<ConfigMap>, _>::new(MapMeta(file_of)).with_predicate(ours))
        .complete(Mirror { folder: folder.to_owned(), client: manager.client() })?;
    Ok(())
}

/// Makes the ConfigMap of a file hold what the file does.
struct Mirror {
    folder: PathBuf,
    client: Client,
}

impl Reconciler for Mirror {
    type Request = File;

    async fn reconcile(&self, File(name): &File, _: &Context) -> Result<Action, reconcile::Error> {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some(NAMESPACE.to_owned());
        map.metadata.name = Some(name.clone());
        match fs::read_to_string(self.folder.join(name)) {
            Ok(text) => {
                let (label, value) = OURS;
                map.metadata.labels = Some([(label.to_owned(), value.to_owned())].into());
                map.data = Some([("text".to_owned(), text)].into());
                self.client.apply(&map).await?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.client.delete(&map).any_version().await.optional()?;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(Action::done())
    }
}

/// Sends the name of each file of a folder that came, changed or went.
struct Poller {
    folder: PathBuf,
    changes: mpsc::Sender<File>,
}

impl Runnable for Poller {
    fn name(&self) -> String {
        "poller".to_owned()
    }

    async fn start(&self, cx: RunContext) -> Result<(), BoxError> {
        let mut known = BTreeMap::new();
        let mut period = tokio::time::interval(PERIOD);
        loop {
            tokio::select! {
                () = cx.shutdown() => return Ok(()),
                _ = period.tick() => {}
            }
            let found = look(&self.folder)?;
            let differs = |name: &&String| known.get(*name) != found.get(*name);
            for name in known.keys().chain(found.keys()).filter(differs) {
                self.changes.send(File(name.clone())).await?;
            }
            known = found;
        }
    }
}

/// The files, each with what is different after a change: when that was, and how long the file is. A few files are read at once; for many, read them where blocking is no harm.
fn look(folder: &Path) -> io::Result<BTreeMap<String, (SystemTime, u64)>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (name, meta) = (entry.file_name().into_string(), entry.metadata()?);
        // A name that no object can have is none of our business.
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        if let Ok(name) = name
            && meta.is_file()
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(is_name)
        {
            files.insert(name, (meta.modified()?, meta.len()));
        }
    }
    Ok(files)
}
