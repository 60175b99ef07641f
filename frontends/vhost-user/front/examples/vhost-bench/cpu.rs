//! The CPU time of a process.

use std::fs;
use std::io;
use std::time::Duration;

/// Returns the CPU time of a process' threads: the first number of /proc/PID/task/*/schedstat (Documentation/scheduler/sched-stats.rst). It
/// excludes the time spent ready but not running, so it is reproducible on a busy machine.
pub(crate) fn process_time(pid: u32) -> io::Result<Duration> {
    let mut nanoseconds = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // The thread may have ended since the folder was read.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let first = text.split(' ').next().and_then(|number| number.parse::<u64>().ok());
        nanoseconds += first.ok_or_else(|| io::Error::other("schedstat has no number"))?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}
