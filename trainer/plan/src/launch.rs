//! Place of a process among the ranks of a run, from the environment variables of its launcher.
//!
//! | launcher | rank | world size | local rank | address of the store |
//! |---|---|---|---|---|
//! | torchrun, Kubernetes | `RANK` | `WORLD_SIZE` | `LOCAL_RANK` | `MASTER_ADDR`, `MASTER_PORT` |
//! | Open MPI | `OMPI_COMM_WORLD_RANK` | `OMPI_COMM_WORLD_SIZE` | `OMPI_COMM_WORLD_LOCAL_RANK` | as torchrun |
//! | other MPI | `PMI_RANK` | `PMI_SIZE` | `MPI_LOCALRANKID`, `PMI_LOCAL_RANK` | as torchrun |
//! | `srun` | `SLURM_PROCID` | `SLURM_STEP_NUM_TASKS`, `SLURM_NTASKS` | `SLURM_LOCALID` | first host of the step |
//!
//! The first row whose variables are set is used, and an empty variable is unset. `RANK` must agree with the other
//! rows, unless torchrun set it: a launcher inside `srun` starts other processes than `srun`. `mpirun` uses `srun` for
//! its own daemons, so the rows of MPI and of Slurm are not compared.
//!
//! A Slurm batch script also has `SLURM_PROCID=0` and `SLURM_NTASKS=n`, but is a single process. Only the tasks that
//! `srun` starts have `SLURM_STEP_ID` (Slurm 22.05), and interactive shells of `salloc` have a reserved one.

mod slurm;
#[cfg(test)]
mod tests;

use schemas::RankShard;

use crate::error::Error;

/// Maximum number of ranks of a run.
pub const MAX_WORLD_SIZE: u32 = 65_536;

/// Default port of c10d's store.
const DEFAULT_PORT: u16 = 29_500;

/// Address of the store if all ranks are on one host.
const LOOPBACK: &str = "127.0.0.1";

/// Lowest of the step ids that Slurm reserves for steps which are not parallel: interactive, batch, extern, pending.
const FIRST_RESERVED_STEP: u64 = 0xffff_fff0;

/// Place of a process among the ranks of a run, and the address of the store through which they connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Number of this process, counted from 0.
    pub rank: u32,
    /// Number of ranks.
    pub world_size: u32,
    /// Number of this process among those of its host, counted from 0. It selects the CUDA device.
    pub local_rank: u32,
    /// Number of ranks on this host. `None` if the launcher does not tell.
    pub local_world_size: Option<u32>,
    /// Host name or address of the store.
    pub master_addr: String,
    /// Port of the store.
    pub master_port: u16,
    /// Whether torchrun serves the store. Otherwise rank 0 does.
    pub is_agent_store: bool,
    /// Prefix of the keys in the store: another one after each restart by torchrun, whose store survives restarts.
    pub key_prefix: String,
    /// Variables without which this process is a single one.
    pub variables: Vec<&'static str>,
}

/// Variables of a launcher. Of several names, the first that is set is used.
#[derive(Debug)]
struct Scheme {
    rank: &'static str,
    world_size: &'static [&'static str],
    local_rank: &'static [&'static str],
    local_world_size: &'static [&'static str],
}

const TORCH: Scheme = Scheme {
    rank: "RANK",
    world_size: &["WORLD_SIZE"],
    local_rank: &["LOCAL_RANK"],
    local_world_size: &["LOCAL_WORLD_SIZE"],
};

const OPEN_MPI: Scheme = Scheme {
    rank: "OMPI_COMM_WORLD_RANK",
    world_size: &["OMPI_COMM_WORLD_SIZE"],
    local_rank: &["OMPI_COMM_WORLD_LOCAL_RANK"],
    local_world_size: &["OMPI_COMM_WORLD_LOCAL_SIZE"],
};

const PMI: Scheme = Scheme {
    rank: "PMI_RANK",
    world_size: &["PMI_SIZE"],
    local_rank: &["MPI_LOCALRANKID", "PMI_LOCAL_RANK"],
    local_world_size: &["MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"],
};

const SLURM: Scheme = Scheme {
    rank: "SLURM_PROCID",
    world_size: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
    local_rank: &["SLURM_LOCALID"],
    // In `SLURM_STEP_TASKS_PER_NODE`.
    local_world_size: &[],
};

/// Names of the number of a step of Slurm.
const SLURM_STEP: [&str; 2] = ["SLURM_STEP_ID", "SLURM_STEPID"];

impl Launch {
    /// Reads the environment of this process. `None` if no launcher started it.
    ///
    /// # Errors
    /// [`Error::Config`] if variables are incomplete, invalid or contradict each other.
    pub fn from_env() -> Result<Option<Self>, Error> {
        Self::parse(&|name| std::env::var_os(name).map(|text| text.to_string_lossy().into_owned()))
    }

    /// Reads the variables that `environment` returns by name. `None` if no launcher set them.
    ///
    /// # Errors
    /// [`Error::Config`] if variables are incomplete, invalid or contradict each other.
    pub fn parse(environment: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, Error> {
        let variables = Variables(environment);
        let Some(place) = variables.place()? else { return Ok(None) };
        let is_agent_store = variables.text("TORCHELASTIC_USE_AGENT_STORE").as_deref() == Some("True");
        let restart = variables.text("TORCHELASTIC_RESTART_COUNT").unwrap_or_default();
        let run = variables.text("TORCHELASTIC_RUN_ID").map(|run| format!("{run}/{restart}"));
        Ok(Some(Self {
            master_addr: variables.master_addr(&place)?,
            master_port: variables.master_port()?,
            is_agent_store,
            key_prefix: run.unwrap_or_default(),
            variables: variables.of_launcher(&place),
            rank: place.rank.value,
            world_size: place.world_size.value,
            local_rank: place.local_rank,
            local_world_size: place.local_world_size,
        }))
    }

    /// Returns where the number of ranks comes from, and how to start a single process instead: a shell within a step of
    /// `srun` has the variables of a rank, but nothing starts the others.
    pub fn origin(&self) -> String {
        let variables = self.variables.join(", ");
        let unset = self.variables.join(" -u ");
        format!(
            "the {} ranks come from the environment ({variables}), which a shell within `srun` or another launcher has too; \
             to start a single process, unset them: `env -u {unset} cloze …`",
            self.world_size
        )
    }

    /// Returns the share of the stream of this rank.
    pub fn share(&self) -> RankShard {
        RankShard::new(self.rank, self.world_size).expect("a rank is below the world size, as `parse` checks")
    }
}

/// Number and the variable that it was read from.
#[derive(Clone, Copy, Debug)]
struct Named {
    name: &'static str,
    value: u32,
}

/// Place of a process, as one launcher says it.
#[derive(Debug)]
struct Place {
    rank: Named,
    world_size: Named,
    local_rank: u32,
    local_world_size: Option<u32>,
}

/// Environment variables by name.
struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Variables<'_> {
    /// Returns the value of a variable; `None` if it is unset or empty.
    fn text(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|text| !text.is_empty())
    }

    fn number(&self, name: &'static str) -> Result<Option<Named>, Error> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.parse() {
            Ok(value) => Ok(Some(Named { name, value })),
            Err(_) => Err(problem(format!("{name}={text:?}: not a number from 0 to {}; check the launcher", u32::MAX))),
        }
    }

    /// Returns the first of the variables that is set.
    fn first(&self, names: &[&'static str]) -> Result<Option<Named>, Error> {
        names.iter().find_map(|name| self.number(name).transpose()).transpose()
    }

    /// Returns the place of this process, as the launcher that started it says it.
    fn place(&self) -> Result<Option<Place>, Error> {
        let torch = self.place_of(&TORCH)?;
        if torch.is_some() && self.text("TORCHELASTIC_RUN_ID").is_some() {
            return Ok(torch);
        }
        let others = [self.place_of(&OPEN_MPI)?, self.place_of(&PMI)?, self.slurm_place()?].into_iter().flatten();
        let Some(torch) = torch else { return Ok({ others }.next()) };
        for other in others {
            if other.rank.value != torch.rank.value || other.world_size.value != torch.world_size.value {
                return Err(disagreement(&torch, &other));
            }
        }
        Ok(Some(torch))
    }

    /// Returns the place that the variables of one launcher say; `None` if none of them is set.
    fn place_of(&self, scheme: &Scheme) -> Result<Option<Place>, Error> {
        let rank = self.number(scheme.rank)?;
        let world_size = self.first(scheme.world_size)?;
        let local_rank = self.first(scheme.local_rank)?;
        let local_world_size = self.first(scheme.local_world_size)?;
        let (Some(rank), Some(world_size)) = (rank, world_size) else {
            let Some(found) = [rank, world_size, local_rank, local_world_size].into_iter().flatten().next() else {
                return Ok(None);
            };
            let missing = if rank.is_none() { scheme.rank } else { scheme.world_size[0] };
            let name = found.name;
            return Err(problem(format!(
                "{name}={} is set, but {missing} is not: set both, or unset {name} to train with one process",
                found.value
            )));
        };
        check_world_size(world_size)?;
        check_below(rank, world_size, "ranks count from 0")?;
        if let (Some(rank), Some(size)) = (local_rank, local_world_size) {
            check_below(rank, size, "local ranks count from 0")?;
        }
        if let Some(local) = local_world_size.filter(|local| local.value > world_size.value) {
            return Err(problem(format!(
                "{}={} is above {}={}: check the launcher",
                local.name, local.value, world_size.name, world_size.value
            )));
        }
        Ok(Some(Place {
            rank,
            world_size,
            local_rank: local_rank.map_or(0, |local| local.value),
            local_world_size: local_world_size.map(|local| local.value),
        }))
    }

    /// Returns the place of a task of `srun`; `None` outside parallel steps.
    fn slurm_place(&self) -> Result<Option<Place>, Error> {
        if self.slurm_step()?.is_none() {
            return Ok(None);
        }
        let Some(place) = self.place_of(&SLURM)? else {
            let names = format!("{} and {} are not", SLURM.rank, SLURM.world_size[0]);
            return Err(problem(format!("SLURM_STEP_ID is set, but {names}: start the program with `srun`")));
        };
        let tasks = self.text("SLURM_STEP_TASKS_PER_NODE");
        let node = self.number("SLURM_NODEID")?.map_or(0, |node| node.value);
        let local_world_size = tasks.and_then(|tasks| slurm::tasks_of_node(&tasks, node));
        let local_world_size = local_world_size.filter(|local| *local <= place.world_size.value);
        Ok(Some(Place { local_world_size, ..place }))
    }

    /// Returns the number of the parallel step of `srun` that this process is a task of.
    fn slurm_step(&self) -> Result<Option<u64>, Error> {
        let step = SLURM_STEP.into_iter().find_map(|name| Some((name, self.text(name)?)));
        let Some((name, text)) = step else { return Ok(None) };
        let number: u64 = text.parse().map_err(|_| problem(format!("{name}={text:?}: not a number; unset it")))?;
        Ok(Some(number).filter(|number| *number < FIRST_RESERVED_STEP))
    }

    /// Returns the set variables by which a launcher tells the place.
    fn of_launcher(&self, place: &Place) -> Vec<&'static str> {
        let scheme = [&TORCH, &OPEN_MPI, &PMI].into_iter().find(|scheme| scheme.rank == place.rank.name);
        let names = match scheme {
            Some(scheme) => {
                let local = [scheme.local_rank, scheme.local_world_size].concat();
                [&[scheme.rank], scheme.world_size, &local].concat()
            }
            // Without a step, a process of Slurm is a single one.
            None => SLURM_STEP.to_vec(),
        };
        names.into_iter().filter(|name| self.text(name).is_some()).collect()
    }

    fn master_addr(&self, place: &Place) -> Result<String, Error> {
        if let Some(host) = self.text("MASTER_ADDR") {
            return checked_host("MASTER_ADDR", host);
        }
        if place.world_size.value == 1 || place.local_world_size == Some(place.world_size.value) {
            return Ok(LOOPBACK.to_owned());
        }
        let list = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"]
            .into_iter()
            .find_map(|name| Some((name, self.text(name)?)))
            .filter(|_| place.rank.name == SLURM.rank);
        let Some((name, list)) = list else {
            return Err(problem(format!(
                "MASTER_ADDR is not set, and {} does not tell the host of rank 0: pass MASTER_ADDR to every process, for \
                 example with `mpirun -x MASTER_ADDR=HOST`",
                place.rank.name
            )));
        };
        let host = slurm::first_host(&list).ok_or_else(|| {
            problem(format!("{name}={list:?}: not a list of hosts of Slurm; set MASTER_ADDR to the host of rank 0"))
        })?;
        checked_host(name, host)
    }

    fn master_port(&self) -> Result<u16, Error> {
        if let Some(text) = self.text("MASTER_PORT") {
            let port = text.parse().ok().filter(|port| *port > 0);
            return port.ok_or_else(|| problem(format!("MASTER_PORT={text:?}: not a port from 1 to 65535")));
        }
        let job = self.number("SLURM_JOB_ID")?.map(|job| u64::from(job.value));
        match self.slurm_step()?.zip(job) {
            Some((step, job)) => Ok(slurm::port(job, step)),
            None => Ok(DEFAULT_PORT),
        }
    }
}

fn problem(message: String) -> Error {
    Error::Config(message)
}

fn check_world_size(size: Named) -> Result<(), Error> {
    match size.value {
        0 => Err(problem(format!("{}=0: a run has at least one rank; check the launcher", size.name))),
        1..=MAX_WORLD_SIZE => Ok(()),
        above => Err(problem(format!("{}={above}: a run has at most {MAX_WORLD_SIZE} ranks", size.name))),
    }
}

fn check_below(rank: Named, size: Named, rule: &str) -> Result<(), Error> {
    if rank.value < size.value {
        return Ok(());
    }
    let Named { name, value } = rank;
    Err(problem(format!("{name}={value}, but {}={}: {rule}; check the launcher", size.name, size.value)))
}

/// Checks a host name or an address. Names with other characters are mistakes of a script, such as a whole host list.
fn checked_host(name: &str, host: String) -> Result<String, Error> {
    let is_fit = |it: char| it.is_ascii_alphanumeric() || ".-_:%".contains(it);
    if host.len() <= 253 && host.chars().all(is_fit) {
        return Ok(host);
    }
    Err(problem(format!("{name}={host:?}: not a host name or an address; set MASTER_ADDR to the host of rank 0")))
}

fn disagreement(torch: &Place, other: &Place) -> Error {
    let text = |place: &Place| {
        format!("{}={}, {}={}", place.rank.name, place.rank.value, place.world_size.name, place.world_size.value)
    };
    problem(format!(
        "two launchers disagree about this process: {}, but {}; unset the variables of the launcher that did not start it \
         (`env -u {} …`)",
        text(torch),
        text(other),
        other.rank.name
    ))
}
