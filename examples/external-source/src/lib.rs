//! Mirrors the files of a folder into ConfigMaps. The folder stands for any system outside of the cluster: a database, a queue,
//! another service.
//!
//! [`Poller`] scans the folder and sends the names of changed files through a channel. The channel is a
//! source of the controller, and a file name is a request. The reconciler reads the file's current content.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use controller_runtime::{
    Action, BoxError, Builder, Context, Kind, Manager, MapMeta, ReconcileError, Reconciler, Verb,
    cache::{LabelSelector, Meta},
    client::ResultExt,
    manager::{AddError, RunContext, Runnable},
    source::Requests,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use tokio::sync::mpsc;

/// Namespace of the ConfigMaps.
pub const NAMESPACE: &str = "default";

/// Label of the ConfigMaps that mirror a file.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "external-source");

/// Interval between scans of the folder.
const PERIOD: Duration = Duration::from_secs(1);

/// Name of a file and of its ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct File(String);

/// Adds a controller that mirrors `folder`, and the poller that notifies it of changes.
///
/// # Errors
///
/// The manager already has this controller.
///
/// # Panics
///
/// Never: the selector is valid.
pub fn add_to(manager: &Manager, folder: &Path) -> Result<(), AddError> {
    // The channel holds names until the controller receives them. While it is full, the poller waits.
    let (changes, changed) = mpsc::channel(1024);
    manager.add(Poller { folder: folder.to_owned(), changes })?;

    let (label, value) = MANAGED_BY;
    let ours: LabelSelector = format!("{label}={value}").parse().expect("a selector");
    let file_of = |map: &Meta| (map.namespace() == Some(NAMESPACE)).then(|| File(map.name().to_owned()));
    Builder::managed_by(manager)
        .for_requests("files")
        .watches_raw_source(Requests::channel("folder", changed))
        // Restores ConfigMaps that others change. The selector keeps all other ConfigMaps out of the cache.
        .watches(Kind::<PartialObjectMeta<ConfigMap>, _>::new(MapMeta(file_of)).with_predicate(ours))
        .needs::<ConfigMap>([Verb::Apply, Verb::Delete])
        .without_events()
        .complete(Mirror { folder: folder.to_owned() })?;
    Ok(())
}

/// Writes the content of a file into its ConfigMap.
struct Mirror {
    folder: PathBuf,
}

impl Reconciler for Mirror {
    type Request = File;

    async fn reconcile(&self, File(name): &File, cx: &Context) -> Result<Action, ReconcileError> {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some(NAMESPACE.to_owned());
        map.metadata.name = Some(name.clone());
        match fs::read_to_string(self.folder.join(name)) {
            Ok(text) => {
                let (label, value) = MANAGED_BY;
                map.metadata.labels = Some([(label.to_owned(), value.to_owned())].into());
                map.data = Some([("text".to_owned(), text)].into());
                cx.client().apply(&map).await?;
            }
            // A deleted file leads to the same request as a changed one: the reconcile reads which of the two
            // it was.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                cx.client().delete(&map).any_version().await.optional()?;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(Action::done())
    }
}

/// Sends the name of each created, changed or deleted file of a folder.
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
            let found = scan(&self.folder)
                .map_err(|error| format!("cannot list the files of {}: {error}", self.folder.display()))?;
            let differs = |name: &&String| known.get(*name) != found.get(*name);
            for name in known.keys().chain(found.keys()).filter(differs) {
                self.changes.send(File(name.clone())).await?;
            }
            // Only now: if a send fails, the changes have not been reported.
            known = found;
        }
    }
}

/// Lists the files with their modification time and length, which reveal changes. It blocks briefly: for large folders, use
/// `spawn_blocking`.
fn scan(folder: &Path) -> io::Result<BTreeMap<String, (SystemTime, u64)>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let meta = match entry.metadata() {
            // The file was deleted since the folder was read.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            meta => meta?,
        };
        // No ConfigMap can have another name, so its reconcile would fail again and again.
        if let Ok(name) = entry.file_name().into_string()
            && meta.is_file()
            && is_object_name(&name)
        {
            files.insert(name, (meta.modified()?, meta.len()));
        }
    }
    Ok(files)
}

/// Whether objects can have the name: labels of letters in lower case, digits and inner dashes, with dots between them.
fn is_object_name(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = |label: &str| {
        !label.is_empty() && label.chars().all(is_inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
