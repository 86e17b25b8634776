//! Processor share of the workers. A thread that launches GPU kernels needs a processor at once, and workers may use
//! all.

use crate::bottleneck::Bottleneck;
use crate::measure::Measured;
use crate::statistics::percent;
use crate::verdict::bottleneck;
use crate::what_if::WhatIfChange;

/// Share of the processors above which workers delay the thread that launches GPU kernels.
const SHARE_MAX: f64 = 0.4;

/// Returns a warning if workers use much of the processors, otherwise `None`.
pub fn share(measured: &Measured) -> Option<String> {
    let share = taken(measured);
    (share > SHARE_MAX).then(|| {
        format!(
            "workers use {} of the processors; above {:.0} % they delay GPU kernel launches",
            percent(share),
            100.0 * SHARE_MAX
        )
    })
}

/// Returns the warning with a fix if the trainer is the bottleneck and fewer workers suffice. Such workers can be
/// removed at no cost.
pub fn advice(measured: &Measured, proposals: &[WhatIfChange]) -> Option<String> {
    let line = share(measured)?;
    let fewer = proposals.iter().find(|proposal| proposal.key == "data.workers" && proposal.to < proposal.from)?;
    (bottleneck(measured) == Bottleneck::Reader)
        .then(|| format!("{line}: `data.workers` {} → {} suffices", fewer.from, fewer.to))
}

/// Mean share of all processors that workers used.
fn taken(measured: &Measured) -> f64 {
    let had: f64 = measured.workers.iter().map(|worker| worker.cpu.unwrap_or(worker.busy)).sum();
    had / measured.cores.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::ActorMetrics;

    fn measured(workers: usize, cpu: f64, starved: f64) -> Measured {
        let actor = |busy: f64, starved: f64, cpu: f64| ActorMetrics {
            items: 500,
            busy,
            starved,
            blocked: 1.0 - busy - starved,
            cpu: Some(cpu),
            queued: Some(0.0),
            ..ActorMetrics::default()
        };
        Measured {
            seconds: 5.0,
            workers: vec![actor(cpu, 0.0, cpu); workers],
            reader: actor(1.0 - starved, starved, 0.0),
            cores: 16,
            ..Measured::default()
        }
    }

    #[test]
    fn suggestion_is_fewer_workers_if_they_suffice() {
        let fewer = |to| {
            [WhatIfChange {
                key: "data.workers",
                from: 16,
                to,
                gain: 0.0,
                within: 0.01,
                then: "the trainer becomes the bottleneck",
            }]
        };
        let noisy = measured(16, 0.62, 0.0);
        let line = advice(&noisy, &fewer(11)).expect("noisy");
        assert!(line.contains("workers use 62 % of the processors") && line.contains("16 → 11 suffices"), "{line}");
        assert_eq!(advice(&noisy, &fewer(20)), None, "more workers are no help");
        assert_eq!(advice(&noisy, &[]), None);
        assert_eq!(advice(&measured(16, 0.3, 0.0), &fewer(11)), None, "they use little");
        assert_eq!(advice(&measured(16, 0.62, 0.5), &fewer(11)), None, "the trainer waits");
        assert!(share(&noisy).is_some() && share(&measured(16, 0.39, 0.0)).is_none());
    }
}
