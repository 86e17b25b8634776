//! Build script: sets the run path on which `cloze-train` and its tests find libtorch.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    println!("cargo::rerun-if-env-changed=CLOZE_PORTABLE");
    match env::var_os("LIBTORCH").map(|torch| PathBuf::from(torch).join("lib")) {
        Some(lib) if lib.join("libtorch_cpu.so").exists() => {
            // `$ORIGIN` is for a binary that is copied to another machine together with its libraries.
            println!("cargo::rustc-link-arg=-Wl,-rpath,$ORIGIN/../lib/torch");
            // A binary that stays on this machine uses its libtorch. `scripts/dist` omits the paths of this machine.
            if env::var_os("CLOZE_PORTABLE").is_none() {
                println!("cargo::rustc-link-arg=-Wl,-rpath,{}", lib.display());
            }
        }
        _ => println!("cargo::error=libtorch is missing: run `scripts/setup`"),
    }
}
