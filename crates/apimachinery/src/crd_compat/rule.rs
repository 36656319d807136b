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
            /// Every rule.
            pub const ALL: &[Self] = &[$(Self::$rule),*];

            /// Name of the rule, by which an [`Exception`](super::Exception) allows it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }

            /// Usual level of its changes.
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
    /// A definition is gone.
    DefinitionRemoved "definition-removed" Error,
    /// Objects move between namespaces and the cluster.
    ScopeChanged "scope-changed" Error,
    /// The group, the kind or the plural has another name.
    KindChanged "kind-changed" Error,
    /// A version is gone, or is not served any more.
    VersionRemoved "version-removed" Error,
    /// A version that objects may be stored in is gone.
    StoredVersionRemoved "stored-version-removed" Error,
    /// A subresource is gone.
    SubresourceRemoved "subresource-removed" Error,
    /// A subresource reads other fields.
    SubresourceChanged "subresource-changed" Error,
    /// `status` becomes a subresource.
    SubresourceAdded "subresource-added" Warning,
    /// A field cannot be selected any more.
    SelectableFieldRemoved "selectable-field-removed" Error,
    /// A column of `kubectl get` is gone.
    PrinterColumnRemoved "printer-column-removed" Warning,
    /// A short name is gone.
    ShortNameRemoved "short-name-removed" Warning,
    /// A category is gone.
    CategoryRemoved "category-removed" Warning,
    /// A field is gone, or unknown fields are dropped.
    FieldRemoved "field-removed" Error,
    /// A field gets a schema where any value was allowed before.
    OpenFieldRestricted "open-field-restricted" Error,
    /// A field has another type.
    TypeChanged "type-changed" Error,
    /// A format is new, or another one.
    FormatChanged "format-changed" Error,
    /// A field is required.
    RequiredAdded "required-added" Error,
    /// The values are limited to a list.
    EnumAdded "enum-added" Error,
    /// A value is not allowed any more.
    EnumValueRemoved "enum-value-removed" Error,
    /// A value is new.
    EnumValueAdded "enum-value-added" Warning,
    /// Every value is allowed.
    EnumRemoved "enum-removed" Warning,
    /// An upper bound is new.
    MaximumAdded "maximum-added" Error,
    /// An upper bound is lower.
    MaximumLowered "maximum-lowered" Error,
    /// A lower bound is new.
    MinimumAdded "minimum-added" Error,
    /// A lower bound is higher.
    MinimumRaised "minimum-raised" Error,
    /// Numbers must be multiples of another number.
    MultipleOfChanged "multiple-of-changed" Error,
    /// A pattern is new.
    PatternAdded "pattern-added" Error,
    /// A pattern is another one.
    PatternChanged "pattern-changed" Error,
    /// A pattern is gone.
    PatternRemoved "pattern-removed" Warning,
    /// Null is not allowed any more.
    NullableRemoved "nullable-removed" Error,
    /// Null is allowed.
    NullableAdded "nullable-added" Warning,
    /// A default is another one.
    DefaultChanged "default-changed" Error,
    /// A default is gone.
    DefaultRemoved "default-removed" Error,
    /// A default is new.
    DefaultAdded "default-added" Warning,
    /// Lists or maps are merged in another way.
    ListTypeChanged "list-type-changed" Error,
    /// `allOf`, `anyOf`, `oneOf` or `not` allows less.
    CompositionChanged "composition-changed" Error,
    /// A CEL rule is new.
    CelAdded "cel-added" Warning,
    /// A new field is a boolean.
    NoBools "no-bools" Style,
    /// A new field is a number with fractions.
    NoFloats "no-floats" Style,
    /// A new field is an unsigned integer.
    NoUnsigned "no-unsigned" Style,
    /// A new field is a map of objects.
    NoMaps "no-maps" Style,
    /// A new list does not say how it is merged.
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
