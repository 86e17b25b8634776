//! Sets the path on which `cloze-train` and its tests find libtorch at run time.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    println!("cargo::rerun-if-env-changed=CLOZE_PORTABLE");
    match env::var_os("LIBTORCH").map(|torch| PathBuf::from(torch).join("lib")) {
        Some(lib) if lib.join("libtorch_cpu.so").exists() => {
            // `$ORIGIN` serves a binary that was carried to another machine with its libraries next to it.
            println!("cargo::rustc-link-arg=-Wl,-rpath,$ORIGIN/../lib/torch");
            // And one that stays here finds libtorch where it is; `scripts/dist` leaves this machine's paths out.
            if env::var_os("CLOZE_PORTABLE").is_none() {
                println!("cargo::rustc-link-arg=-Wl,-rpath,{}", lib.display());
            }
        }
        _ => println!("cargo::error=libtorch is missing: run `scripts/setup`"),
    }
}
