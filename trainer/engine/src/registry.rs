//! Builder registry of a component family, one line per component.

/// Declares the modules of a family's builders and the dispatch from a configured member to its builder.
///
/// A line `masked_lm::MaskedLm` declares `pub(crate) mod masked_lm;`. The file of that module implements `Build` for
/// the member of that name in the family's registry in `trainer_plan`.
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
