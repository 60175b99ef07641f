//! The CPU time of a process.

use std::fs;
use std::io;
use std::time::Duration;

/// CPU time that the threads of a process have had: the first number of /proc/PID/task/*/schedstat (Documentation/scheduler/sched-stats.rst).
/// It does not count the time for which they were ready while others ran, so that it repeats on a machine that is busy.
pub(crate) fn of(pid: u32) -> io::Result<Duration> {
    let mut nanoseconds = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end in between.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let first = text.split(' ').next().and_then(|number| number.parse::<u64>().ok());
        nanoseconds += first.ok_or_else(|| io::Error::other("schedstat has no number"))?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}
