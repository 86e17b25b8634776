use serde_json::json;

use super::*;

/// Profile of a training run with all optional parts.
fn whole() -> Value {
    let evil = "</script><img src=x onerror=alert(1)>\u{1b}[2J";
    json!({
        "version": 1, "target": "train",
        "verdict": { "bottleneck": "trainer", "worker": null, "sentence": format!("bottleneck: `{evil}`"), "evidence": [evil] },
        "what_if": [{ "key": evil, "from": 1, "to": 2, "gain": 0.71, "within": 0.06, "then": evil }],
        "checked_gain": 0.8, "seconds": 4.0, "warm_up_s": 1.0, "processors": 2, "overhead": 0.004,
        "tokens_per_s": { "mean": 1e6, "low": 9e5, "high": 1.1e6 },
        "items_per_s": { "mean": 10.0, "low": 9.0, "high": 11.0 },
        "actors": [
            { "name": evil, "items": 10, "busy": 0.5, "starved": 0.25, "blocked": 0.25, "processor": 0.4, "outside": 0.1,
              "ns_per_token": 12.3, "bytes_in": 10, "bytes_out": 2000, "faults": { "minor": 3, "major": 0 } },
            { "name": "trainer", "items": 0, "busy": 0, "starved": 0, "blocked": 0, "processor": null },
        ],
        "queues": { "capacity": 4, "mean": 0.5, "full": 0.1, "empty": 0.1 },
        "stage_costs": [{ "stage": evil, "share": 0.6, "seconds": 2.0, "ns_per_token": 1.0, "bytes_in": 1, "bytes_out": null }],
        "memory": [{ "owner": evil, "bytes": 5 }],
        "timeline": {
            "from_s": 0.0, "at_s": [1, 2, 4], "items_per_s": [1, 10, 10], "queue": [0, 0.5, 1],
            "resident_bytes": [null, 10, 20], "queued_bytes": [0, 1, 2],
            "actors": [{ "name": evil, "busy": [1, 0.5, 0], "starved": [0, 0.5, 0], "blocked": [0, 0, 1] }],
        },
        "machine": { "program": evil, "kernel": evil, "processor": evil, "configuration": evil, "command": evil },
        "training": {
            "device": evil, "device_name": evil, "steps": 40, "tokens_per_step": 4096, "micro_batches_per_step": 2,
            "micro_batch_size": 16, "step_ms": { "mean": 12.0, "low": 11.0, "high": 13.0 },
            "ranks": { "count": 4, "computation_ms": 7.25, "data_wait_ms": 1.2, "communication_ms": 1.75, "rank_wait_ms": 2.25 },
            "phases": [{ "what": "wait", "host_ms": 1.2, "device_ms": null },
                       { "what": evil, "host_ms": 8.0, "device_ms": 9.0 }],
            "waterfall": [{ "what": evil, "from_ms": 1.0, "to_ms": 4.0 }],
            "device_waterfall": [{ "what": "backward", "from_ms": 2.0, "to_ms": 5.0 }],
            "memory": [{ "owner": evil, "bytes": 123 }],
            "memory_over_time": [{ "at_s": 0.5, "resident_bytes": 1, "device_bytes": 7 }],
        },
    })
}

fn refused(object: &Value) -> String {
    ProfilePage::parse(object).err().map_or_else(|| panic!("{object} is no profile"), |error| error.to_string())
}

#[test]
fn page_shows_all_parts_and_escapes_input() {
    let page = ProfilePage::parse(&whole()).expect("a profile");
    let html = page.html();
    for part in [
        "+71\u{a0}%",
        "measured: +80 %",
        "Time of a step",
        "One step over time",
        "warm-up",
        "Stages of",
        "1.75 ms",
        "2.25 ms",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let plots = page.plots();
    let names: Vec<&str> = plots.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        [
            "actors",
            "rate",
            "queues",
            "memory",
            "owners",
            "phases",
            "waterfall",
            "training-memory",
            "training-memory-over-time"
        ]
    );
    for text in plots.iter().map(|(_, plot)| plot).chain([&html]) {
        assert!(!text.contains("<script") && !text.contains("<img") && !text.contains('\u{1b}'), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf\"") && !text.contains("\"-inf"), "{text}");
    }
    assert_eq!(html, ProfilePage::parse(&whole()).expect("a profile").html(), "the same profile is the same page");
}

#[test]
fn prose_shows_names_as_code() {
    let html = ProfilePage::parse(&whole()).expect("a profile").html();
    assert!(html.contains("<code>outside</code> is busy time"), "{html}");
    let prose = html.split("<p>").skip(1).filter_map(|rest| rest.split("</p>").next());
    assert!(prose.into_iter().all(|text| !text.contains('`')), "{html}");
}

#[test]
fn rate_of_slow_steps_is_no_comb() {
    // A step of 2 s in windows of 0.5 s: every fourth window has its item, and one step at the end is missing.
    let at_s: Vec<f64> = (1..=90).map(|window| 0.5 * f64::from(window)).collect();
    let items_per_s: Vec<f64> = (1..=90).map(|window| if window % 4 == 0 { 2.0 } else { 0.0 }).collect();
    let mut object = whole();
    object["timeline"] = json!({ "from_s": 0.0, "at_s": at_s, "items_per_s": items_per_s, "queue": vec![0.5; 90] });
    let read = read::read(&object).expect("a profile");
    let timeline = read.timeline.as_ref().expect("a timeline");
    let rates = course::smoothed(timeline);
    assert_eq!(rates.len(), 90);
    assert!(rates.iter().all(|rate| (0.45..=0.55).contains(rate)), "{rates:?}");
    let plots = ProfilePage::parse(&object).expect("a profile").plots();
    assert!(plots.iter().any(|(name, plot)| *name == "rate" && plot.contains("at least 10 items")));
    // A profile with fewer items has one window.
    object["timeline"]["items_per_s"] = json!([vec![0.0; 89], vec![2.0; 1]].concat());
    let read = read::read(&object).expect("a profile");
    let rates = course::smoothed(read.timeline.as_ref().expect("a timeline"));
    assert!(rates.iter().all(|rate| (rate - 1.0 / 45.0).abs() < 1e-9), "{rates:?}");
}

#[test]
fn absent_parts_are_omitted() {
    let bare =
        json!({ "target": "loader", "verdict": { "sentence": "too short to say" }, "timeline": null, "actors": [] });
    let page = ProfilePage::parse(&bare).expect("a profile");
    assert!(page.plots().is_empty());
    let html = page.html();
    assert!(html.contains("<h1>too short to say</h1>") && !html.contains("<svg") && !html.contains("<h2>"), "{html}");
    let mut object = whole();
    object["what_if"] = json!({ "none": "the model does not fit" });
    object["timeline"] = json!({ "at_s": [], "items_per_s": [], "queue": [] });
    object["training"]["phases"] = json!([]);
    let html = ProfilePage::parse(&object).expect("a profile").html();
    assert!(html.contains("the model does not fit") && !html.contains("Time of a step"));
}

#[test]
fn errors_name_the_invalid_key() {
    for (pointer, value, key) in [
        ("/verdict/sentence", json!(3), "`verdict.sentence`"),
        ("/actors/0/busy", json!("x"), "`actors[0].busy`"),
        ("/actors/1/blocked", json!(7), "`actors[1].blocked`"),
        ("/timeline/queue", json!([0, 1]), "`timeline.queue`"),
        ("/timeline/actors/0/busy", json!([]), "`timeline.actors[0].busy`"),
        ("/timeline/at_s", json!([3, 2, 1]), "`timeline.at_s[1]`"),
        ("/timeline/resident_bytes/1", json!(1e300), "`timeline.resident_bytes[1]`"),
        ("/training/phases/1/host_ms", json!(null), "`training.phases[1].host_ms`"),
        ("/training/step_ms", json!([]), "`training.step_ms"),
        ("/what_if", json!(5), "`what_if`"),
    ] {
        let mut object = whole();
        *object.pointer_mut(pointer).expect(pointer) = value;
        let said = refused(&object);
        assert!(said.starts_with(key), "{pointer}: {said}");
    }
    for strange in [json!(null), json!([]), json!({}), json!({ "target": "x" })] {
        assert!(refused(&strange).contains("of the profile"), "{strange}");
    }
    let long = vec![json!(1.0); (1 << 16) + 1];
    let mut object = whole();
    object["timeline"]["at_s"] = json!(long);
    assert!(refused(&object).starts_with("`timeline.at_s`"));
}

#[test]
fn page_of_hundreds_of_workers_is_bounded() {
    let mut object = whole();
    let actor = object["actors"][0].clone();
    let course = object["timeline"]["actors"][0].clone();
    object["actors"] = json!(vec![actor; 700]);
    object["timeline"]["actors"] = json!(vec![course; 700]);
    let html = ProfilePage::parse(&object).expect("a profile").html();
    assert!(html.contains("and 683 more workers") && html.contains("and 444 more"));
    assert!(html.len() < 1 << 20, "{}", html.len());
}
