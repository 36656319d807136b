//! What another module is about to provide: field ownership.

pub(crate) mod managed_fields {
    use serde_json::Value;

    use crate::schema::Schema;
    use crate::status::ApiError;

    pub(crate) struct Writer<'a> {
        pub(crate) manager: &'a str,
        pub(crate) subresource: &'a str,
        pub(crate) api_version: &'a str,
        pub(crate) now: &'a str,
    }

    pub(crate) fn track_update(_: &Schema, _: Option<&Value>, _: &mut Value, _: &Writer<'_>, _: &[&str]) {}

    pub(crate) fn apply(
        _: &Schema,
        live: Option<&Value>,
        applied: &Value,
        _: &Writer<'_>,
        _force: bool,
        reset: &[&str],
    ) -> Result<Value, ApiError> {
        let mut patch = applied.clone();
        if let Some(fields) = patch.as_object_mut() {
            fields.retain(|name, _| name == "metadata" || !reset.contains(&name.as_str()));
        }
        let mut object = live.cloned().unwrap_or_else(|| applied.clone());
        crate::patch::merge(&mut object, &patch);
        Ok(object)
    }
}
