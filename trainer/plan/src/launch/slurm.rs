//! Host lists, task counts and ports of Slurm.

/// Lowest port for the store of a step. The ports of clients begin at 32,768 on Linux.
const FIRST_PORT: u16 = 20_000;
/// Number of ports for stores.
const PORTS: u64 = 10_000;

/// Returns the first host of a list such as `rack[1-2,7]n[03-12],login`. `None` if it is not such a list.
pub(super) fn first_host(list: &str) -> Option<String> {
    let mut host = String::new();
    let mut rest = list;
    loop {
        let end = rest.find(['[', ',', ']']).unwrap_or(rest.len());
        host.push_str(&rest[..end]);
        rest = &rest[end..];
        if !rest.starts_with('[') {
            break;
        }
        let (numbers, behind) = rest[1..].split_once(']')?;
        let first = numbers.split([',', '-']).next().filter(|first| is_number(first))?;
        host.push_str(first);
        rest = behind;
    }
    (!host.is_empty() && !rest.starts_with(']')).then_some(host)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the tasks of a node from counts such as `4(x2),3`: 4 tasks on the nodes 0 and 1, and 3 on node 2.
pub(super) fn tasks_of_node(counts: &str, node: u32) -> Option<u32> {
    let mut next = 0_u32;
    for entry in counts.split(',') {
        let (tasks, nodes) = match entry.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse().ok()?),
            None => (entry, 1),
        };
        next = next.checked_add(nodes)?;
        if node < next {
            return tasks.parse().ok().filter(|tasks| *tasks > 0);
        }
    }
    None
}

/// Returns the port of a step's store. Steps that run at the same time on one host have different ones, as far as
/// 10,000 ports allow.
pub(super) fn port(job: u64, step: u64) -> u16 {
    let offset = job.wrapping_add(step) % PORTS;
    FIRST_PORT + u16::try_from(offset).expect("below the number of ports")
}
