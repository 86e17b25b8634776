//! Format of a planned or prepared folder, for a command that finds no input whose extension tells it.

use super::config::{PrepareConfig, Settings};
use super::part_list::{ReadableLists, VersionLists};
use super::plan;
use crate::Result;
use crate::corpus::AnyFormat;

impl PrepareConfig {
    /// Returns the format with which the configured folder was planned, or that of this configuration if the part lists
    /// are damaged. `None` if nothing is planned there.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn planned_format(&self) -> Result<Option<AnyFormat>> {
        let Some(store) = plan::existing(self)? else { return Ok(None) };
        let ReadableLists { lists, damaged } = VersionLists::read_undamaged(&store)?;
        let is_planned = lists.settings().is_some() || damaged.is_some();
        let known = lists.settings().and_then(Settings::format);
        Ok(is_planned.then(|| known.unwrap_or_else(|| self.format.clone())))
    }
}
