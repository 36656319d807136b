//! Two operators program one edge, each the routes of its class. When the class of a route changes, the first operator
//! removes the route, and the second one serves it. If the second one is faster, the first one removes what the second
//! one has programmed, and nothing makes that one look again. The corrected operator begins when the other one has
//! cleaned up, and removes only its own route.
//!
//! Expected: same remotes. Minimum plan: the event of the new class reaches the first operator after the second one has
//! acted, or the first one crashes while nothing happens, with the restart after the change.

use std::collections::BTreeMap;

use crate::common::*;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "further.dev", version = "v1", kind = "Route", namespaced)]
#[serde(default)]
struct RouteSpec {
    class: String,
}

/// The classes that serve routes, by the names of the routes.
#[derive(Default, Serialize)]
struct Edge {
    routes: BTreeMap<String, String>,
}

struct FakeEdge(Remote<Edge>);

impl FakeEdge {
    async fn serve(&self, route: &str, class: &str) -> Result<(), Lost> {
        let (name, class) = (route.to_owned(), class.to_owned());
        let serve = move |edge: &mut Edge| {
            edge.routes.insert(name, class);
        };
        self.0.effect("serve route", route, serve).await
    }

    /// Removes a route; with a class, only if that one serves it.
    async fn remove(&self, route: &str, only: Option<&'static str>) -> Result<(), Lost> {
        let name = route.to_owned();
        let remove = move |edge: &mut Edge| {
            let serves = edge.routes.get(&name);
            if serves.is_some_and(|class| only.is_none_or(|only| class.as_str() == only)) {
                edge.routes.remove(&name);
            }
        };
        self.0.effect("remove route", route, remove).await
    }
}

struct Routes {
    routes: Cached<Route>,
    edge: FakeEdge,
    class: &'static str,
    variant: Variant,
}

impl Reconciler for Routes {
    type Request = ObjectKey<Route>;

    async fn reconcile(&self, key: &ObjectKey<Route>, cx: &Context) -> Result<Action, ReconcileError> {
        let Some(route) = self.routes.get(key)? else { return Ok(Action::done()) };
        let finalizer = format!("further.dev/{}", self.class);
        let is_terminating = route.metadata.deletion_timestamp.is_some();
        if route.spec.class != self.class || is_terminating {
            if has_finalizer(&*route, &finalizer) {
                let only = (self.variant == Variant::Twin).then_some(self.class);
                self.edge.remove(key.name(), only).await?;
                cx.client().remove_finalizer(&*route, &finalizer).await?;
            }
            return Ok(Action::done());
        }
        let is_taken = route.finalizers().iter().any(|known| *known != finalizer);
        if self.variant == Variant::Twin && is_taken {
            return Ok(Action::done()); // goes on when the other operator has removed its finalizer
        }
        cx.client().add_finalizer(&*route, &finalizer).await?;
        self.edge.serve(key.name(), self.class).await?;
        Ok(Action::done())
    }
}

/// The operator of a class.
fn operator(class: &'static str, variant: Variant) -> impl Fn(&Manager) -> Result<(), AddError> + 'static {
    move |manager: &Manager| -> Result<(), AddError> {
        let edge = FakeEdge(Remote::of_this_run());
        let routes = Routes { routes: manager.cached(), edge, class, variant };
        let mut builder = Builder::managed_by(manager).for_kind::<Route>();
        if variant == Variant::Buggy {
            // A change of finalizers does not change the route.
            builder = builder.with_predicate(GenerationChanged);
        }
        builder.complete(routes)?;
        Ok(())
    }
}

fn simulation(variant: Variant) -> Simulation {
    let route = |class: &str| {
        format!(
            "{{apiVersion: further.dev/v1, kind: Route, metadata: {{name: shop}}, spec: {{class: {class}}}}}"
        )
    };
    Simulation::new("blue-gateway", operator("blue", variant))
        .also("green-gateway", operator("green", variant))
        .crd::<Route>()
        .remote("edge", Edge::default)
        .applies("a route is created", &route("blue"))
        .applies("its class changes", &route("green"))
}

#[test]
fn a_route_that_is_removed_after_it_has_changed_hands_is_found() {
    let finding = find(simulation(Variant::Buggy));
    assert_eq!(finding.oracle(), Oracle::SameRemotes, "{finding}");
}

#[test]
fn the_corrected_operator_has_no_finding() {
    find_nothing(simulation(Variant::Twin));
}
