//! The built side of a component family, one line each.

/// Declares the modules of a family's builders, and how a configured member is built.
///
/// A line `masked_lm::MaskedLm` gives `pub(crate) mod masked_lm;`, whose file implements `Build` for the member of that name
/// in the family's registry in `trainer_plan`.
macro_rules! builders {
    ($(#[$doc:meta])* $Any:ident { $($module:ident::$Member:ident),+ $(,)? }) => {
        $(pub(crate) mod $module;)+

        $(#[$doc])*
        pub(crate) fn builder(configured: &$Any) -> &dyn Build {
            match configured {
                $($Any::$Member(config) => config,)+
            }
        }
    };
}
