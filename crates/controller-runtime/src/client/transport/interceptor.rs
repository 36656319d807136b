//! Interceptors: code that sees each call of a client and its outcome.

use std::{future::Future, pin::Pin};

use super::{
    call::{Answer, Call},
    client::Client,
    error::ClientError,
};

/// Handles every call of a client before it is sent, and its outcome afterwards.
///
/// An interceptor may change the call, answer it without the API server, or fail it, for example to inject faults in tests. An async
/// closure is an interceptor:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use controller_runtime::{Client, Verb, client::{Call, Next}};
/// use k8s_openapi::api::core::v1::Namespace;
///
/// let env = kube_envtest::Environment::builder().start().await?;
/// let client = Client::new(env.client(), "test").intercepted(async |call: Call, next: Next| {
///     match call.verb() {
///         Verb::Create => Err(call.refusal(403, "Forbidden", "not today")),
///         _ => next.run(call).await,
///     }
/// });
///
/// let mut team = Namespace::default();
/// team.metadata.name = Some("team".to_owned());
/// assert!(client.create(&team).await.unwrap_err().is_forbidden());
/// # Ok(())
/// # }
/// ```
#[doc(alias = "interceptor.Funcs")]
pub trait Interceptor: Send + Sync + 'static {
    /// Handles a call; `next` sends it on.
    fn intercept(&self, call: Call, next: Next) -> Intercepted<'_>;
}

/// Future of an intercepted call.
pub type Intercepted<'a> = Pin<Box<dyn Future<Output = Result<Answer, ClientError>> + Send + 'a>>;

impl<F, Fut> Interceptor for F
where
    F: Fn(Call, Next) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Answer, ClientError>> + Send + 'static,
{
    fn intercept(&self, call: Call, next: Next) -> Intercepted<'_> {
        Box::pin(self(call, next))
    }
}

/// The remaining interceptors, followed by the request to the API server.
#[derive(Debug)]
pub struct Next {
    pub(in crate::client) client: Client,
    /// Number of interceptors that have handled the call already.
    pub(in crate::client) passed: usize,
}

impl Next {
    /// Sends the call on.
    ///
    /// Dropping the future stops waiting for the response; the server may still carry the request out.
    ///
    /// # Errors
    ///
    /// Any error of the remaining interceptors or of the request.
    pub async fn run(self, call: Call) -> Result<Answer, ClientError> {
        let Self { client, passed } = self;
        // The interceptor added last sees the call first.
        match client.settings().interceptors.iter().rev().nth(passed).cloned() {
            Some(interceptor) => interceptor.intercept(call, Self { client, passed: passed + 1 }).await,
            None => client.exchange(call).await,
        }
    }
}
