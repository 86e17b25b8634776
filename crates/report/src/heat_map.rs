//! Heat maps of matrices with values from −1 to 1 as SVG files.

use crate::chart::{SvgChart, TextAnchor, truncate};

/// Matrix with the names of its rows and columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// Names of the rows.
    pub rows: Vec<String>,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Values, row by row. A value that is not finite leaves its cell empty.
    pub values: Vec<f64>,
}

/// Size of a cell, of the title, and of the row names.
const CELL: f64 = 18.0;
const TITLE: f64 = 32.0;
const NAMES: f64 = 130.0;
const LETTERS: usize = 16;

/// Number of color classes: `h0` at −1 to `h20` at 1.
const CLASSES: f64 = 20.0;

/// Returns an SVG file with a cell for each value. Column names are the numbers of the columns, since long names would
/// overlap; a tooltip has both names and the value.
///
/// # Panics
/// If there is not one value per cell.
pub fn svg(title: &str, map: &HeatMap) -> String {
    assert_eq!(map.values.len(), map.rows.len() * map.columns.len(), "one value per cell");
    let width = NAMES + CELL * map.columns.len() as f64 + 16.0;
    let mut chart = SvgChart::without_title(width.max(240.0), title, "Heat map.".to_owned());
    chart.text((0.0, 20.0), TextAnchor::Start, "title", title);
    for (column, _) in map.columns.iter().enumerate() {
        let x = NAMES + CELL * (column as f64 + 0.5);
        chart.text((x, TITLE + 12.0), TextAnchor::Middle, "tick", &column.to_string());
    }
    for (row, name) in map.rows.iter().enumerate() {
        let y = TITLE + CELL * (row as f64 + 1.0);
        chart.text((NAMES - 6.0, y + 13.0), TextAnchor::End, "tick", &truncate(name, LETTERS));
        for (column, other) in map.columns.iter().enumerate() {
            let value = map.values[row * map.columns.len() + column];
            if let Some(class) = class(value) {
                let x = NAMES + CELL * column as f64;
                chart.rect((x, y), (CELL, CELL), &class, &format!("{name}, {other}: {value:.4}"));
            }
        }
    }
    chart.y = TITLE + CELL * (map.rows.len() as f64 + 1.0) + 8.0;
    chart.to_file_with((8.0, 8.0), include_str!("heat_map.css"))
}

/// Returns the color class of a value, `None` if it is not finite.
fn class(value: f64) -> Option<String> {
    let share = f64::midpoint(value.clamp(-1.0, 1.0), 1.0);
    value.is_finite().then(|| format!("h{:.0}", share * CLASSES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_has_a_cell_for_each_finite_value() {
        let names = vec!["</svg><script>".to_owned(), "b".to_owned()];
        let values = vec![1.0, -1.0, f64::NAN, 0.0];
        let map = svg("a & b", &HeatMap { rows: names.clone(), columns: names, values });
        assert_eq!(map.matches("<rect class=\"h").count(), 3, "{map}");
        assert!(map.contains("class=\"h20\"") && map.contains("class=\"h0\"") && map.contains("class=\"h10\""));
        assert!(!map.contains("<script") && !map.contains("NaN"), "{map}");
    }
}
