//! Connection of all ranks: the store, the keys by which ranks find each other, and the process group.

use std::net::{IpAddr, TcpStream, ToSocketAddrs as _};
use std::thread::sleep;
use std::time::{Duration, Instant};

use trainer_plan::Error;
use trainer_plan::launch::Launch;

use super::failure::{error, reason, short_list};
use super::grid::Connections;
use super::shared::{Limits, MAX_TIMEOUT};
use crate::device::native::c10d::{GlooGroup, GroupPlace, KeyStore, StoreAddress};

/// Interval between two attempts.
const POLL: Duration = Duration::from_millis(50);
/// Additional interval for each rank, so that a thousand ranks do not overload the store.
const POLL_PER_RANK: Duration = Duration::from_micros(200);
/// Maximum time of one attempt to connect to the store.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Time limit of c10d if a run has none.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);
/// Variable of c10d that names the network interface for Gloo.
const INTERFACE: &str = "GLOO_SOCKET_IFNAME";

/// Connections of a rank.
#[derive(Debug)]
pub(super) struct Joined {
    /// Store of the run.
    pub store: KeyStore,
    /// Connections to the other ranks.
    pub connections: Connections,
}

/// Own address and the address of the store on one connection between the two.
#[derive(Clone, Copy, Debug)]
struct Route {
    own: IpAddr,
    store: IpAddr,
}

/// Time limit of joining.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    begun: Instant,
    limit: Option<Duration>,
}

impl Deadline {
    fn left(self) -> Duration {
        self.limit.map_or(NO_LIMIT, |limit| limit.saturating_sub(self.begun.elapsed()))
    }

    fn text(self) -> String {
        format!("within {} s", self.limit.unwrap_or(NO_LIMIT).as_secs_f64())
    }
}

/// Returns whether this process serves the store.
pub(super) fn is_server(launch: &Launch) -> bool {
    launch.rank == 0 && !launch.is_agent_store
}

/// Returns the address of the store and who serves it, for errors.
pub(super) fn place(launch: &Launch) -> String {
    let server = if launch.is_agent_store { "torchrun" } else { "rank 0" };
    format!("the store at {}:{} (served by {server})", launch.master_addr, launch.master_port)
}

/// Connects this rank to all others within the limit.
pub(super) fn join(launch: &Launch, limits: Limits) -> Result<Joined, Error> {
    let deadline = Deadline { begun: Instant::now(), limit: limits.total };
    join_until(launch, limits, deadline).map_err(|problem| match problem {
        Error::Native(_) => error(format!(
            "{} lost {} while the ranks joined ({}): check the log of its server, and that no other program uses the port",
            launch.share(),
            place(launch),
            reason(&problem)
        )),
        other => other,
    })
}

fn join_until(launch: &Launch, limits: Limits, deadline: Deadline) -> Result<Joined, Error> {
    let address = StoreAddress { host: &launch.master_addr, port: launch.master_port, prefix: &launch.key_prefix };
    let (store, route) = if is_server(launch) {
        let store = KeyStore::open(address, true, deadline.left()).map_err(|problem| not_served(launch, &problem))?;
        (store, reach(launch, deadline)?)
    } else {
        // c10d writes a stack trace to stderr for each failed attempt.
        let route = reach(launch, deadline)?;
        (KeyStore::open(address, false, deadline.left().max(ATTEMPT))?, route)
    };
    announce(launch, &store, route)?;
    wait_for_all(launch, &store, deadline)?;
    let own = own_address(&store, route)?;
    // The caller of an operation notices its end; this limit is for those whose caller has failed.
    let of_operations = limits.total.unwrap_or(MAX_TIMEOUT);
    let connect = |place: GroupPlace<'_>| {
        let timeout = deadline.left().max(ATTEMPT);
        GlooGroup::connect(&store, place, own.as_deref(), timeout, of_operations).map_err(|problem| {
            let own = own.as_deref().unwrap_or(INTERFACE);
            let GroupPlace { prefix, ranks, .. } = place;
            let group = format!("the {ranks} ranks of its group `{prefix}`");
            error(format!("{} cannot connect to {group} from {own}: {}", launch.share(), reason(&problem)))
        })
    };
    let connections = Connections::new(launch.rank, launch.world_size, connect)?;
    Ok(Joined { store, connections })
}

fn not_served(launch: &Launch, problem: &Error) -> Error {
    let port = launch.master_port;
    if problem.to_string().contains("EADDRINUSE") {
        return error(format!(
            "port {port} of this host, for the store of rank 0, is in use: another run uses it; set MASTER_PORT to a free \
             port on all ranks, or end the other run"
        ));
    }
    error(format!("rank 0 cannot serve the store at {}:{port}: {}", launch.master_addr, reason(problem)))
}

/// Waits until the store accepts connections.
fn reach(launch: &Launch, deadline: Deadline) -> Result<Route, Error> {
    loop {
        let attempt = connect(&launch.master_addr, launch.master_port, deadline.left().min(ATTEMPT));
        let problem = match attempt {
            Ok(route) => return Ok(route),
            Err(problem) => problem,
        };
        if deadline.left().is_zero() {
            return Err(error(format!(
                "{} does not reach {} {} ({problem}): check MASTER_ADDR and MASTER_PORT, and the log of its server; {}",
                launch.share(),
                place(launch),
                deadline.text(),
                launch.origin()
            )));
        }
        sleep(POLL);
    }
}

fn connect(host: &str, port: u16, limit: Duration) -> std::io::Result<Route> {
    let mut problem = std::io::Error::other("the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit.max(POLL)) {
            Ok(stream) => return Ok(Route { own: stream.local_addr()?.ip(), store: address.ip() }),
            Err(found) => problem = found,
        }
    }
    Err(problem)
}

/// Enters this rank into the store.
fn announce(launch: &Launch, store: &KeyStore, route: Route) -> Result<(), Error> {
    let Launch { rank, world_size, .. } = launch;
    let found = store.set_first("world_size", world_size.to_string().as_bytes())?;
    if found != world_size.to_string().as_bytes() {
        return Err(error(format!(
            "rank {rank} was started with {world_size} ranks, but {} belongs to a run with {} ranks: another run uses it; \
             set MASTER_PORT to a free port on all ranks",
            place(launch),
            String::from_utf8_lossy(&found)
        )));
    }
    if store.add(&format!("ranks/{rank}"), 1)? > 1 {
        return Err(error(format!(
            "rank {rank} has already joined at {}: two processes have this rank, or only this process was restarted; start \
             all ranks again",
            place(launch)
        )));
    }
    if !route.own.is_loopback() {
        store.set_first("address", route.store.to_string().as_bytes())?;
    }
    store.add("joined", 1)?;
    Ok(())
}

fn wait_for_all(launch: &Launch, store: &KeyStore, deadline: Deadline) -> Result<(), Error> {
    while store.add("joined", 0)? < i64::from(launch.world_size) {
        if deadline.left().is_zero() {
            let has_joined = |rank: u32| store.get(&format!("ranks/{rank}")).map(|found| found.is_some());
            let mut missing = Vec::new();
            for rank in 0..launch.world_size {
                if !has_joined(rank)? {
                    missing.push(rank);
                }
            }
            return Err(error(format!(
                "{} did not join {}: {} waits at {}; check that the launcher started all ranks, and their logs; {}",
                short_list(&missing),
                deadline.text(),
                launch.share(),
                place(launch),
                launch.origin()
            )));
        }
        sleep(POLL + POLL_PER_RANK * launch.world_size);
    }
    Ok(())
}

/// Returns the address of this host for the other ranks. `None` leaves the choice to c10d.
///
/// It is the address from which this host reaches the store. If that is a loopback address, this host serves the store,
/// and ranks of other hosts have entered the address by which they reach it. Without such ranks, loopback suffices.
fn own_address(store: &KeyStore, route: Route) -> Result<Option<String>, Error> {
    if std::env::var_os(INTERFACE).is_some() {
        return Ok(None);
    }
    let entered = if route.own.is_loopback() { store.get("address")? } else { None };
    let Some(entered) = entered else { return Ok(Some(route.own.to_string())) };
    let entered = String::from_utf8_lossy(&entered).into_owned();
    match entered.parse::<IpAddr>() {
        Ok(address) => Ok(Some(address.to_string())),
        Err(_) => {
            Err(error(format!("{entered:?} in the store is not an address: set {INTERFACE} to a network interface")))
        }
    }
}
