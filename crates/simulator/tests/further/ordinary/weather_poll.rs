//! No bug: a remote system is read every minute, and the status is written if it differs. Nothing announces changes of the remote
//! system, which an actor makes.

use std::collections::BTreeMap;

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "weather.example.com", version = "v1", kind = "Station", namespaced, status = "StationStatus")]
#[serde(default)]
struct StationSpec {
    city: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(default)]
struct StationStatus {
    city: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    degrees: Option<i32>,
}

/// Degrees by city.
#[derive(Default, Serialize)]
struct Weather {
    degrees: BTreeMap<String, i32>,
}

struct FakeWeather(Remote<Weather>);

impl FakeWeather {
    async fn degrees(&self, city: &str) -> Result<Option<i32>, Lost> {
        let name = city.to_owned();
        self.0.effect("read", city, move |weather| weather.degrees.get(&name).copied()).await
    }
}

struct Stations {
    stations: Cached<Station>,
    weather: FakeWeather,
}

impl Reconciler for Stations {
    type Request = ObjectKey<Station>;

    async fn reconcile(&self, key: &ObjectKey<Station>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(station) = self.stations.get(key)? else { return Ok(Action::done()) };
        let city = &station.spec.city;
        let status = StationStatus { city: city.clone(), degrees: self.weather.degrees(city).await? };
        if station.status.as_ref() != Some(&status) {
            cx.client().apply_status(key, &status).await?;
        }
        Ok(Action::requeue_after(Duration::from_secs(60)))
    }
}

/// Makes the weather, as a ConfigMap of the user says.
struct Sky {
    maps: Cached<ConfigMap>,
    weather: Remote<Weather>,
}

impl Reconciler for Sky {
    type Request = ObjectKey<ConfigMap>;

    async fn reconcile(&self, key: &ObjectKey<ConfigMap>, _: &Context) -> Result<Action, ReconcileError> {
        let Some(sky) = self.maps.get(key)?.filter(|_| key.name() == "sky") else {
            return Ok(Action::done());
        };
        let entries = sky.data.iter().flatten();
        let degrees: BTreeMap<String, i32> =
            entries.filter_map(|(city, degrees)| Some((city.clone(), degrees.parse().ok()?))).collect();
        self.weather.effect("change", "sky", move |weather| weather.degrees = degrees).await?;
        Ok(Action::done())
    }
}

fn sky(degrees: &str) -> String {
    format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: sky}}, data: {degrees}}}")
}

fn station(city: &str) -> String {
    let head = "apiVersion: weather.example.com/v1, kind: Station, metadata: {name: roof}";
    format!("{{{head}, spec: {{city: {city}}}}}")
}

pub(crate) fn simulation() -> Simulation {
    let add = |manager: &Manager| -> Result<(), AddError> {
        let stations = Stations { stations: manager.cached(), weather: FakeWeather(Remote::of_this_run()) };
        Builder::managed_by(manager).for_kind::<Station>().complete(stations)?;
        Ok(())
    };
    let weather = |manager: &Manager| -> Result<(), AddError> {
        let sky = Sky { maps: manager.cached(), weather: Remote::of_this_run() };
        Builder::managed_by(manager).for_kind::<ConfigMap>().named("sky").complete(sky)?;
        Ok(())
    };
    Simulation::new("stations", add)
        .crd::<Station>()
        .remote("weather", Weather::default)
        .actor("sky", weather)
        .applies("the sun shines", &sky("{oslo: '21', rome: '30'}"))
        .applies("a station is created", &station("oslo"))
        .applies("it gets cold", &sky("{oslo: '-3', rome: '12'}"))
        .step("the station moves twice", async |user| {
            user.apply_yaml(&station("nowhere")).await?;
            user.apply_yaml(&station("rome")).await
        })
        .step("the weather changes twice", async |user| {
            user.apply_yaml(&sky("{rome: '13'}")).await?;
            user.apply_yaml(&sky("{rome: '14'}")).await
        })
        .step("the station is replaced", async |user| {
            user.delete_key(&in_default::<Station>("roof")).await?;
            user.apply_yaml(&station("oslo")).await
        })
        .applies("it snows", &sky("{oslo: '-9'}"))
        .step("the station is deleted", async |user| user.delete_key(&in_default::<Station>("roof")).await)
}

#[test]
fn the_operator_has_no_finding() {
    find_nothing(simulation());
}
