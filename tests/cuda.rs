//! The path that a GPU takes: on this machine's, or on one made of host memory.
//!
//! `train.device` stays `auto`: what a process is given decides.

use std::path::Path;
use std::process::{Command, Stdio};

use pretend_cuda::Device;
use serde_json::Value;
use testkit::{
    Home, Outcome, Running, assert_equal_runs, every_objective, files, folder_hash, skip, with_every_objective,
};

/// The device, or `None` after a word about why not.
fn device(what: &str) -> Option<Device> {
    Device::find().inspect_err(|why| skip(&format!("{what} on CUDA: {why}"))).ok()
}

fn command(home: &Home, device: Option<Device>, args: &[&str]) -> Command {
    let mut command = home.command(args);
    match device {
        Some(device) => device.give(&mut command),
        None => drop(command.env("CUDA_VISIBLE_DEVICES", "")),
    }
    command
}

/// Runs the program with the device, or without any.
#[track_caller]
fn run(home: &Home, device: Option<Device>, args: &[&str]) -> Outcome {
    let outcome = Outcome::of(command(home, device, args).output().expect("the program starts"));
    assert_eq!(outcome.code, Some(0), "cloze {args:?}\n{outcome}");
    outcome
}

fn checkpoint(home: &Home, run: &str, step: u64) -> std::path::PathBuf {
    home.join(run).join(format!("checkpoints/step-{step:08}"))
}

/// The device that a checkpoint was made on.
fn made_on(checkpoint: &Path) -> String {
    let state = std::fs::read(checkpoint.join("state.json")).expect("a state");
    let state: Value = serde_json::from_slice(&state).expect("JSON");
    state["content"]["device"].as_str().unwrap_or_else(|| panic!("no device in {state}")).to_owned()
}

/// Goes back to a step: what was saved after it is gone.
fn back_to(home: &Home, run: &str, step: u64, every: u64, last: u64) {
    let later = (step / every + 1..=last / every).map(|number| number * every);
    later.for_each(|step| std::fs::remove_dir_all(checkpoint(home, run, step)).expect("it was saved"));
}

/// Dropout, a generator that samples, a teacher, pairs and crops; kernels that add up in order, as a GPU needs.
#[test]
fn resume_is_bit_exact_after_sigkill_on_cuda() {
    let Some(device) = device("a resume") else { return };
    let home = with_every_objective();
    let train = |folder: &'static str| {
        let order = ["--set", "train.deterministic=true", "--set", "networks.generator.sampling_method=gumbel"];
        let size = ["--set", "train.steps=20", "--set", "validation.every_steps=10", "--set", folder];
        every_objective(&["train"], &[order.as_slice(), &size].concat())
    };
    run(&home, Some(device), &train("run.folder=whole"));
    assert_eq!(made_on(&checkpoint(&home, "whole", 20)), "Cuda(0)");
    let again = train("run.folder=killed");
    let mut command = command(&home, Some(device), &again);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut running = Running::of(child.expect("the program starts"));
    running.reach(13);
    assert!(running.kill() < 20, "the kill came too late to prove anything");
    run(&home, Some(device), &again);
    assert_equal_runs(&home, "whole", "killed");
}

#[test]
fn a_run_goes_from_the_cpu_to_cuda_and_back_and_its_model_is_the_same_everywhere() {
    let Some(device) = device("a move") else { return };
    let home = Home::prepared(60);
    let train = |folder: &'static str| {
        let every = ["--set", "report.every_steps=1", "--set", "validation.every_steps=4"];
        // One objective that draws nothing: what is learned then depends on the rows alone.
        let plain = ["--set", "encoder.dropout=0", "--set", "loss.tc=0", "--set", "checkpoints.every_steps=4"];
        [["train"].as_slice(), &every, &plain, &["--set", "train.steps=12", "--set", folder]].concat()
    };
    run(&home, None, &train("run.folder=whole"));
    run(&home, None, &train("run.folder=moved"));
    assert_eq!(made_on(&checkpoint(&home, "moved", 4)), "Cpu");
    back_to(&home, "moved", 4, 4, 12);
    let there = run(&home, Some(device), &train("run.folder=moved"));
    assert!(there.stderr.contains("moved to another device"), "{there}");
    assert_eq!(made_on(&checkpoint(&home, "moved", 8)), "Cuda(0)");
    back_to(&home, "moved", 8, 4, 12);
    run(&home, None, &train("run.folder=moved"));
    assert_eq!(made_on(&checkpoint(&home, "moved", 12)), "Cpu");
    assert_near(&home, "moved", "whole");

    // What was learned there is exported, and fills blanks, here and there.
    back_to(&home, "moved", 8, 4, 12);
    let text = "Anna ate [MASK] and drank some water.";
    let fill = ["fill", "--run", "moved", text];
    assert_eq!(run(&home, Some(device), &fill).stdout, run(&home, None, &fill).stdout);
    run(&home, Some(device), &["export", "--run", "moved", "--out", "there"]);
    run(&home, None, &["export", "--run", "moved", "--out", "here"]);
    assert_eq!(folder_hash(&home.join("there")), folder_hash(&home.join("here")));
}

/// Losses of training and of validations, step by step.
#[track_caller]
fn assert_near(home: &Home, run: &str, expected: &str) {
    let losses = |run: &str| -> Vec<(u64, f64)> {
        let is_loss = |event: &Value| event["kind"] == "report" || event["kind"] == "validation";
        let events = home.log(run).into_iter().filter(is_loss);
        events.map(|event| (event["step"].as_u64().expect("a step"), event["loss"].as_f64().expect("a loss"))).collect()
    };
    let (found, expected) = (losses(run), losses(expected));
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found.0 == expected.0 && (found.1 - expected.1).abs() < 1e-5 * expected.1, "{found:?}, {expected:?}");
    }
}

#[test]
fn a_full_device_ends_a_run_with_its_owner_and_a_way_on_and_breaks_nothing() {
    let Some(device) = device("a full device") else { return };
    if device == Device::Real {
        return skip("a full device on CUDA: this one cannot be made smaller");
    }
    let home = Home::prepared(60);
    let args = ["train", "--set", "run.folder=run", "--set", "train.steps=20", "--set", "checkpoints.every_steps=10"];
    let whole = [args.as_slice(), &["--set", "run.folder=whole"]].concat();
    let report = home.join("counted.json");
    let first = command(&home, Some(device), &whole).env("PRETEND_CUDA_REPORT", &report).output();
    assert!(first.expect("the program starts").status.success());
    let counted: Value = serde_json::from_slice(&std::fs::read(&report).expect("a report")).expect("JSON");
    let peak = counted["peak_bytes"].as_u64().expect("a number");

    run(&home, Some(device), &args);
    back_to(&home, "run", 10, 10, 20);
    let before = files(&home.join("run/checkpoints"));
    // Not enough for a step, and not for the weights.
    for bytes in [peak * 2 / 3, peak / 100] {
        let full = command(&home, Some(device), &args).env("PRETEND_CUDA_BYTES", bytes.to_string()).output();
        let full = Outcome::of(full.expect("the program starts"));
        let owner = "by plan, the activations of a micro-batch";
        full.assert_fails(
            44,
            &["CUDA out of memory", owner, "`train.micro_batch_size`", "what was saved before stands"],
        );
        assert_eq!(full.stderr.matches("out of memory").count(), 1, "one error\n{full}");
        assert_eq!(files(&home.join("run/checkpoints")), before, "checkpoints");
    }
    run(&home, Some(device), &args);
    assert_eq!(made_on(&checkpoint(&home, "run", 20)), "Cuda(0)");
    assert_equal_runs(&home, "whole", "run");
}

#[test]
fn a_run_on_a_device_says_how_it_uses_it() {
    let Some(device) = device("the first lines") else { return };
    let home = Home::prepared(60);
    let train = |folder: &'static str| {
        let short = ["train", "--set", "train.steps=2", "--set", "validation.every_steps=0", "--set", folder];
        [short.as_slice(), &["--set", "schedule.warmup_steps=0"]].concat()
    };
    let begin = |args: &[&str]| {
        let mut begin = command(&home, Some(device), args);
        begin.env_remove("PYTORCH_ALLOC_CONF").env_remove("PYTORCH_CUDA_ALLOC_CONF");
        begin
    };
    let begun = Outcome::of(begin(&train("run.folder=plain")).output().expect("the program starts"));
    let lines =
        ["computing on a GPU", "device=\"cuda:0\"", "products=\"f32\"", "allocator=\"expandable_segments:True\""];
    for said in lines.into_iter().chain(["attention is memory-efficient where no row is padded"]) {
        assert!(begun.code == Some(0) && begun.stderr.contains(said), "{said}\n{begun}");
    }
    assert!(begun.stdout.contains("  memory ") && begun.stderr.contains("of the device at once, "), "{begun}");

    // Whoever has said how memory is allocated is not overruled, and products are rounded where that is asked for.
    let rounded = [train("run.folder=rounded").as_slice(), &["--set", "train.tf32=true"]].concat();
    let own = begin(&rounded).env("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False").output();
    let own = Outcome::of(own.expect("the program starts"));
    for said in ["products=\"tf32\"", "allocator=\"expandable_segments:False\""] {
        assert!(own.code == Some(0) && own.stderr.contains(said), "{said}\n{own}");
    }
    let nowhere = Outcome::of(command(&home, None, &rounded).output().expect("the program starts"));
    nowhere.assert_fails(2, &["`train.tf32 = true` needs CUDA", "`train.tf32 = false` does without"]);
    let cpu = run(&home, None, &train("run.folder=cpu"));
    assert!(!cpu.stderr.contains("attention is") && !cpu.stdout.contains("  memory "), "{cpu}");
}

#[test]
fn steps_on_a_device_have_its_times_beside_the_hosts() {
    let Some(device) = device("a profile") else { return };
    let home = with_every_objective();
    let half = ["profile", "train", "--seconds", "5", "--json"];
    let profiled = run(&home, Some(device), &every_objective(&half, &["--set", "run.folder=none"]));
    let profile: Value = serde_json::from_str(&profiled.stdout).expect("JSON");
    let training = &profile["training"];
    assert_eq!((&training["device"], &training["device_failure"]), (&"Cuda(0)".into(), &Value::Null));
    let phases = training["phases"].as_array().expect("a list");
    let on_device = |name: &str| {
        let phase = phases.iter().find(|phase| phase["what"] == name).unwrap_or_else(|| panic!("no {name}"));
        phase["device_ms"].as_f64().unwrap_or_else(|| panic!("the device's time of {name}: {phase}"))
    };
    for part in ["upload", "attention", "feed_forward", "norm", "sample", "backward", "optimizer"] {
        assert!(on_device(part) > 0.0, "{part}: {training:#}");
    }
    let sum = |of: &str| phases.iter().filter_map(|phase| phase[of].as_f64()).sum::<f64>();
    // The device has done a step when the next one's first mark is past, so that both clocks see the same steps.
    let (host, device) = (sum("host_ms"), sum("device_ms"));
    assert!((device - host).abs() < 0.1 * host, "host {host} ms, device {device} ms");
    let drawn = training["device_waterfall"].as_array().expect("a step of the device");
    assert!(drawn.len() > phases.len() && profiled.stderr.matches("WARN").count() == 0, "{profiled}");
    let owners = training["memory"].as_array().expect("a list");
    assert!(owners.iter().any(|it| it["owner"] == "other tensors" && it["bytes"].as_u64() > Some(0)), "{owners:?}");
}

#[test]
fn blanks_on_a_full_device_end_with_one_error() {
    let Some(device) = device("blanks on a full device") else { return };
    if device == Device::Real {
        return skip("blanks on a full device on CUDA: this one cannot be made smaller");
    }
    let home = Home::prepared(60);
    let short = ["--set", "train.steps=1", "--set", "validation.every_steps=0", "--set", "schedule.warmup_steps=0"];
    run(&home, None, &[["train", "--set", "run.folder=run"].as_slice(), &short].concat());
    let fill = ["fill", "--run", "run", "Anna ate [MASK] and drank some water."];
    let report = home.join("counted.json");
    let whole = command(&home, Some(device), &fill).env("PRETEND_CUDA_REPORT", &report).output();
    assert!(whole.expect("the program starts").status.success());
    let counted: Value = serde_json::from_slice(&std::fs::read(&report).expect("a report")).expect("JSON");
    let peak = counted["peak_bytes"].as_u64().expect("a number");
    // Not enough for the row, and not for the weights.
    for bytes in [peak * 99 / 100, peak / 100] {
        let full = command(&home, Some(device), &fill).env("PRETEND_CUDA_BYTES", bytes.to_string()).output();
        let full = Outcome::of(full.expect("the program starts"));
        full.assert_fails(44, &["CUDA out of memory", "`nvidia-smi`", "`CUDA_VISIBLE_DEVICES=\"\"`"]);
        assert_eq!(full.stderr.matches("out of memory").count(), 1, "one error\n{full}");
    }
}

/// What the device was asked for since the update before, update by update.
fn updates(home: &Home, device: Device, args: &[&str]) -> Vec<Value> {
    let report = home.join("updates.jsonl");
    let mut counting = command(home, Some(device), args);
    counting.env("PRETEND_CUDA_REPORT", &report).env("PRETEND_CUDA_MARK", "_fused_adamw_");
    let outcome = Outcome::of(counting.output().expect("the program starts"));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let text = std::fs::read_to_string(report).expect("a report");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_run_that_saves_waits_for_its_reports_alone() {
    let Some(device) = device("the waits of a run") else { return };
    if device == Device::Real {
        return skip("the waits of a run on CUDA: this device does not count");
    }
    let home = Home::prepared(60);
    let rarely = ["--set", "report.every_steps=100", "--set", "validation.every_steps=0"];
    let often = ["--set", "checkpoints.every_steps=2", "--set", "train.steps=9", "--set", "run.folder=run"];
    let updates = updates(&home, device, &[["train"].as_slice(), &rarely, &often].concat());
    // Two of a step, and the end of the process. The first values are read after the first step.
    assert_eq!(updates.len(), 19, "{updates:?}");
    let (mut writers_waits, mut kept) = (0, 0);
    for update in &updates[4..18] {
        for (why, count) in update["waits"].as_object().expect("waits by name") {
            assert_eq!(why, "synchronizeEvent", "only the thread that writes waits: {update}");
            writers_waits += count.as_u64().expect("a number");
        }
        let copies = update["copies"].as_object().expect("copies by kind");
        let down: Vec<&String> = copies.keys().filter(|kind| kind.starts_with("down")).collect();
        assert!(down.iter().all(|kind| *kind == "down pinned async"), "{update}");
        kept += u64::from(!down.is_empty());
    }
    // After steps 2, 4, 6 and 8; the last is waited for at any time.
    assert!(kept == 4 && (1..=4).contains(&writers_waits), "{kept} checkpoints, {writers_waits} waits");
}

/// Before `main` the program looks for a driver, and with one for CUDA's libraries.
#[test]
fn a_driver_without_cudas_libraries_is_told_from_no_driver() {
    let (Some(driver), Ok(Device::Pretend)) = (pretend_cuda::driver(), Device::find()) else {
        return skip("a driver without CUDA's libraries: here are both, or neither");
    };
    let home = Home::prepared(60);
    let train = |device: &str| {
        let device = format!("train.device={device}");
        let args = ["train", "--set", "run.folder=run", "--set", "train.steps=4", "--set", &device];
        Outcome::of(home.command(&args).env("LD_LIBRARY_PATH", driver).output().expect("the program starts"))
    };
    train("cuda").assert_fails(2, &["this libtorch is the small one", "`SETUP=full make setup`"]);
    let auto = train("auto");
    assert!(auto.code == Some(0) && auto.stderr.contains("this libtorch is the small one"), "{auto}");
}
