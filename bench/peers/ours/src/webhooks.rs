//! Webhooks of the Site kind: defaults, validation, and two versions.

use bench_peer::Ask;
use controller_runtime::serving::{CertFiles, Endpoint, Serving};
use controller_runtime::webhook::{Admission, Defaulter, FieldErrors, Validator, Verdict, WebhookOptions};
use controller_runtime::{Action, Builder, Context, ObjectKey, ReconcileError, reconcile};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::manager::{Unstarted, run};

/// Limit of replicas of a site.
const MOST_REPLICAS: i32 = 10;
/// A review can have all objects of a list of 10,000.
const MOST_CONVERTED_BYTES: usize = 64 << 20;

mod v1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "sites.example.com", version = "v1", kind = "Site", namespaced)]
    pub(super) struct SiteSpec {
        /// `host:port`.
        pub(super) address: String,
        pub(super) replicas: Option<i32>,
    }
}

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "sites.example.com", version = "v2", kind = "Site", namespaced)]
struct SiteSpec {
    host: String,
    port: u16,
    replicas: Option<i32>,
}

impl Defaulter for Site {
    async fn set_defaults(&mut self, _: &Admission) -> Verdict {
        self.spec.replicas.get_or_insert(1);
        Ok(())
    }
}

impl Validator for Site {
    async fn validate_create(&self, _: &Admission) -> Verdict {
        let mut errors = FieldErrors::new();
        if let Some(replicas @ (..0 | MOST_REPLICAS..)) = self.spec.replicas {
            errors.invalid("spec.replicas", replicas, "must be from 0 to 9");
        }
        errors.into_verdict()
    }

    async fn validate_update(&self, _: &Self, cx: &Admission) -> Verdict {
        self.validate_create(cx).await
    }
}

impl From<v1::Site> for Site {
    fn from(v1: v1::Site) -> Self {
        let (host, port) = v1.spec.address.rsplit_once(':').unwrap_or((&v1.spec.address, ""));
        let spec = SiteSpec {
            host: host.to_owned(),
            port: port.parse().unwrap_or_default(),
            replicas: v1.spec.replicas,
        };
        Self { metadata: v1.metadata, spec }
    }
}

impl From<Site> for v1::Site {
    fn from(v2: Site) -> Self {
        let address = format!("{}:{}", v2.spec.host, v2.spec.port);
        Self { metadata: v2.metadata, spec: v1::SiteSpec { address, replicas: v2.spec.replicas } }
    }
}

async fn reconcile_site(_: &ObjectKey<Site>, _: &Context) -> Result<Action, ReconcileError> {
    Ok(Action::done())
}

/// Serves the webhooks at the port that the driver names, with the certificate in its folder.
pub(crate) fn start(manager: Unstarted, ask: &Ask, running: &mut JoinSet<()>) -> anyhow::Result<()> {
    let port = u16::try_from(ask.number("port")?)?;
    let webhooks = WebhookOptions::default()
        .bind_address(Endpoint::At(([127, 0, 0, 1], port).into()))
        .serving(Serving::Files(CertFiles::in_dir(ask.text("certificates")?)))
        .max_conversion_bytes(MOST_CONVERTED_BYTES);
    let manager = manager.with(|options| options.webhooks(webhooks));
    Builder::managed_by(&manager)
        .for_kind::<Site>()
        .defaulted()
        .validated()
        .converted::<(v1::Site,)>()
        .complete(reconcile::from_fn(reconcile_site))?;
    run(manager, running);
    Ok(())
}
