use std::thread::sleep;

use super::*;

fn sleep_ms(ms: u64) {
    sleep(Duration::from_millis(ms));
}

fn seconds(times: &StepTimes, name: &str) -> f64 {
    times.parts.iter().find(|part| part.name == name).map_or(0.0, |part| part.host_s)
}

#[test]
fn parts_are_self_times_and_add_up_to_the_steps() {
    begin();
    know(Device::Cpu, || vec![("weights", 4)]);
    for step in 0..3 {
        timed(WAIT, || sleep_ms(2));
        timed_for(OBJECTIVE, "a", || {
            sleep_ms(4);
            timed(ATTENTION, || sleep_ms(8));
        });
        if step == 2 {
            timed(VALIDATION, || timed(ATTENTION, || timed(NORM, || sleep_ms(18))));
        }
        step_is_over();
        assert!(newest_step_seconds().is_some());
    }
    let times = end().expect("it was begun");
    assert!(end().is_none(), "once");
    let [wait, objective, attention, validation] =
        [WAIT, "objective a", ATTENTION, VALIDATION].map(|name| seconds(&times, name));
    assert!(wait >= 0.006 && objective >= 0.012 && attention >= 0.024 && validation >= 0.018, "{:?}", times.parts);
    assert!(objective < attention + 0.012, "nested time does not count for the outer part: {:?}", times.parts);
    assert!(seconds(&times, NORM) < 1e-12, "parts within a validation are not timed");
    let all: f64 = times.parts.iter().filter(|part| part.name != VALIDATION).map(|part| part.host_s).sum();
    let steps: f64 = times.steps.iter().sum();
    assert!(times.steps.len() == 3 && (all - steps).abs() < 1e-9 + 0.01 * steps, "{all} {steps}");
    let typical = times.typical.expect("there were steps");
    let sliced: f64 = typical.host.iter().map(|slice| slice.to_s - slice.from_s).sum();
    assert!((sliced - typical.seconds).abs() < 1e-6, "{sliced} {}", typical.seconds);
    assert!(typical.device.is_none() && times.parts.iter().all(|part| part.device_s.is_none()));
    assert_eq!((times.owners, times.memory.len(), times.failure), (vec![("weights", 4)], 3, None));
}

#[test]
fn without_a_timer_nothing_is_kept() {
    assert_eq!(timed(WAIT, || 7), 7);
    step_is_over();
    assert!(end().is_none());
    // The timer starts within a part, so that part ends without having been opened.
    timed(WAIT, || {
        begin();
        timed(NORM, || ());
    });
    step_is_over();
    let times = end().expect("it was begun");
    assert_eq!(times.steps.len(), 1);
    assert_eq!(times.parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>(), [OTHER, NORM]);
}

#[test]
fn kept_data_is_bounded() {
    begin();
    for step in 0..600 {
        for _ in 0..if step == 599 { SLICES_MAX } else { 1 } {
            timed(WAIT, || ());
        }
        step_is_over();
    }
    let times = end().expect("it was begun");
    assert_eq!(times.steps.len(), 600);
    assert!(times.memory.len() < LOOKS_MAX && times.typical.is_some_and(|step| step.host.len() <= SLICES_MAX));
}
