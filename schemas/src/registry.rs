//! A closed family of components, one line each.

/// Declares the modules of a component family and the enum that holds any of them.
///
/// A line `mask::Mask` gives `pub mod mask;`, the variant `Mask(mask::Mask)`, the TOML name `kind = "mask"`, and a
/// place in `examples()`, over which the family's contract tests run. The member struct *is* its configuration: it
/// derives `Clone, Debug, PartialEq, Default, Serialize, Deserialize` with `#[serde(default, deny_unknown_fields)]`.
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
