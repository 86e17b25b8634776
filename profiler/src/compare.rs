//! Two profiles next to one another: did it get better, or worse, or is that chance?

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};
use telemetry::quantities::short;

use crate::error::InvalidProfile;
use crate::statistics::percent;
use crate::statistics::{Estimate, ratio_of};

/// What came of a comparison.
pub struct Comparison {
    /// Lines for people.
    pub lines: Vec<String>,
    /// The same for programs.
    pub json: Value,
    /// Whether it surely got worse by more than is allowed.
    pub is_worse: bool,
}

/// Compares what `cloze profile --json` wrote; worse by more than `limit` is too much.
pub fn compare(before: &Path, after: &Path, limit: f64) -> anyhow::Result<Comparison> {
    let (first, second) = (read(before)?, read(after)?);
    let target = |of: &Value| of["target"].as_str().unwrap_or_default().to_owned();
    for (path, profile) in [(before, &first), (after, &second)] {
        if profile["windows"].as_array().is_none() {
            let what = "what `--scale`, `profile all`, `profile step` and `cloze tune` write has no windows to compare";
            return Err(InvalidProfile(format!(
                "{}: it takes profiles of the loader, of a preparation or of training; {what}",
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
    // Items of two profiles may be of different sizes: what is compared is tokens.
    let rates = |of: &Value| -> Vec<f64> {
        let tokens = of["tokens_per_item"].as_f64().filter(|tokens| *tokens > 0.0).unwrap_or(1.0);
        let windows = of["windows"].as_array().into_iter().flatten().filter_map(Value::as_f64);
        windows.take(WINDOWS_MAX).map(|items| tokens * items).collect()
    };
    for (path, profile) in [(before, &first), (after, &second)] {
        let is_known = rates(profile).iter().all(|rate| rate.is_finite() && *rate >= 0.0)
            && rates(profile).iter().sum::<f64>() > 0.0
            && profile["verdict"]["binding"] != "unknown";
        if !is_known {
            return Err(
                InvalidProfile(format!("{}: too little was measured; measure for longer", path.display())).into()
            );
        }
    }
    let ratio = ratio_of(&rates(&first), &rates(&second));
    let ratio =
        ratio.ok_or_else(|| InvalidProfile("too few windows to compare: measure both for longer".to_owned()))?;
    let speed = |of: &Value| of["tokens_per_s"]["mean"].as_f64().unwrap_or_default();
    let is_worse = ratio.high < 1.0 - limit;
    let lines = vec![
        format!("before: {} tokens/s; {}", short(speed(&first)), said(&first)),
        format!("after:  {} tokens/s; {}", short(speed(&second)), said(&second)),
        words(ratio, limit),
    ];
    let Estimate { mean, low, high } = ratio;
    let json = json!({ "version": crate::VERSION, "target": target(&first), "limit": limit, "is_worse": is_worse,
                       "times_as_fast": { "mean": mean, "low": low, "high": high },
                       "before": of_one(&first), "after": of_one(&second) });
    Ok(Comparison { lines, json, is_worse })
}

fn of_one(profile: &Value) -> Value {
    json!({ "tokens_per_s": profile["tokens_per_s"]["mean"], "sentence": said(profile) })
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

/// Bytes of a profile at most: a hundred times as many as one of many workers has.
const BYTES_MAX: u64 = 32 << 20;

/// Windows of a profile at the most: as many as there are steps of a training whose lengths are kept.
const WINDOWS_MAX: usize = 1 << 16;

/// What `cloze profile --json` wrote, by a program of this version of it.
pub fn read(path: &Path) -> anyhow::Result<Value> {
    let place = path.display();
    let found = std::fs::metadata(path).with_context(|| InvalidProfile(format!("{place}: cannot be read")))?;
    if !found.is_file() {
        return Err(InvalidProfile(format!(
            "{place}: no plain file; name one that `cloze profile --json` has written"
        ))
        .into());
    }
    if found.len() > BYTES_MAX {
        return Err(InvalidProfile(format!("{place}: too large for what `cloze profile --json` writes")).into());
    }
    let text = plain_text(path).with_context(|| InvalidProfile(format!("{place}: cannot be read")))?;
    let value: Value = serde_json::from_str(&text)
        .with_context(|| InvalidProfile(format!("{place}: not what `cloze profile --json` writes")))?;
    if value["version"] != crate::VERSION {
        return Err(
            InvalidProfile(format!("{place}: a profile of another version of this program; measure it again")).into()
        );
    }
    Ok(value)
}

/// A text of so many bytes at the most, even where the file grows while it is read.
fn plain_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
