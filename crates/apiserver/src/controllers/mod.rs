//! Controllers of the server: tasks that react to changes and write like clients, under field managers of their own. They yield
//! between objects.

pub(crate) mod api_availability;
pub(crate) mod definitions;
pub(crate) mod event_ttl;
pub(crate) mod flow_schema_status;
pub(crate) mod garbage_collection;
pub(crate) mod namespaces;
pub(crate) mod quota_usage;
pub(crate) mod role_aggregation;
pub(crate) mod service_addresses;
pub(crate) mod volume_protection;
