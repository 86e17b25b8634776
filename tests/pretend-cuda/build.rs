//! Compiles `native/` into a shared library that is preloaded into a program, and a program that tests it.
//!
//! The operators with a CUDA kernel come from libtorch's own list, `native_functions.yaml`.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=native");
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    if env::var_os("CARGO_FEATURE_LIBRARY").is_none() {
        println!("cargo::rustc-env=PRETEND_CUDA_MISSING=it is built with the trainer's tests only (`make test`)");
        return;
    }
    match sources() {
        Ok((torch, list)) => {
            // The small libtorch has no GPU code.
            let cudnn = ["lib", "../nvidia/cudnn/lib"].map(|folder| torch.join(folder).join("libcudnn.so.9"));
            if cudnn.iter().any(|library| library.exists()) {
                println!("cargo::rustc-env=PRETEND_CUDA_NOT_NEEDED=1");
            }
            build(&torch, &list);
        }
        // A missing part of libtorch is not an error. The tests report what they skip, and why.
        Err(why) => println!("cargo::rustc-env=PRETEND_CUDA_MISSING={why}"),
    }
}

/// Returns libtorch's folder, and its list of operators.
fn sources() -> Result<(PathBuf, String), String> {
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return Err("it is made for Linux".to_owned());
    }
    let torch = PathBuf::from(env::var_os("LIBTORCH").ok_or("`LIBTORCH` is not set")?);
    let list = torch.join("../torchgen/packaged/ATen/native/native_functions.yaml");
    let text = std::fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    Ok((torch, text))
}

fn build(torch: &Path, list: &str) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let operators = operators(list).into_iter().filter(|(_, operator)| operator.has_kernel);
    let entries: Vec<String> = operators.map(|(name, it)| format!("{{\"{name}\", {}}},\n", it.mixes)).collect();
    #[expect(clippy::disallowed_methods, reason = "what a build that was killed leaves in OUT_DIR is rebuilt")]
    std::fs::write(out.join("cuda_operators.inc"), entries.concat()).expect("OUT_DIR takes files");

    let include = torch.join("include");
    let lib = torch.join("lib");
    let library = out.join("libpretend_cuda.so");
    let trial = out.join("trial");
    let compiler = || cc::Build::new().cpp(true).std("c++20").opt_level(1).debug(false).warnings(false).get_compiler();
    let run_path = |folder: &Path| format!("-Wl,-rpath,{}", folder.display());
    let mut command = compiler().to_command();
    command.args(["-shared", "-fPIC", "-Wall", "native/library.cpp"]).arg("-o").arg(&library).arg("-I").arg(&out);
    command.arg("-isystem").arg(&include).arg("-isystem").arg(include.join("torch/csrc/api/include"));
    command.arg("-L").arg(&lib).args(["-ltorch_cpu", "-lc10", "-ldl"]).arg(run_path(&lib));
    run(&mut command);
    let mut command = compiler().to_command();
    command.arg("native/trial.cpp").arg("-o").arg(&trial).arg("-L").arg(&out).arg("-lpretend_cuda");
    // The library provides the search path of its dependencies.
    run(command.arg("-Wl,--allow-shlib-undefined").arg(run_path(&out)));
    println!("cargo::rustc-env=PRETEND_CUDA_LIBRARY={}", library.display());

    let driver = out.join("driver");
    std::fs::create_dir_all(&driver).expect("OUT_DIR takes folders");
    let mut command = compiler().to_command();
    command.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "native/driver.cpp"]).arg("-o");
    run(command.arg(driver.join("libcuda.so.1")));
    println!("cargo::rustc-env=PRETEND_CUDA_DRIVER={}", driver.display());
}

fn run(command: &mut Command) {
    let status = command.status().expect("a C++ compiler");
    assert!(status.success(), "{command:?}");
}

/// Entry of an operator in the list.
#[derive(Default)]
struct Operator {
    has_kernel: bool,
    /// Whether it accepts CPU scalars together with tensors of the device.
    mixes: bool,
    /// Operator that implements it.
    delegate: Option<String>,
}

/// Returns every operator by name and overload. The YAML has a fixed form: entries start at column 0, their keys at
/// column 2, and the kernels below `dispatch:` at column 4.
fn operators(list: &str) -> BTreeMap<String, Operator> {
    let mut found: BTreeMap<String, Operator> = BTreeMap::new();
    let mut name = "";
    let mut dispatches = false;
    for line in list.lines() {
        if let Some(signature) = line.strip_prefix("- func: ") {
            name = signature.split('(').next().unwrap_or_default();
            dispatches = false;
        } else if line.starts_with("    ") {
            let keys = line.split(':').next().unwrap_or_default();
            if dispatches && keys.split(',').any(|key| key.trim() == "CUDA") {
                found.entry(name.to_owned()).or_default().has_kernel = true;
            }
        } else if let Some(key) = line.strip_prefix("  ") {
            let operator = found.entry(name.to_owned()).or_default();
            dispatches = key.starts_with("dispatch:");
            operator.mixes |= key.starts_with("device_check: NoCheck");
            // Such kernels are generated for the CPU and for CUDA.
            operator.has_kernel |= key.starts_with("ufunc_inner_loop:");
            if let Some(delegate) = key.strip_prefix("structured_delegate: ") {
                operator.delegate = Some(delegate.trim().to_owned());
            }
        }
    }
    let working: Vec<String> =
        found.iter().filter(|(_, operator)| operator.has_kernel).map(|(name, _)| name.clone()).collect();
    for operator in found.values_mut() {
        operator.has_kernel |= operator.delegate.as_ref().is_some_and(|delegate| working.contains(delegate));
    }
    found
}
