//! TLS by the stack that the program chose: rustls, if `kube` is built with it.
//!
//! The program chooses the TLS stack by features of `kube`. The method by which `kube` converts its configuration for rustls
//! (including client certificates, also of an exec plugin, rotating certificate authorities, and the system's trust store)
//! exists only with `kube`'s feature `rustls-tls`, and cargo does not show one crate the features of another. So
//! [`WithoutRustls`] defines a method of the same name on a reference: method resolution prefers the one of `kube`, which needs
//! one reference less, if it exists.

use kube::client::ConfigExt;
use tokio_rustls::rustls;

/// The rustls configuration for the API server of `config`; `None` if `kube` is built without rustls.
pub(super) fn client_config(config: &kube::Config) -> Result<Option<rustls::ClientConfig>, kube::Error> {
    // Which of the two traits is used depends on the features of `kube`. Without this attribute the compiler would
    // report the other one.
    let _ =
        (<kube::Config as ConfigExt>::base_uri_layer, <&kube::Config as WithoutRustls>::rustls_client_config);
    config.rustls_client_config().into_result()
}

/// Fallback method for a `kube` built without rustls.
trait WithoutRustls {
    fn rustls_client_config(&self) -> Missing;
}

impl WithoutRustls for &kube::Config {
    fn rustls_client_config(&self) -> Missing {
        Missing
    }
}

struct Missing;

trait IntoResult {
    fn into_result(self) -> Result<Option<rustls::ClientConfig>, kube::Error>;
}

impl IntoResult for Missing {
    fn into_result(self) -> Result<Option<rustls::ClientConfig>, kube::Error> {
        Ok(None)
    }
}

impl IntoResult for Result<rustls::ClientConfig, kube::Error> {
    fn into_result(self) -> Result<Option<rustls::ClientConfig>, kube::Error> {
        self.map(Some)
    }
}
