//! Aligned columns of a table on the terminal.

/// Returns the lines of a table, the heads first. Columns that `is_right` selects are aligned to the right.
pub(crate) fn aligned(heads: &[String], rows: &[Vec<String>], is_right: impl Fn(usize) -> bool) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| &row[column]).chain([&heads[column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String]| {
        let cell = |(at, (cell, &width)): (usize, (&String, &usize))| {
            if is_right(at) { format!("{cell:>width$}") } else { format!("{cell:width$}") }
        };
        let cells: Vec<String> = cells.iter().zip(&widths).enumerate().map(cell).collect();
        cells.join("  ").trim_end().to_owned()
    };
    [heads].into_iter().chain(rows.iter().map(Vec::as_slice)).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::aligned;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let text = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let lines = aligned(&text(["model", "f1"]), &[text(["a", "0.25"]), text(["größer", "1"])], |at| at == 1);
        assert_eq!(lines, ["model     f1", "a       0.25", "größer     1"]);
    }
}
