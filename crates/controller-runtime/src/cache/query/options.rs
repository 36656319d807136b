//! [`CacheOptions`] of all caches of a manager.

use std::{
    any::TypeId,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    NamespaceOverride, NamespaceSelection, Namespaces, Query, Selectors,
    in_namespace::InNamespace,
    resync::Resync,
    selector::{FieldSelector, LabelSelector},
};
use crate::{
    cache::objects::{
        incoming_object::IngestOptions,
        retain::Retain,
        split::ManagedFields,
        transform::{Transform, TransformFn},
    },
    object::{DynamicKind, Object},
};

/// Selection and storage of the objects in a manager's caches. [`Caches`](crate::cache::Caches) can override the selection for
/// single caches.
///
/// ```
/// use controller_runtime::{ManagerOptions, cache::{CacheOptions, Namespaces, Retain}};
/// use k8s_openapi::api::core::v1::{Node, Pod};
///
/// # fn example() -> Result<ManagerOptions, Box<dyn std::error::Error>> {
/// let cache = CacheOptions::default()
///     .namespaces(&Namespaces::new(["red", "blue"]))
///     .labels("team!=legacy".parse()?)
///     .retain(Retain::Budget(128 << 20))
///     .retain_kind::<Node>(Retain::Decoded)
///     .transform_kind::<Pod>(|pod| pod["spec"] = serde_json::json!({ "nodeName": pod["spec"]["nodeName"] }));
/// Ok(ManagerOptions::new("scheduler").cache(cache))
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct CacheOptions {
    retain: Retain,
    resync: Resync,
    transform: Option<TransformFn>,
    namespaces: Option<Namespaces>,
    selectors: Selectors,
    in_namespace: BTreeMap<Arc<str>, InNamespace>,
    by_kind: BTreeMap<TypeId, KindOptions>,
}

/// Options for one kind.
#[derive(Debug, Clone, Default)]
struct KindOptions {
    retain: Option<Retain>,
    resync: Option<Resync>,
    transform: Option<TransformFn>,
    managed_fields: ManagedFields,
}

/// Options for one cache.
#[derive(Debug, Clone, Default)]
pub(in crate::cache) struct CacheSelection {
    pub(in crate::cache) namespaces: Option<NamespaceSelection>,
    pub(in crate::cache) labels: Option<LabelSelector>,
    pub(in crate::cache) fields: Option<FieldSelector>,
    pub(in crate::cache) in_namespace: BTreeMap<Arc<str>, InNamespace>,
}

/// Selection of objects.
impl CacheOptions {
    /// Restricts namespaced kinds to these namespaces. Default: all namespaces.
    #[doc(alias = "DefaultNamespaces")]
    pub fn namespaces(mut self, namespaces: &Namespaces) -> Self {
        self.namespaces = Some(namespaces.clone());
        self
    }

    /// Restricts caches to objects with matching labels. Default: all objects.
    #[doc(alias = "DefaultLabelSelector")]
    pub fn labels(mut self, selector: LabelSelector) -> Self {
        self.selectors.labels = selector;
        self
    }

    /// Restricts caches to objects with matching fields. The API server must support these fields for every cached
    /// kind. Default: all objects.
    #[doc(alias = "DefaultFieldSelector")]
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.selectors.fields = selector;
        self
    }

    /// Sets different selectors or a different transform for one namespace. The last call for a namespace wins.
    /// Default: all namespaces are treated alike.
    ///
    /// This does not restrict caches to the namespace; [`CacheOptions::namespaces`] does. If all namespaces are cached, each
    /// namespace with different selectors has its own list and watch, and all others share one.
    ///
    /// ```
    /// use controller_runtime::cache::{CacheOptions, InNamespace};
    ///
    /// # fn example() -> Result<CacheOptions, Box<dyn std::error::Error>> {
    /// let ours = InNamespace::default().labels("app.kubernetes.io/managed-by=us".parse()?);
    /// Ok(CacheOptions::default().in_namespace("kube-system", ours)) // everything elsewhere
    /// # }
    /// ```
    #[doc(alias = "DefaultNamespaces")]
    #[doc(alias = "AllNamespaces")]
    pub fn in_namespace(mut self, name: impl Into<Arc<str>>, choices: InNamespace) -> Self {
        self.in_namespace.insert(name.into(), choices);
        self
    }
}

/// Storage of objects.
impl CacheOptions {
    /// Sets which objects are kept decoded, unless [`CacheOptions::retain_kind`] is set for the kind. Default: up to 64 MiB
    /// of objects that are read often.
    pub fn retain(mut self, retain: Retain) -> Self {
        self.retain = retain;
        self
    }

    /// Sets which objects are kept decoded for the kind, read as type `K`.
    pub fn retain_kind<K: Object>(mut self, retain: Retain) -> Self {
        self.of_kind::<K>().retain = Some(retain);
        self
    }

    /// Keeps `metadata.managedFields` of the objects read as type `K`. Default: the field is removed when objects
    /// arrive, as with controller-runtime's `TransformStripManagedFields`.
    pub fn keep_managed_fields<K: Object>(mut self) -> Self {
        self.of_kind::<K>().managed_fields = ManagedFields::Keep;
        self
    }

    /// Transforms every object when it arrives: fields that `change` removes are never stored, so no reader of the
    /// cache gets them. Default: objects are stored without `managedFields`, and otherwise unchanged.
    ///
    /// `change` must be deterministic. It is called in the task of the watch for each version of each object, and for
    /// own writes. It cannot change namespace, name, uid and version. If it panics, or leaves a value that is not a JSON object, the
    /// object is stored unchanged.
    /// Each call costs a decode and an encode of the object.
    #[doc(alias = "DefaultTransform")]
    pub fn transform(mut self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.transform = Some(TransformFn::new(change));
        self
    }

    /// Transforms the objects read as type `K` when they arrive, in place of [`CacheOptions::transform`].
    pub fn transform_kind<K: Object>(mut self, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.of_kind::<K>().transform = Some(TransformFn::new(change));
        self
    }

    /// Stores only metadata and the fields of `P` for objects that are read as type `K`. Replaces [`CacheOptions::transform`] for
    /// these objects.
    ///
    /// An object that cannot be decoded as `P` is stored unchanged. `K` must be decodable from the remaining fields: an
    /// object is unreadable if `K` requires a field that `P` lacks. A [`View`](crate::cache::View) reads the stored object as
    /// `P`.
    ///
    /// ```
    /// use controller_runtime::cache::CacheOptions;
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
    /// let cache = CacheOptions::default().keep_only::<Pod, Placement>();
    /// ```
    pub fn keep_only<K: Object, P: DeserializeOwned + Serialize>(self) -> Self {
        self.transform_kind::<K>(|object| {
            let part = P::deserialize(&*object).ok().and_then(|part| serde_json::to_value(part).ok());
            if let (Some(Value::Object(mut part)), Value::Object(whole)) = (part, &mut *object) {
                // Kept as received: `P` need not have these fields, or may have only some of the metadata.
                let always = ["apiVersion", "kind", "metadata"];
                part.extend(always.iter().filter_map(|field| whole.remove_entry(*field)));
                *whole = part;
            }
        })
    }

    /// Sets how often unchanged objects are delivered as update events. Default: never.
    #[doc(alias = "SyncPeriod")]
    pub fn resync(mut self, resync: Resync) -> Self {
        self.resync = resync;
        self
    }

    /// Like [`CacheOptions::resync`] for the objects read as type `K`.
    pub fn resync_kind<K: Object>(mut self, resync: Resync) -> Self {
        self.of_kind::<K>().resync = Some(resync);
        self
    }

    fn of_kind<K: Object>(&mut self) -> &mut KindOptions {
        self.by_kind.entry(TypeId::of::<K>()).or_default()
    }
}

/// Lookup of options by the caches.
impl CacheOptions {
    /// Returns the query of a cache of a kind with the options `own`. Options with the same effect give equal queries.
    pub(in crate::cache) fn query(&self, kind: &DynamicKind, own: &CacheSelection) -> Query {
        let DynamicKind { resource, is_namespaced } = kind.clone();
        // The manager's options for namespaces do not apply to cluster-scoped kinds.
        let all = self.namespaces.clone().filter(|_| is_namespaced).map(NamespaceSelection::InLive);
        let namespaces = own.namespaces.clone().or(all).unwrap_or(NamespaceSelection::Everywhere);
        let selectors = self.selectors(own, None, None);
        let all_here = Some(&self.in_namespace).filter(|_| is_namespaced);
        let names: BTreeSet<_> =
            own.in_namespace.keys().chain(all_here.into_iter().flatten().map(|(name, _)| name)).collect();
        let overrides = names.into_iter().filter(|name| namespaces.may_contain(name)).map(|name| {
            let own_here = own.in_namespace.get(name);
            let selectors = self.selectors(own, own_here, all_here.and_then(|all| all.get(name)));
            let transform = own_here.and_then(|own| own.transform.clone());
            (Arc::clone(name), NamespaceOverride { selectors, transform })
        });
        let overrides = overrides
            .filter(|(_, overrides)| overrides.selectors != selectors || overrides.transform.is_some())
            .collect();
        Query { cluster: None, resource, namespaces, selectors, overrides, floor: None }
    }

    /// Returns the most specific selectors: of the cache in a namespace, of the cache, of all caches in the namespace,
    /// of all caches.
    fn selectors(
        &self,
        own: &CacheSelection,
        own_here: Option<&InNamespace>,
        all_here: Option<&InNamespace>,
    ) -> Selectors {
        let labels = own_here.and_then(|here| here.labels.as_ref()).or(own.labels.as_ref());
        let labels = labels.or_else(|| all_here?.labels.as_ref()).unwrap_or(&self.selectors.labels);
        let fields = own_here.and_then(|here| here.fields.as_ref()).or(own.fields.as_ref());
        let fields = fields.or_else(|| all_here?.fields.as_ref()).unwrap_or(&self.selectors.fields);
        Selectors { labels: labels.clone(), fields: fields.clone() }
    }

    /// Returns the option for kinds that have none of their own.
    pub(in crate::cache) fn default_retain(&self) -> Retain {
        self.retain
    }

    /// Returns the option for a kind, if it has its own.
    pub(in crate::cache) fn retain_of<K: Object>(&self) -> Option<Retain> {
        self.chosen::<K>()?.retain
    }

    /// Returns the option for a kind, or else that for all kinds.
    pub(in crate::cache) fn resync_of<K: Object>(&self) -> Resync {
        self.chosen::<K>().and_then(|kind| kind.resync).unwrap_or(self.resync)
    }

    /// Returns the changes that objects of a query undergo before they are stored.
    pub(in crate::cache) fn ingest_options_of<K: Object>(&self, query: &Query) -> IngestOptions {
        let kind = self.chosen::<K>();
        let of_kind = kind.and_then(|kind| kind.transform.clone());
        // The transform of a kind replaces those of all kinds, also those for single namespaces.
        let of_all = self.in_namespace.iter().filter(|_| of_kind.is_none());
        let of_all = of_all.filter_map(|(name, here)| Some((Arc::clone(name), here.transform.clone()?)));
        let own = query
            .overrides
            .iter()
            .filter_map(|(name, here)| Some((Arc::clone(name), here.transform.clone()?)));
        // The last entry for a name wins.
        let mut by_namespace = BTreeMap::new();
        for (name, transform) in of_all.chain(own) {
            by_namespace.insert(name, transform);
        }
        let transform = Transform::new(of_kind.or_else(|| self.transform.clone()), by_namespace);
        IngestOptions {
            managed_fields: kind.map_or_else(ManagedFields::default, |kind| kind.managed_fields),
            transform,
        }
    }

    fn chosen<K: Object>(&self) -> Option<&KindOptions> {
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

    fn query(options: &CacheOptions, own: &CacheSelection) -> Query {
        options.query(&DynamicKind::of::<ConfigMap>(), own)
    }

    fn check(options: &CacheOptions, own: &CacheSelection, expected: &str) {
        assert_eq!(format!("{:?}", query(options, own)), expected);
    }

    fn of(in_namespace: &[(&str, InNamespace)]) -> CacheSelection {
        let in_namespace = in_namespace.iter().map(|(name, here)| (Arc::from(*name), here.clone())).collect();
        CacheSelection { in_namespace, ..CacheSelection::default() }
    }

    #[test]
    fn the_most_specific_selector_applies() {
        let all = CacheOptions::default().labels("of=all".parse().expect("a selector"));
        let all = all.in_namespace("red", labels("of=red")).in_namespace("blue", fields("metadata.name=x"));
        check(
            &all,
            &CacheSelection::default(),
            "configmaps with of=all; in blue with of=all where metadata.name=x; in red with of=red",
        );
        let own = CacheSelection {
            labels: Some("of=cache".parse().expect("a selector")),
            ..CacheSelection::default()
        };
        check(&all, &own, "configmaps with of=cache; in blue with of=cache where metadata.name=x");
        let own = CacheSelection {
            labels: own.labels,
            ..of(&[("red", labels("")), ("green", labels("of=green"))])
        };
        check(
            &all,
            &own,
            "configmaps with of=cache; in blue with of=cache where metadata.name=x; in green with of=green; in red all",
        );
    }

    #[test]
    fn options_with_the_same_effect_give_the_same_query() {
        let chosen = || of(&[("red", labels("a=b,c=d")), ("blue", labels("")), ("elsewhere", labels("x"))]);
        let names: BTreeSet<Arc<str>> = ["red", "blue"].map(Arc::from).into();
        let some = CacheSelection { namespaces: Some(NamespaceSelection::In(Arc::new(names))), ..chosen() };
        let same =
            CacheSelection { in_namespace: of(&[("red", labels("c=d,a=b"))]).in_namespace, ..some.clone() };
        let options = CacheOptions::default();
        check(&options, &some, "configmaps in blue, red; in red with a=b,c=d");
        assert_eq!(query(&options, &some), query(&options, &same));
        assert_ne!(query(&options, &some), query(&options, &chosen()));
    }

    #[test]
    fn the_watch_of_other_namespaces_excludes_those_watched_separately() {
        let changed = InNamespace::default().transform(|_| ());
        let query = query(
            &CacheOptions::default(),
            &of(&[("red", labels("a")), ("blue", labels("b")), ("grey", changed)]),
        );
        let asked = |part: Option<&str>| query.selectors_of(&part.map(Arc::from)).to_string();
        assert_eq!(query.scopes(), [None, Some(Arc::from("blue")), Some(Arc::from("red"))]);
        assert_eq!(asked(None), " where metadata.namespace!=blue,metadata.namespace!=red");
        assert_eq!(asked(Some("red")), " with a");
    }

    #[test]
    fn keep_only_stores_the_fields_of_the_type() {
        #[derive(serde::Deserialize, serde::Serialize)]
        struct Part {
            data: BTreeMap<String, String>,
        }
        let options = CacheOptions::default().keep_only::<ConfigMap, Part>();
        let transform =
            options.ingest_options_of::<ConfigMap>(&query(&options, &CacheSelection::default())).transform;
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
        assert_eq!(held(unfit.clone()), unfit, "it is stored unchanged");
    }

    #[test]
    fn the_most_specific_transform_applies() {
        let mark = |mark: &'static str| move |object: &mut Value| object["mark"] = mark.into();
        let options = CacheOptions::default()
            .transform(mark("all"))
            .in_namespace("red", InNamespace::default().transform(mark("red")));
        let of_kind = options.clone().transform_kind::<ConfigMap>(mark("kind"));
        let own = of(&[("blue", InNamespace::default().transform(mark("own")))]);
        for (options, own, expected) in [
            (&options, &CacheSelection::default(), ["red", "all", "all"]),
            (&of_kind, &CacheSelection::default(), ["kind", "kind", "kind"]),
            (&of_kind, &own, ["kind", "own", "kind"]),
            (&options, &own, ["red", "own", "all"]),
        ] {
            let ingest_options = options.ingest_options_of::<ConfigMap>(&query(options, own));
            let transform = ingest_options.transform.expect("one was chosen");
            let marks = ["red", "blue", "green"].map(|namespace| {
                let held = transform.apply(b"{}", namespace, "configmaps").expect("an object");
                serde_json::from_str::<Value>(&held).expect("JSON")["mark"].as_str().map(str::to_owned)
            });
            assert_eq!(marks, expected.map(|mark| Some(mark.to_owned())));
        }
    }
}
