//! Network stores against servers on loopback: the contract, faults, secrets.

#![allow(clippy::format_push_string, reason = "short texts, where speed is of no concern")]

mod client_settings;
mod contract;
mod faults;
mod hub;
mod keys;
mod large;
mod leases;
mod locations;
mod options;
mod raw;
mod secrets;
mod slow;
mod values;
mod web;
