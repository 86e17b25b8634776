//! Reports about failed operations, and the verdict on the rank that caused a failure.
//!
//! If a rank dies, its neighbors notice first, and end; then their neighbors notice, and would name the wrong rank. So
//! the first rank that notices a failure asks all ranks for their state. Ranks that do not answer, or did not come to
//! the operation, caused the failure.

use serde::{Deserialize, Serialize};
use trainer_plan::Error;

/// Maximum number of ranks that an error lists.
const MAX_NAMED: usize = 8;
/// Maximum length of a message of another rank.
const MAX_MESSAGE: usize = 2000;

/// Failure as the first rank reports it that noticed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    /// Rank that reports.
    pub rank: u32,
    /// Failure.
    pub cause: Cause,
}

/// Cause of a failure, as far as the reporting rank knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Cause {
    /// The reporting rank itself ends.
    End {
        /// Reason.
        message: String,
    },
    /// An operation with other ranks failed.
    Operation {
        /// Number of the operation, counted from 1.
        number: u64,
        /// Operation.
        operation: String,
        /// Message of c10d, or the exceeded limit.
        message: String,
    },
}

impl Cause {
    /// Returns the error of a rank that cannot ask the others, because the store does not answer either.
    pub(super) fn without_store(&self, rank: u32, store: &str) -> String {
        let store = format!(
            "{store} does not answer either: its process has ended or is stopped, or there is no connection to its host"
        );
        match self {
            Self::End { message } => format!("rank {rank} failed: {message}; {store}"),
            Self::Operation { number, operation, message } => {
                format!("rank {rank} waited in operation {number}, {operation}: {message}; {store}")
            }
        }
    }
}

/// State of a rank at a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Status {
    /// The rank.
    pub rank: u32,
    /// Number of the latest operation that it started.
    pub number: u64,
    /// The operation.
    pub operation: String,
    /// Whether it waits for an operation now.
    pub is_waiting: bool,
    /// Seconds since it began to wait, or since it last waited.
    pub seconds: u64,
}

/// Final description of a failure, the same for all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Verdict {
    /// Error of every rank.
    pub message: String,
    /// Number of ranks that will read it.
    pub readers: u32,
}

impl Verdict {
    /// Returns the verdict on a rank that reported its own end.
    pub(super) fn of_end(rank: u32, message: &str, world_size: u32) -> Self {
        Self { message: format!("rank {rank} failed: {}", shortened(message)), readers: world_size }
    }

    /// Returns the verdict on a failed operation from the states of the ranks that answered.
    pub(super) fn of_operation(report: &Report, statuses: &[Status], world_size: u32) -> Self {
        let readers = u32::try_from(statuses.len()).unwrap_or(world_size);
        let Cause::Operation { number, operation, message } = &report.cause else {
            return Self { message: format!("rank {} failed", report.rank), readers };
        };
        let rank = report.rank;
        let waited = format!("rank {rank} waited in operation {number}, {operation}: {}", shortened(message));
        let silent: Vec<u32> = (0..world_size).filter(|rank| statuses.iter().all(|it| it.rank != *rank)).collect();
        if !silent.is_empty() {
            let message = format!(
                "{} not respond (killed, stopped, or without a connection): {waited}; the cause is in the log of {}",
                named(&silent, "does", "do"),
                short_list(&silent)
            );
            return Self { message, readers };
        }
        let behind: Vec<&Status> = statuses.iter().filter(|it| it.number < *number).collect();
        if let Some(first) = behind.first() {
            let ranks: Vec<u32> = behind.iter().map(|it| it.rank).collect();
            let message = format!(
                "{} not come to operation {number}, {operation}: rank {} {}; {waited}",
                named(&ranks, "did", "did"),
                first.rank,
                state(first)
            );
            return Self { message, readers };
        }
        let elsewhere = statuses.iter().find(|it| it.number == *number && it.operation != *operation);
        let message = match elsewhere {
            Some(other) => format!(
                "rank {} is in operation {number}, {}, but {waited}; all ranks must run the same program and plan",
                other.rank, other.operation
            ),
            None => format!("{waited}; all ranks respond: check the network between their hosts"),
        };
        Self { message, readers }
    }
}

fn state(status: &Status) -> String {
    let Status { number, operation, seconds, .. } = status;
    match (status.is_waiting, number) {
        (true, _) => format!("has waited for {seconds} s in operation {number}, {operation}"),
        (false, 0) => format!("has computed for {seconds} s since it joined"),
        (false, _) => format!("has computed for {seconds} s since operation {number}, {operation}"),
    }
}

/// Returns a list of ranks and its verb.
fn named(ranks: &[u32], one: &str, several: &str) -> String {
    format!("{} {}", short_list(ranks), if ranks.len() == 1 { one } else { several })
}

/// Returns `rank 2`, `ranks 1, 2` or `ranks 1, 2, … and 60 others`.
pub(super) fn short_list(ranks: &[u32]) -> String {
    let named: Vec<String> = ranks.iter().take(MAX_NAMED).map(u32::to_string).collect();
    let others = ranks.len() - named.len();
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    let list = named.join(", ");
    if others == 0 { format!("{noun} {list}") } else { format!("{noun} {list} and {others} others") }
}

/// Returns the first line of a message, shortened. The rest is a C++ backtrace.
fn shortened(message: &str) -> String {
    message.lines().next().unwrap_or_default().chars().take(MAX_MESSAGE).collect()
}

/// Returns the first line of the message of c10d, without Gloo's place in its source. The rest is a C++ backtrace.
pub(super) fn reason(problem: &Error) -> String {
    let message = match problem {
        Error::Native(message) => shortened(message),
        other => other.to_string(),
    };
    match message.strip_prefix("[/").and_then(|message| message.split_once("] ")) {
        Some((_, message)) => message.to_owned(),
        None => message,
    }
}

/// Error of a failure that concerns several ranks.
pub(super) fn error(message: impl Into<String>) -> Error {
    Error::Foreign(message.into().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let operation = "the all-reduce of gradients".to_owned();
        Report { rank: 1, cause: Cause::Operation { number: 7, operation, message: "no answer\nframe #0".to_owned() } }
    }

    fn status(rank: u32, number: u64, operation: &str, is_waiting: bool) -> Status {
        Status { rank, number, operation: operation.to_owned(), is_waiting, seconds: 9 }
    }

    fn verdict(statuses: &[Status], world_size: u32) -> String {
        let verdict = Verdict::of_operation(&report(), statuses, world_size);
        assert_eq!(verdict.readers as usize, statuses.len());
        verdict.message
    }

    #[test]
    fn the_rank_that_caused_a_failure_is_named() {
        let gradients = "the all-reduce of gradients";
        let waited = "rank 1 waited in operation 7, the all-reduce of gradients: no answer";
        let waiting = |rank: u32| status(rank, 7, gradients, true);
        assert_eq!(
            verdict(&[waiting(1), status(2, 3, "the gather of counts", true)], 3),
            format!(
                "rank 0 does not respond (killed, stopped, or without a connection): {waited}; the cause is in the log of \
                 rank 0"
            ),
            "a rank without an answer comes before a rank that is behind"
        );
        assert_eq!(
            verdict(&[waiting(1), status(2, 6, "the gather of counts", false), waiting(0)], 3),
            format!(
                "rank 2 did not come to operation 7, {gradients}: rank 2 has computed for 9 s since operation 6, the gather \
                 of counts; {waited}"
            )
        );
        let joined = verdict(&[waiting(1), status(0, 0, "", false)], 2);
        assert!(joined.contains("rank 0 has computed for 9 s since it joined"), "{joined}");
        let other = verdict(&[waiting(1), status(0, 7, "the gather of counts", true)], 2);
        assert!(other.starts_with("rank 0 is in operation 7, the gather of counts, but rank 1 waited"), "{other}");
        let network = verdict(&[waiting(1), status(0, 8, "the gather of counts", true)], 2);
        assert_eq!(network, format!("{waited}; all ranks respond: check the network between their hosts"));
        let end = Verdict::of_end(2, "out of memory\nframe #0", 3);
        assert_eq!((end.message.as_str(), end.readers), ("rank 2 failed: out of memory", 3));
    }

    #[test]
    fn long_lists_of_ranks_are_shortened() {
        assert_eq!(short_list(&[3]), "rank 3");
        assert_eq!(short_list(&[1, 2]), "ranks 1, 2");
        assert_eq!(short_list(&(0..70).collect::<Vec<_>>()), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 62 others");
    }
}
