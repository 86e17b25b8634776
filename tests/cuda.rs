//! Tests on a GPU: a real one, or one simulated in host memory.
//!
//! `train.device` stays `auto`, so the environment of the process decides.

use std::path::Path;
use std::process::{Command, Stdio};

use pretend_cuda::Device;
use serde_json::Value;
use testkit::{
    Home, Outcome, Running, assert_equal_runs, every_objective, files, folder_hash, skip, with_every_objective,
};

/// Returns the device. Without one, reports the skipped test and returns `None`.
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

/// Runs the program with or without the device.
#[track_caller]
fn run(home: &Home, device: Option<Device>, args: &[&str]) -> Outcome {
    let outcome = Outcome::new(command(home, device, args).output().expect("the program starts"));
    assert_eq!(outcome.code, Some(0), "cloze {args:?}\n{outcome}");
    outcome
}

fn checkpoint(home: &Home, run: &str, step: u64) -> std::path::PathBuf {
    home.join(run).join(format!("checkpoints/step-{step:08}"))
}

/// Returns the device that a checkpoint was made on.
fn made_on(checkpoint: &Path) -> String {
    let state = std::fs::read(checkpoint.join("state.json")).expect("a state");
    let state: Value = serde_json::from_slice(&state).expect("JSON");
    state["content"]["device"].as_str().unwrap_or_else(|| panic!("no device in {state}")).to_owned()
}

/// Goes back to a step: removes later checkpoints.
fn back_to(home: &Home, run: &str, step: u64, every: u64, last: u64) {
    let later = (step / every + 1..=last / every).map(|number| number * every);
    later.for_each(|step| std::fs::remove_dir_all(checkpoint(home, run, step)).expect("it was saved"));
}

/// Configuration with dropout, a sampling generator, a teacher, pairs and crops. Kernels sum in a fixed order, which
/// a GPU run needs.
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
    let mut running = Running::new(child.expect("the program starts"));
    running.wait_for_step(13);
    assert!(running.kill() < 20, "the kill came too late to prove anything");
    run(&home, Some(device), &again);
    assert_equal_runs(&home, "whole", "killed");
}

#[test]
fn run_moves_from_cpu_to_cuda_and_back() {
    let Some(device) = device("a move") else { return };
    let home = Home::prepared(60);
    let train = |folder: &'static str| {
        let every = ["--set", "report.every_steps=1", "--set", "validation.every_steps=4"];
        // One objective without random draws: the result depends on the rows only.
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

    // The model trained on the device can be exported and used on both devices.
    back_to(&home, "moved", 8, 4, 12);
    let text = "Anna ate [MASK] and drank some water.";
    let fill = ["fill", "moved", text];
    assert_eq!(run(&home, Some(device), &fill).stdout, run(&home, None, &fill).stdout);
    run(&home, Some(device), &["export", "moved", "--out", "there"]);
    run(&home, None, &["export", "moved", "--out", "here"]);
    assert_eq!(folder_hash(&home.join("there")), folder_hash(&home.join("here")));
}

/// Compares the losses of training and of validations, step by step.
#[track_caller]
fn assert_near(home: &Home, run: &str, expected: &str) {
    let losses = |run: &str| -> Vec<(u64, f64)> {
        let is_loss = |event: &Value| event["kind"] == "report" || event["kind"] == "validation";
        let events = home.log(run).into_iter().filter(is_loss);
        events.map(|event| (event["step"].as_u64().expect("a step"), event["loss"].as_f64().expect("a loss"))).collect()
    };
    let found = losses(run);
    let expected = losses(expected);
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found.0 == expected.0 && (found.1 - expected.1).abs() < 1e-5 * expected.1, "{found:?}, {expected:?}");
    }
}

#[test]
fn full_device_ends_a_run_with_a_hint_and_keeps_its_files() {
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
    let mut before = files(&home.join("run/checkpoints"));
    // A start points at the newest one.
    before.insert("latest".to_owned(), b"step-00000010\n".to_vec());
    // Too little memory for a step, and then for the weights.
    for bytes in [peak * 2 / 3, peak / 100] {
        let full = command(&home, Some(device), &args).env("PRETEND_CUDA_BYTES", bytes.to_string()).output();
        let full = Outcome::new(full.expect("the program starts"));
        let owner = "by plan, the activations of a micro-batch";
        full.assert_fails(
            44,
            &["CUDA out of memory", owner, "`train.micro_batch_size`", "saved checkpoints are not affected"],
        );
        assert_eq!(full.stderr.matches("out of memory").count(), 1, "one error\n{full}");
        assert_eq!(files(&home.join("run/checkpoints")), before, "checkpoints");
    }
    run(&home, Some(device), &args);
    assert_eq!(made_on(&checkpoint(&home, "run", 20)), "Cuda(0)");
    assert_equal_runs(&home, "whole", "run");
}

#[test]
fn device_run_logs_its_settings() {
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
    let begun = Outcome::new(begin(&train("run.folder=plain")).output().expect("the program starts"));
    let lines =
        ["computing on a GPU", "device=\"cuda:0\"", "products=\"f32\"", "allocator=\"expandable_segments:True\""];
    for text in lines.into_iter().chain(["attention is memory-efficient where no row is padded"]) {
        assert!(begun.code == Some(0) && begun.stderr.contains(text), "{text}\n{begun}");
    }
    assert!(begun.stdout.contains("  memory ") && begun.stderr.contains("device memory: peak "), "{begun}");

    // An allocator setting of the user is kept, and products use TF32 if configured.
    let rounded = [train("run.folder=rounded").as_slice(), &["--set", "train.tf32=true"]].concat();
    let own = begin(&rounded).env("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False").output();
    let own = Outcome::new(own.expect("the program starts"));
    for text in ["products=\"tf32\"", "allocator=\"expandable_segments:False\""] {
        assert!(own.code == Some(0) && own.stderr.contains(text), "{text}\n{own}");
    }
    let nowhere = Outcome::new(command(&home, None, &rounded).output().expect("the program starts"));
    nowhere.assert_fails(2, &["`train.tf32 = true` needs CUDA", "set `train.tf32 = false`"]);
    let cpu = run(&home, None, &train("run.folder=cpu"));
    assert!(!cpu.stderr.contains("attention is") && !cpu.stdout.contains("  memory "), "{cpu}");
}

#[test]
fn device_steps_have_host_and_device_times() {
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
    // A step of the device ends at the first mark of the next step, so that both clocks cover the same steps.
    let host = sum("host_ms");
    let device = sum("device_ms");
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
    let fill = ["fill", "run", "Anna ate [MASK] and drank some water."];
    let report = home.join("counted.json");
    let whole = command(&home, Some(device), &fill).env("PRETEND_CUDA_REPORT", &report).output();
    assert!(whole.expect("the program starts").status.success());
    let counted: Value = serde_json::from_slice(&std::fs::read(&report).expect("a report")).expect("JSON");
    let peak = counted["peak_bytes"].as_u64().expect("a number");
    // Too little memory for the row, and then for the weights.
    for bytes in [peak * 99 / 100, peak / 100] {
        let full = command(&home, Some(device), &fill).env("PRETEND_CUDA_BYTES", bytes.to_string()).output();
        let full = Outcome::new(full.expect("the program starts"));
        full.assert_fails(44, &["CUDA out of memory", "`nvidia-smi`", "`CUDA_VISIBLE_DEVICES=\"\"`"]);
        assert_eq!(full.stderr.matches("out of memory").count(), 1, "one error\n{full}");
    }
}

/// Returns the device calls between consecutive updates.
fn updates(home: &Home, device: Device, args: &[&str]) -> Vec<Value> {
    let report = home.join("updates.jsonl");
    let mut counting = command(home, Some(device), args);
    counting.env("PRETEND_CUDA_REPORT", &report).env("PRETEND_CUDA_MARK", "_fused_adamw_");
    let outcome = Outcome::new(counting.output().expect("the program starts"));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let text = std::fs::read_to_string(report).expect("a report");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn saving_run_waits_only_for_its_reports() {
    let Some(device) = device("the waits of a run") else { return };
    if device == Device::Real {
        return skip("the waits of a run on CUDA: this device has no call counters");
    }
    let home = Home::prepared(60);
    let rarely = ["--set", "report.every_steps=100", "--set", "validation.every_steps=0"];
    let often = ["--set", "checkpoints.every_steps=2", "--set", "train.steps=9", "--set", "run.folder=run"];
    let updates = updates(&home, device, &[["train"].as_slice(), &rarely, &often].concat());
    // Two updates per step, and the end of the process. The initial losses are read after the first step.
    assert_eq!(updates.len(), 19, "{updates:?}");
    let mut writers_waits = 0;
    let mut kept = 0;
    for update in &updates[4..18] {
        for (why, count) in update["waits"].as_object().expect("waits by name") {
            assert_eq!(why, "synchronizeEvent", "only the writer thread waits: {update}");
            writers_waits += count.as_u64().expect("a number");
        }
        let copies = update["copies"].as_object().expect("copies by kind");
        let down: Vec<&String> = copies.keys().filter(|kind| kind.starts_with("down")).collect();
        assert!(down.iter().all(|kind| *kind == "down pinned async"), "{update}");
        kept += u64::from(!down.is_empty());
    }
    // Checkpoints after steps 2, 4, 6 and 8. The last one may be awaited later.
    assert!(kept == 4 && (1..=4).contains(&writers_waits), "{kept} checkpoints, {writers_waits} waits");
}

/// Before `main`, the program searches for a driver, and with a driver also for CUDA's libraries.
#[test]
fn driver_without_cuda_libraries_is_reported() {
    let (Some(driver), Ok(Device::Pretend)) = (pretend_cuda::driver(), Device::find()) else {
        return skip("a driver without CUDA's libraries: here are both, or neither");
    };
    let home = Home::prepared(60);
    let train = |device: &str| {
        let device = format!("train.device={device}");
        let args = ["train", "--set", "run.folder=run", "--set", "train.steps=4", "--set", &device];
        Outcome::new(home.command(&args).env("LD_LIBRARY_PATH", driver).output().expect("the program starts"))
    };
    train("cuda").assert_fails(2, &["this libtorch has no CUDA libraries", "`SETUP=full make setup`"]);
    let auto = train("auto");
    assert!(auto.code == Some(0) && auto.stderr.contains("this libtorch has no CUDA libraries"), "{auto}");
}
