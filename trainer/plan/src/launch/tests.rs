use super::*;

type Setting = (&'static str, &'static str);

fn parsed(settings: &[Setting]) -> Result<Option<Launch>, String> {
    let find = |name: &str| settings.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    Launch::parse(&find).map_err(|error| {
        assert!(error.is_usage(), "the caller must change the environment: {error}");
        error.to_string()
    })
}

fn launch(settings: &[Setting]) -> Launch {
    parsed(settings).expect("valid").expect("a launcher set them")
}

const TORCHRUN: &[Setting] = &[
    ("RANK", "5"),
    ("WORLD_SIZE", "8"),
    ("LOCAL_RANK", "1"),
    ("LOCAL_WORLD_SIZE", "4"),
    ("MASTER_ADDR", "node1"),
    ("MASTER_PORT", "29511"),
    ("TORCHELASTIC_RUN_ID", "run"),
    ("TORCHELASTIC_RESTART_COUNT", "2"),
    ("TORCHELASTIC_USE_AGENT_STORE", "True"),
];

/// Variables of the second of two tasks, as Slurm 22.05 sets them.
const SRUN: &[Setting] = &[
    ("SLURM_JOB_ID", "12345"),
    ("SLURM_STEP_ID", "3"),
    ("SLURM_PROCID", "9"),
    ("SLURM_NTASKS", "10"),
    ("SLURM_STEP_NUM_TASKS", "10"),
    ("SLURM_LOCALID", "1"),
    ("SLURM_NODEID", "2"),
    ("SLURM_STEP_TASKS_PER_NODE", "4(x2),2"),
    ("SLURM_STEP_NODELIST", "gpu[007-009]"),
    ("SLURM_JOB_NODELIST", "gpu[001-009]"),
];

#[test]
fn torchrun_tells_the_place_and_serves_the_store() {
    let expected = Launch {
        rank: 5,
        world_size: 8,
        local_rank: 1,
        local_world_size: Some(4),
        master_addr: "node1".to_owned(),
        master_port: 29511,
        is_agent_store: true,
        key_prefix: "run/2".to_owned(),
        variables: vec!["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"],
    };
    assert_eq!(launch(TORCHRUN), expected);
    assert_eq!(launch(TORCHRUN).share(), RankShard::new(5, 8).expect("a rank"));
    // torchrun as the only task of `srun` on each of two hosts.
    assert_eq!(launch(&[TORCHRUN, SRUN].concat()), expected);
}

#[test]
fn a_pod_of_pytorchjob_is_rank_zero_of_its_host() {
    let found =
        launch(&[("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "job-master-0"), ("MASTER_PORT", "23456")]);
    assert_eq!((found.rank, found.local_rank, found.local_world_size, found.is_agent_store), (1, 0, None, false));
    assert_eq!((found.master_addr.as_str(), found.master_port, found.key_prefix.as_str()), ("job-master-0", 23456, ""));
    let alone = launch(&[("RANK", "0"), ("WORLD_SIZE", "1")]);
    assert_eq!((alone.master_addr.as_str(), alone.master_port), ("127.0.0.1", 29500));
}

#[test]
fn a_task_of_srun_finds_the_first_host_of_its_step() {
    let found = launch(SRUN);
    assert_eq!((found.rank, found.world_size, found.local_rank, found.local_world_size), (9, 10, 1, Some(2)));
    assert_eq!((found.master_addr.as_str(), found.master_port), ("gpu007", 22348), "20,000 + job + step");
    let named = launch(&[&[("MASTER_ADDR", "other"), ("MASTER_PORT", "1")], SRUN].concat());
    assert_eq!((named.master_addr.as_str(), named.master_port), ("other", 1));
    let on_one_host = launch(&[&[("SLURM_STEP_TASKS_PER_NODE", "10"), ("SLURM_NODEID", "0")], SRUN].concat());
    assert_eq!((on_one_host.master_addr.as_str(), on_one_host.local_world_size), ("127.0.0.1", Some(10)));
}

#[test]
fn a_batch_script_and_an_interactive_shell_of_slurm_are_single_processes() {
    let batch = [("SLURM_JOB_ID", "1"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2"), ("SLURM_LOCALID", "0")];
    assert_eq!(parsed(&batch), Ok(None));
    for reserved in ["4294967290", "4294967291", "4294967292", "4294967293"] {
        assert_eq!(parsed(&[&[("SLURM_STEP_ID", reserved)], &SRUN[2..]].concat()), Ok(None), "{reserved}");
    }
    assert_eq!(parsed(&[]), Ok(None));
    assert_eq!(parsed(&[("RANK", ""), ("WORLD_SIZE", "")]), Ok(None), "empty variables are unset");
}

/// `srun --pty bash`, and the like of other launchers: the named way out leads to a single process.
#[test]
fn a_shell_with_the_variables_of_a_rank_has_a_way_out() {
    let old = [("SLURM_STEPID", "3")];
    let pod = [("RANK", "0"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "a")];
    let mpi = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4"), ("MASTER_ADDR", "a")];
    for settings in [SRUN.to_vec(), [&old, SRUN].concat(), TORCHRUN.to_vec(), pod.to_vec(), mpi.to_vec()] {
        let found = launch(&settings);
        let text = found.origin();
        let names = text.split_once("`env ").expect("a command").1.split(" -u ").map(|it| it.trim_start_matches("-u "));
        let names: Vec<&str> = names.map(|name| name.split(' ').next().expect("a word")).collect();
        assert_eq!(names, found.variables, "{text}");
        let rest: Vec<Setting> = settings.into_iter().filter(|(name, _)| !names.contains(name)).collect();
        assert_eq!(parsed(&rest), Ok(None), "{text}");
    }
    assert!(launch(SRUN).origin().contains("10 ranks come from the environment (SLURM_STEP_ID)"));
}

#[test]
fn mpi_tells_the_place_and_an_address_only_on_one_host() {
    let open_mpi = [
        ("OMPI_COMM_WORLD_RANK", "1"),
        ("OMPI_COMM_WORLD_SIZE", "2"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
    ];
    let found = launch(&open_mpi);
    assert_eq!((found.rank, found.world_size, found.local_rank, found.local_world_size), (1, 2, 1, Some(2)));
    assert_eq!((found.master_addr.as_str(), found.master_port), ("127.0.0.1", 29500));
    let mpich = [("PMI_RANK", "2"), ("PMI_SIZE", "4"), ("MPI_LOCALRANKID", "0"), ("MPI_LOCALNRANKS", "2")];
    let error = parsed(&mpich).expect_err("two hosts");
    assert!(error.contains("MASTER_ADDR is not set, and PMI_RANK does not tell the host of rank 0"), "{error}");
    let found = launch(&[&[("MASTER_ADDR", "fd00::1")], &mpich[..]].concat());
    assert_eq!((found.rank, found.local_rank, found.master_addr.as_str()), (2, 0, "fd00::1"));
    // `mpirun` starts its daemons with `srun`, one for each host.
    assert_eq!(launch(&[&open_mpi, SRUN].concat()).rank, 1);
}

#[test]
fn wrong_variables_are_named() {
    let cases: &[(&[Setting], &str)] = &[
        (&[("RANK", "1")], "RANK=1 is set, but WORLD_SIZE is not: set both, or unset RANK"),
        (&[("WORLD_SIZE", "2")], "WORLD_SIZE=2 is set, but RANK is not"),
        (&[("LOCAL_RANK", "0")], "LOCAL_RANK=0 is set, but RANK is not"),
        (&[("OMPI_COMM_WORLD_SIZE", "2")], "OMPI_COMM_WORLD_SIZE=2 is set, but OMPI_COMM_WORLD_RANK is not"),
        (&[("PMI_RANK", "0")], "PMI_RANK=0 is set, but PMI_SIZE is not"),
        (&[("SLURM_STEP_ID", "0")], "SLURM_STEP_ID is set, but SLURM_PROCID and SLURM_STEP_NUM_TASKS are not"),
        (&[("SLURM_STEP_ID", "0"), ("SLURM_PROCID", "0")], "SLURM_PROCID=0 is set, but SLURM_STEP_NUM_TASKS is not"),
        (&[("SLURM_STEP_ID", "x")], "SLURM_STEP_ID=\"x\": not a number"),
        (&[("RANK", "2"), ("WORLD_SIZE", "2")], "RANK=2, but WORLD_SIZE=2: ranks count from 0"),
        (&[("RANK", "0"), ("WORLD_SIZE", "0")], "WORLD_SIZE=0: a run has at least one rank"),
        (&[("RANK", "0"), ("WORLD_SIZE", "65537")], "WORLD_SIZE=65537: a run has at most 65536 ranks"),
        (&[("RANK", "-1"), ("WORLD_SIZE", "2")], "RANK=\"-1\": not a number from 0 to 4294967295"),
        (&[("RANK", "1 "), ("WORLD_SIZE", "2")], "RANK=\"1 \": not a number"),
        (&[("RANK", "0"), ("WORLD_SIZE", "two")], "WORLD_SIZE=\"two\": not a number"),
        (&[("RANK", "0"), ("WORLD_SIZE", "2")], "MASTER_ADDR is not set"),
        (&[("MASTER_ADDR", "a b"), ("RANK", "0"), ("WORLD_SIZE", "2")], "MASTER_ADDR=\"a b\": not a host name"),
        (
            &[("MASTER_PORT", "0"), ("MASTER_ADDR", "a"), ("RANK", "0"), ("WORLD_SIZE", "2")],
            "MASTER_PORT=\"0\": not a port from 1 to 65535",
        ),
        (
            &[("LOCAL_RANK", "2"), ("LOCAL_WORLD_SIZE", "2"), ("RANK", "2"), ("WORLD_SIZE", "4")],
            "LOCAL_RANK=2, but LOCAL_WORLD_SIZE=2: local ranks count from 0",
        ),
        (&[("LOCAL_WORLD_SIZE", "4"), ("RANK", "0"), ("WORLD_SIZE", "2")], "LOCAL_WORLD_SIZE=4 is above WORLD_SIZE=2"),
    ];
    for (settings, expected) in cases {
        let error = parsed(settings).expect_err(expected);
        assert!(error.starts_with(expected), "{error}\nexpected: {expected}");
    }
    let unreadable = [&[("SLURM_STEP_NODELIST", "gpu[")], SRUN].concat();
    let error = parsed(&unreadable).expect_err("not a list");
    assert!(
        error.starts_with("SLURM_STEP_NODELIST=\"gpu[\": not a list of hosts of Slurm; set MASTER_ADDR"),
        "{error}"
    );
}

#[test]
fn two_launchers_that_disagree_are_named() {
    let stale = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "node1")];
    let error = parsed(&[&stale, SRUN].concat()).expect_err("they disagree");
    let expected = "two launchers disagree about this process: RANK=0, WORLD_SIZE=2, but SLURM_PROCID=9, \
                    SLURM_STEP_NUM_TASKS=10; unset the variables of the launcher that did not start it \
                    (`env -u SLURM_PROCID …`)";
    assert_eq!(error, expected);
    let copied = [("RANK", "9"), ("WORLD_SIZE", "10"), ("MASTER_ADDR", "node1")];
    assert_eq!(launch(&[&copied, SRUN].concat()).rank, 9, "a script copied Slurm's variables");
}

#[test]
fn host_lists_and_task_counts_of_slurm_are_read_or_refused() {
    let hosts = [
        ("vm", Some("vm")),
        ("a,b", Some("a")),
        ("gpu[007-009,12]", Some("gpu007")),
        ("gpu[12,7-9],cpu1", Some("gpu12")),
        ("rack[1-2]n[03-12]-ib,x", Some("rack1n03-ib")),
        ("10.0.0.1", Some("10.0.0.1")),
        ("", None),
        (",a", None),
        ("[", None),
        ("a[", None),
        ("a[]", None),
        ("a[x-y]", None),
        ("a]b", None),
        ("a[1-2]]", None),
        ("a[[1]]", None),
    ];
    for (list, host) in hosts {
        assert_eq!(slurm::first_host(list).as_deref(), host, "{list}");
    }
    let tasks = [("4(x2),3", 0, Some(4)), ("4(x2),3", 1, Some(4)), ("4(x2),3", 2, Some(3)), ("4(x2),3", 3, None)];
    for (counts, node, expected) in tasks {
        assert_eq!(slurm::tasks_of_node(counts, node), expected, "{counts} of node {node}");
    }
    for broken in ["", "x", "4(x", "4(x)", "4(xz),1", "0", "1(x4294967295),1(x4294967295)"] {
        assert_eq!(slurm::tasks_of_node(broken, u32::MAX), None, "{broken}");
    }
}

#[test]
fn variables_are_read_or_refused_whatever_they_hold() {
    let seeds = vec![b"gpu[007-009]\x004(x2),3\x003\x009\x0010\x001".to_vec(), b"a\x00\x00\x00".to_vec()];
    fuzz::target!("launch", seeds, |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let values: Vec<&str> = text.split('\0').collect();
        let names = [
            "SLURM_STEP_NODELIST",
            "SLURM_STEP_TASKS_PER_NODE",
            "SLURM_STEP_ID",
            "SLURM_PROCID",
            "SLURM_NTASKS",
            "SLURM_NODEID",
            "MASTER_PORT",
            "SLURM_LOCALID",
            "SLURM_JOB_ID",
        ];
        let find = |name: &str| Some((*values.get(names.iter().position(|it| *it == name)?)?).to_owned());
        if let Ok(Some(launch)) = Launch::parse(&find) {
            assert!(launch.rank < launch.world_size && launch.world_size <= MAX_WORLD_SIZE && launch.master_port > 0);
            assert!(!launch.master_addr.is_empty() && !launch.master_addr.contains(['[', ',']));
        }
    });
}
