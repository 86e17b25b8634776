//! Where the time of a pipeline goes: measured beside it, judged, and what a change would bring.
//!
//! [`measure`] looks ([`look`]) and makes [`figures`] and a [`timeline`] of it, [`statistics`] says how well a rate is known,
//! [`judge`] names what binds and [`behind`] what would next, [`neighbor`] how much of the processors lanes take, [`whatif`]
//! plays changes through the [`model`], [`scaling`] fits a law to several numbers of lanes, [`compare`] holds two profiles
//! beside one another.

mod behind;
pub(crate) mod binding;
pub(crate) mod compare;
mod figures;
pub(crate) mod judge;
mod look;
pub(crate) mod measure;
mod model;
pub(crate) mod neighbor;
pub(crate) mod scaling;
pub(crate) mod stages;
pub(crate) mod statistics;
mod timeline;
pub(crate) mod whatif;

/// The version of what `cloze profile --json` writes.
pub(crate) const VERSION: u64 = 1;
