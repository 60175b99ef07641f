//! Tells whether a process of this user may load code from files: `cargo run -p gantry-rights --example loadable /usr/lib/x86_64-linux-gnu/libc.so.6 /tmp`

fn main() {
    println!("more rights than its caller: {}", gantry_rights::has_elevated_rights());
    for path in std::env::args_os().skip(1) {
        match gantry_rights::resolve_trusted(path.as_ref()) {
            Ok(path) => println!("{}: yes", path.display()),
            Err(reason) => println!("{}: no, {reason}", path.display()),
        }
    }
}
