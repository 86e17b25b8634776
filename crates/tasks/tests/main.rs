//! Tests through the public interface: golden numbers of other libraries, and the real files of a shared folder.

mod golden;
mod shared_data;
