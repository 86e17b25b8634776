//! Ranks that do not come, differ, or fail.

use std::sync::{Arc, Barrier};

use super::*;

fn text<T: fmt::Debug>(result: Result<T, Error>) -> String {
    result.expect_err("a rank failed").to_string()
}

#[test]
fn a_rank_that_never_joins_is_named() {
    let store = serve();
    let join = |rank: u32| {
        let launch = launch(rank, 3, &store);
        let limit = Some(Duration::from_secs(3));
        runtime::spawn("rank", move || text(C10dGroup::join(&launch, limit))).expect("a thread")
    };
    for thread in [join(0), join(1)] {
        let error = thread.join().expect("no panic");
        let expected = "rank 2 did not join within 3 s: rank ";
        assert!(error.starts_with(expected) && error.contains("waits at the store at 127.0.0.1:"), "{error}");
    }
}

#[test]
fn a_rank_that_does_not_come_to_an_operation_is_named() {
    let others_have_ended = Arc::new(Barrier::new(3));
    let errors = on_ranks(3, Some(Duration::from_secs(8)), move |rank, group| {
        group.barrier("the start").expect("all ranks come");
        if rank == 2 {
            others_have_ended.wait();
            // The others have sent their counts before they gave up.
            let error = (0..2).find_map(|_| group.sum(&mut [1.0]).err());
            return error.expect("the others have failed").to_string();
        }
        let error = text(group.sum(&mut [1.0]));
        others_have_ended.wait();
        error
    });
    for error in errors {
        let expected = "rank 2 did not come to operation 2, the gather of counts: rank 2 has computed for ";
        let waited = " waited in operation 2, the gather of counts: no answer for 4 s";
        assert!(error.starts_with(expected) && error.contains(waited), "{error}");
        assert!(error.contains(" s since operation 1, the gather of the start; rank "), "{error}");
    }
}

#[test]
fn a_rank_that_fails_tells_the_others_why() {
    let errors = on_ranks(3, NO_LIMIT, |rank, group| {
        if rank == 1 {
            group.abort("out of memory");
        }
        text(group.gather("contents", &[]))
    });
    assert_eq!(errors, ["rank 1 failed: out of memory"; 3]);
}

#[test]
fn a_rank_that_leaves_before_the_end_fails_the_others() {
    let errors = on_ranks(2, NO_LIMIT, |rank, group| (rank == 0).then(|| text(group.gather("contents", &[]))));
    let expected = "rank 1 failed: it stopped before the end of the run; the cause is in its log";
    assert_eq!(errors, [Some(expected.to_owned()), None]);
}

#[test]
fn ranks_that_run_different_programs_do_not_wait_for_each_other() {
    let errors = on_ranks(2, NO_LIMIT, |rank, group| match rank {
        0 => text(group.sum(&mut [1.0])),
        _ => text(group.stop(None)),
    });
    let expected = "the ranks do not run in step: rank 0 is in operation 1, the gather of counts, but rank 1 is in operation \
                    1, the gather of stop requests: all ranks must run the same program and plan";
    assert_eq!(errors, [expected; 2]);
    let errors = on_ranks(2, NO_LIMIT, |rank, group| text(group.sum(&mut vec![1.0; 1 + usize::from(rank == 1)])));
    assert_eq!(errors[0], "rank 1 sums 2 counts, but this rank 1: the ranks do not run the same plan");
    assert_eq!(errors[1], "rank 0 sums 1 counts, but this rank 2: the ranks do not run the same plan");
}

#[test]
fn tensors_that_cannot_be_summed_are_refused() {
    on_ranks(1, NO_LIMIT, |_, group| {
        let half = Tensor::zeros([4], (Kind::Half, Device::Cpu));
        assert_eq!(text(group.all_reduce("gradients", &half)), "gradients: no all-reduce of Half on Cpu");
        let strided = Tensor::zeros([4, 4], (Kind::Float, Device::Cpu)).tr();
        let error = text(group.all_reduce("gradients", &strided));
        assert!(error.contains("not a contiguous tensor in host memory"), "{error}");
        group.finish().expect("the end");
    });
}

#[test]
fn a_second_run_on_the_same_port_is_refused() {
    let store = serve();
    let port = store.port();
    let server = Launch { is_agent_store: false, ..launch(0, 2, &store) };
    let error = text(C10dGroup::join(&server, Some(Duration::from_secs(60))));
    let expected = format!("port {port} of this host, for the store of rank 0, is in use: another run uses it; ");
    assert!(error.starts_with(&expected), "{error}");

    let [first, second] = [launch(1, 2, &store), launch(1, 2, &store)];
    let limit = Some(Duration::from_secs(3));
    let threads = [first, second].map(|launch| runtime::spawn("rank", move || text(C10dGroup::join(&launch, limit))));
    let errors: Vec<String> =
        threads.into_iter().map(|thread| thread.and_then(runtime::NamedThread::join).expect("no panic")).collect();
    let has = |part: &str| errors.iter().any(|error| error.starts_with(part));
    assert!(has("rank 1 has already joined at the store at ") && has("rank 0 did not join within 3 s"), "{errors:?}");
    let error = text(C10dGroup::join(&launch(0, 3, &store), limit));
    assert!(
        error.starts_with("rank 0 was started with 3 ranks, but the store at ") && error.contains("with 2 ranks"),
        "{error}"
    );
}

#[test]
fn a_store_that_is_not_served_is_named() {
    let store = serve();
    let alone = launch(1, 2, &store);
    drop(store);
    let error = text(C10dGroup::join(&alone, Some(Duration::from_secs(1))));
    let port = alone.master_port;
    let expected =
        format!("rank 1 of 2 does not reach the store at 127.0.0.1:{port} (served by torchrun) within 1 s (");
    assert!(error.starts_with(&expected) && error.contains("check MASTER_ADDR and MASTER_PORT"), "{error}");
}

#[test]
fn a_port_of_another_program_is_named() {
    let other = std::net::TcpListener::bind((LOOPBACK, 0)).expect("a free port");
    let port = other.local_addr().expect("bound").port();
    let store = serve();
    let alone = Launch { master_port: port, ..launch(1, 2, &store) };
    runtime::spawn("other", move || other.incoming().for_each(drop)).expect("a thread");
    let error = text(C10dGroup::join(&alone, Some(Duration::from_secs(2))));
    let store = format!("the store at 127.0.0.1:{port} (served by torchrun)");
    assert!(error.starts_with("rank 1 of 2 ") && error.contains(&store) && !error.contains('\n'), "{error}");
}
