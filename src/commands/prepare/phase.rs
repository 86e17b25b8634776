//! Phase of a preparation that a process runs, and its share of the parts.

use std::num::NonZeroU64;
use std::time::Duration;

use pipeline::prepare::Share;

use crate::cli::ShareFlags;
use crate::exit::Usage;

/// Phase of a preparation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PreparePhase {
    /// All of it, in this process.
    #[default]
    All,
    /// Writes the part list.
    Plan,
    /// Makes the signatures of a share of the parts.
    Sign(Share),
    /// Makes a share of the parts.
    Run(Share),
    /// Writes the manifest.
    Finalize,
}

/// Returns the share of these arguments, or of the scheduler that started this process.
pub(crate) fn share(flags: &ShareFlags) -> Result<Share, Usage> {
    share_in(flags, &|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

fn share_in(flags: &ShareFlags, environment: &dyn Fn(&str) -> Option<String>) -> Result<Share, Usage> {
    let leases = Share::Leases { expiry: Duration::from_secs_f64(flags.lease_timeout) };
    if flags.lease {
        return Ok(leases);
    }
    let number = |name: &str| match environment(name) {
        None => Ok(None),
        Some(text) => match text.parse::<u64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(Usage(format!("{name}={text}: not a number; give --index and --count, or --lease"))),
        },
    };
    let (index, count) = match (flags.index, flags.count) {
        (Some(index), Some(count)) => (index, count),
        (None, Some(count)) => {
            let missing =
                "--count: neither --index, JOB_COMPLETION_INDEX nor SLURM_ARRAY_TASK_ID says which share this is";
            let index = number("JOB_COMPLETION_INDEX")?.or(slurm_index(&number)?);
            (index.ok_or_else(|| Usage(missing.to_owned()))?, count)
        }
        (_, None) => match (slurm_index(&number)?, number("SLURM_ARRAY_TASK_COUNT")?) {
            (Some(index), Some(count)) => (index, count),
            _ => return Ok(leases),
        },
    };
    match NonZeroU64::new(count) {
        Some(count) if index < count.get() => Ok(Share::Index { index, count }),
        _ => Err(Usage(format!("share {index} of {count}: the index must be below the count; it begins at 0"))),
    }
}

/// Returns the position of this task in its Slurm array, whose ids may begin anywhere and have a step.
fn slurm_index(number: &dyn Fn(&str) -> Result<Option<u64>, Usage>) -> Result<Option<u64>, Usage> {
    let Some(id) = number("SLURM_ARRAY_TASK_ID")? else { return Ok(None) };
    let first = number("SLURM_ARRAY_TASK_MIN")?.unwrap_or(0);
    let step = number("SLURM_ARRAY_TASK_STEP")?.unwrap_or(1).max(1);
    let offset = id.checked_sub(first).filter(|offset| offset % step == 0);
    // The ids of a resubmitted part of an array may have holes.
    let span = number("SLURM_ARRAY_TASK_MAX")?.and_then(|last| last.checked_sub(first)).map(|span| span / step + 1);
    let is_whole = span.is_none() || span == number("SLURM_ARRAY_TASK_COUNT")?;
    match offset.filter(|_| is_whole) {
        Some(offset) => Ok(Some(offset / step)),
        None => Err(Usage(format!(
            "SLURM_ARRAY_TASK_ID={id}: the ids of the array are not evenly spaced (they begin at {first}, in steps of \
             {step}); submit the whole array again, or give --index and --count, or --lease"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(flags: ShareFlags, environment: &[(&str, &str)]) -> Result<Share, String> {
        let find = |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        share_in(&flags, &find).map_err(|Usage(message)| message)
    }

    fn index(index: u64, count: u64) -> Share {
        Share::Index { index, count: NonZeroU64::new(count).expect("above 0") }
    }

    #[test]
    fn share_comes_from_arguments_or_from_the_scheduler() {
        let none = ShareFlags { index: None, count: None, lease: false, lease_timeout: 60.0 };
        let slurm = |id| {
            [
                ("SLURM_ARRAY_TASK_ID", id),
                ("SLURM_ARRAY_TASK_COUNT", "4"),
                ("SLURM_ARRAY_TASK_MIN", "1"),
                ("SLURM_ARRAY_TASK_MAX", "7"),
                ("SLURM_ARRAY_TASK_STEP", "2"),
            ]
        };
        let leases = Ok(Share::Leases { expiry: Duration::from_secs(60) });
        assert_eq!(found(none, &[]), leases);
        assert_eq!(found(none, &slurm("5")), Ok(index(2, 4)));
        assert_eq!(found(ShareFlags { lease: true, ..none }, &slurm("5")), leases);
        assert_eq!(found(ShareFlags { index: Some(1), count: Some(3), ..none }, &slurm("5")), Ok(index(1, 3)));
        let of_8 = ShareFlags { count: Some(8), ..none };
        assert_eq!(found(of_8, &[("JOB_COMPLETION_INDEX", "7")]), Ok(index(7, 8)));
        assert_eq!(found(none, &[("JOB_COMPLETION_INDEX", "7")]), leases, "Kubernetes does not tell the count");
        assert_eq!(found(of_8, &slurm("3")), Ok(index(1, 8)));
    }

    #[test]
    fn a_share_that_cannot_be_is_refused() {
        let none = ShareFlags { index: None, count: None, lease: false, lease_timeout: 60.0 };
        // `--array=3,4,7`.
        let holes = [
            ("SLURM_ARRAY_TASK_ID", "4"),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
            ("SLURM_ARRAY_TASK_MIN", "3"),
            ("SLURM_ARRAY_TASK_MAX", "7"),
        ];
        for (args, environment, word) in [
            (ShareFlags { index: Some(3), count: Some(3), ..none }, &[][..], "share 3 of 3"),
            (ShareFlags { index: Some(0), count: Some(0), ..none }, &[], "share 0 of 0"),
            (ShareFlags { count: Some(3), ..none }, &[], "which share this is"),
            (none, &[("SLURM_ARRAY_TASK_ID", "x")], "not a number"),
            (none, &[("SLURM_ARRAY_TASK_ID", "4"), ("SLURM_ARRAY_TASK_STEP", "3")], "not evenly spaced"),
            (none, &holes, "not evenly spaced"),
        ] {
            let error = found(args, environment).expect_err("refused");
            assert!(error.contains(word), "{error}");
        }
    }
}
