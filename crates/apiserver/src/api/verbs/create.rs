//! POST, and creation by an apply or by a PUT if the object does not exist.

use std::sync::Arc;

use bytes::Bytes;
use kube_apimachinery::metadata::{self, OwnersFrom};
use kube_apimachinery::status::{ApiError, FieldError};
use serde_json::Value;

use super::empty_parts::{self, EmptyParts};
use super::reply::{self, Reply};
use super::update::{Ownership, RequestedState};
use super::{Call, object_meta, update};
use crate::api::admission::{Attributes, OperationOptions};
use crate::kind::registry::{CustomKind, ServedKind};
use crate::kind::resource::StorageKey;
use crate::kinds::builtin::service::pool::AllocationMode;
use crate::kinds::{builtin, custom, namespace};
use crate::request::query::{WriteOptions, parse_uint};
use crate::state::Refused;
use crate::store::{Change, Key, Store, Stored, TypeMeta};

/// Maximum number of names that are generated for one `generateName`.
const NAME_ATTEMPTS: usize = 8;

/// Creates the object in the body.
pub(crate) async fn run(call: &Call, body: &Bytes) -> Result<Reply, ApiError> {
    let options = call.create_options()?;
    let (mut object, empty) = call.decode_tracked(body, options.field_validation)?;
    object_meta::reconcile_namespace(&call.served, &call.path.namespace, &mut object)?;
    update::deduplicate_owners(call, &mut object, OwnersFrom::Request);
    let wanted = RequestedState { object, ownership: Ownership::Tracked, empty };
    create(call, wanted, &options).await?.reply(call, 201)
}

/// A created object, or the result of a dry run.
pub(crate) enum Created {
    Stored(Arc<Stored>),
    DryRun(Value),
}

impl Created {
    pub(crate) fn reply(&self, call: &Call, code: u16) -> Result<Reply, ApiError> {
        match self {
            Self::Stored(stored) => reply::stored(call, code, stored),
            Self::DryRun(object) => reply::object(call, code, object.clone()),
        }
    }
}

/// Completes, validates and stores a decoded object.
pub(crate) async fn create(
    call: &Call,
    wanted: RequestedState,
    options: &WriteOptions,
) -> Result<Created, ApiError> {
    let RequestedState { mut object, ownership, mut empty } = wanted;
    let (served, namespace) = (&call.served, &call.path.namespace);
    let name = metadata::text(&object, "name").to_owned();
    // An early check. `commit` checks the definition again, under the lock of the store.
    if call.cluster.read(|store| has_terminating_definition(served, store)) {
        return Err(terminating_definition(call, &name));
    }
    // As in kube-apiserver, an object that a PUT or PATCH creates keeps the fields of a deletion.
    let is_posted = call.path.name.is_empty();
    if is_posted {
        object_meta::wipe(&mut object);
    }
    // Ownership is tracked before plugins and the kind set other fields, which have no owner.
    if ownership == Ownership::Tracked {
        // A PUT to `/status` creates an object too; the fields that it does not write have no owner.
        update::track(call, None, &mut object, options, &call.path.subresource).await;
    }
    let (admission, attributes) =
        (&call.context.admission, call.attributes(OperationOptions::Create(options), None));
    if admission.mutate(&attributes.named(&name), Some(&mut object)).await? {
        // The object was encoded for the webhook or policy and decoded again; the encoding omits most empty lists and maps.
        empty = EmptyParts::of(served, &object);
    }
    update::deduplicate_owners(call, &mut object, OwnersFrom::Admission);
    if is_posted {
        // A webhook may have set fields that only the server sets.
        object_meta::wipe(&mut object);
    } else {
        // A resourceVersion must be a number; its value is ignored.
        update::wanted_revision(&object)?;
    }
    // Plugins may have changed the permissions that a role or binding grants.
    call.check_escalation(None, &object)?;
    // Plugins may change the name of the object, but not its namespace.
    object_meta::reconcile_namespace(served, namespace, &mut object)?;
    object_meta::begin(call, &mut object);
    let generate =
        metadata::text(&object, "name").is_empty() && !metadata::text(&object, "generateName").is_empty();
    let mut last_name = String::new();
    // If the object has a name, the first attempt decides.
    for _ in 0..NAME_ATTEMPTS {
        let mut candidate = if generate { object.clone() } else { object.take() };
        if let Some(name) = object_meta::generated_name(call, &candidate) {
            metadata::of(&mut candidate).insert("name".to_owned(), name.into());
        }
        let mode = if options.dry_run { AllocationMode::DryRun } else { AllocationMode::Reserve };
        // Addresses and ports of a Service stay reserved until the commit, or the end of a dry run.
        let _reserved = match call.path.subresource.as_str() {
            "" => call.cluster.allocate(served, None, &mut candidate, mode)?,
            _ => None,
        };
        prepare(call, &mut candidate, &empty)?;
        if !call.path.name.is_empty() {
            // So far, only the permission for the verb of the PUT or PATCH was checked.
            call.authorize("create")?;
        }
        let named =
            if name.is_empty() { metadata::text(&candidate, "name").to_owned() } else { name.clone() };
        let attributes = attributes.named(&named);
        admission.validate(&attributes, Some(&candidate)).await?;
        let is_pruned = prepare_storage(call, &attributes, &mut candidate);
        call.permissions.record_created(metadata::text(&candidate, "name"));
        if !options.dry_run {
            metadata::of(&mut candidate).remove("selfLink");
        }
        let is_completed = served.strategy.default_stored(served, &mut candidate);
        if options.dry_run {
            let key = Key::new(namespace, metadata::text(&candidate, "name"));
            // A dry run ends before the commit, which would notice that the name is taken.
            let taken = call.cluster.read(|store| store.get(served.storage(), &key).is_some());
            if !taken {
                return Ok(Created::DryRun(call.dry_run(candidate).await?));
            }
        } else if is_posted && has_revision(&candidate) {
            return Err(ApiError::internal("resourceVersion should not be set on objects to be created"));
        } else if let Some(stored) = commit(call, &attributes, &candidate, is_pruned || is_completed).await? {
            return Ok(Created::Stored(call.converted(stored).await?));
        }
        metadata::text(&candidate, "name").clone_into(&mut last_name);
        if !generate {
            // `generateName` changes the error even if the object has a name, so that no name was generated.
            let has_prefix = !metadata::text(&candidate, "generateName").is_empty();
            return Err(match has_prefix {
                true => not_unique(call, namespace, &last_name),
                false => exists(call, namespace, &last_name, &served.resource.group),
            });
        }
    }
    // The error names the last of the generated names.
    Err(not_unique(call, namespace, &last_name))
}

/// Builds the error of an object with `generateName` if its generated name is taken.
fn not_unique(call: &Call, namespace: &str, name: &str) -> ApiError {
    let resource = &call.served.resource;
    // kube-apiserver takes the group from Go's internal type, which an Event of `events.k8s.io` shares with one of the core group, like its
    // table.
    let group = &resource.storage.group;
    let exists = exists(call, namespace, name, group);
    let why =
        format!("{}, the server was not able to generate a unique name for the object", exists.message());
    ApiError::new(409, "AlreadyExists", why).with_details(name, group, &resource.plural).with_retry_after(1)
}

/// Whether the object has a resourceVersion that the storage refuses. The storage checks it last, and ignores 0 and text that is not a number.
fn has_revision(object: &Value) -> bool {
    parse_uint(metadata::text(object, "resourceVersion")).is_ok_and(|revision| revision != 0)
}

/// Sets the fields that the kind determines, and validates the object.
fn prepare(call: &Call, object: &mut Value, empty: &EmptyParts) -> Result<(), ApiError> {
    let served = &call.served;
    // Strategies of builtin kinds do this themselves in `prepare_create`.
    if served.resource.status
        && served.is_custom()
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    let context = call.write_context();
    served.strategy.prepare_create(served, &context, object);
    for warning in context.warnings.into_inner() {
        call.warn(warning);
    }
    // The metadata of an object of another custom kind are not validated.
    let is_of_kind = !served.is_custom() || custom::type_errors(served, object).is_empty();
    let mut errors: Vec<FieldError> = refused_admin_access(call, object).into_iter().collect();
    errors.extend(served.strategy.validate_before_metadata(served, object));
    let mut of_metadata = if is_of_kind { object_meta::validate(served, object) } else { Vec::new() };
    if !served.strategy.validates_metadata_last(served) {
        errors.append(&mut of_metadata);
    }
    let validate = |object: &Value| served.strategy.validate_create(served, object);
    errors.extend(empty_parts::validate(served, object, &empty.collections, validate));
    if errors.is_empty() {
        errors = of_metadata;
    }
    if errors.is_empty() && !served.is_custom() {
        errors = object_meta::validate_contained(served, object);
    }
    if !errors.is_empty() {
        return Err(call.invalid_object(object, metadata::text(object, "name"), errors));
    }
    for warning in served.strategy.warnings(served, object, None, "") {
        call.warn(warning);
    }
    Ok(())
}

/// Refuses the access of an administrator to devices, unless a label of the namespace allows it.
fn refused_admin_access(call: &Call, object: &Value) -> Option<FieldError> {
    let field = builtin::admin_access(&call.served.resource, object)?;
    let key = Key::new("", &call.path.namespace);
    let namespace = call.cluster.read(|store| store.get(&namespace::table(), &key).cloned());
    let is_allowed = namespace.is_some_and(|stored| {
        let value = stored.document.to_value(&TypeMeta::new("v1", "Namespace"), stored.revision);
        value["metadata"]["labels"][builtin::ADMIN_ACCESS] == "true"
    });
    let label = builtin::ADMIN_ACCESS;
    let why =
        format!("admin access to devices requires the `{label}: true` label on the containing namespace");
    (!is_allowed).then(|| FieldError::forbidden(field, &why))
}

/// Prepares an object for the storage. Returns whether it had undeclared fields, which a mutating webhook can add to a custom object:
/// kube-apiserver drops them only when it reads the object.
pub(super) fn prepare_storage(call: &Call, attributes: &Attributes<'_>, object: &mut Value) -> bool {
    let served = &call.served;
    let is_pruned = served.is_custom()
        && !served.is_stored_in_another_version()
        && !served.converts_writes()
        && call.context.admission.asks_mutators(attributes)
        && !served.unknown_fields(object).is_empty();
    served.strategy.prepare_storage(served, object);
    is_pruned
}

/// Stores the object. `differs` is whether kube-apiserver stores another text. Returns `None` if the name is taken.
async fn commit(
    call: &Call,
    attributes: &Attributes<'_>,
    object: &Value,
    differs: bool,
) -> Result<Option<Arc<Stored>>, ApiError> {
    let namespace = &call.path.namespace;
    let key = Key::new(namespace, metadata::text(object, "name"));
    let document = call.document(object).await?;
    let change = Change::Put(if differs { document.differing() } else { document });
    let guard = |store: &Store<StorageKey>| {
        // Under the lock of the store: since these checks ran, the namespace or the definition may have been
        // deleted, and other objects charged to the quotas.
        let charges = call.context.admission.recheck(attributes, object, store)?;
        check_definition(call, store, key.name())?;
        Ok(charges)
    };
    match call.cluster.commit_with(call.served.storage(), &key, None, change, guard) {
        Ok(event) => Ok(event.after.clone()),
        Err(Refused::Conflict) => Ok(None),
        Err(Refused::Because(error)) => Err(error),
    }
}

/// Builds the error of an object whose name is taken. Its message names `group`.
fn exists(call: &Call, namespace: &str, name: &str, group: &str) -> ApiError {
    let resource = &call.served.resource;
    let error = ApiError::already_exists(group, &resource.plural, name);
    let key = Key::new(namespace, name);
    let old = call.cluster.read(|store| store.get(call.served.storage(), &key).cloned());
    match old {
        Some(old) if old.document.is_terminating() => {
            ApiError::new(409, "AlreadyExists", format!("object is being deleted: {}", error.message()))
                .with_details(name, group, &resource.plural)
        }
        _ => error,
    }
}

/// Refuses an object if its definition was deleted since the request began.
fn check_definition(call: &Call, store: &Store<StorageKey>, name: &str) -> Result<(), ApiError> {
    let Some(custom) = &call.served.custom else {
        return Ok(());
    };
    if has_terminating_definition(&call.served, store) {
        return Err(terminating_definition(call, name));
    }
    let resource = &call.served.resource;
    let registry = call.cluster.registry();
    let now = registry.get(&resource.group, &resource.version, &resource.plural);
    // A later definition of the same name does not count: it defines other objects.
    let is_same = |now: &ServedKind| now.custom.as_ref().is_some_and(|now| now.uid == custom.uid);
    if definition(store, custom).is_some() && now.is_some_and(|now| is_same(now)) {
        return Ok(());
    }
    Err(ApiError::unknown_resource())
}

/// Whether the definition of a custom kind is being deleted. The objects can be read until they are deleted.
fn has_terminating_definition(served: &ServedKind, store: &Store<StorageKey>) -> bool {
    let definition = served.custom.as_ref().and_then(|custom| definition(store, custom));
    definition.is_some_and(|definition| definition.document.is_terminating())
}

fn definition<'a>(store: &'a Store<StorageKey>, custom: &CustomKind) -> Option<&'a Arc<Stored>> {
    store.get(&crate::kinds::definition::table(), &Key::new("", &custom.definition))
}

fn terminating_definition(call: &Call, name: &str) -> ApiError {
    let resource = &call.served.resource;
    let why = "create not allowed while custom resource definition is terminating";
    ApiError::forbidden(&resource.group, &resource.plural, name, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use serde_json::json;

    #[tokio::test]
    async fn a_name_is_generated_at_most_eight_times() {
        const MAPS: &str = "/api/v1/namespaces/default/configmaps";
        let (server, twin) = (testing::server(), testing::server());
        // A second generator with the same seed draws the same values: a UID for each object, then the names of the last one.
        for _ in 0..=NAME_ATTEMPTS {
            twin.uid();
        }
        let taken = (0..NAME_ATTEMPTS).map(|_| format!("x-{}", twin.name_suffix())).collect::<Vec<_>>();
        for name in &taken {
            testing::create(&server, MAPS, &json!({"metadata": {"name": name}})).unwrap();
        }
        let nameless = json!({"metadata": {"generateName": "x-"}});
        let error = testing::create(&server, MAPS, &nameless).unwrap_err();
        assert_eq!((error.code(), error.reason(), error.retry_after()), (409, "AlreadyExists", Some(1)));
        let last = &taken[NAME_ATTEMPTS - 1];
        let expected = format!(
            "configmaps \"{last}\" already exists, the server was not able to generate a unique name for the object"
        );
        assert_eq!(error.message(), expected);
        testing::create(&server, MAPS, &nameless).unwrap();
    }

    /// Observed with kube-apiserver v1.36.3.
    #[tokio::test]
    async fn an_event_whose_generated_name_is_taken_belongs_to_the_core_group() {
        const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
        let server = testing::server();
        let event = |metadata: Value| {
            json!({
                "metadata": metadata, "action": "A", "eventTime": "2001-02-03T04:05:06.000001Z", "reason": "B", "type": "Normal",
                "regarding": {"namespace": "default"}, "reportingController": "example.com/a", "reportingInstance": "a",
            })
        };
        let message =
            |metadata| testing::create(&server, EVENTS, &event(metadata)).unwrap_err().message().to_owned();
        testing::create(&server, EVENTS, &event(json!({"name": "a"}))).unwrap();
        assert_eq!(message(json!({"name": "a"})), "events.events.k8s.io \"a\" already exists");
        assert_eq!(
            message(json!({"name": "a", "generateName": "g-"})),
            "events \"a\" already exists, the server was not able to generate a unique name for the object"
        );
    }

    /// Observed with kube-apiserver v1.36.3.
    #[tokio::test]
    async fn a_resource_version_of_a_new_object_is_refused_as_by_the_storage() {
        const MAPS: &str = "/api/v1/namespaces/default/configmaps";
        let server = testing::server();
        let create = |name: &str, revision: &str, query: &str| {
            let map = json!({"metadata": {"name": name, "resourceVersion": revision}});
            let mut call = testing::call(&server, MAPS);
            call.query = crate::request::query::Query::parse(query);
            match testing::now(run(&call, &Bytes::from(map.to_string()))) {
                Ok(reply) => reply.code,
                Err(error) => error.code(),
            }
        };
        let dry = "dryRun=All";
        for (name, revision, query, code) in [
            ("zero", "0", "", 201),
            ("text", "abc", "", 201),
            ("five", "5", "", 500),
            ("text", "5", "", 500),
            ("five", "5", dry, 201),
            ("five", "abc", dry, 201),
            ("text", "5", dry, 409),
            ("A_b", "5", "", 422),
            ("A_b", "5", dry, 422),
        ] {
            assert_eq!(create(name, revision, query), code, "{name} {revision} {query}");
        }
    }
}
