//! Names and levels of the rules.

use std::{fmt, str::FromStr};

/// Weight of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Breaks stored objects or clients.
    Error,
    /// Breaks neither, but users may notice it.
    Warning,
    /// A property of a new field that is hard to change later.
    Style,
}

macro_rules! rules {
    ($($(#[doc = $doc:literal])* $rule:ident $name:literal $level:ident,)*) => {
        /// A rule about changes, with a name such as `field-removed`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[doc = $doc])* $rule,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &[Self] = &[$(Self::$rule),*];

            /// Returns the name of the rule, by which an [`Exception`](super::Exception) allows it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }

            /// Returns the level of changes that violate the rule.
            #[must_use]
            pub fn level(self) -> Level {
                match self {
                    $(Self::$rule => Level::$level,)*
                }
            }
        }
    };
}

rules! {
    /// A definition was removed.
    DefinitionRemoved "definition-removed" Error,
    /// Objects become cluster-scoped instead of namespaced, or the reverse.
    ScopeChanged "scope-changed" Error,
    /// The group, the kind or the plural was renamed.
    KindChanged "kind-changed" Error,
    /// A version was removed, or is not served any more.
    VersionRemoved "version-removed" Error,
    /// A version in which objects may be stored was removed.
    StoredVersionRemoved "stored-version-removed" Error,
    /// A subresource was removed.
    SubresourceRemoved "subresource-removed" Error,
    /// A subresource uses another field than before.
    SubresourceChanged "subresource-changed" Error,
    /// `status` becomes a subresource.
    SubresourceAdded "subresource-added" Warning,
    /// A field was removed from the selectable fields.
    SelectableFieldRemoved "selectable-field-removed" Error,
    /// A column of `kubectl get` was removed.
    PrinterColumnRemoved "printer-column-removed" Warning,
    /// A short name was removed.
    ShortNameRemoved "short-name-removed" Warning,
    /// A category was removed.
    CategoryRemoved "category-removed" Warning,
    /// A field was removed, or unknown fields are dropped from now on.
    FieldRemoved "field-removed" Error,
    /// A field that allowed any value has a schema.
    OpenFieldRestricted "open-field-restricted" Error,
    /// The type of a field changed.
    TypeChanged "type-changed" Error,
    /// A format was added, or changed.
    FormatChanged "format-changed" Error,
    /// A field became required.
    RequiredAdded "required-added" Error,
    /// An enum was added.
    EnumAdded "enum-added" Error,
    /// A value was removed from an enum.
    EnumValueRemoved "enum-value-removed" Error,
    /// A value was added to an enum.
    EnumValueAdded "enum-value-added" Warning,
    /// An enum was removed.
    EnumRemoved "enum-removed" Warning,
    /// An upper bound was added.
    MaximumAdded "maximum-added" Error,
    /// An upper bound was lowered.
    MaximumLowered "maximum-lowered" Error,
    /// A lower bound was added.
    MinimumAdded "minimum-added" Error,
    /// A lower bound was raised.
    MinimumRaised "minimum-raised" Error,
    /// `multipleOf` was added, or excludes numbers that were allowed.
    MultipleOfChanged "multiple-of-changed" Error,
    /// A pattern was added.
    PatternAdded "pattern-added" Error,
    /// A pattern changed.
    PatternChanged "pattern-changed" Error,
    /// A pattern was removed.
    PatternRemoved "pattern-removed" Warning,
    /// Null is not allowed any more.
    NullableRemoved "nullable-removed" Error,
    /// Null is allowed from now on.
    NullableAdded "nullable-added" Warning,
    /// A default changed.
    DefaultChanged "default-changed" Error,
    /// A default was removed.
    DefaultRemoved "default-removed" Error,
    /// A default was added.
    DefaultAdded "default-added" Warning,
    /// Lists or maps are merged by other rules.
    ListTypeChanged "list-type-changed" Error,
    /// `allOf`, `anyOf`, `oneOf` or `not` changed and may allow less.
    CompositionChanged "composition-changed" Error,
    /// A CEL rule was added.
    CelAdded "cel-added" Warning,
    /// A new field is a boolean.
    NoBools "no-bools" Style,
    /// A new field is a number with fractions.
    NoFloats "no-floats" Style,
    /// A new field is an unsigned integer.
    NoUnsigned "no-unsigned" Style,
    /// A new field is a map of objects.
    NoMaps "no-maps" Style,
    /// A new list does not define how it is merged.
    ListsHaveType "lists-have-type" Style,
    /// New conditions are not merged by their type.
    ConditionsHaveMapKey "conditions-have-map-key" Style,
    /// A new version has no status subresource.
    MustHaveStatus "must-have-status" Style,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Parses the name of a rule.
impl FromStr for Rule {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|rule| rule.as_str() == name);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|rule| rule.as_str()).collect();
            format!("there is no rule {name:?}; rules are {}", names.join(", "))
        })
    }
}
