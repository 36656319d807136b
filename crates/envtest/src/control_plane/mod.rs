//! Runs etcd and kube-apiserver as local processes, from the binaries of `KUBEBUILDER_ASSETS`.

mod assets;
mod audit;
mod certificates;
mod commands;
mod process;

use std::{fmt, net::TcpListener, path::Path, time::Duration};

use kube::config::{KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;
use tokio::time::Instant;

pub use self::{
    assets::{Assets, AssetsError},
    process::ProcessError,
};
pub(crate) use self::{audit::AuditFiles, certificates::base64};
use self::{
    certificates::Authority,
    commands::{ApiServerArguments, Command, etcd},
    process::Process,
};

/// Maximum number of attempts to start, if other processes take the free ports first, as in Go's envtest.
const STARTS: u32 = 5;

/// Time limit, from readiness on, within which the API server creates the namespace `default`, as in Go's envtest.
const NAMESPACE_WITHIN: Duration = Duration::from_secs(5);

/// A running control plane. Dropping it kills its processes, waits for them to exit, and removes their files.
pub(crate) struct ControlPlane {
    // Fields are dropped in this order. The API server ends before etcd, on which it depends.
    api_server: Process,
    etcd: Process,
    authority: Authority,
    url: String,
    audit: Option<AuditFiles>,
    stop_timeout: Duration,
    _files: TempDir,
}

impl ControlPlane {
    pub(crate) async fn start(assets: &Assets) -> Result<Self, ControlPlaneError> {
        let mut attempt = 1;
        loop {
            // `free_ports` releases the ports before the processes bind them, so another process can take one.
            match Self::start_once(assets).await {
                Err(ControlPlaneError::Process(ProcessError::Ended { output, .. }))
                    if attempt < STARTS && output.to_lowercase().contains("address already in use") =>
                {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn start_once(assets: &Assets) -> Result<Self, ControlPlaneError> {
        // Both processes share one deadline, so the startup of etcd counts too.
        let deadline = Instant::now() + assets.start_timeout;
        let files = tempfile::Builder::new().prefix("kube-envtest-").tempdir().map_err(cannot_write)?;
        let (etcd_port, port) = free_ports().map_err(cannot_write)?;

        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let command = etcd(&assets.etcd, &etcd_url, &folder(&files, "etcd")?);
        let etcd = spawn(&command, &files, assets)?;
        let probe = anonymous(&etcd_url)?;
        // The API server needs etcd when it starts.
        let etcd = etcd.ready(deadline, || get(&probe, "/health")).await?;

        let authority = Authority::new()?;
        let certificates = folder(&files, "certificates")?;
        authority.write_for_api_server(&certificates)?;
        let flags = &assets.api_server_flags;
        let audit = AuditFiles::write(files.path(), flags).map_err(cannot_write)?;
        let arguments = ApiServerArguments {
            port,
            etcd_url: &etcd_url,
            certificates: &certificates,
            audit: audit.as_ref(),
            flags,
        };
        let api_server = spawn(&arguments.command(&assets.api_server), &files, assets)?;
        let url = format!("https://127.0.0.1:{port}");
        let admin = client(&authority.kubeconfig(&url, "envtest-admin", &["system:masters"])?).await?;
        let api_server = api_server.ready(deadline, || get(&admin, "/readyz")).await?;
        // The API server creates this namespace only after it is ready, and most tests begin with objects in
        // it.
        let api_server = with_default_namespace(api_server, &admin).await?;
        let stop_timeout = assets.stop_timeout;
        Ok(Self { api_server, etcd, authority, url, audit, stop_timeout, _files: files })
    }

    /// Returns the kubeconfig of a user with a client certificate of this control plane.
    pub(crate) fn kubeconfig(&self, user: &str, groups: &[&str]) -> Result<String, ControlPlaneError> {
        Ok(self.authority.kubeconfig(&self.url, user, groups)?)
    }

    /// The audit log; `None` if flags of the test configure the audit.
    pub(crate) fn audit(&self) -> Option<&AuditFiles> {
        self.audit.as_ref()
    }

    /// Sends SIGTERM to the processes and waits until they have exited.
    pub(crate) async fn stop(mut self) -> Result<(), ControlPlaneError> {
        let deadline = Instant::now() + self.stop_timeout;
        // The API server ends first, because it depends on etcd.
        self.api_server.stop(deadline).await?;
        Ok(self.etcd.stop(deadline).await?)
    }
}

/// Two free ports. Both are reserved at the same time so that they differ.
fn free_ports() -> std::io::Result<(u16, u16)> {
    // Both are open at the same time, so that the ports differ.
    let (first, second) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    Ok((first.local_addr()?.port(), second.local_addr()?.port()))
}

fn folder(files: &TempDir, name: &str) -> Result<std::path::PathBuf, ControlPlaneError> {
    let path = files.path().join(name);
    std::fs::create_dir(&path).map_err(cannot_write)?;
    Ok(path)
}

fn spawn(command: &Command, files: &TempDir, assets: &Assets) -> Result<Process, ControlPlaneError> {
    let log = files.path().join(format!("{}.log", command.name));
    Ok(Process::spawn(command, (!assets.attach_output).then_some(log.as_path() as &Path))?)
}

/// Creates a client without credentials.
fn anonymous(url: &str) -> Result<kube::Client, ControlPlaneError> {
    let url = url.parse().map_err(|error| ControlPlaneError::Url { url: url.to_owned(), source: error })?;
    Ok(kube::Client::try_from(kube::Config::new(url))?)
}

/// Creates a client from a kubeconfig.
pub(crate) async fn client(kubeconfig: &str) -> Result<kube::Client, kube::Error> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(kube::Error::InferKubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    kube::Client::try_from(config.map_err(kube::Error::InferKubeconfig)?)
}

/// Waits for the namespace `default`, which the API server creates shortly after it reports ready.
async fn with_default_namespace(api_server: Process, admin: &kube::Client) -> Result<Process, ProcessError> {
    let deadline = Instant::now() + NAMESPACE_WITHIN;
    api_server.ready(deadline, || get(admin, "/api/v1/namespaces/default")).await
}

async fn get(client: &kube::Client, path: &str) -> Result<(), String> {
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    client.request_text(request).await.map(drop).map_err(|error| error.to_string())
}

fn cannot_write(source: std::io::Error) -> ControlPlaneError {
    ControlPlaneError::Files { source }
}

/// Failure to start or stop a control plane.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlPlaneError {
    /// A process did not start, become ready, or exit.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A certificate could not be generated.
    #[error("cannot make certificates")]
    Certificate(#[from] rcgen::Error),
    /// Files or ports could not be allocated.
    #[error("cannot prepare files and ports for the control plane")]
    Files {
        /// Cause.
        source: std::io::Error,
    },
    /// An address of the control plane is not a valid URL.
    #[error("{url} is not a valid URL")]
    Url {
        /// Text of the address.
        url: String,
        /// Cause.
        source: http::uri::InvalidUri,
    },
    /// No client could be created. The usual cause is that the binary enables no TLS feature of `kube`.
    #[error(
        "cannot create a client for the control plane: enable a TLS feature of kube, such as rustls-tls with ring"
    )]
    Client(#[from] kube::Error),
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlPlane").field("url", &self.url).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{Ready, ready},
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering::SeqCst},
        },
        task::{Context, Poll},
    };

    use http::{Request, Response, StatusCode};
    use kube::client::Body;

    use super::*;

    /// An API server that has the namespace `default` from the `from`th request on.
    #[derive(Clone)]
    struct Late {
        from: u32,
        asked: Arc<AtomicU32>,
    }

    impl tower_service::Service<Request<Body>> for Late {
        type Response = Response<Body>;
        type Error = kube::Error;
        type Future = Ready<Result<Response<Body>, kube::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<Body>) -> Self::Future {
            assert_eq!(request.uri().path(), "/api/v1/namespaces/default");
            let asked = self.asked.fetch_add(1, SeqCst) + 1;
            let text = r#"{"kind":"Status","status":"Failure","message":"not found","reason":"NotFound","code":404}"#;
            let mut response = Response::new(Body::from(text.as_bytes().to_vec()));
            *response.status_mut() = if asked < self.from { StatusCode::NOT_FOUND } else { StatusCode::OK };
            ready(Ok(response))
        }
    }

    async fn wait_for(from: u32) -> (Result<Process, ProcessError>, u32) {
        let arguments = vec!["1000".to_owned()];
        let sleeps = Command { name: "kube-apiserver", program: "/bin/sleep".into(), arguments };
        let process = Process::spawn(&sleeps, None).unwrap();
        let asked = Arc::new(AtomicU32::new(0));
        let admin = kube::Client::new(Late { from, asked: Arc::clone(&asked) }, "default");
        (with_default_namespace(process, &admin).await, asked.load(SeqCst))
    }

    #[tokio::test(start_paused = true)]
    async fn the_start_waits_for_the_default_namespace_and_names_it_if_missing() {
        let (ready, asked) = wait_for(3).await;
        assert!(ready.is_ok() && asked == 3, "{asked}");
        let (never, _) = wait_for(u32::MAX).await;
        let text = never.unwrap_err().to_string();
        assert!(
            text.starts_with("kube-apiserver is not ready after 5s") && text.contains("not found"),
            "{text}"
        );
    }
}
