//! Reports of the ranks, and warnings about a rank that the others wait for.
//!
//! # Definition
//! The straggler of a report is the rank that waits least for the others. It is named if the other ranks wait on average
//! more than a [tenth](MIN_WAIT) of the wall time longer than it does. Its cause is the largest of three differences to the
//! mean of the others: the wait for batches, the wait for checkpoints, and the rest, which is computation.

use telemetry::training::{RankReport, Warning};
use trainer_plan::Error;

use super::process_group::ProcessGroup;
use super::throughput::Throughput;

/// Minimum excess wait of the other ranks, as a fraction of wall time.
const MIN_WAIT: f64 = 0.1;

/// Topic of the warning, by which programs count it.
const TOPIC: &str = "straggler";

/// Returns the times and memory of each rank since the last report. Empty for a single process.
pub(crate) fn gather_reports(pace: &Throughput, ranks: &dyn ProcessGroup) -> Result<Vec<RankReport>, Error> {
    let share = ranks.share();
    if share.ranks() == 1 {
        return Ok(Vec::new());
    }
    let own = pace.rank_report(share.rank(), ranks.waited());
    let own = serde_json::to_vec(&own).map_err(|error| Error::Foreign(error.into()))?;
    let all = ranks.gather("times of ranks", &own)?;
    let parsed = all.iter().map(|bytes| serde_json::from_slice(bytes)).collect::<Result<_, _>>();
    parsed.map_err(|error| Error::Foreign(format!("times of a rank cannot be read: {error}").into()))
}

/// Finds the straggler of each report, and limits the warnings.
#[derive(Debug, Default)]
pub(crate) struct StragglerWatch {
    /// Whether a report was checked. The first one has the start of the processes.
    has_begun: bool,
    /// Number of reports in which each rank was the straggler.
    reports: Vec<u64>,
}

impl StragglerWatch {
    /// Checks the ranks of a report. Returns a warning in the first, second, fourth, eighth … report with the same
    /// straggler.
    pub(crate) fn check(&mut self, ranks: &[RankReport]) -> Option<Warning> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let Straggler { rank, wait } = find(ranks).filter(|_| !is_first)?;
        self.reports.resize(ranks.len(), 0);
        self.reports[rank] += 1;
        self.reports[rank].is_power_of_two().then(|| warning(ranks, rank, wait))
    }
}

/// Rank that the others wait for.
struct Straggler {
    rank: usize,
    /// Mean excess wait of the other ranks, as a fraction of wall time.
    wait: f64,
}

fn find(ranks: &[RankReport]) -> Option<Straggler> {
    let (rank, slowest) =
        ranks.iter().enumerate().min_by(|(_, one), (_, other)| one.rank_wait.total_cmp(&other.rank_wait))?;
    let wait = mean_of_others(ranks, rank, |it| it.rank_wait) - slowest.rank_wait;
    (wait > MIN_WAIT).then_some(Straggler { rank, wait })
}

/// Mean of a value over the ranks other than `rank`. NaN if there are none.
fn mean_of_others(ranks: &[RankReport], rank: usize, value: fn(&RankReport) -> f64) -> f64 {
    let others = ranks.iter().enumerate().filter(|(at, _)| *at != rank);
    others.map(|(_, it)| value(it)).sum::<f64>() / (ranks.len() - 1) as f64
}

fn warning(ranks: &[RankReport], rank: usize, wait: f64) -> Warning {
    let excess = |value: fn(&RankReport) -> f64| value(&ranks[rank]) - mean_of_others(ranks, rank, value);
    let data = excess(|it| it.data_wait);
    let checkpoint = excess(|it| it.checkpoint_stall);
    let computation = wait - data - checkpoint;
    let (does, hint) = if data >= checkpoint.max(computation) {
        ("waits for batches", "check the processors, the disk and `data.workers` of its host")
    } else if checkpoint >= computation {
        ("waits for its checkpoint", "save less often, or to a faster store")
    } else {
        (
            "computes",
            "check other load, the clock rate and the temperature of its host and device; rank 0 also writes the log",
        )
    };
    let host = schemas::printable(&ranks[rank].host);
    let wait = 100.0 * wait;
    Warning {
        topic: TOPIC.to_owned(),
        message: format!(
            "rank {rank} on {host} is a straggler: the other ranks wait for it {wait:.0} % of the time, while it {does}"
        ),
        hint: Some(hint.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rank: u32, rank_wait: f64, data_wait: f64, checkpoint_stall: f64) -> RankReport {
        let host = format!("node-{rank}");
        RankReport { rank, host, step_s: 0.25, data_wait, checkpoint_stall, rank_wait, host_bytes: None }
    }

    /// Message about these ranks in the second report.
    fn message(ranks: &[RankReport]) -> Option<String> {
        let mut watch = StragglerWatch::default();
        assert_eq!(watch.check(ranks), None, "the first report has the start of the processes");
        watch.check(ranks).map(|warning| warning.message)
    }

    #[test]
    fn the_rank_that_waits_least_is_named_with_its_cause() {
        let slow = |data, checkpoint| {
            [report(0, 0.31, 0.01, 0.0), report(1, 0.01, data, checkpoint), report(2, 0.29, 0.01, 0.0)]
        };
        for (data, checkpoint, does) in
            [(0.0, 0.0, "computes"), (0.3, 0.0, "waits for batches"), (0.02, 0.25, "waits for its checkpoint")]
        {
            let expected = format!(
                "rank 1 on node-1 is a straggler: the other ranks wait for it 29 % of the time, while it {does}"
            );
            assert_eq!(message(&slow(data, checkpoint)), Some(expected));
        }
    }

    #[test]
    fn ranks_that_wait_equally_are_not_named() {
        assert_eq!(message(&[]), None);
        assert_eq!(message(&[report(0, 0.0, 0.9, 0.0)]), None, "a single rank");
        assert_eq!(message(&[report(0, 0.5, 0.0, 0.0), report(1, 0.45, 0.0, 0.0)]), None, "both wait in turn");
        assert_eq!(message(&[report(0, 0.09, 0.0, 0.0), report(1, 0.0, 0.0, 0.0)]), None, "a short wait");
        // One rank of eight has less to do: the others are no stragglers.
        let ranks: Vec<RankReport> =
            (0..8).map(|rank| report(rank, if rank == 7 { 0.5 } else { 0.0 }, 0.0, 0.0)).collect();
        assert_eq!(message(&ranks), None);
    }

    #[test]
    fn a_persistent_straggler_is_named_ever_less_often() {
        let mut watch = StragglerWatch::default();
        let named = |watch: &mut StragglerWatch, slow: u32| {
            let ranks: Vec<RankReport> =
                (0..2).map(|rank| report(rank, if rank == slow { 0.0 } else { 0.5 }, 0.0, 0.0)).collect();
            watch.check(&ranks).is_some()
        };
        let warned: Vec<u32> = (0..20).filter(|_| named(&mut watch, 1)).collect();
        assert_eq!(warned, [1, 2, 4, 8, 16]);
        assert!(named(&mut watch, 0), "another rank");
    }
}
