//! Build script: compiles `native/` against libtorch.
//!
//! It checks the version of libtorch, passes it to the program, and sets the run path of this package's test binaries.
//! The root package's build script sets the run path of the command line.

use std::env;
use std::path::{Path, PathBuf};

/// Version of libtorch that tch 0.24 supports.
const TORCH_VERSION: &str = "2.11.";
/// Source files of `native/`.
const SOURCES: [&str; 9] = ["native", "c10d", "copies", "dropout", "facts", "grad_hooks", "linear", "marks", "nccl"];

fn main() {
    println!("cargo::rerun-if-changed=native");
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    if let Err(problem) = build() {
        println!("cargo::error={problem}");
    }
}

fn build() -> Result<(), String> {
    let torch = libtorch()?;
    check_version(&torch)?;
    check_linker(&torch)?;
    let include = torch.join("include");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings(false)
        .include(&include)
        .include(include.join("torch/csrc/api/include"))
        // libtorch has the code of Gloo, but not the headers.
        .include("native/gloo-stub")
        .define("USE_C10D_GLOO", None)
        .files(SOURCES.map(|name| format!("native/{name}.cpp")))
        .try_compile("cloze_native")
        .map_err(|error| format!("native/: {error}; install a C++ compiler (on Debian: `apt install g++`)"))?;
    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", torch.join("lib").display());
    Ok(())
}

fn libtorch() -> Result<PathBuf, String> {
    let torch = env::var_os("LIBTORCH").map(PathBuf::from).ok_or("`LIBTORCH` is not set: run `scripts/setup`")?;
    if torch.join("lib/libtorch_cpu.so").exists() {
        Ok(torch)
    } else {
        Err(format!("there is no libtorch in {}: run `scripts/setup`", torch.display()))
    }
}

/// Checks the version. Wheels have it in `version.py`, zip archives in `build-version`; torch-sys reads only the
/// latter.
fn check_version(torch: &Path) -> Result<(), String> {
    let read = |name: &str| std::fs::read_to_string(torch.join(name)).ok();
    let found = read("version.py")
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("__version__ = ").map(str::to_owned)))
        .or_else(|| read("build-version"))
        .ok_or_else(|| {
            format!("{}: neither `version.py` nor `build-version` has a version: run `scripts/setup`", torch.display())
        })?;
    let found = found.trim().trim_matches(['\'', '"']);
    if found.starts_with(TORCH_VERSION) {
        println!("cargo::rustc-env=CLOZE_LIBTORCH_VERSION={found}");
        Ok(())
    } else {
        Err(format!("{} is version {found}, but {TORCH_VERSION}x is required: run `scripts/setup`", torch.display()))
    }
}

/// Refuses other linkers if libtorch has CUDA. rust-lld, the default since Rust 1.90, drops unused libraries; GNU ld
/// needs all CUDA libraries.
fn check_linker(torch: &Path) -> Result<(), String> {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let other = ["linker-features=-lld", "link-self-contained=-linker", "fuse-ld=bfd", "fuse-ld=gold"]
        .into_iter()
        .find(|flag| flags.contains(flag));
    match other {
        Some(flag) if torch.join("lib/libtorch_cuda.so").exists() => {
            Err(format!("this libtorch links only with rust-lld: remove `{flag}` from the Rust flags"))
        }
        _ => Ok(()),
    }
}
