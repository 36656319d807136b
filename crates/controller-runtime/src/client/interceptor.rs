use std::{future::Future, pin::Pin};

use super::{Answer, Call, Client, Error};

/// Sees every call of a client before it is sent, and its outcome after.
///
/// It may change the call, answer it itself, or fail it, which is how tests inject faults. An async closure will do:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use controller_runtime::{Client, client::{Call, Next, Verb}};
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
    /// Deals with a call: `next` sends it on.
    fn intercept(&self, call: Call, next: Next) -> Intercepted<'_>;
}

/// What becomes of an intercepted call.
pub type Intercepted<'a> = Pin<Box<dyn Future<Output = Result<Answer, Error>> + Send + 'a>>;

impl<F, Fut> Interceptor for F
where
    F: Fn(Call, Next) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Answer, Error>> + Send + 'static,
{
    fn intercept(&self, call: Call, next: Next) -> Intercepted<'_> {
        Box::pin(self(call, next))
    }
}

/// The rest of the way to the API server.
#[derive(Debug)]
pub struct Next {
    pub(super) client: Client,
    /// How many interceptors are behind.
    pub(super) passed: usize,
}

impl Next {
    /// Sends the call on.
    ///
    /// Dropping the future gives up waiting for the answer; the server may still carry the request out.
    ///
    /// # Errors
    ///
    /// As of whatever sent the call.
    pub async fn run(self, call: Call) -> Result<Answer, Error> {
        let Self { client, passed } = self;
        // The last one that was added sees the call first.
        match client.settings().interceptors.iter().rev().nth(passed).cloned() {
            Some(interceptor) => interceptor.intercept(call, Self { client, passed: passed + 1 }).await,
            None => client.exchange(call).await,
        }
    }
}
