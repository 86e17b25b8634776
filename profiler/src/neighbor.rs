//! Workers as neighbours of a trainer: threads that launch kernels want a processor at once, and workers may have them all.

use crate::bottleneck::Binding;
use crate::measure::Measured;
use crate::statistics::percent;
use crate::verdict::binding;
use crate::what_if::Proposal;

/// The share of the processors from which on workers delay who launches a GPU's kernels.
const SHARE_MAX: f64 = 0.4;

/// A line on workers that take much of the processors; none where they do not.
pub fn share(measured: &Measured) -> Option<String> {
    let share = taken(measured);
    (share > SHARE_MAX).then(|| {
        format!(
            "workers take {} of the processors; above {:.0} % they delay the launches of a GPU's kernels",
            percent(share),
            100.0 * SHARE_MAX
        )
    })
}

/// The same where the trainer binds and fewer workers would do, which then can take less at once.
pub fn advice(measured: &Measured, proposals: &[Proposal]) -> Option<String> {
    let line = share(measured)?;
    let fewer = proposals.iter().find(|proposal| proposal.key == "data.workers" && proposal.to < proposal.from)?;
    (binding(measured) == Binding::Reader)
        .then(|| format!("{line}: `data.workers` {} → {} would do", fewer.from, fewer.to))
}

/// The share of all processors that workers had in the mean.
fn taken(measured: &Measured) -> f64 {
    let had: f64 = measured.workers.iter().map(|worker| worker.cpu.unwrap_or(worker.busy)).sum();
    had / measured.cores.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::ActorFigures;

    fn measured(workers: usize, cpu: f64, starved: f64) -> Measured {
        let actor = |busy: f64, starved: f64, cpu: f64| ActorFigures {
            items: 500,
            busy,
            starved,
            blocked: 1.0 - busy - starved,
            cpu: Some(cpu),
            queued: Some(0.0),
            ..ActorFigures::default()
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
    fn workers_that_take_much_are_named_where_fewer_would_do() {
        let fewer =
            |to| [Proposal { key: "data.workers", from: 16, to, gain: 0.0, within: 0.01, then: "the trainer binds" }];
        let noisy = measured(16, 0.62, 0.0);
        let said = advice(&noisy, &fewer(11)).expect("noisy");
        assert!(said.contains("workers take 62 % of the processors") && said.contains("16 → 11 would do"), "{said}");
        assert_eq!(advice(&noisy, &fewer(20)), None, "more workers are no help");
        assert_eq!(advice(&noisy, &[]), None);
        assert_eq!(advice(&measured(16, 0.3, 0.0), &fewer(11)), None, "they take little");
        assert_eq!(advice(&measured(16, 0.62, 0.5), &fewer(11)), None, "the trainer waits");
        assert!(share(&noisy).is_some() && share(&measured(16, 0.39, 0.0)).is_none());
    }
}
