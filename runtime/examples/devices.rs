//! Lists the devices of the configuration: `cargo run -p gantry-runtime --example devices`

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gantry = gantry_runtime::open(gantry_runtime::Config::from_env()?)?;
    for device in gantry.devices() {
        println!("{:<16} {:3} algorithms, {:?}", device.name(), device.capabilities().len(), device.state());
    }
    Ok(())
}
