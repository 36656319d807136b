//! A control plane of shell scripts in place of binaries. There is one test per process: executing a freshly written script fails
//! while another thread's forked child still has it open.
#![expect(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use kube_envtest::{Assets, Cluster, ControlPlaneError, Environment, ProcessError, StartError};

fn script(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

async fn start(assets: Assets) -> ProcessError {
    let started = Environment::builder().cluster(Cluster::Binaries(assets)).start().await;
    match started.unwrap_err() {
        StartError::ControlPlane(ControlPlaneError::Process(error)) => error,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_failed_start_is_reported_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("calls");
    let note = note.display();
    let data = || -> Vec<PathBuf> {
        let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
        let data = calls.split_whitespace().filter_map(|word| word.strip_prefix("--data-dir="));
        data.map(PathBuf::from).collect()
    };
    script(folder.path(), "kube-apiserver", "exit 0");
    script(
        folder.path(),
        "etcd",
        &format!("echo \"$@\" >> {note}; echo 'bind: address already in use' >&2; exit 1"),
    );
    let assets = Assets::in_folder(folder.path()).unwrap();

    let error = start(assets.clone()).await;
    let text = error.to_string();
    assert!(text.starts_with("etcd ended before it was ready") && text.ends_with("already in use"), "{text}");
    assert_eq!(data().len(), 5, "a port conflict is retried");

    let hang = format!("echo \"$@\" >> {note}; echo $$ > {note}.pid; exec sleep 1000");
    script(folder.path(), "etcd", &hang);
    let error = start(assets.start_timeout(Duration::from_millis(500))).await;
    assert!(matches!(&error, ProcessError::NotReady { name: "etcd", .. }), "{error}");
    let pid = fs::read_to_string(folder.path().join("calls.pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "process {pid} is still there");

    assert_eq!(data().len(), 6);
    for folder in data() {
        assert!(!folder.exists(), "{} is still there", folder.display());
    }
}
