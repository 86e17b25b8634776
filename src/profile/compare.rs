//! Two profiles beside one another: did it get better, or worse, or is that chance?

use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use super::judge::percent;
use super::statistics::{Estimate, ratio_of};
use crate::exit::Usage;
use crate::terminal::short;

/// What came of a comparison.
pub(crate) struct Comparison {
    pub(crate) lines: Vec<String>,
    /// Whether it surely got worse by more than is allowed.
    pub(crate) is_worse: bool,
}

/// Compares what `cloze profile --json` wrote; worse by more than `limit` is too much.
pub(crate) fn compare(before: &Path, after: &Path, limit: f64) -> anyhow::Result<Comparison> {
    let (first, second) = (read(before)?, read(after)?);
    let half = |of: &Value| of["half"].as_str().unwrap_or_default().to_owned();
    if half(&first) != half(&second) {
        let message = format!("`{}` and `{}` are not of one half", before.display(), after.display());
        return Err(Usage(message).into());
    }
    let rates =
        |of: &Value| -> Vec<f64> { of["windows"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect() };
    let ratio = ratio_of(&rates(&first), &rates(&second));
    let ratio = ratio.ok_or_else(|| Usage("too few windows to compare: measure both for longer".to_owned()))?;
    let speed = |of: &Value| of["tokens_per_s"]["mean"].as_f64().unwrap_or_default();
    let is_worse = ratio.high < 1.0 - limit;
    let lines = vec![
        format!("before: {} tokens/s; {}", short(speed(&first)), said(&first)),
        format!("after:  {} tokens/s; {}", short(speed(&second)), said(&second)),
        words(ratio, limit),
    ];
    Ok(Comparison { lines, is_worse })
}

fn words(ratio: Estimate, limit: f64) -> String {
    let Estimate { mean, low, high } = ratio;
    let what = if high < 1.0 - limit {
        format!("slower by more than {}", percent(limit))
    } else if high < 1.0 {
        "slower".to_owned()
    } else if low > 1.0 {
        "faster".to_owned()
    } else {
        "no difference that is more than chance".to_owned()
    };
    format!("{mean:.3} times as fast ({low:.3} to {high:.3}): {what}")
}

fn said(profile: &Value) -> &str {
    profile["verdict"]["sentence"].as_str().unwrap_or("no verdict")
}

/// Bytes of a profile at most: a hundred times as many as one of many lanes has.
const BYTES_MAX: u64 = 32 << 20;

/// What `cloze profile --json` wrote, by a program of this version of it.
pub(crate) fn read(path: &Path) -> anyhow::Result<Value> {
    let place = path.display();
    if std::fs::metadata(path).is_ok_and(|found| found.len() > BYTES_MAX) {
        return Err(Usage(format!("{place}: too large for what `cloze profile --json` writes")).into());
    }
    let text = std::fs::read_to_string(path).with_context(|| Usage(format!("{place}: cannot be read")))?;
    let value: Value = serde_json::from_str(&text)
        .with_context(|| Usage(format!("{place}: not what `cloze profile --json` writes")))?;
    if value["version"] != super::VERSION {
        return Err(Usage(format!("{place}: a profile of another version of this program; measure it anew")).into());
    }
    Ok(value)
}
