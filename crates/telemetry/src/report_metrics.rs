//! Table of the metrics of a training report: each exporter reads its names, units and values from here.
//!
//! A new metric of a report is a field of [`StepReport`], the code that computes it, and one row of [`REPORT_METRICS`].
//! Values that have a label (terms, metrics of objectives, epochs of a source, phases) and values that share an instrument
//! with validations (`cloze.loss` of OpenTelemetry) stay with the exporters.

use serde::Serialize;

use crate::training::StepReport;

/// Unit in which the page draws the values of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChartUnit {
    /// A number without a unit, with all its digits.
    Plain,
    /// A count or a rate, with a prefix: `1.2 M`.
    Short,
    /// A fraction between 0 and 1, as per cent.
    Percent,
    /// Bytes, with a binary prefix.
    Bytes,
}

/// Chart of the page on which a metric is drawn. Metrics of one chart share its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Chart {
    /// Identifier of the chart, unique on the page.
    pub key: &'static str,
    /// Group of charts, as the page lists them.
    pub group: &'static str,
    /// Title.
    pub title: &'static str,
    /// Unit of all its curves.
    pub unit: ChartUnit,
}

/// Name and unit of an OpenTelemetry gauge. The unit is a UCUM code; empty for a number without a unit.
#[derive(Clone, Copy, Debug)]
pub struct OtlpGauge {
    /// Name of the instrument.
    pub name: &'static str,
    /// UCUM unit.
    pub unit: &'static str,
}

/// One metric of a training report, under the name that each exporter gives it.
#[derive(Clone, Copy, Debug)]
pub struct ReportMetric {
    /// Name of the series in the page's history. `None` if the page has the value from another source.
    pub series: Option<&'static str>,
    /// Chart and label of the curve. `None` if the page draws it together with other series.
    pub curve: Option<MetricCurve>,
    /// Tag of the TensorBoard scalar.
    pub tensorboard: &'static str,
    /// Name of the Prometheus gauge. `None` if the metrics page has the current value instead of that of the last report.
    pub prometheus: Option<&'static str>,
    /// OpenTelemetry gauge.
    pub otlp: Option<OtlpGauge>,
    /// Help text of Prometheus and description of OpenTelemetry.
    pub description: &'static str,
    /// Value since the last report. `None` if the report does not have it.
    pub value: fn(&StepReport) -> Option<f64>,
    /// Values of the single steps since the last report. Empty if the report has only the mean.
    pub steps: fn(&StepReport) -> &[f64],
}

/// Place of a series on the page.
#[derive(Clone, Copy, Debug)]
pub struct MetricCurve {
    /// Chart on which it is drawn.
    pub chart: &'static Chart,
    /// Name of the curve in the legend.
    pub label: &'static str,
}

const LEARNING_RATE: Chart = Chart { key: "lr", group: "Optimizer", title: "learning rate", unit: ChartUnit::Plain };
const GRADIENT: Chart =
    Chart { key: "grad_norm", group: "Optimizer", title: "norm of the gradient", unit: ChartUnit::Plain };
const SKIPPED: Chart = Chart { key: "skipped", group: "Optimizer", title: "skipped steps", unit: ChartUnit::Short };
const WAITS: Chart = Chart {
    key: "speed/data_wait",
    group: "Where the time goes",
    title: "waits, without validations",
    unit: ChartUnit::Percent,
};
const STEP_RATE: Chart =
    Chart { key: "speed/steps_per_s", group: "Machine", title: "steps per second", unit: ChartUnit::Plain };
const TOKEN_RATE: Chart =
    Chart { key: "speed/tokens_per_s", group: "Machine", title: "tokens per second", unit: ChartUnit::Short };
const MFU: Chart = Chart { key: "speed/mfu", group: "Machine", title: "MFU", unit: ChartUnit::Percent };
const MEMORY: Chart = Chart { key: "memory", group: "Machine", title: "memory", unit: ChartUnit::Bytes };

/// Returns a row that has only the TensorBoard name.
const fn row(
    tensorboard: &'static str,
    description: &'static str,
    value: fn(&StepReport) -> Option<f64>,
) -> ReportMetric {
    ReportMetric {
        series: None,
        curve: None,
        tensorboard,
        prometheus: None,
        otlp: None,
        description,
        value,
        steps: |_| &[],
    }
}

const fn curve(chart: &'static Chart, label: &'static str) -> MetricCurve {
    MetricCurve { chart, label }
}

const fn gauge(name: &'static str, unit: &'static str) -> OtlpGauge {
    OtlpGauge { name, unit }
}

/// All metrics of a training report, in the order of the charts.
pub const REPORT_METRICS: &[ReportMetric] = &[
    ReportMetric {
        series: Some("loss"),
        prometheus: Some("cloze_loss"),
        steps: |report| &report.losses,
        ..row("train/loss", "Weighted sum of the terms, since the last report.", |report| Some(report.figures.loss))
    },
    ReportMetric {
        series: Some("lr"),
        curve: Some(curve(&LEARNING_RATE, "learning rate")),
        prometheus: Some("cloze_learning_rate"),
        otlp: Some(gauge("cloze.learning_rate", "")),
        ..row("train/lr", "Learning rate of the last step.", |report| Some(report.figures.lr))
    },
    ReportMetric {
        series: Some("grad_norm"),
        curve: Some(curve(&GRADIENT, "before clipping")),
        prometheus: Some("cloze_gradient_norm"),
        otlp: Some(gauge("cloze.gradient_norm", "")),
        steps: |report| &report.grad_norms,
        ..row("train/grad_norm", "Mean gradient norm before clipping.", |report| Some(report.figures.grad_norm))
    },
    ReportMetric {
        series: Some("skipped"),
        curve: Some(curve(&SKIPPED, "skipped steps")),
        otlp: Some(gauge("cloze.steps.skipped", "{step}")),
        ..row("train/skipped_steps", "Steps that updated nothing, since the first step of the run.", |report| {
            Some(report.figures.skipped as f64)
        })
    },
    ReportMetric {
        series: Some("speed/data_wait"),
        curve: Some(curve(&WAITS, "for batches")),
        prometheus: Some("cloze_data_wait_ratio"),
        otlp: Some(gauge("cloze.data_wait", "1")),
        ..row("data/wait_fraction", "Fraction of wall time that steps wait for batches.", |report| {
            Some(report.speed.data_wait)
        })
    },
    ReportMetric {
        series: Some("speed/checkpoint_stall"),
        curve: Some(curve(&WAITS, "for checkpoints")),
        prometheus: Some("cloze_checkpoint_stall_ratio"),
        otlp: Some(gauge("cloze.checkpoint_stall", "1")),
        ..row("time/stall_fraction", "Fraction of wall time that steps wait for checkpoints.", |report| {
            Some(report.speed.checkpoint_stall)
        })
    },
    ReportMetric {
        series: Some("speed/steps_per_s"),
        curve: Some(curve(&STEP_RATE, "steps per second")),
        prometheus: Some("cloze_steps_per_second"),
        otlp: Some(gauge("cloze.step.rate", "{step}/s")),
        ..row("throughput/steps_per_s", "Optimizer steps per second of wall time.", |report| report.speed.steps_per_s)
    },
    ReportMetric {
        series: Some("speed/tokens_per_s"),
        curve: Some(curve(&TOKEN_RATE, "real tokens per second")),
        prometheus: Some("cloze_tokens_per_second"),
        otlp: Some(gauge("cloze.token.rate", "{token}/s")),
        ..row("throughput/tokens_per_s", "Real tokens per second of wall time.", |report| {
            Some(report.speed.tokens_per_s)
        })
    },
    ReportMetric {
        series: Some("speed/mfu"),
        curve: Some(curve(&MFU, "share of the device's peak")),
        prometheus: Some("cloze_mfu_ratio"),
        otlp: Some(gauge("cloze.mfu", "1")),
        ..row("throughput/mfu", "Fraction of the peak throughput of the device that the model uses.", |report| {
            report.speed.mfu
        })
    },
    ReportMetric {
        series: Some("memory/device_bytes"),
        curve: Some(curve(&MEMORY, "device, at most")),
        otlp: Some(gauge("cloze.memory.device", "By")),
        ..row("memory/device_allocated_peak", "Peak memory of tensors since the last report.", |report| {
            report.memory.map(|memory| memory.allocated_peak_bytes as f64)
        })
    },
    row("memory/device_reserved_peak", "Peak memory that libtorch reserved since the last report.", |report| {
        report.memory.map(|memory| memory.reserved_peak_bytes as f64)
    }),
    ReportMetric {
        series: Some("memory/host_bytes"),
        curve: Some(curve(&MEMORY, "host")),
        otlp: Some(gauge("cloze.memory.resident", "By")),
        ..row("memory/host", "Resident memory of the process.", |report| report.host_bytes.map(|bytes| bytes as f64))
    },
    ReportMetric {
        otlp: Some(gauge("cloze.progress", "1")),
        ..row("train/progress", "Fraction of the run that is done.", |report| report.progress)
    },
    ReportMetric {
        otlp: Some(gauge("cloze.eta", "s")),
        ..row("time/eta_s", "Estimated remaining time.", |report| report.speed.eta_s)
    },
];

/// Charts of [`REPORT_METRICS`] for the page, in JSON: `[{key, group, title, unit, parts: [{name, label}]}]`.
#[must_use]
pub fn charts_json() -> String {
    #[derive(Serialize)]
    struct Part {
        name: &'static str,
        label: &'static str,
    }
    #[derive(Serialize)]
    struct MetricCurves {
        #[serde(flatten)]
        chart: &'static Chart,
        parts: Vec<Part>,
    }
    let mut charts: Vec<MetricCurves> = Vec::new();
    for metric in REPORT_METRICS {
        let (Some(name), Some(MetricCurve { chart, label })) = (metric.series, metric.curve) else { continue };
        let part = Part { name, label };
        match charts.iter_mut().find(|drawn| drawn.chart == chart) {
            Some(drawn) => drawn.parts.push(part),
            None => charts.push(MetricCurves { chart, parts: vec![part] }),
        }
    }
    serde_json::to_string_pretty(&charts).expect("plain strings")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{REPORT_METRICS, ReportMetric};

    #[test]
    fn names_of_each_exporter_are_unique() {
        type MetricNameFn = fn(&ReportMetric) -> Option<&'static str>;
        let names: [(&str, MetricNameFn); 4] = [
            ("series", |metric| metric.series),
            ("tensorboard", |metric| Some(metric.tensorboard)),
            ("prometheus", |metric| metric.prometheus),
            ("otlp", |metric| metric.otlp.map(|gauge| gauge.name)),
        ];
        for (exporter, name_of) in names {
            let mut seen = BTreeSet::new();
            for name in REPORT_METRICS.iter().filter_map(name_of) {
                assert!(seen.insert(name), "{exporter}: {name} occurs twice");
            }
        }
    }

    #[test]
    fn a_curve_belongs_to_a_series_and_prometheus_names_follow_its_conventions() {
        for metric in REPORT_METRICS {
            assert!(
                metric.curve.is_none() || metric.series.is_some(),
                "{}: a curve without a series",
                metric.tensorboard
            );
            assert!(!metric.description.is_empty(), "{}", metric.tensorboard);
            let name = metric.prometheus.unwrap_or("cloze_");
            assert!(name.starts_with("cloze_") && !name.ends_with("_total"), "{name}: a gauge is no counter");
        }
    }

    #[test]
    fn charts_of_two_series_are_drawn_once() {
        let charts: serde_json::Value = serde_json::from_str(&super::charts_json()).expect("JSON");
        let waits: Vec<_> =
            charts.as_array().expect("a list").iter().filter(|chart| chart["key"] == "speed/data_wait").collect();
        assert_eq!(waits.len(), 1);
        assert_eq!(waits[0]["parts"][0]["name"], "speed/data_wait");
        assert_eq!(waits[0]["parts"][1]["name"], "speed/checkpoint_stall");
        assert_eq!((&waits[0]["unit"], &waits[0]["group"]), (&"percent".into(), &"Where the time goes".into()));
    }
}
