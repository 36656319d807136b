//! TLS as the program chose it: with rustls where `kube` is built with it.
//!
//! A library does not choose the TLS stack; the program does, by features of `kube`. What `kube` makes of a configuration
//! with rustls (client certificates, also those of an exec plugin, certificate authorities that rotate, the trust store of
//! the system) is a method that is there with its feature `rustls-tls` alone, and cargo does not tell one crate the features
//! of another one. So [`WithoutRustls`] has a method of the same name, for a reference: the compiler takes the one of `kube`,
//! which needs one reference less, if there is one.

use kube::client::ConfigExt;
use tokio_rustls::rustls;

/// The configuration of rustls for the API server of `config`; `None` if `kube` is built without rustls.
pub(super) fn client_config(config: &kube::Config) -> Result<Option<rustls::ClientConfig>, kube::Error> {
    // One of the two traits goes unused, depending on the features of `kube`.
    let _ =
        (<kube::Config as ConfigExt>::base_uri_layer, <&kube::Config as WithoutRustls>::rustls_client_config);
    config.rustls_client_config().into_result()
}

/// Answers where `kube` has no such method.
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
