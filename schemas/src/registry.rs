//! A closed family of components, one line each.

/// Declares the modules of a component family and the enum that holds any of them.
///
/// A line `mask::Mask` gives `pub mod mask;`, the variant `Mask(mask::Mask)`, the TOML name `kind = "mask"`, and a
/// place in `examples()`, over which the family's contract tests run. The member struct *is* its configuration: it
/// derives `Clone, Debug, PartialEq, Default, Serialize, Deserialize` with `#[serde(default, deny_unknown_fields)]`.
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
    };
    ($(#[$doc:meta])* pub enum $Any:ident: $Trait:ident by name { $($module:ident::$Member:ident),+ $(,)? }) => {
        $(pub mod $module;)+

        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $Any {
            $(#[doc = concat!("See [`", stringify!($module), "`].")] $Member($module::$Member),)+
        }

        $crate::registry!(@members $Any: $Trait { $($module::$Member),+ });

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
            /// The TOML names of all members, in registry order.
            pub const KINDS: &'static [&'static str] = &[$(stringify!($module)),+];

            /// The TOML name of this member.
            #[must_use]
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$Member(_) => stringify!($module),)+ }
            }

            /// The member of that TOML name, with its default configuration.
            #[must_use]
            pub fn of_kind(kind: &str) -> Option<Self> {
                Self::examples().into_iter().find(|member| member.kind() == kind)
            }

            /// One of each, with its default configuration.
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
