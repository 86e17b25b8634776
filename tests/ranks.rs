//! Several ranks train the run that a single process trains.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::{Home, Outcome, every_objective, values, with_every_objective};

/// Two micro-batches per step, dropout 0.1, validations at 20, 40 and 60, checkpoints every 10 steps.
const RUN: [&str; 9] = [
    "train",
    "--set",
    "train.threads=1",
    "--set",
    "data.workers=1",
    "--set",
    "report.every_steps=1",
    "--set",
    "train.micro_batch_size=4",
];

/// Runs the command as every rank, and returns the outcomes in the order of the ranks.
fn run_ranks(home: &Home, ranks: u32, args: &[&str]) -> Vec<Outcome> {
    run_each(home, ranks, |_| args.to_vec())
}

/// Runs another command as every rank.
fn run_each<'a>(home: &Home, ranks: u32, args: impl Fn(u32) -> Vec<&'a str>) -> Vec<Outcome> {
    run_in(home, ranks, args, |_| home.path().to_owned())
}

/// Runs another command as every rank, in another folder.
fn run_in<'a>(
    home: &Home,
    ranks: u32,
    args: impl Fn(u32) -> Vec<&'a str>,
    folder: impl Fn(u32) -> PathBuf,
) -> Vec<Outcome> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port();
    let start = |rank: u32| {
        let mut command: Command = home.command(&args(rank));
        let numbers = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", ranks), ("MASTER_PORT", u32::from(port))];
        command.envs(numbers.map(|(name, number)| (name, number.to_string()))).env("MASTER_ADDR", "127.0.0.1");
        command.env("TORCHELASTIC_ERROR_FILE", home.join(&format!("errors/{rank}.json")));
        command.current_dir(folder(rank));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let children: Vec<_> = (0..ranks).map(start).collect();
    children.into_iter().map(|child| Outcome::new(child.wait_with_output().expect("it ends"))).collect()
}

pub(crate) fn train_ranks(home: &Home, ranks: u32, args: &[&str]) {
    for (rank, outcome) in run_ranks(home, ranks, args).iter().enumerate() {
        assert_eq!(outcome.code, Some(0), "rank {rank}: {outcome}");
    }
}

fn args<'a>(folder: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [RUN.as_slice(), &["--set", folder], more].concat()
}

/// Numbers of the reports and validations that all ranks compute together.
fn numbers(value: &Value, path: &str, found: &mut Vec<(String, f64)>) {
    match value {
        Value::Number(number) => found.push((path.to_owned(), number.as_f64().expect("finite"))),
        Value::Array(items) => items.iter().for_each(|item| numbers(item, path, found)),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, item)| numbers(item, &format!("{path}.{name}"), found));
        }
        _ => {}
    }
}

/// Compares the logs of two runs: equal texts such as the batch hash, and numbers up to rounding.
fn assert_near(home: &Home, expected: &str, run: &str) {
    let [expected, found] = [expected, run].map(|run| values(home, run));
    assert_eq!(expected.len(), found.len(), "{run}: number of events");
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected["batch_hash"], found["batch_hash"], "{run}: {found}");
        let [mut theirs, mut ours] = [Vec::new(), Vec::new()];
        numbers(expected, "", &mut theirs);
        numbers(found, "", &mut ours);
        assert_eq!(theirs.len(), ours.len(), "{run}: {expected}\n{found}");
        for ((path, expected), (_, found)) in theirs.iter().zip(&ours) {
            assert!(
                (expected - found).abs() <= 2e-3 * expected.abs().max(1.0),
                "{run}{path}: {found} is not {expected}"
            );
        }
    }
}

#[test]
fn ranks_train_the_run_of_a_single_process() {
    let home = Home::prepared(120);
    home.run_ok(&args("run.folder=one", &[]));
    train_ranks(&home, 2, &args("run.folder=two", &[]));
    assert_near(&home, "one", "two");
}

/// The checkpoint of step 50 is between two reports, so it has the sums of all ranks.
#[test]
fn a_run_continues_with_another_number_of_ranks() {
    let home = Home::prepared(120);
    let more = ["--set", "report.every_steps=4"];
    home.run_ok(&args("run.folder=one", &more));
    for (run, before, after) in [("more", 1, 4), ("fewer", 4, 2), ("single", 2, 1)] {
        let folder = format!("run.folder={run}");
        train_ranks(&home, before, &args(&folder, &more));
        std::fs::remove_dir_all(home.join(run).join("checkpoints/step-00000060")).expect("it was saved");
        train_ranks(&home, after, &args(&folder, &more));
        assert_near(&home, "one", run);
    }
}

/// Float32 tensors of a checkpoint file by name.
fn tensors(home: &Home, path: &str) -> BTreeMap<String, Vec<f32>> {
    let bytes = std::fs::read(home.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let length = u64::from_le_bytes(*bytes.first_chunk().expect("the length of the header"));
    let data = 8 + usize::try_from(length).expect("a small header");
    let header: BTreeMap<String, Value> = serde_json::from_slice(&bytes[8..data]).expect("JSON");
    let floats = header.into_iter().filter(|(_, tensor)| tensor["dtype"] == "F32");
    let values = |(name, tensor): (String, Value)| {
        let [begin, end] = [0, 1].map(|at| {
            data + usize::try_from(tensor["data_offsets"][at].as_u64().expect("an offset")).expect("within the file")
        });
        let values = bytes[begin..end].as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        (name, values.collect())
    };
    floats.map(values).collect()
}

/// Euclidean norm of the difference of two lists of tensors; of the first if the second is empty.
fn distance(one: &BTreeMap<String, Vec<f32>>, other: &BTreeMap<String, Vec<f32>>) -> f64 {
    let squares = one.iter().flat_map(|(name, values)| {
        let other = other.get(name);
        values.iter().enumerate().map(move |(at, value)| {
            let difference = f64::from(*value) - other.map_or(0.0, |other| f64::from(other[at]));
            difference * difference
        })
    });
    squares.sum::<f64>().sqrt()
}

/// All objectives with their draws and dropout. The first moment after the first step is a tenth of the gradient.
#[test]
fn ranks_learn_what_a_single_process_learns_with_every_objective() {
    let home = with_every_objective();
    let sets = [
        "--set",
        "train.threads=1",
        "--set",
        "data.workers=1",
        "--set",
        "train.micro_batch_size=4",
        "--set",
        "checkpoints.every_steps=1",
        "--set",
        "checkpoints.keep=100",
    ];
    let of_run = |folder: &'static str| every_objective(&["train"], &[sets.as_slice(), &["--set", folder]].concat());
    home.run_ok(&of_run("run.folder=one"));
    train_ranks(&home, 2, &of_run("run.folder=two"));
    assert_near(&home, "one", "two");
    let of_step =
        |run: &str, step: u64, file: &str| tensors(&home, &format!("{run}/checkpoints/step-{step:08}/{file}"));
    let first = |run: &str| {
        let mut moments = of_step(run, 1, "optimizer.safetensors");
        moments.retain(|name, _| name.starts_with("mean."));
        moments
    };
    let gradient = distance(&first("one"), &first("two")) / distance(&first("one"), &BTreeMap::new());
    assert!(gradient <= 1e-6, "the first gradient differs by {gradient} of its norm");
    let of_main = |run: &str, step: u64| of_step(run, step, "main.safetensors");
    let update = distance(&of_main("one", 10), &of_main("one", 60));
    let weights = distance(&of_main("one", 60), &of_main("two", 60)) / update;
    assert!(weights <= 1e-4, "the weights differ by {weights} of the update");
}

#[test]
fn ranks_that_cannot_share_a_step_are_refused() {
    let home = Home::prepared(60);
    for (rank, outcome) in run_ranks(&home, 3, &args("run.folder=run", &[])).iter().enumerate() {
        assert_eq!(outcome.code, Some(2), "rank {rank}: {outcome}");
        assert!(outcome.stderr.contains("which 3 ranks cannot share"), "{outcome}");
    }
}

/// Rank 1 has no micro-batch of the validation, so it knows no score.
#[test]
fn ranks_without_a_validation_batch_stop_with_the_others() {
    let home = Home::prepared(60);
    let stop = [
        "--set",
        "validation.rows=4",
        "--set",
        "validation.every_steps=5",
        "--set",
        "validation.stop={metric=\"mlm\", patience=2}",
        "--set",
        "train.micro_batch_size=8",
    ];
    home.run_ok(&args("run.folder=one", &stop));
    train_ranks(&home, 2, &args("run.folder=two", &stop));
    assert_near(&home, "one", "two");
}

#[test]
fn ranks_with_different_keys_or_weights_are_refused() {
    let home = Home::prepared(60);
    let other = ["--set", "validation.rows=16"];
    let outcomes = run_each(&home, 2, |rank| args("run.folder=run", if rank == 1 { &other } else { &[] }));
    for (rank, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.code, Some(2), "{outcome}");
        let problem = "different plans: validation.rows is ";
        assert!(outcome.stderr.contains(problem), "{outcome}");
        let told = std::fs::read(home.join(&format!("errors/{rank}.json"))).expect("written for torchrun");
        let told: Value = serde_json::from_slice(&told).expect("JSON");
        assert!(told["message"].as_str().is_some_and(|text| text.contains(problem)), "{told}");
        assert!(told["timestamp"].as_u64().is_some_and(|seconds| seconds > 1_700_000_000), "{told}");
    }
    let short = ["--set", "train.steps=2", "--set", "schedule.warmup_steps=1"];
    for (seed, folder) in [("seed=1", "run.folder=first"), ("seed=2", "run.folder=second")] {
        home.run_ok(&args(folder, &[&short[..], &["--set", seed]].concat()));
    }
    // The identity has the path as it is written.
    let init = ["--set", "train.init_from=\"init\""];
    std::os::unix::fs::symlink(home.join("first"), home.join("init")).expect("linked");
    let moved = home.join("elsewhere");
    std::fs::create_dir(&moved).expect("made");
    std::os::unix::fs::symlink(home.join("second"), moved.join("init")).expect("linked");
    let absolute = |name: &str| home.join(name).display().to_string();
    let sets = [format!("data.folder=\"{}\"", absolute("data")), format!("run.folder=\"{}\"", absolute("run"))];
    let own: Vec<&str> = sets.iter().flat_map(|set| ["--set", set.as_str()]).collect();
    let words = args("run.folder=run", &[&own[..], &init[..]].concat());
    let outcomes =
        run_in(&home, 2, |_| words.clone(), |rank| if rank == 1 { moved.clone() } else { home.path().to_owned() });
    for outcome in &outcomes {
        assert!(outcome.code != Some(0) && outcome.stderr.contains("begin with different weights"), "{outcome}");
    }
}

/// Rank 1 waits for each batch, and rank 0 for rank 1.
#[test]
fn the_slow_rank_is_named_in_the_log() {
    let home = Home::prepared(60);
    let slow = ["--slow", "data=150"];
    let more = ["--set", "report.every_steps=5", "--set", "train.steps=15", "--set", "validation.every_steps=0"];
    let outcomes =
        run_each(&home, 2, |rank| args("run.folder=run", &[if rank == 1 { &slow[..] } else { &[] }, &more].concat()));
    for (rank, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.code, Some(0), "rank {rank}: {outcome}");
    }
    let log = home.log("run");
    let reports: Vec<&Value> = log.iter().filter(|entry| entry["kind"] == "report").collect();
    assert_eq!(reports.len(), 3, "{reports:?}");
    for report in reports {
        let number = |rank: usize, key: &str| report["ranks"][rank][key].as_f64().expect("a number");
        assert_eq!((&report["ranks"][0]["rank"], &report["ranks"][1]["rank"]), (&0.into(), &1.into()));
        assert!(number(0, "rank_wait") > number(1, "rank_wait") && number(0, "data_wait") < number(1, "data_wait"));
        assert!(number(0, "host_bytes") > 0.0 && number(1, "host_bytes") > 0.0 && number(1, "step_s") > 0.0);
    }
    let warnings: Vec<&str> =
        log.iter().filter(|it| it["topic"] == "straggler").filter_map(|it| it["message"].as_str()).collect();
    assert!(!warnings.is_empty(), "{log:?}");
    for warning in warnings {
        assert!(warning.starts_with("rank 1 on ") && warning.ends_with("waits for batches"), "{warning}");
        assert!(outcomes[0].stderr.contains(warning), "{}", outcomes[0]);
    }
}

/// The profile of rank 0 has the delay of rank 1 as its wait for slower ranks.
#[test]
fn a_profile_divides_the_step_of_a_rank() {
    let home = Home::prepared(60);
    let profile = ["profile", "train", "--batches", "20", "--set", "run.folder=none", "--set", "train.threads=1"];
    let more = ["--set", "train.micro_batch_size=4", "--set", "train.steps=1000", "--json"];
    let wait = |slow: u32| {
        let outcomes = run_each(&home, 2, |rank| {
            let slow: &[&str] = if rank == slow { &["--slow", "workers=150"] } else { &[] };
            [&profile[..], &more, slow].concat()
        });
        for (rank, outcome) in outcomes.iter().enumerate() {
            assert_eq!(outcome.code, Some(0), "rank {rank}: {outcome}");
        }
        assert!(outcomes[1].stdout.is_empty() && !home.join("none").exists(), "{}", outcomes[1]);
        let profile: Value = serde_json::from_str(&outcomes[0].stdout).expect("JSON");
        let training = &profile["training"];
        let part = |key: &str| training["ranks"][key].as_f64().unwrap_or_else(|| panic!("{key}: {training:#}"));
        assert_eq!(training["ranks"]["count"], 2);
        let step = training["step_ms"]["mean"].as_f64().expect("a number");
        let parts = ["computation_ms", "data_wait_ms", "communication_ms", "rank_wait_ms"].map(part);
        let sum: f64 = parts.iter().sum();
        assert!(parts.iter().all(|ms| *ms >= 0.0) && (sum - step).abs() < 0.01 * step, "{parts:?} of {step}");
        part("rank_wait_ms") / part("data_wait_ms")
    };
    let [waits_itself, waits_for_other] = [0, 1].map(wait);
    assert!(waits_for_other > 1.0 && waits_itself < 1.0, "{waits_itself}, {waits_for_other}");
    let checked = run_ranks(&home, 2, &[&profile[..], &["--check"]].concat());
    for outcome in checked {
        assert!(outcome.code == Some(2) && outcome.stderr.contains("--check with 2 ranks"), "{outcome}");
    }
    for outcome in run_ranks(&home, 2, &["profile", "all"]) {
        assert!(outcome.code == Some(2) && outcome.stderr.contains("`profile all` with 2 ranks"), "{outcome}");
    }
}
