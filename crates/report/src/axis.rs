//! Linear axes of charts, with round ends.

use crate::chart::round_step;

/// Linear mapping from values to fractions of an axis, with round ends.
pub(crate) struct Axis {
    pub(crate) low: f64,
    high: f64,
    step: f64,
}

impl Axis {
    /// Returns an axis with round ends around all values, or `None` without values.
    pub(crate) fn covering(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return None;
        }
        let span = if high > low { high - low } else { low.abs().max(1.0) };
        let step = round_step(span / 5.0);
        let low = (low / step).floor() * step;
        let mut high = (high / step).ceil() * step;
        if high <= low {
            high = low + step;
        }
        Some(Self { low, high, step })
    }

    pub(crate) fn share(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    pub(crate) fn ticks(&self) -> impl Iterator<Item = f64> {
        let low = self.low;
        let step = self.step;
        let last = self.high + step / 2.0;
        (0_u32..).map(move |number| low + f64::from(number) * step).take_while(move |tick| *tick < last)
    }
}

/// Formats a tick label, such as `12k` or `0.25`.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size == 0.0 => "0".to_owned(),
        _ if size >= 1e9 => format!("{}G", rounded(value / 1e9)),
        _ if size >= 1e6 => format!("{}M", rounded(value / 1e6)),
        _ if size >= 1e4 => format!("{}k", rounded(value / 1e3)),
        _ if size < 1e-3 => format!("{value:.1e}"),
        _ => rounded(value),
    }
}

fn rounded(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        let axis = Axis::covering([0.13, 9.7].into_iter()).expect("values");
        assert_eq!(axis.ticks().collect::<Vec<_>>(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!([0.0, 12_000.0, 2.5e6, 0.25, 1e-5].map(short), ["0", "12k", "2.5M", "0.25", "1.0e-5"]);
    }
}
