use telemetry::training::SpikeMetric;
use trainer_plan::config::SpikeAction;

use super::spike_detector::LEAST;
use super::*;
use crate::device::tensors::HostTensor;

fn config() -> SpikeGuardConfig {
    SpikeGuardConfig { loss_sigmas: 5.0, norm_sigmas: 5.0, window: 40, ..SpikeGuardConfig::default() }
}

fn guard() -> Guard {
    Guard::new(&config(), 4, Device::Cpu)
}

/// A loss that scatters by ±0.1 around 3 and a norm of 1.
fn usual(step: usize) -> Observed {
    Observed { loss: 3.0 + 0.1 * (step % 3) as f64 - 0.1, norm: 1.0 }
}

fn steps(count: usize) -> Vec<Observed> {
    (0..count).map(usual).collect()
}

#[test]
fn a_leap_is_measured_in_robust_sigmas() {
    let mut guard = guard();
    assert_eq!(guard.judge(&steps(33)), []);
    // Of 2.9, 3.0, 3.1 in equal parts the median is 3.0, and the median distance from it 0.1.
    let found = guard.judge(&[Observed { loss: 4.0, norm: 1.0 }]);
    let [(0, leap)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((leap.figure, leap.value), (SpikeMetric::Loss, 4.0));
    assert!((leap.median - 3.0).abs() < 1e-12 && (leap.sigmas - 1.0 / 0.148_26).abs() < 1e-9, "{leap:?}");
    assert_eq!(guard.judge(&[Observed { loss: 3.7, norm: 1.0 }]), [], "4.7 sigmas");
    assert_eq!(guard.judge(&[Observed { loss: 0.1, norm: 1.0 }]), [], "nobody minds a loss that falls");
    // Norms that are all alike: a thousandth of them is the least sigma.
    let found = guard.judge(&[Observed { loss: 3.0, norm: 1.004 }, Observed { loss: 3.0, norm: 1.006 }]);
    assert!(matches!(found.as_slice(), [(1, Spike { figure: SpikeMetric::GradNorm, .. })]), "{found:?}");
}

#[test]
fn nothing_is_judged_before_it_is_known_what_is_usual() {
    let wild = Observed { loss: 1e9, norm: 1e9 };
    let mut early = guard();
    early.judge(&steps(LEAST - 1));
    assert_eq!(early.judge(&[wild]), []);
    let mut known = guard();
    known.judge(&steps(LEAST));
    assert_eq!(known.judge(&[wild]).len(), 1);
}

#[test]
fn what_is_not_finite_is_neither_judged_nor_remembered() {
    let mut guard = guard();
    guard.judge(&steps(LEAST - 1));
    assert_eq!(guard.judge(&[Observed { loss: f64::NAN, norm: f64::INFINITY }; 50]), []);
    let (losses, norms) = guard.judge.remembered();
    assert_eq!((losses.len(), norms.len()), (LEAST - 1, LEAST - 1));
}

#[test]
fn a_level_that_stays_becomes_the_usual_one() {
    let mut guard = guard();
    guard.judge(&steps(40));
    let higher: Vec<_> = steps(80).into_iter().map(|step| Observed { loss: step.loss + 1.0, ..step }).collect();
    let spike_step = guard.judge(&higher).len();
    assert!((10..=30).contains(&spike_step), "{spike_step} of 80: about half a window");
}

#[test]
fn a_rule_that_is_off_and_no_sigmas_judge_nothing() {
    for config in [
        SpikeGuardConfig { action: SpikeAction::Off, ..config() },
        SpikeGuardConfig { loss_sigmas: 0.0, norm_sigmas: 0.0, ..config() },
    ] {
        let mut guard = Guard::new(&config, 4, Device::Cpu);
        guard.judge(&steps(40));
        assert_eq!(guard.judge(&[Observed { loss: 1e9, norm: 1e9 }]), []);
    }
}

/// Also where reports are to be rarer or more frequent than they were.
#[test]
fn a_guard_goes_on_where_it_was_saved() {
    for every_steps in [1, 4, 9] {
        let mut guard = guard();
        guard.judge(&steps(LEAST + 3));
        for step in 0..3 {
            let _ = guard.ring.loss().fill_(usual(step).loss);
            let _ = guard.ring.norm().fill_(usual(step).norm);
            guard.ring.advance();
        }
        let (tensors, saved) = guard.save();
        let kept = |(name, tensor)| (name, HostTensor::copy_of(tensor).expect("float64"));
        let tensors: HostTensors = tensors.into_iter().map(kept).collect();
        let json = serde_json::to_string(&saved).expect("plain data");
        let saved: SavedGuard = serde_json::from_str(&json).expect("as written");
        let mut other = Guard::new(&config(), every_steps, Device::Cpu);
        other.load(&tensors, &saved, Device::Cpu).expect("complete");
        let read = Vec::<f64>::try_from(&other.ring.unread()).expect("float64");
        assert_eq!(Observed::all(&read), steps(3));
        assert_eq!(other.judge.remembered(), guard.judge.remembered());
        assert!(!other.ring.is_full(), "there is room for the next step");
        other.ring.advance();
        assert_eq!((other.ring.filled(), other.ring.is_full()), (4, every_steps < 5));
        let saved = SavedGuard { unread: 5, ..saved };
        let problem = other.load(&tensors, &saved, Device::Cpu).expect_err("the ring has four");
        assert!(problem.contains("`guard.ring` has 5 rows, one of them spare, and 5"), "{problem}");
    }
}
