//! Versions of a kind that have different fields: ownership is recorded in the version of each write, and compared in that version.

use std::collections::BTreeMap;

use serde_json::Value;

use super::compare::{Comparison, compare};
use super::managers::{ManagerId, Managers, Owned};
use super::schema_check::check;
use super::typed::Ty;
use crate::schema::Schema;
use crate::status::ApiError;

/// Schema of the written version, and access to the other versions of a kind.
#[derive(Clone, Copy)]
pub struct Schemas<'a> {
    /// Schema of the written version.
    pub own: &'a Schema,
    /// Other versions; `None` if all versions have the same fields.
    pub others: Option<&'a dyn Versions>,
    /// Versions of a custom kind with the same fields in all versions, such as `example.com/v1`. If none are given, all versions of the
    /// group of a write are known.
    pub versions: &'a [String],
}

/// Other versions of a kind with different fields in its versions.
pub trait Versions: Sync {
    /// Returns the schema of a version, such as `example.com/v1`; `None` if the kind has no such version.
    fn schema(&self, api_version: &str) -> Option<&Schema>;

    /// Whether the kind has a version. Entries in other versions are dropped by the next write.
    fn knows(&self, api_version: &str) -> bool {
        let _ = api_version;
        true
    }

    /// Returns an object in another version. The object has no `managedFields`.
    ///
    /// # Errors
    /// The error of the conversion, or of a missing version. The write reports it.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ApiError>;
}

impl<'a> Schemas<'a> {
    /// Returns the schema of a kind with the same fields in all versions.
    pub(super) fn alike(own: &'a Schema) -> Self {
        Self { own, others: None, versions: &[] }
    }

    /// Returns the type of the written version.
    pub(super) fn ty(self) -> Ty<'a> {
        Ty::Schema(self.own.root())
    }

    /// Returns the type of another version, or of the written one if the kind has no such version.
    pub(super) fn ty_in(self, api_version: &str) -> Ty<'a> {
        let other = self.others.and_then(|others| others.schema(api_version));
        other.map_or_else(|| self.ty(), |schema| Ty::Schema(schema.root()))
    }

    /// Whether a kind with the version `written` also has the version `api_version`. Of builtin kinds with the same fields in all versions,
    /// only Events have several.
    pub(super) fn knows(self, api_version: &str, written: &str) -> bool {
        match self.others {
            Some(others) => others.knows(api_version),
            // Without a list of versions the group has to decide: all versions of a custom kind are in one group.
            None if self.own.is_custom() && self.versions.is_empty() => {
                group_of(api_version) == group_of(written)
            }
            None if self.own.is_custom() => self.versions.iter().any(|known| known == api_version),
            None => {
                api_version == written
                    || [api_version, written]
                        .iter()
                        .all(|version| EVENTS.iter().any(|events| events == version))
            }
        }
    }

    /// Drops the entries of other managers than `own` in versions that the kind does not have.
    ///
    /// # Errors
    /// 500 for an entry of a custom kind in a version to which no object can be converted.
    pub(super) fn drop_unknown(
        self,
        managers: &mut Managers,
        own: &ManagerId,
        written: &str,
    ) -> Result<(), ApiError> {
        let unknown = |owned: &Owned| !self.knows(&owned.api_version, written);
        let unknown: Vec<ManagerId> = managers
            .iter()
            .filter(|(id, owned)| *id != own && unknown(owned))
            .map(|(id, _)| id.clone())
            .collect();
        // The converter of custom kinds reports an unknown version as another error than a missing one, so that the write fails.
        if let (None, true, Some(id)) = (self.others, self.own.is_custom(), unknown.first()) {
            let version = managers.get(id).map_or("", |owned| &owned.api_version);
            let why = format!("request to convert CR to an invalid group/version: {version}");
            return Err(ApiError::internal(format!("failed to convert old object: {why}")));
        }
        for id in unknown {
            managers.remove(&id);
        }
        Ok(())
    }

    /// Returns an object in another version.
    ///
    /// # Errors
    /// Those of [`Versions::convert`].
    pub(super) fn convert(self, object: &Value, api_version: &str) -> Result<Value, ApiError> {
        match self.others {
            Some(others) if object["apiVersion"] != api_version => others.convert(object, api_version),
            _ => Ok(object.clone()),
        }
    }
}

/// Versions of Events, which belong to two groups.
const EVENTS: [&str; 2] = ["v1", "events.k8s.io/v1"];

fn group_of(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

/// Differences between two states of an object, in each version in which managers own fields.
pub(super) struct Comparisons {
    pub(super) own: Comparison,
    others: BTreeMap<String, Comparison>,
}

impl Comparisons {
    /// Compares the states in the version of the write, `api_version`, and in the other versions, without the fields of `reset`.
    ///
    /// # Errors
    /// 500 if a state cannot be converted. All conversions are requested before the first error is returned.
    pub(super) fn new(
        schemas: Schemas<'_>,
        old: &Value,
        new: &Value,
        managers: &Managers,
        api_version: &str,
        reset: &[&str],
    ) -> Result<Self, ApiError> {
        let mut own = compare(schemas.ty(), old, new);
        own.ignore(reset);
        // The main endpoint of a custom kind ignores the status in its own version only.
        let is_reset_everywhere = !schemas.own.is_custom() || reset.contains(&"spec");
        let mut others = BTreeMap::new();
        if schemas.others.is_some() {
            let mut pairs = BTreeMap::new();
            for (_, owned) in managers.iter().filter(|(_, owned)| owned.api_version != api_version) {
                let version = owned.api_version.as_str();
                pairs
                    .entry(version)
                    .or_insert_with(|| (schemas.convert(old, version), schemas.convert(new, version)));
            }
            for (version, (old, new)) in pairs {
                let fitting = |state: Result<Value, ApiError>, step: &str| {
                    let state = state.map_err(|error| failed(step, &error))?;
                    // Duplicates are accepted in the written version only.
                    match check(schemas.ty_in(version), &state) {
                        Some(why) => Err(ApiError::internal(format!("{step}: {why}"))),
                        None => Ok(state),
                    }
                };
                let old = fitting(old, "failed to convert old object")?;
                let new = fitting(new, "failed to convert new object")?;
                let mut other = compare(schemas.ty_in(version), &old, &new);
                if is_reset_everywhere {
                    other.ignore(reset);
                }
                others.insert(version.to_owned(), other);
            }
        }
        Ok(Self { own, others })
    }

    /// Returns the differences in the version of an entry.
    pub(super) fn of(&self, api_version: &str) -> &Comparison {
        self.other(api_version).unwrap_or(&self.own)
    }

    /// Returns the differences in another version; `None` if [`own`](Self::own) applies to entries of this version.
    pub(super) fn other(&self, api_version: &str) -> Option<&Comparison> {
        self.others.get(api_version)
    }
}

/// Prefixes the message of an error with the step that failed.
pub(super) fn failed(step: &str, error: &ApiError) -> ApiError {
    ApiError::internal(format!("{step}: {}", error.message()))
}
