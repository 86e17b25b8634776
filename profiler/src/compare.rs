//! Comparison of two profiles: faster, slower, or no significant difference.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};
use telemetry::quantities::short;

use crate::error::InvalidProfile;
use crate::statistics::percent;
use crate::statistics::{Estimate, ratio_of};

/// Result of a comparison.
pub struct Comparison {
    /// Lines for the terminal.
    pub lines: Vec<String>,
    /// Machine-readable result.
    pub json: Value,
    /// Whether the second profile is significantly slower than the limit allows.
    pub is_worse: bool,
}

/// Compares two files written by `cloze profile --json`. A slowdown of more than `limit` counts as worse.
pub fn compare(before: &Path, after: &Path, limit: f64) -> anyhow::Result<Comparison> {
    let first = read(before)?;
    let second = read(after)?;
    let target = |of: &Value| of["target"].as_str().unwrap_or_default().to_owned();
    for (path, profile) in [(before, &first), (after, &second)] {
        if profile["windows"].as_array().is_none() {
            let what =
                "the output of `--scale`, `profile all`, `profile step` and `cloze tune` has no windows to compare";
            return Err(InvalidProfile(format!(
                "{}: not a profile of the loader, of a preparation or of training; {what}",
                path.display()
            ))
            .into());
        }
    }
    if target(&first) != target(&second) {
        let message =
            format!("`{}` and `{}` do not measure the same part of the pipeline", before.display(), after.display());
        return Err(InvalidProfile(message).into());
    }
    // Items of two profiles may differ in size, so tokens are compared.
    let rates = |of: &Value| -> Vec<f64> {
        let tokens = of["tokens_per_item"].as_f64().filter(|tokens| *tokens > 0.0).unwrap_or(1.0);
        let windows = of["windows"].as_array().into_iter().flatten().filter_map(Value::as_f64);
        windows.take(WINDOWS_MAX).map(|items| tokens * items).collect()
    };
    for (path, profile) in [(before, &first), (after, &second)] {
        let is_known = rates(profile).iter().all(|rate| rate.is_finite() && *rate >= 0.0)
            && rates(profile).iter().sum::<f64>() > 0.0
            && profile["verdict"]["bottleneck"] != "unknown";
        if !is_known {
            return Err(InvalidProfile(format!(
                "{}: too little was measured; measure for longer (`--seconds`)",
                path.display()
            ))
            .into());
        }
    }
    let ratio = ratio_of(&rates(&first), &rates(&second));
    let ratio =
        ratio.ok_or_else(|| InvalidProfile("too few windows to compare: measure both for longer".to_owned()))?;
    let speed = |of: &Value| of["tokens_per_s"]["mean"].as_f64().unwrap_or_default();
    let is_worse = ratio.high < 1.0 - limit;
    let lines = vec![
        format!("before: {} tokens/s; {}", short(speed(&first)), sentence(&first)),
        format!("after:  {} tokens/s; {}", short(speed(&second)), sentence(&second)),
        describe(ratio, limit),
    ];
    let Estimate { mean, low, high } = ratio;
    let json = json!({ "version": crate::VERSION, "target": target(&first), "limit": limit, "is_worse": is_worse,
                       "times_as_fast": { "mean": mean, "low": low, "high": high },
                       "before": of_one(&first), "after": of_one(&second) });
    Ok(Comparison { lines, json, is_worse })
}

fn of_one(profile: &Value) -> Value {
    json!({ "tokens_per_s": profile["tokens_per_s"]["mean"], "sentence": sentence(profile) })
}

fn describe(ratio: Estimate, limit: f64) -> String {
    let Estimate { mean, low, high } = ratio;
    let result = if high < 1.0 - limit {
        format!("slower by more than {}", percent(limit))
    } else if high < 1.0 {
        "slower".to_owned()
    } else if low > 1.0 {
        "faster".to_owned()
    } else {
        "no significant difference".to_owned()
    };
    format!("{mean:.3} times as fast ({low:.3} to {high:.3}): {result}")
}

fn sentence(profile: &Value) -> &str {
    profile["verdict"]["sentence"].as_str().unwrap_or("no verdict")
}

/// Largest size of a profile file in bytes: 100 times that of a profile with many workers.
const BYTES_MAX: u64 = 32 << 20;

/// Largest number of windows of a profile: the number of training steps whose durations are kept.
const WINDOWS_MAX: usize = 1 << 16;

/// Reads a profile that `cloze profile --json` of this version wrote.
pub fn read(path: &Path) -> anyhow::Result<Value> {
    let place = path.display();
    let found = std::fs::metadata(path).with_context(|| InvalidProfile(format!("{place}: cannot be read")))?;
    if !found.is_file() {
        return Err(InvalidProfile(format!(
            "{place}: not a regular file; pass a file written by `cloze profile --json`"
        ))
        .into());
    }
    if found.len() > BYTES_MAX {
        return Err(InvalidProfile(format!(
            "{place}: larger than any output of `cloze profile --json`; pass a profile"
        ))
        .into());
    }
    let text = plain_text(path).with_context(|| InvalidProfile(format!("{place}: cannot be read")))?;
    let value: Value = serde_json::from_str(&text)
        .with_context(|| InvalidProfile(format!("{place}: not the output of `cloze profile --json`")))?;
    if value["version"] != crate::VERSION {
        return Err(
            InvalidProfile(format!("{place}: profile of another version of this program; measure again")).into()
        );
    }
    Ok(value)
}

/// Reads a text of at most [`BYTES_MAX`] bytes, even if the file grows meanwhile.
fn plain_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
