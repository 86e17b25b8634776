//! Closed family of components, one line each.

use schemars::{Schema, json_schema};
use serde_json::json;

/// Declares the modules of a component family and the enum that holds any of them.
///
/// A line `mask::Mask` gives `pub mod mask;`, the variant `Mask(mask::Mask)`, the TOML name `kind = "mask"`, and a
/// place in `examples()`, over which the family's contract tests run. The member struct *is* its configuration: it
/// derives `Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema` with `#[serde(default,
/// deny_unknown_fields)]`; the doc comments of the struct and its fields are what `cloze config` prints.
///
/// Written `pub enum AnyFormat: Format by name { … }`, the family is one of members without settings, and a
/// configuration holds nothing but the name: a line `text_lines::Lines` is chosen by `format = "text_lines"`. Members
/// then derive `Clone, Debug, PartialEq, Default`.
///
/// The calling crate knows this crate as `schemas`.
#[macro_export]
macro_rules! registry {
    ($(#[$doc:meta])* pub enum $Any:ident: $Trait:ident { $($module:ident::$Member:ident),+ $(,)? }) => {
        $(pub mod $module;)+

        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, $crate::serde::Serialize, $crate::serde::Deserialize)]
        #[serde(crate = "schemas::serde", tag = "kind", rename_all = "snake_case")]
        pub enum $Any {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Member($module::$Member),)+
        }

        $crate::registry!(@members $Any: $Trait { $($module::$Member),+ });

        impl $crate::schemars::JsonSchema for $Any {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($Any).into()
            }

            fn json_schema(generator: &mut $crate::schemars::SchemaGenerator) -> $crate::schemars::Schema {
                let members = [$(<$module::$Member as $crate::schemars::JsonSchema>::json_schema(generator)),+];
                $crate::one_of(Self::KINDS.iter().copied().zip(members))
            }
        }
    };
    ($(#[$doc:meta])* pub enum $Any:ident: $Trait:ident by name { $($module:ident::$Member:ident),+ $(,)? }) => {
        $(pub mod $module;)+

        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $Any {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Member($module::$Member),)+
        }

        $crate::registry!(@members $Any: $Trait { $($module::$Member),+ });

        impl $crate::schemars::JsonSchema for $Any {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($Any).into()
            }

            fn json_schema(_: &mut $crate::schemars::SchemaGenerator) -> $crate::schemars::Schema {
                $crate::schemars::json_schema!({ "type": "string", "enum": Self::KINDS })
            }
        }

        impl $crate::serde::Serialize for $Any {
            fn serialize<S: $crate::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.kind())
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $Any {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let kind = <String as $crate::serde::Deserialize>::deserialize(deserializer)?;
                Self::of_kind(&kind)
                    .ok_or_else(|| <D::Error as $crate::serde::de::Error>::unknown_variant(&kind, Self::KINDS))
            }
        }
    };
    (@members $Any:ident: $Trait:ident { $($module:ident::$Member:ident),+ }) => {
        impl $Any {
            /// TOML names of all members, in registry order.
            pub const KINDS: &'static [&'static str] = &[$(stringify!($module)),+];

            /// Returns the TOML name of this member.
            #[must_use]
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$Member(_) => stringify!($module),)+ }
            }

            /// Returns the member of that TOML name, with its default configuration.
            #[must_use]
            pub fn of_kind(kind: &str) -> Option<Self> {
                Self::examples().into_iter().find(|member| member.kind() == kind)
            }

            /// Returns one of each member, with its default configuration.
            #[must_use]
            pub fn examples() -> Vec<Self> {
                vec![$(Self::$Member(<$module::$Member>::default()),)+]
            }
        }

        impl std::ops::Deref for $Any {
            type Target = dyn $Trait;

            fn deref(&self) -> &Self::Target {
                match self { $(Self::$Member(member) => member,)+ }
            }
        }
    };
}

/// Returns the schema of a family whose members are tagged by `kind`.
#[must_use]
pub fn one_of(members: impl IntoIterator<Item = (&'static str, Schema)>) -> Schema {
    let members = members.into_iter().map(|(kind, mut member)| {
        let object = member.ensure_object();
        let properties = object.entry("properties").or_insert_with(|| json!({}));
        properties["kind"] = json!({ "const": kind });
        object.insert("required".to_owned(), json!(["kind"]));
        member
    });
    json_schema!({ "oneOf": members.collect::<Vec<_>>() })
}
