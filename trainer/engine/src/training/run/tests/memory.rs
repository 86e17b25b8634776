use trainer_plan::device::DeviceChoice;

use super::*;

/// Reports and the stop event have the memory of the device's allocator, and no memory on the CPU.
#[test]
fn a_run_on_a_device_reports_its_memory() {
    if !pretend_cuda::is_here(module_path!(), "a_run_on_a_device_reports_its_memory") {
        return;
    }
    let _alone = testing::generator();
    let memory_on = |device: DeviceChoice| {
        let mut request = testing::request();
        request.train.device = device;
        let plan = testing::checked(request);
        pretend_cuda::Counts::start();
        let ran = train_with(&calm(), &plan, ApiError::default());
        let counted = pretend_cuda::Counts::read().map(|counts| counts.peak_bytes);
        let reports = ran.events.iter().filter_map(|event| match &event.what {
            EventKind::Report(report) => Some(report.memory),
            _ => None,
        });
        let reports: Vec<_> = reports.collect();
        let EventKind::Stop(stop) = &ran.events.last().expect("some").what else { panic!("a stop event comes last") };
        (reports, stop.memory, counted, plan.memory().total())
    };
    let (reports, peak, ..) = memory_on(DeviceChoice::Cpu);
    assert!(reports.iter().all(Option::is_none) && peak.is_none());
    let (reports, peak, counted, planned) = memory_on(DeviceChoice::Cuda(0));
    let peak = peak.expect("it is CUDA");
    let each: Vec<u64> = reports.iter().map(|memory| memory.expect("it is CUDA").allocated_peak_bytes).collect();
    assert!(each.len() == 4 && each.iter().all(|bytes| *bytes > 0 && *bytes <= peak.peak_bytes), "{each:?}, {peak:?}");
    assert!((peak.planned_bytes as f64 - planned).abs() < 1.0, "{peak:?}");
    if let Some(counted) = counted {
        // Blocks are rounded up to 512 bytes, and there are some hundreds of them here.
        assert!(peak.peak_bytes >= counted && peak.peak_bytes < counted + (1 << 20), "{counted} of {peak:?}");
    }
}
