//! Command lines of etcd and kube-apiserver.

use std::path::{Path, PathBuf};

use super::audit::AuditFiles;

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    /// Name in messages and of the log file.
    pub(super) name: &'static str,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
}

/// etcd for one test. It listens on loopback and skips fsync, because its data need not survive a crash of the machine.
pub(super) fn etcd(program: &Path, url: &str, data: &Path) -> Command {
    let arguments = vec![
        format!("--data-dir={}", data.display()),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        // The peer port is not used; port 0 picks a free one.
        "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
        // The data lives as long as the test, so no write needs to survive a crash of the machine.
        "--unsafe-no-fsync=true".to_owned(),
    ];
    Command { name: "etcd", program: program.to_owned(), arguments }
}

/// Arguments that differ between API servers.
#[derive(Debug, Clone, Copy)]
pub(super) struct ApiServerArguments<'a> {
    pub(super) port: u16,
    pub(super) etcd_url: &'a str,
    /// Folder written by [`super::certificates`].
    pub(super) certificates: &'a Path,
    /// Policy and folder of the audit log; `None` if flags of the test configure the audit.
    pub(super) audit: Option<&'a AuditFiles>,
    /// Additional flags of the test, appended last.
    pub(super) flags: &'a [String],
}

impl ApiServerArguments<'_> {
    /// kube-apiserver for one test, with the flags of Go's envtest: loopback only, client certificates, RBAC, and no service
    /// account required for pods.
    pub(super) fn command(self, program: &Path) -> Command {
        let Self { port, etcd_url, certificates, audit, flags } = self;
        let file = |name: &str| certificates.join(name).display().to_string();
        let mut arguments = vec![
            format!("--etcd-servers={etcd_url}"),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", certificates.display()),
            format!("--tls-cert-file={}", file("apiserver.crt")),
            format!("--tls-private-key-file={}", file("apiserver.key")),
            format!("--client-ca-file={}", file("ca.crt")),
            format!("--service-account-issuer=https://127.0.0.1:{port}/"),
            format!("--service-account-key-file={}", file("service-account.pub")),
            format!("--service-account-signing-key-file={}", file("service-account.key")),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            // No controller manager creates the service account of a namespace, without which this plugin
            // refuses pods.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--allow-privileged=true".to_owned(),
        ];
        if let Some(AuditFiles { policy, log }) = audit {
            arguments.push(format!("--audit-policy-file={}", policy.display()));
            arguments.push(format!("--audit-log-path={}", log.display()));
        }
        // Last, because the last of two equal flags applies.
        arguments.extend_from_slice(flags);
        Command { name: "kube-apiserver", program: program.to_owned(), arguments }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_listens_on_loopback_alone() {
        let command = etcd(Path::new("/bin/etcd"), "http://127.0.0.1:2379", Path::new("/tmp/x/etcd"));
        assert_eq!(
            command.arguments,
            [
                "--data-dir=/tmp/x/etcd",
                "--listen-client-urls=http://127.0.0.1:2379",
                "--advertise-client-urls=http://127.0.0.1:2379",
                "--listen-peer-urls=http://127.0.0.1:0",
                "--unsafe-no-fsync=true",
            ]
        );
    }

    #[test]
    fn the_api_server_has_the_flags_of_envtest() {
        let arguments = ApiServerArguments {
            port: 6443,
            etcd_url: "http://127.0.0.1:2379",
            certificates: Path::new("/tmp/x/certificates"),
            audit: Some(&AuditFiles { policy: "/tmp/x/policy.json".into(), log: "/tmp/x/audit/log".into() }),
            flags: &["--v=2".to_owned()],
        };
        let command = arguments.command(Path::new("/bin/kube-apiserver"));
        assert_eq!(
            command.arguments.join("\n"),
            "--etcd-servers=http://127.0.0.1:2379\n\
             --secure-port=6443\n\
             --bind-address=127.0.0.1\n\
             --advertise-address=127.0.0.1\n\
             --cert-dir=/tmp/x/certificates\n\
             --tls-cert-file=/tmp/x/certificates/apiserver.crt\n\
             --tls-private-key-file=/tmp/x/certificates/apiserver.key\n\
             --client-ca-file=/tmp/x/certificates/ca.crt\n\
             --service-account-issuer=https://127.0.0.1:6443/\n\
             --service-account-key-file=/tmp/x/certificates/service-account.pub\n\
             --service-account-signing-key-file=/tmp/x/certificates/service-account.key\n\
             --service-cluster-ip-range=10.0.0.0/24\n\
             --authorization-mode=RBAC\n\
             --disable-admission-plugins=ServiceAccount\n\
             --allow-privileged=true\n\
             --audit-policy-file=/tmp/x/policy.json\n\
             --audit-log-path=/tmp/x/audit/log\n\
             --v=2"
        );
    }
}
