//! Measurements of `cloze profile` in addition to the verdict, and its HTML report.

use serde_json::Value;
use testkit::{Home, profile_args};

const SETS: [&str; 4] = ["--set", "run.folder=run", "--set", "data.workers=2"];

fn profiled(home: &Home, args: &[&str]) -> Value {
    let outcome = home.run_ok(&[profile_args(args), SETS.to_vec()].concat());
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"))
}

fn list<'a>(of: &'a Value, key: &str) -> &'a Vec<Value> {
    of[key].as_array().unwrap_or_else(|| panic!("`{key}` of {of:#}"))
}

/// Sum of the shares busy, starved, blocked and idle.
fn adds_up(actor: &Value) -> f64 {
    ["busy", "starved", "blocked", "idle"].iter().map(|key| actor[*key].as_f64().expect("a share")).sum()
}

#[test]
fn every_window_of_every_actor_adds_up() {
    let home = Home::prepared(200);
    let profile = profiled(&home, &["--seconds", "3", "--step-ms", "4"]);
    let timeline = &profile["timeline"];
    let windows = list(timeline, "at_s").len();
    assert!((8..=256).contains(&windows), "{windows}");
    for column in ["items_per_s", "queue", "resident_bytes", "queued_bytes"] {
        assert_eq!(list(timeline, column).len(), windows, "{column}");
    }
    let ends: Vec<f64> = list(timeline, "at_s").iter().filter_map(Value::as_f64).collect();
    assert!(ends.is_sorted() && list(timeline, "resident_bytes").iter().all(|bytes| bytes.as_u64() > Some(1 << 20)));
    let actors = list(&profile, "actors");
    let courses = list(timeline, "actors");
    assert_eq!((actors.len(), courses.len()), (3, 3), "two workers and a trainer");
    for (actor, course) in actors.iter().zip(courses) {
        assert_eq!(actor["name"], course["name"]);
        assert!((adds_up(actor) - 1.0).abs() < 1e-6, "{actor}");
        for at in 0..windows {
            let share = |key: &str| list(course, key)[at].as_f64().expect("a share");
            let sum = share("busy") + share("starved") + share("blocked");
            assert!((-1e-3..=1.001).contains(&sum), "window {at}: {course}");
        }
        let low = &actor["intervals"]["busy"]["low"];
        let high = &actor["intervals"]["busy"]["high"];
        assert!(low.as_f64() <= high.as_f64() && low.is_f64(), "{actor}");
        assert!(actor["ns_per_token"].as_f64() > Some(0.0), "{actor}");
        assert!(actor["faults"]["minor"].is_u64(), "{actor}");
    }
    // A worker's batches have bytes; the trainer makes none.
    assert!(actors[0]["bytes_out"].as_u64() > Some(0) && actors[2]["bytes_out"].is_null(), "{profile:#}");
    assert!(profile["items_per_s"]["low"].is_f64() && profile["overhead"].is_f64(), "{profile:#}");
    assert_eq!(profile["machine"]["configuration"], "tiny.toml");
    // The page about profiles has every key, and no key of an older version.
    let page = include_str!("../docs/profiling.md");
    let keys = |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    for key in [keys(&profile), keys(&profile["verdict"])].concat() {
        assert!(page.contains(&format!("`{key}`")) || key == "version", "docs/profiling.md lacks `{key}`");
    }
    for key in ["bottleneck", "worker", "sentence", "evidence"] {
        assert!(profile["verdict"].get(key).is_some(), "{profile:#}");
    }
}

#[test]
fn a_worker_without_an_item_is_idle_and_not_busy() {
    let home = Home::prepared(200);
    let sets = ["--set", "prepare.workers=4", "--set", "prepare.part_bytes=99999999", "--set", "prepare.folder=none"];
    // A slow writer: workers without parts end before the others are done.
    let profile = profiled(&home, &[&["prepare", "--slow", "writer=200"], &sets[..]].concat());
    let workers: Vec<&Value> = list(&profile, "actors").iter().filter(|actor| actor["name"] != "fold").collect();
    let made: u64 = workers.iter().filter_map(|worker| worker["items"].as_u64()).sum();
    assert_eq!(made, 1, "the one part, which came after the last window: {profile:#}");
    let idle: Vec<&&Value> = workers.iter().filter(|worker| worker["items"] == 0).collect();
    assert!(workers.len() == 4 && idle.len() >= 2, "{profile:#}");
    for worker in idle {
        assert_eq!((&worker["idle"], &worker["busy"]), (&Value::from(1.0), &Value::from(0.0)), "{worker}");
    }
    for worker in &workers {
        assert!((adds_up(worker) - 1.0).abs() < 1e-6, "{worker}");
    }
    let stages = list(&profile, "stage_costs");
    let names: Vec<&str> = stages.iter().filter_map(|stage| stage["stage"].as_str()).collect();
    assert_eq!(names, ["read", "tokenize", "pack", "write"]);
    assert!(stages[0]["bytes_in"].as_u64() > Some(0) && stages[1]["ns_per_token"].as_f64() > Some(0.0), "{profile:#}");
    let share: f64 = stages.iter().filter_map(|stage| stage["share"].as_f64()).sum();
    assert!((share - 1.0).abs() < 1e-6, "{profile:#}");
}

#[test]
fn a_page_is_a_function_of_the_profile() {
    let home = Home::prepared(200);
    let profile =
        profiled(&home, &["--seconds", "2", "--step-ms", "4", "--report", "<img src=x>.html", "--svg", "plots"]);
    home.write("profile.json", &profile.to_string());
    home.run_ok(&["profile", "report", "profile.json", "--out", "again.html", "--svg", "again"]);
    let read = |name: &str| std::fs::read_to_string(home.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let page = read("<img src=x>.html");
    assert_eq!(page, read("again.html"), "one profile, one page");
    // The command names the file: as text, and as nothing else.
    assert!(page.contains("&lt;img src=x&gt;") && !page.contains("<img") && !page.contains("<script"), "{page}");
    for plot in ["actors", "rate", "queues", "memory", "owners"] {
        let name = format!("{plot}.svg");
        let svg = read(&format!("plots/{name}"));
        assert!(svg.starts_with("<svg xmlns=") && svg == read(&format!("again/{name}")), "{name}");
    }
}

#[test]
fn invalid_profiles_are_refused_with_their_key() {
    let home = Home::prepared(20);
    for (text, words) in [
        ("{", "not the output of `cloze profile --json`"),
        ("{\"version\": 0}", "another version"),
        ("{\"version\": 1}", "`target`"),
        ("{\"version\": 1, \"half\": \"online\", \"verdict\": {\"sentence\": 5}}", "`verdict.sentence`"),
    ] {
        home.write("strange.json", text);
        home.run(&["profile", "report", "strange.json", "--out", "x.html"]).assert_fails(2, &["strange.json", words]);
    }
    home.run(&["profile", "report", "none.json", "--out", "x.html"]).assert_fails(2, &["none.json"]);
    assert!(!home.join("x.html").exists());
    // This error occurs before the measurement.
    home.run(&["profile", "loader", "--report", "."].iter().chain(&SETS).copied().collect::<Vec<_>>())
        .assert_fails(2, &["not a regular file"]);
}
