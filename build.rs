//! Sets the path on which `cloze` and its tests find libtorch at run time. Nothing to do without the feature `train`.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    println!("cargo::rerun-if-env-changed=CLOZE_PORTABLE");
    if env::var_os("CARGO_FEATURE_TRAIN").is_none() {
        return;
    }
    match env::var_os("LIBTORCH").map(|torch| PathBuf::from(torch).join("lib")) {
        Some(lib) if lib.join("libtorch_cpu.so").exists() => {
            // `$ORIGIN` serves a binary that was carried to another machine with its libraries beside it.
            println!("cargo::rustc-link-arg=-Wl,-rpath,$ORIGIN/../lib/torch");
            // And one that stays here finds libtorch where it is; `scripts/dist` leaves this machine's paths out.
            if env::var_os("CLOZE_PORTABLE").is_none() {
                println!("cargo::rustc-link-arg=-Wl,-rpath,{}", lib.display());
            }
        }
        _ => println!("cargo::error=libtorch is missing: run `scripts/setup`, or build with `--no-default-features`"),
    }
}
