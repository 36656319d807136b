//! Creates over HTTP, as a unit for other times: on a slower machine both take longer.

use std::{net::Ipv4Addr, time::Duration};

use controller_runtime::BoxError;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, Config, api::PostParams};
use kube_apiserver_embedded::{ApiServer, Options};

use super::processor_time::processor_time;

/// Creates that are measured, and earlier ones that are not: they load the code and the schema.
const MEASURED: u32 = 2000;
const EARLIER: u32 = 500;

/// Processor time of the API server for the create of a ConfigMap over a socket, one after the other.
pub(crate) fn processor_time_of_one() -> Result<Duration, BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = ApiServer::start(Options::default());
        let listener = server.listen((Ipv4Addr::LOCALHOST, 0).into()).await?;
        let address = format!("http://{}", listener.local_addr());
        // The creator has another thread than the server, so that its time does not count.
        let creator =
            tokio::task::spawn_blocking(move || Creator::of(&address)?.create(0, EARLIER)).await??;
        let before = processor_time()?;
        // The thread also ends the runtime of the creator, which an asynchronous task must not end.
        tokio::task::spawn_blocking(move || creator.create(EARLIER, MEASURED).map(drop)).await??;
        Ok(processor_time()?.saturating_sub(before) / MEASURED)
    })
}

/// A client with a runtime of its own.
struct Creator {
    runtime: tokio::runtime::Runtime,
    maps: Api<ConfigMap>,
}

impl Creator {
    fn of(server: &str) -> Result<Self, BoxError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let config = Config::new(server.parse()?);
        // The client starts a task, which belongs to this runtime.
        let client = runtime.block_on(async { Client::try_from(config) })?;
        Ok(Self { runtime, maps: Api::namespaced(client, "default") })
    }

    /// Creates `number` ConfigMaps with numbers from `first` on.
    fn create(self, first: u32, number: u32) -> Result<Self, BoxError> {
        self.runtime.block_on(async {
            for number in first..first + number {
                let mut map = ConfigMap::default();
                map.metadata.name = Some(format!("map-{number}"));
                map.data = Some([("text".to_owned(), "0".to_owned())].into());
                self.maps.create(&PostParams::default(), &map).await?;
            }
            Ok::<_, kube::Error>(())
        })?;
        Ok(self)
    }
}
