//! Metrics over the course of a run, in bounded memory.
//!
//! # What
//! [`Columns`] has one row per report. At [`POINTS_MAX`] rows, neighbours are merged in pairs, and every row represents
//! twice as many reports from then on. A row keeps the mean, minimum and maximum of each metric, so a spike of one step
//! remains visible after a million steps.
//!
//! # Definition
//! A row has the position of the last of its reports. A metric that a report lacks is not counted. NaN makes the mean
//! of its row NaN; the minimum and the maximum ignore it.

use std::collections::BTreeMap;

use report::line_chart::Curve;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

/// Maximum number of rows: enough for the widest screen, and small to send.
pub(crate) const POINTS_MAX: usize = 2048;

/// Maximum number of metrics per run; typical runs have a few dozen. Further metrics are dropped.
const SERIES_MAX: usize = 512;

/// Position of a row on each axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct AxisPosition {
    pub(crate) step: u64,
    pub(crate) tokens: u64,
    pub(crate) rows: u64,
    /// Total work time of all processes of the run, in hours.
    #[serde(serialize_with = "short")]
    pub(crate) hours: f64,
    #[serde(serialize_with = "short")]
    pub(crate) epoch: f64,
    /// Milliseconds since the Unix epoch.
    pub(crate) time: u64,
}

/// Mean, minimum and maximum of a metric over some reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    sum: f64,
    count: f64,
    min: f64,
    max: f64,
}

impl Spread {
    /// Spread of one value.
    pub(crate) fn single(value: f64) -> Self {
        Self { sum: value, count: 1.0, min: value, max: value }
    }

    /// Spread of a mean, with the minimum and maximum of its parts.
    pub(crate) fn with_range(mean: f64, parts: &[f64]) -> Self {
        let min = parts.iter().copied().fold(mean, f64::min);
        let max = parts.iter().copied().fold(mean, f64::max);
        Self { min, max, ..Self::single(mean) }
    }

    fn with(self, other: Self) -> Self {
        Self {
            sum: self.sum + other.sum,
            count: self.count + other.count,
            // `f64::min` and `f64::max` ignore NaN.
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    fn mean(self) -> f64 {
        self.sum / self.count
    }
}

/// Table of metrics with one row per report or group of reports.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    places: Vec<AxisPosition>,
    series: BTreeMap<String, Vec<Option<Spread>>>,
    /// Reports per row.
    per_row: u64,
    /// Reports in the last row.
    in_last: u64,
}

impl Default for Columns {
    fn default() -> Self {
        Self { places: Vec::new(), series: BTreeMap::new(), per_row: 1, in_last: 0 }
    }
}

impl Columns {
    /// Adds a report.
    pub(crate) fn push(&mut self, place: AxisPosition, values: impl IntoIterator<Item = (String, Spread)>) {
        if self.in_last == self.per_row || self.places.is_empty() {
            if self.places.len() == POINTS_MAX {
                self.halve();
            }
            self.begin_row();
        }
        let last = self.places.len() - 1;
        self.places[last] = place;
        self.in_last += 1;
        for (name, spread) in values {
            if let Some(cell) = self.cell(name, last) {
                *cell = Some(cell.map_or(spread, |before| before.with(spread)));
            }
        }
    }

    /// Returns every metric as a curve over steps.
    pub(crate) fn curves(&self) -> impl Iterator<Item = (&str, Curve)> {
        self.series.iter().map(|(name, series)| {
            let points = self
                .places
                .iter()
                .zip(series)
                .filter_map(|(place, spread)| spread.map(|spread| (place.step as f64, spread.mean())));
            (name.as_str(), Curve { name: String::new(), points: points.collect() })
        })
    }

    /// Number of rows.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    fn begin_row(&mut self) {
        self.places.push(AxisPosition::default());
        self.series.values_mut().for_each(|series| series.push(None));
        self.in_last = 0;
    }

    fn cell(&mut self, name: String, row: usize) -> Option<&mut Option<Spread>> {
        let rows = self.places.len();
        if !self.series.contains_key(&name) && self.series.len() == SERIES_MAX {
            return None;
        }
        Some(&mut self.series.entry(name).or_insert_with(|| vec![None; rows])[row])
    }

    /// Merges neighbouring rows in pairs.
    fn halve(&mut self) {
        self.places = self.places.chunks(2).map(|pair| pair[pair.len() - 1]).collect();
        for series in self.series.values_mut() {
            let merged = series.chunks(2).map(|pair| pair.iter().flatten().copied().reduce(Spread::with));
            *series = merged.collect();
        }
        self.per_row *= 2;
    }
}

/// Format of the page: an array per axis, and per metric an array of means, minima and maxima.
impl Serialize for Columns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let axis = |of: fn(&AxisPosition) -> u64| self.places.iter().map(of).collect::<Vec<u64>>();
        let share = |of: fn(&AxisPosition) -> f64| Numbers(self.places.iter().map(|place| Some(of(place))).collect());
        map.serialize_entry("step", &axis(|place| place.step))?;
        map.serialize_entry("tokens", &axis(|place| place.tokens))?;
        map.serialize_entry("rows", &axis(|place| place.rows))?;
        map.serialize_entry("hours", &share(|place| place.hours))?;
        map.serialize_entry("epoch", &share(|place| place.epoch))?;
        map.serialize_entry("time", &axis(|place| place.time))?;
        let series: BTreeMap<&str, Spreads<'_>> =
            self.series.iter().map(|(name, series)| (name.as_str(), Spreads(series))).collect();
        map.serialize_entry("series", &series)?;
        map.end()
    }
}

struct Spreads<'a>(&'a [Option<Spread>]);

impl Serialize for Spreads<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let column = |of: fn(Spread) -> f64| Numbers(self.0.iter().map(|spread| spread.map(of)).collect());
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("mean", &column(Spread::mean))?;
        map.serialize_entry("min", &column(|spread| spread.min))?;
        map.serialize_entry("max", &column(|spread| spread.max))?;
        map.end()
    }
}

struct Numbers(Vec<Option<f64>>);

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for value in &self.0 {
            list.serialize_element(&ShortNumber(*value))?;
        }
        list.end()
    }
}

/// Array of mean, minimum and maximum.
impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        [self.mean(), self.min, self.max].map(|value| ShortNumber(Some(value))).serialize(serializer)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn short<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    ShortNumber(Some(*value)).serialize(serializer)
}

/// Number with seven digits for display; `null` if it is missing, a string if it is not finite.
pub(crate) struct ShortNumber(pub(crate) Option<f64>);

impl Serialize for ShortNumber {
    #[expect(clippy::cast_possible_truncation, reason = "seven digits are what a screen can show")]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => serializer.serialize_none(),
            Some(value) if value.is_nan() => serializer.serialize_str("NaN"),
            Some(f64::INFINITY) => serializer.serialize_str("Infinity"),
            Some(f64::NEG_INFINITY) => serializer.serialize_str("-Infinity"),
            Some(value) if (value as f32).is_finite() => serializer.serialize_f32(value as f32),
            Some(value) => serializer.serialize_f64(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(step: u64) -> AxisPosition {
        AxisPosition { step, ..AxisPosition::default() }
    }

    fn filled(reports: u64) -> Columns {
        let mut columns = Columns::default();
        for step in 1..=reports {
            let loss = if step == 777 { 99.0 } else { 1.0 };
            columns.push(at(step), [("loss".to_owned(), Spread::single(loss))]);
        }
        columns
    }

    #[test]
    fn rows_are_bounded_and_a_spike_is_kept() {
        for reports in [0, 1, 2047, 2048, 2049, 100_000] {
            let columns = filled(reports);
            assert!(columns.len() <= POINTS_MAX, "{reports}: {}", columns.len());
            assert_eq!(columns.places.last().map_or(0, |place| place.step), reports, "the newest report is kept");
            let max = columns.series.get("loss").into_iter().flatten().flatten().map(|spread| spread.max);
            let max = max.fold(0.0, f64::max);
            let expected = match reports {
                0 => 0.0,
                1 => 1.0,
                _ => 99.0,
            };
            assert!((max - expected).abs() < 1e-12, "{reports}: {max}");
            let counted: f64 = columns.series.get("loss").into_iter().flatten().flatten().map(|of| of.count).sum();
            assert!((counted - reports as f64).abs() < 1e-12, "each report counts once");
        }
    }

    #[test]
    fn a_metric_that_starts_later_is_missing_before() {
        let mut columns = filled(3);
        columns.push(at(4), [("late".to_owned(), Spread::single(f64::NAN))]);
        columns.push(at(5), [("late".to_owned(), Spread::with_range(2.0, &[1.0, f64::NAN, 3.0]))]);
        let json = serde_json::to_value(&columns).expect("plain data");
        assert_eq!(json["step"], serde_json::json!([1, 2, 3, 4, 5]));
        assert_eq!(json["series"]["late"]["mean"], serde_json::json!([null, null, null, "NaN", 2.0]));
        assert_eq!(json["series"]["late"]["max"], serde_json::json!([null, null, null, "NaN", 3.0]));
        assert_eq!(json["series"]["loss"]["min"], serde_json::json!([1.0, 1.0, 1.0, null, null]));
    }

    #[test]
    fn the_number_of_metrics_is_bounded() {
        let mut columns = Columns::default();
        for number in 0..2 * SERIES_MAX {
            columns.push(at(1), [(format!("term-{number}"), Spread::single(1.0))]);
        }
        assert_eq!(columns.series.len(), SERIES_MAX);
    }
}
