//! A run that is observed over its socket and over TCP: what is shown, which requests are allowed, and that neither
//! changes the result.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::tree::read;
use testkit::{Home, Outcome, files, root, send};

/// Text that would be interpreted by an unescaped page, a terminal or a shell.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\u{1b}[2J`$(reboot)`";

/// Arguments of a run that lasts long enough to be observed.
fn args<'a>(run: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let sets = [run, "train.steps=400", "checkpoints.every_steps=400", "checkpoints.keep=50", "report.every_steps=5"];
    ["train"].into_iter().chain(sets.iter().chain(more).flat_map(|set| ["--set", *set])).collect()
}

/// Sends an HTTP/1.0 request over the socket. Returns the status code and the body.
fn ask(home: &Home, line: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = UnixStream::connect(home.join("s.sock")).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    write!(stream, "{line} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    parted(&answer)
}

fn parted(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

fn json(home: &Home, path: &str) -> Option<Value> {
    let (code, body) = ask(home, &format!("GET {path}"), "")?;
    (code == 200).then(|| serde_json::from_str(&body).expect("JSON"))
}

/// Waits until `found` returns a value.
fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn observed_run_gives_the_same_result() {
    let home = Home::prepared(60);
    home.run_ok(&args("run.folder=calm", &[]));
    let mut watched = args("run.folder=watched", &["serve.address=./s.sock"]);
    // The run is slow enough for the requests below.
    watched.extend(["--slow", "step=25"]);
    let child = home.spawn(&watched);
    let status = until("a report", || json(&home, "/status").filter(|status| status["step"].as_u64() > Some(0)));
    assert_eq!((status["kind"].as_str(), status["steps"].as_u64()), (Some("train"), Some(400)), "{status}");
    assert!(status["actors"].as_array().is_some_and(|actors| actors.len() >= 2), "{status}");
    for (path, code) in
        [("/livez", 200), ("/readyz", 200), ("/startupz", 200), ("/metrics", 200), ("/", 200), ("/x", 404)]
    {
        assert_eq!(ask(&home, &format!("GET {path}"), "").map(|found| found.0), Some(code), "{path}");
    }
    // Requests of the Kubernetes probes in deploy/.
    let job = read(root(), "deploy/kubernetes/job.yaml");
    let probes: Vec<&str> =
        job.split("httpGet: { path: ").skip(1).map(|rest| rest.split(',').next().expect("a path")).collect();
    assert_eq!(probes.len(), 3, "{probes:?}");
    for path in probes {
        assert_eq!(ask(&home, &format!("GET {path}"), "").map(|found| found.0), Some(200), "{path}");
    }
    let rows = json(&home, "/rows?count=2").expect("rows");
    let tokens = rows["rows"][0]["views"][0]["tokens"].as_array().expect("tokens");
    assert!(tokens.iter().any(|token| token["kind"] == "masked" && token["original"].is_string()), "{rows}");
    let keys = json(&home, "/config").expect("a configuration");
    let steps = keys["keys"].as_array().expect("keys").iter().find(|key| key["key"] == "train.steps").expect("a key");
    assert_eq!((steps["value"].as_str(), steps["changed"].as_bool()), (Some("400"), Some(true)));
    assert_eq!(json(&home, "/runs").expect("runs")["runs"][0]["name"], "calm");
    let other = json(&home, "/history?run=calm").expect("a history");
    assert_eq!(other["reports"]["step"].as_array().map(Vec::len), Some(80), "400 steps, one in five");
    assert_eq!(ask(&home, "GET /history?run=../calm", "").map(|found| found.0), Some(404));
    // Requests are executed between two steps and logged.
    assert_eq!(ask(&home, "POST /note", HOSTILE).map(|found| found.0), Some(200));
    assert_eq!(ask(&home, "POST /checkpoint", "").map(|found| found.0), Some(200));
    let event = |kind: &str| {
        let events = json(&home, "/history")?["events"].as_array()?.clone();
        events.into_iter().find(|event| event["kind"] == kind)
    };
    assert_eq!(until("the note", || event("note"))["text"], HOSTILE);
    let saved = until("the checkpoint", || event("checkpoint"));
    assert!(saved["step"].as_u64().is_some_and(|step| step < 400), "{saved}");
    assert_eq!(ask(&home, "POST /stop", "").map(|found| found.0), Some(200));
    let stopped = testkit::Outcome::new(child.wait_with_output().expect("it ends"));
    assert_eq!(stopped.code, Some(143), "{}", stopped.stderr);
    assert!(!stopped.stderr.contains('\u{1b}'), "{}", stopped.stderr);
    // The run continues without observers, and its result is the same.
    home.run_ok(&args("run.folder=watched", &[]));
    let [calm, watched] = ["calm", "watched"].map(|run| files(&home.join(&format!("{run}/checkpoints/step-00000400"))));
    for name in ["main.safetensors", "optimizer.safetensors"] {
        assert!(calm[name] == watched[name], "{name} differs");
    }
}

#[test]
fn history_survives_a_resume_and_secrets_are_hidden() {
    let home = Home::prepared(60);
    let token = "a-secret-that-must-stay-hidden";
    home.write("token", token);
    // A constant learning rate allows steps to be added.
    let sets = ["run.folder=a", "report.every_steps=5", "schedule.kind=constant"];
    let trains = |more: &[&'static str]| -> Vec<&str> {
        ["train"].into_iter().chain(sets.iter().chain(more).flat_map(|set| ["--set", *set])).collect()
    };
    home.run_ok(&trains(&["train.steps=20"]));
    let on = trains(&["train.steps=4000", "serve.address=127.0.0.1:0", "serve.token_file=token"]);
    let child = home.spawn(&on);
    let address: String = until("an address", || {
        let written: Value = serde_json::from_slice(&std::fs::read(home.join("a/serve.json")).ok()?).ok()?;
        Some(written["address"].as_str()?.trim_start_matches("http://").trim_end_matches('/').to_owned())
    });
    let ask = |line: &str, more: &str| {
        let mut stream = TcpStream::connect(&address).ok()?;
        write!(stream, "{line} HTTP/1.0\r\nHost: {address}\r\n{more}\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        assert!(!answer.contains(token), "{answer}");
        parted(&answer)
    };
    let steps = until("steps of both processes", || {
        let history: Value = serde_json::from_str(&ask("GET /history", "")?.1).ok()?;
        let steps: Vec<u64> = history["reports"]["step"].as_array()?.iter().filter_map(Value::as_u64).collect();
        (steps.last() > Some(&25)).then_some(steps)
    });
    assert!(steps.starts_with(&[5, 10, 15, 20, 25]), "{steps:?}");
    assert_eq!(ask("POST /stop", "Content-Length: 0\r\n").map(|found| found.0), Some(401));
    for path in ["/", "/status", "/config", "/history", "/metrics", "/runs"] {
        assert_eq!(ask(&format!("GET {path}"), "").map(|found| found.0), Some(200), "{path}");
    }
    let bearer = format!("Authorization: Bearer {token}\r\nContent-Length: 0\r\n");
    assert_eq!(ask("POST /stop", &bearer).map(|found| found.0), Some(200));
    let ended = testkit::Outcome::new(child.wait_with_output().expect("it ends"));
    assert_eq!(ended.code, Some(143), "{}", ended.stderr);
    for (name, bytes) in files(&home.join("a")) {
        assert!(!String::from_utf8_lossy(&bytes).contains(token), "{name}");
    }
    assert!(!ended.stdout.contains(token) && !ended.stderr.contains(token));
}

#[test]
fn report_contains_all_runs_and_plots() {
    let home = Home::prepared(60);
    for run in ["a", "b"] {
        home.run_ok(&[
            "train",
            "--set",
            &format!("run.folder={run}"),
            "--set",
            "train.steps=20",
            "--set",
            "report.every_steps=5",
        ]);
    }
    home.run_ok(&["report", "a", "b", "--out", "out/report.html", "--svg", "plots"]);
    let page = std::fs::read_to_string(home.join("out/report.html")).expect("a file");
    let (_, rest) = page.split_once("id=\"report\">").expect("what it shows");
    let shown: Value = serde_json::from_str(rest.split_once("</script>").expect("its end").0).expect("JSON");
    let names: Vec<&str> =
        shown["runs"].as_array().expect("runs").iter().filter_map(|run| run["name"].as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(shown["runs"][1]["reports"]["step"], serde_json::json!([5, 10, 15, 20]));
    let plot = std::fs::read_to_string(home.join("plots/loss.svg")).expect("a plot");
    assert_eq!(plot.matches("<path class=\"c").count(), 2, "a curve for each run");
    home.run(&["report", "nowhere", "--out", "x.html"]).assert_fails(2, &["nowhere", "no run is here"]);
    assert!(!home.join("x.html").exists());
    home.run(&["top", "a"]).assert_fails(2, &["not a terminal", "cloze runs"]);
    home.run(&["train", "--set", "serve.address=8080", "--set", "run.folder=c"])
        .assert_fails(2, &["serve.address", "8080"]);
}

/// A preparation has a page too.
#[test]
fn preparation_can_be_observed() {
    let home = Home::with_corpus(400);
    home.run_ok(&["tokenizer", "train"]);
    let child = home.spawn(&[
        "prepare",
        "--set",
        "serve.address=./s.sock",
        "--set",
        "prepare.part_bytes=4096",
        "--slow",
        "writer=100",
    ]);
    let status = until("progress", || json(&home, "/status").filter(|status| status["progress"].as_f64() > Some(0.0)));
    assert_eq!(status["kind"], "prepare");
    assert!(status["actors"].as_array().is_some_and(|actors| !actors.is_empty()), "{status}");
    assert_eq!(ask(&home, "POST /stop", "").map(|found| found.0), Some(404), "a signal stops it");
    let (_, metrics) = ask(&home, "GET /metrics", "").expect("metrics");
    assert!(metrics.contains("cloze_prepare_parts_planned"), "{metrics}");
    let ended = testkit::Outcome::new(child.wait_with_output().expect("it ends"));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// A run that waits for its preparation saves and notes at once, not with its next step.
#[test]
fn requests_are_handled_during_a_wait_for_data() {
    let home = Home::with_corpus(200);
    home.run_ok(&["tokenizer", "train"]);
    let parts = ["prepare.part_bytes=4000", "prepare.valid_parts=2", "data.order=streamed"];
    let parts = parts.iter().flat_map(|set| ["--set", set]);
    let prepare = ["prepare", "--set", "prepare.workers=1"].into_iter().chain(parts.clone()).collect::<Vec<_>>();
    let mut preparing = home.spawn(&prepare);
    let commits = || std::fs::read_dir(home.join("data/parts")).into_iter().flatten().count();
    until("some parts", || (commits() >= 5).then_some(()));
    send(&preparing, libc::SIGSTOP);
    let window = ["--set", "data.shuffle_window_groups=3"];
    let train: Vec<&str> =
        args("run.folder=run", &["serve.address=./s.sock"]).into_iter().chain(parts).chain(window).collect();
    let child = home.spawn(&train);
    // It waits if it makes no step while its workers are asked three times.
    let mut seen = (0, 0);
    let step = until("a wait for data", || {
        let status = json(&home, "/status").filter(|status| status["phase"] == "data")?;
        let step = status["step"].as_u64().filter(|step| *step > 0)?;
        seen = if seen.0 == step { (step, seen.1 + 1) } else { (step, 0) };
        std::thread::sleep(Duration::from_millis(100));
        (seen.1 >= 10).then_some(step)
    });
    let event = |kind: &str| {
        let events = json(&home, "/history")?["events"].as_array()?.clone();
        events.into_iter().find(|event| event["kind"] == kind)
    };
    assert_eq!(ask(&home, "POST /note", "while it waits").map(|found| found.0), Some(200));
    assert_eq!(until("the note", || event("note"))["text"], "while it waits");
    assert_eq!(ask(&home, "POST /checkpoint", "").map(|found| found.0), Some(200));
    // The status may be a step behind.
    let saved = until("the checkpoint", || event("checkpoint"))["step"].as_u64().expect("a number");
    assert!((step..=step + 1).contains(&saved), "no other step was needed: {saved} after {step}");
    assert_eq!(ask(&home, "POST /stop", "").map(|found| found.0), Some(200));
    let outcome = Outcome::new(child.wait_with_output().expect("it ends"));
    assert_eq!(outcome.code, Some(143), "{outcome}");
    preparing.kill().expect("SIGKILL");
    preparing.wait().expect("it ended");
}
