//! Tests through the public interface: golden numbers of other libraries, the real files of a shared folder, the traps
//! of GLUE's files, and the way from files to tables.

mod glue_traps;
mod golden;
mod shared_data;
mod workflow;
