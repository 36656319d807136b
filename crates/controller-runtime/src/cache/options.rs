use std::{
    any::TypeId,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    FieldSelector, InNamespace, LabelSelector, Namespaces, Resync, Retain,
    arrival::Intake,
    query::{Apart, Query, Selectors, Whereabouts},
    transform::{Change, Transform},
};
use crate::{client::DynamicKind, object::Object};

/// What a manager's caches are about and how they hold it, unless [`Caches`](super::Caches) is told otherwise for one of
/// them.
///
/// ```
/// use controller_runtime::{cache, cache::{Namespaces, Retain}, manager};
/// use k8s_openapi::api::core::v1::{Node, Pod};
///
/// # fn example() -> Result<manager::Options, Box<dyn std::error::Error>> {
/// let cache = cache::Options::default()
///     .namespaces(&Namespaces::new(["red", "blue"]))
///     .labels("team!=legacy".parse()?)
///     .retain(Retain::Budget(128 << 20))
///     .retain_kind::<Node>(Retain::Decoded)
///     .transform_kind::<Pod>(|pod| pod["spec"] = serde_json::json!({ "nodeName": pod["spec"]["nodeName"] }));
/// Ok(manager::Options::new("scheduler").cache(cache))
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Options {
    retain: Retain,
    resync: Resync,
    transform: Option<Change>,
    namespaces: Option<Namespaces>,
    selectors: Selectors,
    in_namespace: BTreeMap<Arc<str>, InNamespace>,
    by_kind: BTreeMap<TypeId, OfKind>,
}

/// The choices for one kind.
#[derive(Debug, Clone, Default)]
struct OfKind {
    retain: Option<Retain>,
    resync: Option<Resync>,
    transform: Option<Change>,
    managed_fields: bool,
}

/// The choices for one cache.
#[derive(Debug, Clone, Default)]
pub(super) struct OfCache {
    pub(super) namespaces: Option<Whereabouts>,
    pub(super) labels: Option<LabelSelector>,
    pub(super) fields: Option<FieldSelector>,
    pub(super) in_namespace: BTreeMap<Arc<str>, InNamespace>,
}

/// Which objects.
impl Options {
    /// Only namespaced objects in these namespaces. Default: all of them.
    #[doc(alias = "DefaultNamespaces")]
    pub fn namespaces(mut self, namespaces: &Namespaces) -> Self {
        self.namespaces = Some(namespaces.clone());
        self
    }

    /// Only objects with such labels. Default: all.
    #[doc(alias = "DefaultLabelSelector")]
    pub fn labels(mut self, selector: LabelSelector) -> Self {
        self.selectors.labels = selector;
        self
    }

    /// Only objects with such fields, which the API server must be able to select every cached kind by. Default: all.
    #[doc(alias = "DefaultFieldSelector")]
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.selectors.fields = selector;
        self
    }

    /// Makes a difference in one namespace: of the objects there others are selected, or they are changed otherwise. The last word
    /// about a namespace counts. Default: all namespaces are alike.
    ///
    /// This picks no namespace: [`Options::namespaces`] does. Where that picks all, the ones whose selectors differ have a list and
    /// watch each, and there is one for all the others.
    ///
    /// ```
    /// use controller_runtime::cache::{InNamespace, Options};
    ///
    /// # fn example() -> Result<Options, Box<dyn std::error::Error>> {
    /// let ours = InNamespace::default().labels("app.kubernetes.io/managed-by=us".parse()?);
    /// Ok(Options::default().in_namespace("kube-system", ours)) // everything elsewhere
    /// # }
    /// ```
    #[doc(alias = "DefaultNamespaces")]
    #[doc(alias = "AllNamespaces")]
    pub fn in_namespace(mut self, name: impl Into<Arc<str>>, choices: InNamespace) -> Self {
        self.in_namespace.insert(name.into(), choices);
        self
    }
}

/// How they are held.
impl Options {
    /// What is kept decoded, unless [`Options::retain_kind`] says otherwise. Default: 64 MiB of what is read often.
    pub fn retain(mut self, retain: Retain) -> Self {
        self.retain = retain;
        self
    }

    /// What is kept decoded of the objects read as type `K`.
    pub fn retain_kind<K: Object>(mut self, retain: Retain) -> Self {
        self.of_kind::<K>().retain = Some(retain);
        self
    }

    /// Keeps `metadata.managedFields` of the objects read as type `K`. Default: they are dropped where they arrive, as
    /// controller-runtime's `TransformStripManagedFields` does when asked.
    pub fn keep_managed_fields<K: Object>(mut self) -> Self {
        self.of_kind::<K>().managed_fields = true;
        self
    }

    /// Changes every object where it arrives: what `change` takes away is never held, and nobody who reads the cache knows
    /// of it. Default: objects are held as they are.
    ///
    /// `change` must make the same of the same object each time. It is called where events are delivered, for each version of
    /// each object, and our own writes pass it too. Namespace, name, uid and version stay whatever it does; an object on
    /// which it panics is held as it came. It costs a decode and an encode of the object.
    #[doc(alias = "DefaultTransform")]
    pub fn transform(mut self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.transform = Some(Change::new(change));
        self
    }

    /// Changes the objects read as type `K` where they arrive, in place of [`Options::transform`].
    pub fn transform_kind<K: Object>(mut self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.of_kind::<K>().transform = Some(Change::new(change));
        self
    }

    /// Holds of the objects read as type `K` no more than `P` takes of them, and their metadata, in place of
    /// [`Options::transform`]: what `P` has no field for is never held.
    ///
    /// An object that `P` does not fit is held as it came. `K` has to fit what is left: fields that it requires and `P` has not
    /// make the object unreadable. A [`View`](super::View) reads what is held as a `P`.
    ///
    /// ```
    /// use controller_runtime::cache;
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// #[derive(serde::Deserialize, serde::Serialize)]
    /// struct Placement {
    ///     spec: Spec,
    /// }
    ///
    /// #[derive(serde::Deserialize, serde::Serialize)]
    /// #[serde(rename_all = "camelCase")]
    /// struct Spec {
    ///     node_name: Option<String>,
    /// }
    ///
    /// let cache = cache::Options::default().keep_only::<Pod, Placement>();
    /// ```
    pub fn keep_only<K: Object, P: DeserializeOwned + Serialize>(self) -> Self {
        self.transform_kind::<K>(|object| {
            let part = P::deserialize(&*object).ok().and_then(|part| serde_json::to_value(part).ok());
            if let (Some(Value::Object(mut part)), Value::Object(whole)) = (part, &mut *object) {
                let always = ["apiVersion", "kind", "metadata"];
                part.extend(always.iter().filter_map(|field| whole.remove_entry(*field)));
                *whole = part;
            }
        })
    }

    /// Whether handlers are told again of what is there. Default: never.
    #[doc(alias = "SyncPeriod")]
    pub fn resync(mut self, resync: Resync) -> Self {
        self.resync = resync;
        self
    }

    /// The same for the objects read as type `K`.
    pub fn resync_kind<K: Object>(mut self, resync: Resync) -> Self {
        self.of_kind::<K>().resync = Some(resync);
        self
    }

    fn of_kind<K: Object>(&mut self) -> &mut OfKind {
        self.by_kind.entry(TypeId::of::<K>()).or_default()
    }
}

/// What was chosen.
impl Options {
    /// What a cache of a kind is about for which `own` was chosen. The same for the same effect, however it was chosen.
    pub(super) fn query(&self, kind: &DynamicKind, own: &OfCache) -> Query {
        let DynamicKind { resource, is_namespaced } = kind.clone();
        let all = self.namespaces.clone().filter(|_| is_namespaced).map(Whereabouts::InLive);
        let namespaces = own.namespaces.clone().or(all).unwrap_or(Whereabouts::Everywhere);
        let selectors = self.selectors(own, None, None);
        let all_here = Some(&self.in_namespace).filter(|_| is_namespaced);
        let names: BTreeSet<_> =
            own.in_namespace.keys().chain(all_here.into_iter().flatten().map(|(name, _)| name)).collect();
        let apart = names.into_iter().filter(|name| namespaces.may_contain(name)).map(|name| {
            let own_here = own.in_namespace.get(name);
            let selectors = self.selectors(own, own_here, all_here.and_then(|all| all.get(name)));
            let transform = own_here.and_then(|own| own.transform.clone());
            (Arc::clone(name), Apart { selectors, transform })
        });
        let apart =
            apart.filter(|(_, apart)| apart.selectors != selectors || apart.transform.is_some()).collect();
        Query { resource, namespaces, selectors, apart, floor: None }
    }

    /// The nearest choice counts: of the cache in a namespace, of the cache, of all in the namespace, of all.
    fn selectors(
        &self,
        own: &OfCache,
        own_here: Option<&InNamespace>,
        all_here: Option<&InNamespace>,
    ) -> Selectors {
        let labels = own_here.and_then(|here| here.labels.as_ref()).or(own.labels.as_ref());
        let labels = labels.or_else(|| all_here?.labels.as_ref()).unwrap_or(&self.selectors.labels);
        let fields = own_here.and_then(|here| here.fields.as_ref()).or(own.fields.as_ref());
        let fields = fields.or_else(|| all_here?.fields.as_ref()).unwrap_or(&self.selectors.fields);
        Selectors { labels: labels.clone(), fields: fields.clone() }
    }

    pub(super) fn default_retain(&self) -> Retain {
        self.retain
    }

    /// The choice for a kind, if it has its own.
    pub(super) fn retain_of<K: Object>(&self) -> Option<Retain> {
        self.chosen::<K>()?.retain
    }

    pub(super) fn resync_of<K: Object>(&self) -> Resync {
        self.chosen::<K>().and_then(|kind| kind.resync).unwrap_or(self.resync)
    }

    /// What is done to objects of a query before they are held.
    pub(super) fn intake_of<K: Object>(&self, query: &Query) -> Intake {
        let kind = self.chosen::<K>();
        let of_kind = kind.and_then(|kind| kind.transform.clone());
        let of_all = self.in_namespace.iter().filter(|_| of_kind.is_none());
        let of_all = of_all.filter_map(|(name, here)| Some((Arc::clone(name), here.transform.clone()?)));
        let own =
            query.apart.iter().filter_map(|(name, here)| Some((Arc::clone(name), here.transform.clone()?)));
        let by_namespace = of_all.chain(own).collect(); // the last one of a name counts
        let transform = Transform::new(of_kind.or_else(|| self.transform.clone()), by_namespace);
        Intake { managed_fields: kind.is_some_and(|kind| kind.managed_fields), transform }
    }

    fn chosen<K: Object>(&self) -> Option<&OfKind> {
        self.by_kind.get(&TypeId::of::<K>())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn labels(selector: &str) -> InNamespace {
        InNamespace::default().labels(selector.parse().expect("a selector"))
    }

    fn fields(selector: &str) -> InNamespace {
        InNamespace::default().fields(selector.parse().expect("a selector"))
    }

    fn query(options: &Options, own: &OfCache) -> Query {
        options.query(&DynamicKind::of::<ConfigMap>(), own)
    }

    fn check(options: &Options, own: &OfCache, expected: &str) {
        assert_eq!(format!("{:?}", query(options, own)), expected);
    }

    fn of(in_namespace: &[(&str, InNamespace)]) -> OfCache {
        let in_namespace = in_namespace.iter().map(|(name, here)| (Arc::from(*name), here.clone())).collect();
        OfCache { in_namespace, ..OfCache::default() }
    }

    #[test]
    fn the_nearest_choice_of_a_selector_counts() {
        let all = Options::default().labels("of=all".parse().expect("a selector"));
        let all = all.in_namespace("red", labels("of=red")).in_namespace("blue", fields("metadata.name=x"));
        check(
            &all,
            &OfCache::default(),
            "configmaps with of=all; in blue with of=all where metadata.name=x; in red with of=red",
        );
        let own = OfCache { labels: Some("of=cache".parse().expect("a selector")), ..OfCache::default() };
        check(&all, &own, "configmaps with of=cache; in blue with of=cache where metadata.name=x");
        let own = OfCache { labels: own.labels, ..of(&[("red", labels("")), ("green", labels("of=green"))]) };
        check(
            &all,
            &own,
            "configmaps with of=cache; in blue with of=cache where metadata.name=x; in green with of=green; in red all",
        );
    }

    #[test]
    fn what_is_the_same_in_effect_is_the_same_query() {
        let chosen = || of(&[("red", labels("a=b,c=d")), ("blue", labels("")), ("elsewhere", labels("x"))]);
        let names: BTreeSet<Arc<str>> = ["red", "blue"].map(Arc::from).into();
        let some = OfCache { namespaces: Some(Whereabouts::In(Arc::new(names))), ..chosen() };
        let same = OfCache { in_namespace: of(&[("red", labels("c=d,a=b"))]).in_namespace, ..some.clone() };
        let options = Options::default();
        check(&options, &some, "configmaps in blue, red; in red with a=b,c=d");
        assert_eq!(query(&options, &some), query(&options, &same));
        assert_ne!(query(&options, &some), query(&options, &chosen()));
    }

    #[test]
    fn the_watch_of_all_others_leaves_out_what_is_watched_apart() {
        let changed = InNamespace::default().transform(|_| ());
        let query = query(
            &Options::default(),
            &of(&[("red", labels("a")), ("blue", labels("b")), ("grey", changed)]),
        );
        let asked = |part: Option<&str>| query.selectors_of(&part.map(Arc::from)).to_string();
        assert_eq!(query.parts(), [None, Some(Arc::from("blue")), Some(Arc::from("red"))]);
        assert_eq!(asked(None), " where metadata.namespace!=blue,metadata.namespace!=red");
        assert_eq!(asked(Some("red")), " with a");
    }

    #[test]
    fn no_more_is_held_than_a_type_takes() {
        #[derive(serde::Deserialize, serde::Serialize)]
        struct Part {
            data: BTreeMap<String, String>,
        }
        let options = Options::default().keep_only::<ConfigMap, Part>();
        let transform = options.intake_of::<ConfigMap>(&query(&options, &OfCache::default())).transform;
        let held = |object: Value| {
            let held = transform
                .as_ref()
                .and_then(|change| change.apply(object.to_string().as_bytes(), "a", "configmaps"));
            serde_json::from_str::<Value>(&held.expect("an object")).expect("JSON")
        };
        let metadata = json!({"name": "a", "labels": {"app": "web"}});
        let whole =
            json!({"kind": "ConfigMap", "metadata": metadata, "data": {"x": "y"}, "binaryData": {"z": ""}});
        assert_eq!(held(whole), json!({"kind": "ConfigMap", "metadata": metadata, "data": {"x": "y"}}));
        let unfit = json!({"metadata": {"name": "a"}, "data": 5, "more": true});
        assert_eq!(held(unfit.clone()), unfit, "it is held as it came");
    }

    #[test]
    fn the_nearest_transform_counts() {
        let mark = |mark: &'static str| move |object: &mut Value| object["mark"] = mark.into();
        let options = Options::default()
            .transform(mark("all"))
            .in_namespace("red", InNamespace::default().transform(mark("red")));
        let of_kind = options.clone().transform_kind::<ConfigMap>(mark("kind"));
        let own = of(&[("blue", InNamespace::default().transform(mark("own")))]);
        for (options, own, expected) in [
            (&options, &OfCache::default(), ["red", "all", "all"]),
            (&of_kind, &OfCache::default(), ["kind", "kind", "kind"]),
            (&of_kind, &own, ["kind", "own", "kind"]),
            (&options, &own, ["red", "own", "all"]),
        ] {
            let intake = options.intake_of::<ConfigMap>(&query(options, own));
            let transform = intake.transform.expect("one was chosen");
            let marks = ["red", "blue", "green"].map(|namespace| {
                let held = transform.apply(b"{}", namespace, "configmaps").expect("an object");
                serde_json::from_str::<Value>(&held).expect("JSON")["mark"].as_str().map(str::to_owned)
            });
            assert_eq!(marks, expected.map(|mark| Some(mark.to_owned())));
        }
    }
}
