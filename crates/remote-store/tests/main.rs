//! Network stores against servers on loopback: the contract, faults, secrets.

mod contract;
mod faults;
mod hub;
mod large;
mod locations;
mod secrets;
mod servers;
mod web;
