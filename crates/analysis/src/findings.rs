//! Results of an analysis as tables, with the charts that show them.

/// Table of results for one model.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingTable {
    /// Name within the analysis, for file names and headings.
    pub name: &'static str,
    /// Columns that name a row.
    pub keys: &'static [&'static str],
    /// Columns of numbers.
    pub values: &'static [&'static str],
    /// Rows.
    pub rows: Vec<FindingRow>,
    /// Charts of the table.
    pub charts: &'static [ChartSpec],
}

/// Row of a [`FindingTable`].
#[derive(Clone, Debug, PartialEq)]
pub struct FindingRow {
    /// One text per key column.
    pub keys: Vec<String>,
    /// One number per value column; NaN if undefined.
    pub values: Vec<f64>,
}

/// Chart of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartSpec {
    /// Curve of a value column over the steps of a run, one for each row of the table.
    OverSteps(&'static str),
    /// Curve of a value column over a numeric key column, for the last step of each model.
    OverKey {
        /// Key column.
        key: &'static str,
        /// Value column.
        value: &'static str,
    },
    /// Matrix of a value column by two key columns, for the last step of each model and each combination of the others.
    HeatMap {
        /// Key column of the rows.
        row: &'static str,
        /// Key column of the columns.
        column: &'static str,
        /// Value column, from −1 to 1.
        value: &'static str,
    },
}

impl FindingTable {
    /// Creates a table without rows.
    #[must_use]
    pub(crate) fn new(
        name: &'static str,
        keys: &'static [&'static str],
        values: &'static [&'static str],
        charts: &'static [ChartSpec],
    ) -> Self {
        Self { name, keys, values, rows: Vec::new(), charts }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it has another number of columns.
    pub(crate) fn push(&mut self, keys: impl IntoIterator<Item = String>, values: impl IntoIterator<Item = f64>) {
        let row = FindingRow { keys: keys.into_iter().collect(), values: values.into_iter().collect() };
        assert!(row.keys.len() == self.keys.len() && row.values.len() == self.values.len(), "one cell per column");
        self.rows.push(row);
    }

    /// Returns a number of the first row that has these keys.
    #[cfg(test)]
    pub(crate) fn number(&self, keys: &[&str], value: &str) -> f64 {
        let column = self.values.iter().position(|name| *name == value).expect("a column");
        self.rows.iter().find(|row| row.keys == keys).expect("a row").values[column]
    }
}
